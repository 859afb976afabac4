//! What workers say, on their links and on their outputs.

use std::os::fd::AsFd;
use std::sync::Arc;

use super::Engine;
use super::job::Reply;
use crate::fleet::feed::{FleetEvent, OutputLine};
use crate::fleet::policy::{Event, Verdict, WorkerId};
use crate::fleet::protocol::{self, Answer, Hello, Lease, Marks};
use crate::probe::clock;
use crate::sys::fds;
use crate::transport::{Arrival, FrameError, Link, LinkError};

/// So much is read from one output of a worker before somebody else has a turn, in bytes.
pub(super) const ONE_TURN: usize = 256 << 10;

/// What a look at a link shows.
enum Heard {
    Answer(Answer, Vec<u8>),
    Nothing,
    End,
    Nonsense(String),
}

impl Engine {
    /// Takes in what has come on a worker's link.
    pub(super) fn hear(&mut self, worker: WorkerId) {
        loop {
            match self.listen(worker) {
                Heard::Answer(answer, payload) => self.take(worker, answer, payload),
                Heard::Nothing => return,
                Heard::End => return self.close_ear(worker),
                Heard::Nonsense(what) => return self.garbled(worker, what),
            }
        }
    }

    /// The same for one that is dead, whose last words have all come.
    pub(super) fn hear_out(&mut self, worker: WorkerId) {
        loop {
            self.hear(worker);
            let Some(member) = self.members.get(&worker) else { return };
            let is_more = member.link_ended.is_none()
                && fds::wait_readable(&[member.link.as_fd()], Some(0)).is_ok_and(|ready| ready[0]);
            if !is_more {
                return;
            }
        }
    }

    fn listen(&mut self, worker: WorkerId) -> Heard {
        let Some(member) = self.members.get_mut(&worker).filter(|member| member.link_ended.is_none()) else {
            return Heard::Nothing;
        };
        match member.link.try_receive() {
            Ok(Arrival::Frame(frame)) => match protocol::read::<Answer>(frame) {
                Ok((answer, payload)) => Heard::Answer(answer, payload.to_vec()),
                Err(cause) => Heard::Nonsense(cause.to_string()),
            },
            Ok(Arrival::Nothing) => Heard::Nothing,
            // The frame that a death tore is the death's doing, and is thrown away.
            Ok(Arrival::Closed)
            | Err(LinkError::Closed | LinkError::Io(_) | LinkError::Frame(FrameError::Torn { .. })) => {
                Heard::End
            }
            Err(cause) => Heard::Nonsense(cause.to_string()),
        }
    }

    fn close_ear(&mut self, worker: WorkerId) {
        let now = self.now();
        if let Some(member) = self.members.get_mut(&worker) {
            member.close_ear(&self.poll, now);
        }
    }

    /// It said what no worker of ours says: nothing more is heard from it.
    pub(super) fn garbled(&mut self, worker: WorkerId, what: String) {
        self.close_ear(worker);
        let Some(member) = self.members.get_mut(&worker) else { return };
        if member.is_ready() {
            member.garbled = Some(what);
            return self.step(Event::Garbled(worker));
        }
        // It never was one of ours, and will not be the next time.
        member.is_disowned = true;
        member.kill();
        let slot = member.slot;
        self.not_started(worker, slot, true, &format!("worker {slot} is not one of ours: {what}"));
    }

    fn take(&mut self, worker: WorkerId, answer: Answer, payload: Vec<u8>) {
        let received = clock::now();
        let Some(member) = self.members.get_mut(&worker) else { return };
        member.has_answered();
        match answer {
            Answer::Ready { .. } | Answer::Unfit { .. } if member.is_ready() => {
                self.garbled(worker, "it says twice that it is ready".to_owned());
            }
            Answer::Ready { hello, .. } if hello != Hello::own() => {
                self.garbled(worker, "it is of another build, or knows other functions".to_owned());
            }
            Answer::Ready { born, .. } => {
                member.start.born = born.clamp(member.start.asked, received);
                member.start.ready = received;
                let (slot, pid) = (member.slot, member.process.pid());
                if let Some(pid) = pid {
                    self.tell(&FleetEvent::WorkerReady { slot, pid });
                }
                self.has_changed = true;
                self.step(Event::Ready(worker));
            }
            Answer::Unfit { reason } => member.unfit = Some(reason),
            Answer::Ended { lease, is_good, marks, resident } => {
                self.ended(worker, lease, Reply { is_good, bytes: payload }, &marks, resident);
            }
            Answer::Report(usage) => {
                if self.survey.missing.remove(&worker) {
                    self.survey.sum = self.survey.sum.plus(&usage);
                }
                self.has_changed = true;
            }
        }
    }

    fn ended(&mut self, worker: WorkerId, lease: Lease, reply: Reply, marks: &Marks, resident: Option<u64>) {
        let received = clock::now();
        // What it wrote during the task is read while it is known to be the task's.
        if self.feed.is_heard() {
            self.read_outputs(worker, ONE_TURN);
        }
        let first = self.core.farewell(worker).and_then(|known| known.first);
        if first != Some(lease) {
            return self.garbled(worker, format!("it answered for {}, which it was not running", lease.task));
        }
        let verdict = if reply.is_good { Verdict::Good } else { Verdict::Bad };
        if let Some(job) = self.jobs.get_mut(&lease.task) {
            job.answer(reply, marks, received);
        }
        self.step(Event::Answered { worker, lease, verdict, resident });
    }

    /// Reads what a worker has written, up to so much of each.
    pub(super) fn read_outputs(&mut self, worker: WorkerId, most: usize) {
        let task = if self.feed.is_heard() { self.task_of(worker) } else { None };
        let Some(member) = self.members.get_mut(&worker) else { return };
        let Some(pid) = member.process.pid() else { return };
        let (slot, feed) = (member.slot, &mut self.feed);
        let is_heard = feed.is_heard();
        let mut tell = |is_error: bool, line: &[u8]| {
            if is_heard {
                let bytes = Arc::from(line);
                feed.tell(&FleetEvent::Output(OutputLine { slot, pid, task, is_error, bytes }));
            }
        };
        member.output.read(most, &mut |line| tell(false, line));
        member.errors.read(most, &mut |line| tell(true, line));
    }

    /// Hands on the last line of each output, though it has no end.
    pub(super) fn end_outputs(&mut self, worker: WorkerId) {
        let task = self.task_of(worker);
        let Some(member) = self.members.get_mut(&worker) else { return };
        let Some(pid) = member.process.pid() else { return };
        let (slot, feed) = (member.slot, &mut self.feed);
        let mut tell = |is_error: bool, line: &[u8]| {
            let bytes = Arc::from(line);
            feed.tell(&FleetEvent::Output(OutputLine { slot, pid, task, is_error, bytes }));
        };
        member.output.end(&mut |line| tell(false, line));
        member.errors.end(&mut |line| tell(true, line));
    }
}
