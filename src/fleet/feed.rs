//! What a fleet tells of itself while it runs, to whoever listens.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::postmortem::PostMortem;
use crate::ids::TaskId;
use crate::sys::process::Pid;

/// Something that happened to a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FleetEvent {
    /// A worker is ready for tasks.
    WorkerReady {
        /// Its place.
        slot: usize,
        /// Its number.
        pid: Pid,
    },
    /// A worker could not be started, or could not be prepared.
    StartFailed {
        /// The place it was to have.
        slot: usize,
        /// Why.
        reason: Arc<str>,
    },
    /// A worker has died, or had to be ended.
    WorkerDied(Arc<PostMortem>),
    /// A worker was told to leave, and left in peace.
    WorkerLeft {
        /// Its place.
        slot: usize,
        /// Its number.
        pid: Pid,
    },
    /// A worker wrote a line.
    Output(OutputLine),
    /// Every worker is replaced.
    Reloaded,
    /// New workers do not start; the old ones stay.
    ReloadFailed {
        /// Why the last start failed.
        reason: Arc<str>,
    },
    /// The fleet gave up.
    Failed {
        /// Why.
        reason: Arc<str>,
    },
}

/// A line that a worker wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    /// The worker's place.
    pub slot: usize,
    /// The worker's number.
    pub pid: Pid,
    /// The task that it was at when the line was read.
    pub task: Option<TaskId>,
    /// Whether it wrote to standard error.
    pub is_error: bool,
    /// The line as it came, with its newline if it has one; a line of more than
    /// [`LONGEST_LINE`](super::output::LONGEST_LINE) comes in pieces.
    pub bytes: Arc<[u8]>,
}

/// What happens to a fleet from the moment of subscription, as an iterator that waits for the next event and ends with
/// the fleet. It keeps so many events as it was made for; what comes while it is full is counted and lost.
#[derive(Debug)]
pub struct Events(Arc<Channel>);

#[derive(Debug)]
struct Channel {
    state: Mutex<State>,
    has_come: Condvar,
    capacity: usize,
}

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<FleetEvent>,
    missed: u64,
    is_over: bool,
}

impl Channel {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that could panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Events {
    /// The next event, if it comes within `time`.
    pub fn next_within(&self, time: Duration) -> Option<FleetEvent> {
        let until = Instant::now().checked_add(time);
        let mut state = self.0.lock();
        loop {
            if let Some(event) = state.kept.pop_front() {
                return Some(event);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if state.is_over || left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            state = match left {
                Some(left) => {
                    self.0.has_come.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.0.has_come.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// How many events came while this was full.
    pub fn missed(&self) -> u64 {
        self.0.lock().missed
    }
}

impl Iterator for Events {
    type Item = FleetEvent;

    fn next(&mut self) -> Option<FleetEvent> {
        self.next_within(Duration::MAX)
    }
}

/// Everybody who listens.
#[derive(Debug, Default)]
pub(super) struct Feed(Vec<Weak<Channel>>);

impl Feed {
    pub(super) fn subscribe(&mut self, capacity: usize) -> Events {
        let (state, has_come) = (Mutex::default(), Condvar::new());
        let channel = Arc::new(Channel { state, has_come, capacity: capacity.max(1) });
        self.0.push(Arc::downgrade(&channel));
        Events(channel)
    }

    /// Whether anybody listens.
    pub(super) fn is_heard(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn tell(&mut self, event: &FleetEvent) {
        self.0.retain(|listener| {
            let Some(channel) = listener.upgrade() else { return false };
            let mut state = channel.lock();
            if state.kept.len() < channel.capacity {
                state.kept.push_back(event.clone());
            } else {
                state.missed += 1;
            }
            drop(state);
            channel.has_come.notify_one();
            true
        });
    }

    /// No more will come.
    pub(super) fn end(&mut self) {
        for channel in self.0.drain(..).filter_map(|listener| listener.upgrade()) {
            channel.lock().is_over = true;
            channel.has_come.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_that_does_not_keep_up_knows_how_much_it_missed() {
        let mut feed = Feed::default();
        assert!(!feed.is_heard());
        let events = feed.subscribe(2);
        for _ in 0..5 {
            feed.tell(&FleetEvent::Reloaded);
        }
        assert_eq!(events.missed(), 3);
        assert_eq!(events.next_within(Duration::ZERO), Some(FleetEvent::Reloaded));
        feed.end();
        assert_eq!(events.count(), 1, "what was kept is handed out, then it is over");
    }

    #[test]
    fn whoever_stops_listening_is_forgotten() {
        let mut feed = Feed::default();
        drop(feed.subscribe(1));
        feed.tell(&FleetEvent::Reloaded);
        assert!(!feed.is_heard());
    }
}
