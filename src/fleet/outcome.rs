//! What became of a task.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::call::TaskError;
use super::engine::{Reply, Settled};
use super::policy::End;
use super::postmortem::PostMortem;
use crate::ids::TaskId;
use crate::probe::stamps::Stamps;
use crate::transport::codec;

/// How a task ended. Every accepted task ends in exactly one of these ways, exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// It answered.
    Done(T),
    /// It said that it failed, or panicked; or its input or its result could not be decoded. Its worker lives on.
    Failed(TaskError),
    /// Its worker died under it.
    Crashed(Arc<PostMortem>),
    /// Its worker was ended for want of memory, as the kernel counted.
    OutOfMemory(Arc<PostMortem>),
    /// Its worker stood still, and was ended.
    Hung(Arc<PostMortem>),
    /// Its time was up, and its worker was ended; or it answered then after all, too late to count.
    TimedOut(Option<Arc<PostMortem>>),
    /// Whoever brought it asked for it no more.
    Cancelled,
    /// It was not begun in time, and was never sent to a worker.
    Expired,
    /// It took its workers down too often, and is run no more. Every death, the last one last.
    Quarantined(Vec<Arc<PostMortem>>),
    /// The fleet ended before it.
    Interrupted,
    /// It gave way to a newer one.
    Dropped,
    /// The fleet gave up before it was begun, for this reason.
    Abandoned(Arc<str>),
}

/// A task that has ended, and all that is known of it.
#[derive(Clone, Debug)]
pub struct Ended<T> {
    /// Its number.
    pub task: TaskId,
    /// How it ended.
    pub outcome: Outcome<T>,
    /// The number of its last run, from 1; 0 if it never began.
    pub attempts: u8,
    /// The deaths of workers under its runs, in their order.
    pub deaths: Vec<Arc<PostMortem>>,
    /// What its worker answered after its time was up.
    pub late: Option<Result<T, TaskError>>,
    /// The place of the worker that had it last.
    pub slot: Option<usize>,
    /// The moments of its last run. What did not happen is 0.
    pub stamps: Stamps,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{task} {}", Words(.outcome))]
pub struct NoResult {
    /// The task.
    pub task: TaskId,
    /// How it ended; never [`Outcome::Done`].
    pub outcome: Outcome<Never>,
}

/// No value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Never {}

struct Words<'a, T>(&'a Outcome<T>);

impl<T> fmt::Display for Words<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Outcome::Done(_) => write!(f, "is done"),
            Outcome::Failed(error) if error.panic.is_some() => write!(f, "{error}"),
            Outcome::Failed(error) => write!(f, "failed: {error}"),
            Outcome::Crashed(death) => write!(f, "took its worker down: {death}"),
            Outcome::OutOfMemory(death) => write!(f, "took too much memory: {death}"),
            Outcome::Hung(death) => write!(f, "stood still: {death}"),
            Outcome::TimedOut(Some(death)) => write!(f, "was not done in time: {death}"),
            Outcome::TimedOut(None) => write!(f, "was not done in time"),
            Outcome::Cancelled => write!(f, "was cancelled"),
            Outcome::Expired => write!(f, "was not begun in time"),
            Outcome::Quarantined(deaths) => match deaths.last() {
                Some(death) => write!(f, "took {} workers down, the last one: {death}", deaths.len()),
                None => write!(f, "took too many workers down while they received it"),
            },
            Outcome::Interrupted => write!(f, "was interrupted by the end of the fleet"),
            Outcome::Dropped => write!(f, "gave way to a newer one"),
            Outcome::Abandoned(why) => write!(f, "was not begun, for the fleet gave up: {why}"),
        }
    }
}

impl<T> fmt::Display for Outcome<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Words(self).fmt(f)
    }
}

impl<T> Outcome<T> {
    /// The result, or every other outcome.
    fn split(self) -> Result<T, Outcome<Never>> {
        Err(match self {
            Outcome::Done(result) => return Ok(result),
            Outcome::Failed(error) => Outcome::Failed(error),
            Outcome::Crashed(death) => Outcome::Crashed(death),
            Outcome::OutOfMemory(death) => Outcome::OutOfMemory(death),
            Outcome::Hung(death) => Outcome::Hung(death),
            Outcome::TimedOut(death) => Outcome::TimedOut(death),
            Outcome::Cancelled => Outcome::Cancelled,
            Outcome::Expired => Outcome::Expired,
            Outcome::Quarantined(deaths) => Outcome::Quarantined(deaths),
            Outcome::Interrupted => Outcome::Interrupted,
            Outcome::Dropped => Outcome::Dropped,
            Outcome::Abandoned(why) => Outcome::Abandoned(why),
        })
    }
}

impl<T> Ended<T> {
    /// The result.
    ///
    /// # Errors
    /// Every other way to end.
    pub fn into_result(self) -> Result<T, NoResult> {
        let task = self.task;
        self.outcome.split().map_err(|outcome| NoResult { task, outcome })
    }

    /// Whether it answered, and not on its first run.
    pub fn is_flaky(&self) -> bool {
        matches!(self.outcome, Outcome::Done(_)) && self.attempts > 1
    }

    /// How long it waited for a worker, in nanoseconds; `None` if it never had one.
    pub fn queue_wait_ns(&self) -> Option<u64> {
        (self.stamps.assigned > 0).then(|| self.stamps.assigned.saturating_sub(self.stamps.submitted))
    }
}

impl<T: DeserializeOwned> Ended<T> {
    /// Decodes what the supervisor settled. For whoever waits, on its own thread.
    pub(super) fn of(settled: Settled) -> Ended<T> {
        let Settled { task, end, attempts, reply, deaths, slot, stamps, failure } = settled;
        let last = || deaths.last().cloned();
        let died = |outcome: fn(Arc<PostMortem>) -> Outcome<T>| {
            let lost = || TaskError::said("its worker ended, and nothing is known of that".to_owned());
            last().map_or_else(|| Outcome::Failed(lost()), outcome)
        };
        let mut late = None;
        let outcome = match end {
            End::Done | End::Failed => match read(reply) {
                Some(Ok(result)) => Outcome::Done(result),
                Some(Err(error)) => Outcome::Failed(error),
                None => Outcome::Failed(TaskError::said("its answer was lost".to_owned())),
            },
            End::Crashed => died(Outcome::Crashed),
            End::OutOfMemory => died(Outcome::OutOfMemory),
            End::Hung => died(Outcome::Hung),
            End::TimedOut => {
                late = read(reply);
                Outcome::TimedOut(last().filter(|_| late.is_none()))
            }
            End::Cancelled => Outcome::Cancelled,
            End::Expired => Outcome::Expired,
            End::Quarantined => Outcome::Quarantined(deaths.clone()),
            End::Interrupted => Outcome::Interrupted,
            End::Dropped => Outcome::Dropped,
            End::Abandoned => Outcome::Abandoned(failure.unwrap_or_else(|| "its supervisor ended".into())),
        };
        Ended { task, outcome, attempts, deaths, late, slot, stamps }
    }
}

fn read<T: DeserializeOwned>(reply: Option<Reply>) -> Option<Result<T, TaskError>> {
    let Reply { is_good, bytes } = reply?;
    let said = |cause| TaskError::said(format!("its result: {cause}"));
    Some(if is_good {
        codec::decode(&bytes).map_err(said)
    } else {
        Err(codec::decode(&bytes).unwrap_or_else(said))
    })
}
