//! Completions on their way from the lanes of this process to the caller.
//!
//! Waking a sleeping thread costs several microseconds, and disturbs whoever computes beside it. So the caller says how
//! many completions it needs before it has anything to do, and is rung once for all of them.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::Completion;

/// Where lanes put what has ended.
#[derive(Default)]
pub(super) struct Collector {
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    ended: Vec<Completion>,
    /// Ring when so many are here.
    wanted: usize,
}

impl Collector {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that could panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From a lane.
    pub(super) fn push(&self, completion: Completion) {
        let mut state = self.lock();
        state.ended.push(completion);
        let is_enough = state.ended.len() == state.wanted;
        drop(state);
        // Not under the lock: whoever is rung may take this CPU at once, and would find the lock held by nobody running.
        if is_enough {
            self.bell.notify_one();
        }
    }

    /// Waits until `wanted` completions are here, and takes all there are, into an empty `ended`.
    pub(super) fn take(&self, wanted: usize, ended: &mut Vec<Completion>) {
        let mut state = self.lock();
        state.wanted = wanted;
        while state.ended.len() < wanted {
            state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut state.ended, ended);
    }
}
