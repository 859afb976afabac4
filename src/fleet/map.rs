//! One function on many inputs, which are pulled no faster than results are taken.
//!
//! ```text
//!  inputs ─ pulled while fewer are under way than the look-ahead ─▶ fleet ─▶ gathered ─▶ next()
//! ```

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::engine::{Settled, Shared, Sink, Submission};
use super::outcome::Ended;
use super::policy::Event;
use super::pool::Fleet;
use super::registry::Function;
use super::submit::{SubmitError, Wait, encoded};
use crate::ids::TaskId;

/// How much of inputs and results may be under way together, in bytes, unless told otherwise.
const LOOK_AHEAD_BYTES: usize = 64 << 20;

/// Where the ends of many tasks are put.
#[derive(Default)]
struct Gather {
    state: Mutex<Gathered>,
    is_enough: Condvar,
}

#[derive(Default)]
struct Gathered {
    ended: Vec<(u64, Settled)>,
    wanted: usize,
}

impl Gather {
    fn lock(&self) -> MutexGuard<'_, Gathered> {
        // No code that could panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so many have ended, and takes all that have.
    fn take(&self, wanted: usize, into: &mut Vec<(u64, Settled)>) {
        let mut state = self.lock();
        state.wanted = wanted;
        while state.ended.len() < wanted {
            state = self.is_enough.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut state.ended, into);
    }
}

impl Sink for Gather {
    fn settle(&self, key: u64, settled: Settled) {
        let mut state = self.lock();
        state.ended.push((key, settled));
        let is_enough = state.ended.len() == state.wanted;
        drop(state);
        if is_enough {
            self.is_enough.notify_one();
        }
    }
}

/// An end that waits to be taken.
enum Waiting {
    Ended(Settled),
    Refused(SubmitError),
}

/// Results of one function on many inputs, as an iterator. Made by [`Fleet::map`] and [`Fleet::map_unordered`].
///
/// Inputs are pulled while fewer tasks than the look-ahead are under way or wait to be taken, and while these take less
/// than the look-ahead in bytes. An input iterator that panics is not pulled any more; what was pulled before is handed
/// out first, and then its panic goes on. A fleet that takes no more tasks refuses one input, and no more are pulled. Dropping this cancels what is under way.
pub struct Map<In, Out, Inputs> {
    shared: Arc<Shared>,
    function: Function<In, Out>,
    inputs: Option<Inputs>,
    panic: Option<Box<dyn Any + Send>>,
    gather: Arc<Gather>,
    is_ordered: bool,
    look_ahead: usize,
    look_ahead_bytes: usize,
    /// Ends that the caller is content to wait for before it is woken.
    patience: usize,
    /// Tasks under way, and the bytes of their inputs.
    under_way: HashMap<u64, (TaskId, usize)>,
    /// Ends that wait to be taken; of these, those of a mapping in order wait for earlier ones.
    waiting: HashMap<u64, Waiting>,
    ready: VecDeque<(u64, Settled)>,
    bytes: usize,
    pulled: u64,
    taken: u64,
}

impl<In, Out, Inputs> fmt::Debug for Map<In, Out, Inputs> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("pulled", &self.pulled).field("taken", &self.taken).finish()
    }
}

impl Fleet {
    /// Runs `function` on every input, and hands the ends out in the order of the inputs.
    pub fn map<In, Out, Inputs>(
        &self,
        function: Function<In, Out>,
        inputs: Inputs,
    ) -> Map<In, Out, Inputs::IntoIter>
    where
        In: Serialize,
        Out: DeserializeOwned,
        Inputs: IntoIterator<Item = In>,
    {
        Map::new(self, function, inputs.into_iter(), true)
    }

    /// The same, and hands each end out as it comes, with the number of its input, from 0.
    pub fn map_unordered<In, Out, Inputs>(
        &self,
        function: Function<In, Out>,
        inputs: Inputs,
    ) -> Unordered<In, Out, Inputs::IntoIter>
    where
        In: Serialize,
        Out: DeserializeOwned,
        Inputs: IntoIterator<Item = In>,
    {
        Unordered(Map::new(self, function, inputs.into_iter(), false))
    }
}

impl<In, Out, Inputs> Map<In, Out, Inputs> {
    fn new(fleet: &Fleet, function: Function<In, Out>, inputs: Inputs, is_ordered: bool) -> Self {
        let shared = Arc::clone(fleet.shared());
        let look_ahead = shared.act(|engine| engine.core().backlog() + engine.core().in_service());
        Map {
            shared,
            function,
            inputs: Some(inputs),
            panic: None,
            gather: Arc::default(),
            is_ordered,
            look_ahead: look_ahead.max(1),
            look_ahead_bytes: LOOK_AHEAD_BYTES,
            patience: 1,
            under_way: HashMap::new(),
            waiting: HashMap::new(),
            ready: VecDeque::new(),
            bytes: 0,
            pulled: 0,
            taken: 0,
        }
    }

    /// How many tasks may be under way or wait to be taken. As many as the fleet's queue and its workers hold, unless
    /// told otherwise.
    #[must_use]
    pub fn look_ahead(mut self, tasks: usize) -> Self {
        self.look_ahead = tasks.max(1);
        self
    }

    /// How many bytes of inputs and results may be under way or wait to be taken; one more task is pulled while there are
    /// fewer. 64 MiB unless told otherwise.
    #[must_use]
    pub fn look_ahead_bytes(mut self, bytes: usize) -> Self {
        self.look_ahead_bytes = bytes.max(1);
        self
    }

    /// How many inputs were pulled so far.
    pub fn pulled(&self) -> u64 {
        self.pulled
    }
}

