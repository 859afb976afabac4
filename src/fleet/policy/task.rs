//! A task as the policy sees it: a number, some limits, and what it has cost so far. Pure.

use super::WorkerId;
use super::queue::Rank;
use super::rules::Retry;
use crate::ids::TaskId;
use crate::probe::clock::Nanos;

/// A task to be taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its number, which no other task of the fleet has or had.
    pub task: TaskId,
    /// Higher starts first.
    pub priority: i16,
    /// When it is no longer worth sending.
    pub expires: Option<Nanos>,
    /// From its start to its end; `None` means what the fleet's rules say.
    pub limit: Option<Nanos>,
}

impl Ticket {
    /// One without wishes.
    pub fn of(task: TaskId) -> Ticket {
        Ticket { task, priority: 0, expires: None, limit: None }
    }
}

/// Why a task was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no room now.
    #[error("the queue is full")]
    Full,
    /// The fleet takes in no more.
    #[error("the fleet is closed")]
    Closed,
    /// The fleet gave up, because its workers do not start or do not live.
    #[error("the fleet has failed")]
    Failed,
}

/// How an accepted task ended. Each one ends once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// It answered.
    Done,
    /// It answered with an error.
    Failed,
    /// Its worker died under it.
    Crashed,
    /// Its worker was ended for want of memory.
    OutOfMemory,
    /// Its worker had to be ended because it stood still.
    Hung,
    /// Its time was up, and its worker was ended.
    TimedOut,
    /// Whoever brought it asked for it no more.
    Cancelled,
    /// It was not begun in time, and was never sent.
    Expired,
    /// It took its workers down too often.
    Quarantined,
    /// The fleet ended before it.
    Interrupted,
    /// It gave way to a newer one.
    Dropped,
    /// The fleet gave up before it was begun.
    Abandoned,
}

/// What ended a run that did not answer well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mishap {
    /// The task said that it failed, or panicked.
    Error,
    /// Its worker died.
    Crash,
    /// Its worker was ended for want of memory.
    OutOfMemory,
    /// Its worker stood still, and was ended.
    Hang,
    /// Its time was up, and its worker was ended.
    Timeout,
}

impl Mishap {
    pub(super) fn end(self) -> End {
        match self {
            Mishap::Error => End::Failed,
            Mishap::Crash => End::Crashed,
            Mishap::OutOfMemory => End::OutOfMemory,
            Mishap::Hang => End::Hung,
            Mishap::Timeout => End::TimedOut,
        }
    }

    /// Whether the worker went down by the task's own doing.
    fn is_death(self) -> bool {
        matches!(self, Mishap::Crash | Mishap::OutOfMemory)
    }
}

/// Where a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the queue, to be handed out.
    Waiting,
    /// To be put into the queue again then.
    Pausing(Nanos),
    /// With a worker.
    Held(WorkerId),
}

/// Mishaps so far, each of which was a run that had begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mishaps {
    error: u8,
    crash: u8,
    out_of_memory: u8,
    timeout: u8,
}

/// An accepted task that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) ticket: Ticket,
    pub(super) rank: Rank,
    pub(super) place: Place,
    pub(super) submitted: Nanos,
    mishaps: Mishaps,
    /// Workers that died before they had the whole of its order.
    unreceived: u8,
}

/// What becomes of a task after a mishap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is run again, for the how-manieth time.
    Again { nth: u32 },
    /// It ends.
    Ends(End),
}

impl Task {
    pub(super) fn new(ticket: Ticket, rank: Rank, submitted: Nanos) -> Task {
        Task { ticket, rank, place: Place::Waiting, submitted, mishaps: Mishaps::default(), unreceived: 0 }
    }

    /// The number of the run to come or under way, from 1: runs that never began do not count.
    pub(super) fn attempt(&self) -> u8 {
        let Mishaps { error, crash, out_of_memory, timeout } = self.mishaps;
        [error, crash, out_of_memory, timeout].into_iter().fold(1, u8::saturating_add)
    }

    /// Counts one more death of a worker that was receiving its order, and says how many that makes.
    pub(super) fn was_not_received(&mut self) -> u8 {
        self.unreceived = self.unreceived.saturating_add(1);
        self.unreceived
    }

    /// Counts a mishap, and decides.
    pub(super) fn suffer(&mut self, mishap: Mishap, retry: &Retry, poison_limit: u8) -> Fate {
        let (count, allowed) = match mishap {
            Mishap::Error => (&mut self.mishaps.error, retry.error),
            // Whoever stands still may have been stopped; it is repeated like a death, and blamed like none.
            Mishap::Crash | Mishap::Hang => (&mut self.mishaps.crash, retry.crash),
            Mishap::OutOfMemory => (&mut self.mishaps.out_of_memory, retry.out_of_memory),
            Mishap::Timeout => (&mut self.mishaps.timeout, retry.timeout),
        };
        *count = count.saturating_add(1);
        let nth = *count;
        let deaths = self.mishaps.crash.saturating_add(self.mishaps.out_of_memory);
        let is_poison = mishap.is_death() && (deaths >= poison_limit || (nth > allowed && allowed > 0));
        if is_poison {
            return Fate::Ends(End::Quarantined);
        }
        if nth > allowed { Fate::Ends(mishap.end()) } else { Fate::Again { nth: u32::from(nth) } }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::Rules;
    use super::*;

    fn task() -> Task {
        Task::new(Ticket::of(TaskId(1)), Rank::default(), 0)
    }

    fn retry(each: u8) -> Retry {
        Retry { error: each, crash: each, timeout: each, out_of_memory: each, ..Rules::of(1).retry }
    }

    #[test]
    fn without_retries_a_mishap_is_the_end_and_bears_its_name() {
        for (mishap, end) in [
            (Mishap::Error, End::Failed),
            (Mishap::Crash, End::Crashed),
            (Mishap::OutOfMemory, End::OutOfMemory),
            (Mishap::Hang, End::Hung),
            (Mishap::Timeout, End::TimedOut),
        ] {
            assert_eq!(task().suffer(mishap, &retry(0), 3), Fate::Ends(end));
        }
    }

    #[test]
    fn a_task_whose_retries_all_died_is_poison() {
        let mut task = task();
        assert_eq!(task.suffer(Mishap::Crash, &retry(2), 9), Fate::Again { nth: 1 });
        assert_eq!(task.attempt(), 2);
        assert_eq!(task.suffer(Mishap::Crash, &retry(2), 9), Fate::Again { nth: 2 });
        assert_eq!(task.suffer(Mishap::Crash, &retry(2), 9), Fate::Ends(End::Quarantined));
    }

    #[test]
    fn the_poison_limit_counts_deaths_of_every_kind_before_retries_do() {
        let mut task = task();
        assert_eq!(task.suffer(Mishap::Crash, &retry(9), 2), Fate::Again { nth: 1 });
        assert_eq!(task.suffer(Mishap::Error, &retry(9), 2), Fate::Again { nth: 1 });
        assert_eq!(task.suffer(Mishap::OutOfMemory, &retry(9), 2), Fate::Ends(End::Quarantined));
    }

    #[test]
    fn each_cause_has_retries_of_its_own() {
        let only_errors = Retry { error: 1, ..retry(0) };
        let mut task = task();
        assert_eq!(task.suffer(Mishap::Error, &only_errors, 3), Fate::Again { nth: 1 });
        assert_eq!(task.suffer(Mishap::Timeout, &only_errors, 3), Fate::Ends(End::TimedOut));
    }
}
