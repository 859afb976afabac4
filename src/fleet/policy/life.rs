//! What a worker is, and what it still owes. Pure.

use std::collections::VecDeque;

use super::super::protocol::Lease;
use super::task::Mishap;
use crate::probe::clock::Nanos;

/// The orders that a worker holds. It runs the first; the others are right behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders {
    leases: VecDeque<Lease>,
    /// How many of them are wholly there.
    delivered: usize,
    /// When the first began, as far as can be seen from here: it was wholly there, and nothing was before it.
    began: Option<Nanos>,
}

impl Orders {
    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    pub(super) fn first(&self) -> Option<Lease> {
        self.leases.front().copied()
    }

    /// When the first began.
    pub(super) fn began(&self) -> Option<Nanos> {
        self.began
    }

    pub(super) fn is_first(&self, lease: Lease) -> bool {
        self.first() == Some(lease)
    }

    pub(super) fn add(&mut self, lease: Lease) {
        self.leases.push_back(lease);
    }

    /// Another order is wholly there.
    pub(super) fn deliver(&mut self, now: Nanos) {
        self.delivered = (self.delivered + 1).min(self.leases.len());
        self.began = self.began.or(Some(now));
    }

    /// The first is answered, and the next one begins if it is there.
    pub(super) fn take_first(&mut self, now: Nanos) -> Option<Lease> {
        let first = self.leases.pop_front()?;
        self.delivered = self.delivered.saturating_sub(1);
        self.began = (self.delivered > 0).then_some(now);
        Some(first)
    }

    /// All of them, in their order.
    pub(super) fn into_leases(self) -> impl Iterator<Item = Lease> {
        self.leases.into_iter()
    }
}

/// Where a worker is in its life. It is forgotten when it has exited.
#[derive(Clone, Debug)]
pub(super) enum Life {
    /// Not yet ready, and given up at `until`.
    Starting { until: Nanos },
    /// Takes orders.
    Serving { held: Orders },
    /// Finishes what it holds, and leaves.
    Retiring { held: Orders },
    /// Told to leave, and killed if it is still here at `kill_at`.
    Leaving { held: Orders, why: Departure, kill_at: Nanos },
    /// Killed, and given up if it has not ended at `give_up_at`.
    Killed { held: Orders, why: Departure, give_up_at: Nanos },
}

/// Why a worker has to leave, which decides what becomes of the task it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It was not ready in time.
    Unready,
    /// It is not needed, or its task is not: nobody is to blame.
    Blameless,
    /// Something went wrong under its first order.
    Blamed(Mishap),
}

/// A worker.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) slot: usize,
    pub(super) generation: u32,
    pub(super) life: Life,
    /// When it was started, and later when it was ready.
    pub(super) since: Nanos,
    pub(super) completed: u64,
    /// Tasks after which it is replaced.
    pub(super) worn_after: Option<u64>,
    /// It is to be replaced, for what it has done or how large it has grown.
    pub(super) is_worn: bool,
    /// Under which load it is listed among those with room.
    pub(super) listed: Option<usize>,
}

impl Worker {
    pub(super) fn is_starting(&self) -> bool {
        matches!(self.life, Life::Starting { .. })
    }

    pub(super) fn is_serving(&self) -> bool {
        matches!(self.life, Life::Serving { .. })
    }

    /// What it holds.
    pub(super) fn held(&self) -> Option<&Orders> {
        match &self.life {
            Life::Starting { .. } => None,
            Life::Serving { held }
            | Life::Retiring { held }
            | Life::Leaving { held, .. }
            | Life::Killed { held, .. } => Some(held),
        }
    }

    pub(super) fn held_mut(&mut self) -> Option<&mut Orders> {
        match &mut self.life {
            Life::Starting { .. } => None,
            Life::Serving { held }
            | Life::Retiring { held }
            | Life::Leaving { held, .. }
            | Life::Killed { held, .. } => Some(held),
        }
    }

    /// Takes over what it holds, to go on to another state of life.
    pub(super) fn take_held(&mut self) -> Orders {
        self.held_mut().map(std::mem::take).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TaskId;

    fn lease(task: u64) -> Lease {
        Lease { task: TaskId(task), attempt: 1 }
    }

    #[test]
    fn an_order_begins_when_it_is_wholly_there_and_first() {
        let mut held = Orders::default();
        held.add(lease(1));
        held.add(lease(2));
        assert_eq!(held.began(), None);
        held.deliver(5);
        held.deliver(6);
        assert_eq!(held.began(), Some(5));
        assert_eq!(held.take_first(9), Some(lease(1)));
        assert_eq!((held.began(), held.len()), (Some(9), 1));
        assert_eq!(held.take_first(10), Some(lease(2)));
        assert_eq!((held.began(), held.is_empty()), (None, true));
    }

    #[test]
    fn the_next_order_has_not_begun_while_it_is_on_its_way() {
        let mut held = Orders::default();
        held.add(lease(1));
        held.deliver(1);
        held.add(lease(2));
        held.take_first(3);
        assert_eq!(held.began(), None);
        held.deliver(4);
        assert_eq!(held.began(), Some(4));
    }
}