impl<In, Out, Inputs> Map<In, Out, Inputs>
where
    In: Serialize,
    Out: DeserializeOwned,
    Inputs: Iterator<Item = In>,
{
    /// Pulls and submits while there is room ahead.
    fn fill(&mut self) {
        while self.under_way.len() + self.waiting.len() + self.ready.len() < self.look_ahead
            && (self.bytes < self.look_ahead_bytes || self.under_way.is_empty())
            && self.panic.is_none()
            && let Some(inputs) = &mut self.inputs
        {
            // Where others have filled the queue, our own tasks make room again; without any, we wait like everybody.
            let is_full = self.shared.act(|engine| engine.core().is_full());
            if is_full && !self.under_way.is_empty() {
                return;
            }
            let input = match catch_unwind(AssertUnwindSafe(|| inputs.next())) {
                Ok(Some(input)) => input,
                Ok(None) => {
                    self.inputs = None;
                    return;
                }
                Err(panic) => {
                    self.inputs = None;
                    self.panic = Some(panic);
                    return;
                }
            };
            let key = self.pulled;
            self.pulled += 1;
            let submitted = encoded(&input).and_then(|input| self.submit(key, input));
            if let Err(error) = submitted {
                // Where nothing more is taken in, the rest of the inputs is not pulled to be refused as well.
                if matches!(error, SubmitError::Closed | SubmitError::Failed(_)) {
                    self.inputs = None;
                }
                self.waiting.insert(key, Waiting::Refused(error));
            }
        }
    }

    fn submit(&mut self, key: u64, input: Arc<[u8]>) -> Result<(), SubmitError> {
        let size = input.len();
        let submission = Submission {
            function: self.function.index(),
            input,
            priority: 0,
            expires_within: None,
            limit: None,
            sink: Arc::<Gather>::clone(&self.gather),
            key,
        };
        let task = self.shared.submit(submission, Wait::ForEver)?;
        self.bytes += size;
        self.under_way.insert(key, (task, size));
        Ok(())
    }

    /// Takes in what has ended, waiting until something has.
    fn gather(&mut self) {
        let is_last = self.inputs.is_none() && self.under_way.len() <= self.patience;
        let wanted = if is_last { 1 } else { self.patience.min(self.under_way.len()) };
        let mut ended = Vec::new();
        self.gather.take(wanted.max(1), &mut ended);
        for (key, settled) in ended {
            let (_, size) = self.under_way.remove(&key).unwrap_or((TaskId(0), 0));
            let result = settled.reply.as_ref().map_or(0, |reply| reply.bytes.len());
            self.bytes = self.bytes.saturating_sub(size) + result;
            if self.is_ordered {
                self.waiting.insert(key, Waiting::Ended(settled));
            } else {
                self.ready.push_back((key, settled));
            }
        }
    }

    fn next_end(&mut self) -> Option<(u64, Result<Ended<Out>, SubmitError>)> {
        loop {
            self.fill();
            let key = if self.is_ordered { Some(self.taken) } else { self.waiting.keys().next().copied() };
            let waiting = key.and_then(|key| Some((key, self.waiting.remove(&key)?)));
            let next = waiting.or_else(|| {
                let (key, settled) = self.ready.pop_front()?;
                Some((key, Waiting::Ended(settled)))
            });
            if let Some((key, end)) = next {
                self.taken += 1;
                return Some((key, self.hand_out(end)));
            }
            if self.under_way.is_empty() {
                if let Some(panic) = self.panic.take() {
                    resume_unwind(panic);
                }
                return None;
            }
            self.gather();
        }
    }

    fn hand_out(&mut self, end: Waiting) -> Result<Ended<Out>, SubmitError> {
        match end {
            Waiting::Refused(error) => Err(error),
            Waiting::Ended(settled) => {
                let result = settled.reply.as_ref().map_or(0, |reply| reply.bytes.len());
                self.bytes = self.bytes.saturating_sub(result);
                Ok(Ended::of(settled))
            }
        }
    }
}

impl<In, Out, Inputs> Iterator for Map<In, Out, Inputs>
where
    In: Serialize,
    Out: DeserializeOwned,
    Inputs: Iterator<Item = In>,
{
    type Item = Result<Ended<Out>, SubmitError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_end().map(|(_, ended)| ended)
    }
}

impl<In, Out, Inputs> Drop for Map<In, Out, Inputs> {
    fn drop(&mut self) {
        for (task, _) in self.under_way.values() {
            self.shared.act(|engine| engine.step(Event::Cancelled(*task)));
        }
    }
}

/// Results as they come, each with the number of its input. Else a [`Map`].
#[derive(Debug)]
pub struct Unordered<In, Out, Inputs>(Map<In, Out, Inputs>);

impl<In, Out, Inputs> Unordered<In, Out, Inputs> {
    /// As [`Map::look_ahead`].
    #[must_use]
    pub fn look_ahead(self, tasks: usize) -> Self {
        Unordered(self.0.look_ahead(tasks))
    }

    /// As [`Map::look_ahead_bytes`].
    #[must_use]
    pub fn look_ahead_bytes(self, bytes: usize) -> Self {
        Unordered(self.0.look_ahead_bytes(bytes))
    }

    /// Does not wake the caller before so many have ended, or all.
    ///
    /// Waking a sleeping thread costs several microseconds, and disturbs whoever computes beside it.
    #[must_use]
    pub(crate) fn patience(mut self, ends: usize) -> Self {
        self.0.patience = ends.max(1);
        self
    }
}

impl<In, Out, Inputs> Iterator for Unordered<In, Out, Inputs>
where
    In: Serialize,
    Out: DeserializeOwned,
    Inputs: Iterator<Item = In>,
{
    type Item = (u64, Result<Ended<Out>, SubmitError>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_end()
    }
}
