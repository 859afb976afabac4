//! A task as its supervisor holds it: what to send, and to whom to tell what came of it.

use std::sync::Arc;

use crate::fleet::policy::End;
use crate::fleet::postmortem::PostMortem;
use crate::fleet::protocol::Marks;
use crate::ids::TaskId;
use crate::probe::clock::{self, Nanos};
use crate::probe::stamps::Stamps;

/// Whoever waits for tasks to end. Called without any lock held, from any thread.
pub(in crate::fleet) trait Sink: Send + Sync {
    /// The task that was submitted under `key` has ended.
    fn settle(&self, key: u64, settled: Settled);
}

/// An end, and all that is known of it.
#[derive(Debug)]
pub(in crate::fleet) struct Settled {
    pub(in crate::fleet) task: TaskId,
    pub(in crate::fleet) end: End,
    pub(in crate::fleet) attempts: u8,
    /// What its last worker answered, be it too late.
    pub(in crate::fleet) reply: Option<Reply>,
    /// The deaths under its runs, in their order.
    pub(in crate::fleet) deaths: Vec<Arc<PostMortem>>,
    pub(in crate::fleet) slot: Option<usize>,
    pub(in crate::fleet) stamps: Stamps,
    /// Why the fleet gave up, if it did.
    pub(in crate::fleet) failure: Option<Arc<str>>,
}

/// What a worker answered.
#[derive(Debug)]
pub(in crate::fleet) struct Reply {
    pub(in crate::fleet) is_good: bool,
    /// The encoded result, or the encoded error.
    pub(in crate::fleet) bytes: Vec<u8>,
}

/// A task that has not ended.
pub(super) struct Job {
    pub(super) function: u32,
    pub(super) input: Arc<[u8]>,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) key: u64,
    pub(super) slot: Option<usize>,
    pub(super) stamps: Stamps,
    pub(super) reply: Option<Reply>,
    pub(super) deaths: Vec<Arc<PostMortem>>,
}

impl Job {
    pub(super) fn new(function: u32, input: Arc<[u8]>, sink: Arc<dyn Sink>, key: u64, now: Nanos) -> Job {
        let stamps = Stamps { submitted: now, ..Stamps::default() };
        Job { function, input, sink, key, slot: None, stamps, reply: None, deaths: Vec::new() }
    }

    /// It is sent to the worker in this slot.
    pub(super) fn assign(&mut self, slot: usize, assigned: Nanos, encoded: Nanos) {
        self.slot = Some(slot);
        self.reply = None;
        self.stamps = Stamps { assigned, encoded, submitted: self.stamps.submitted, ..Stamps::default() };
    }

    /// Its worker answered. A worker's clock is ours, but its word is not: what it says is kept between what we saw.
    pub(super) fn answer(&mut self, reply: Reply, marks: &Marks, received: Nanos) {
        self.reply = Some(reply);
        let arrived = marks.arrived.clamp(self.stamps.encoded.min(received), received);
        let started = marks.started.clamp(arrived, received);
        let finished = marks.finished.clamp(started, received);
        self.stamps = Stamps { arrived, started, finished, received, ..self.stamps };
    }

    pub(super) fn settle(self, task: TaskId, end: End, attempts: u8, failure: Option<Arc<str>>) -> Delivery {
        let Job { sink, key, slot, mut stamps, reply, deaths, .. } = self;
        stamps.settled = clock::now();
        let settled = Settled { task, end, attempts, reply, deaths, slot, stamps, failure };
        Delivery { sink, key, settled }
    }
}

/// An end on its way to whoever waits for it.
pub(super) struct Delivery {
    sink: Arc<dyn Sink>,
    key: u64,
    settled: Settled,
}

impl Delivery {
    pub(super) fn deliver(self) {
        self.sink.settle(self.key, self.settled);
    }
}
