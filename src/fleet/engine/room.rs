//! Whoever waits until one more task may wait: threads, and tasks of any async runtime.
//!
//! One is let in at a time. Whoever was let in acts on the fleet, be it to submit or to give up, and every act lets the
//! next one in if there is room still.

use std::collections::VecDeque;
use std::task::Waker;

use super::Engine;

/// The waiting room.
#[derive(Debug, Default)]
pub(super) struct Room {
    threads: usize,
    tasks: VecDeque<(u64, Waker)>,
    next: u64,
}

/// Who may look whether there is room.
pub(super) enum MayEnter {
    Nobody,
    Thread,
    Task(Waker),
}

impl Engine {
    /// Who may look next, if there is anything to find.
    pub(super) fn let_one_in(&mut self) -> MayEnter {
        let is_empty = self.room.threads == 0 && self.room.tasks.is_empty();
        if is_empty || self.core.is_full() {
            return MayEnter::Nobody;
        }
        match self.room.tasks.pop_front() {
            Some((_, waker)) => MayEnter::Task(waker),
            None => MayEnter::Thread,
        }
    }

    pub(in crate::fleet) fn thread_waits(&mut self, by: isize) {
        self.room.threads = self.room.threads.saturating_add_signed(by);
    }

    /// A task waits, or still waits, under the number that it was given before.
    pub(in crate::fleet) fn task_waits(&mut self, number: Option<u64>, waker: &Waker) -> u64 {
        if let Some(number) = number
            && let Some((_, known)) = self.room.tasks.iter_mut().find(|(known, _)| *known == number)
        {
            known.clone_from(waker);
            return number;
        }
        self.room.next += 1;
        self.room.tasks.push_back((self.room.next, waker.clone()));
        self.room.next
    }

    pub(in crate::fleet) fn task_leaves(&mut self, number: u64) {
        self.room.tasks.retain(|(known, _)| *known != number);
    }
}
