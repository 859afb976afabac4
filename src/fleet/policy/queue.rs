//! Who is next: tasks that wait, tasks that pause before a retry, and those that are not worth sending any more. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::TaskId;
use crate::probe::clock::Nanos;

/// A place in the queue: smaller is sooner.
///
/// With ageing, a priority is worth a head start in time, and waiting catches up with it: whoever came at `t` with
/// priority `p` stands where one of priority 0 would that came `p` steps earlier. The order of two tasks never changes
/// while they wait, so that a sorted map holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    level: i128,
    arrival: u64,
}

impl Rank {
    /// Of the `arrival`-th task, which came at `now`.
    pub(super) fn new(priority: i16, arrival: u64, now: Nanos, ageing: Option<Nanos>) -> Rank {
        let priority = i128::from(priority);
        let level = match ageing {
            None => -priority,
            Some(step) => i128::from(now) - priority * i128::from(step),
        };
        Rank { level, arrival }
    }
}

/// Tasks that no worker holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<Rank, TaskId>,
    pausing: BTreeSet<(Nanos, TaskId)>,
    expiring: BTreeSet<(Nanos, TaskId)>,
}

impl Queue {
    /// All tasks here, those which pause among them.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.pausing.len()
    }

    pub(super) fn put(&mut self, task: TaskId, rank: Rank, expires: Option<Nanos>) {
        self.waiting.insert(rank, task);
        self.expiring.extend(expires.map(|at| (at, task)));
    }

    /// For a retry. A task that has begun once does not expire.
    pub(super) fn put_later(&mut self, task: TaskId, at: Nanos) {
        self.pausing.insert((at, task));
    }

    pub(super) fn take_next(&mut self) -> Option<TaskId> {
        self.waiting.pop_first().map(|(_, task)| task)
    }

    /// That a task left the queue, so that it does not expire.
    pub(super) fn keep(&mut self, task: TaskId, expires: Option<Nanos>) {
        if let Some(at) = expires {
            self.expiring.remove(&(at, task));
        }
    }

    pub(super) fn remove(&mut self, task: TaskId, rank: Rank, expires: Option<Nanos>) {
        self.waiting.remove(&rank);
        self.keep(task, expires);
    }

    pub(super) fn remove_pausing(&mut self, task: TaskId, until: Nanos) {
        self.pausing.remove(&(until, task));
    }

    /// The task that came first of those that wait.
    pub(super) fn oldest(&self) -> Option<TaskId> {
        self.waiting.iter().min_by_key(|(rank, _)| rank.arrival).map(|(_, task)| *task)
    }

    /// A task whose pause is over.
    pub(super) fn take_rested(&mut self, now: Nanos) -> Option<TaskId> {
        take_due(&mut self.pausing, now)
    }

    /// A task that is not worth sending any more.
    pub(super) fn expired(&self, now: Nanos) -> Option<TaskId> {
        self.expiring.first().filter(|(at, _)| *at <= now).map(|(_, task)| *task)
    }

    /// When something here is due.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        let first = |set: &BTreeSet<(Nanos, TaskId)>| set.first().map(|(at, _)| *at);
        [first(&self.pausing), first(&self.expiring)].into_iter().flatten().min()
    }

    /// Everybody, those who wait in their order.
    pub(super) fn everybody(&self) -> Vec<TaskId> {
        self.waiting.values().copied().chain(self.pausing.iter().map(|(_, task)| *task)).collect()
    }
}

fn take_due(set: &mut BTreeSet<(Nanos, TaskId)>, now: Nanos) -> Option<TaskId> {
    let due = *set.first().filter(|(at, _)| *at <= now)?;
    set.remove(&due);
    Some(due.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(tasks: &[(i16, Nanos)], ageing: Option<Nanos>) -> Vec<u64> {
        let mut queue = Queue::default();
        for (arrival, (priority, at)) in (0_u64..).zip(tasks) {
            queue.put(TaskId(arrival), Rank::new(*priority, arrival, *at, ageing), None);
        }
        std::iter::from_fn(|| queue.take_next()).map(|task| task.0).collect()
    }

    #[test]
    fn higher_priorities_go_first_and_equals_in_the_order_they_came() {
        assert_eq!(order(&[(0, 0), (10, 1), (0, 2), (10, 3), (-1, 4)], None), [1, 3, 0, 2, 4]);
    }

    #[test]
    fn ageing_bounds_how_long_the_low_wait_for_the_high() {
        // Ten levels of 100 each: what came 1000 before is ahead of a 10.
        assert_eq!(order(&[(0, 0), (10, 900), (10, 1100)], Some(100)), [1, 0, 2]);
    }

    #[test]
    fn extremes_of_time_and_priority_do_not_overflow() {
        assert_eq!(order(&[(i16::MIN, u64::MAX), (i16::MAX, 0)], Some(u64::MAX)), [1, 0]);
    }

    #[test]
    fn the_oldest_is_the_one_that_came_first_whatever_its_priority() {
        let mut queue = Queue::default();
        queue.put(TaskId(7), Rank::new(0, 1, 0, None), None);
        queue.put(TaskId(8), Rank::new(5, 2, 0, None), None);
        assert_eq!(queue.oldest(), Some(TaskId(7)));
    }

    #[test]
    fn what_is_due_comes_out_and_the_rest_names_its_time() {
        let mut queue = Queue::default();
        queue.put(TaskId(1), Rank::new(0, 1, 0, None), Some(50));
        queue.put_later(TaskId(2), 20);
        assert_eq!((queue.next_deadline(), queue.len()), (Some(20), 2));
        assert_eq!((queue.take_rested(19), queue.take_rested(20)), (None, Some(TaskId(2))));
        assert_eq!((queue.expired(49), queue.expired(50)), (None, Some(TaskId(1))));
        queue.remove(TaskId(1), Rank::new(0, 1, 0, None), Some(50));
        assert_eq!((queue.next_deadline(), queue.len()), (None, 0));
    }
}
