//! A worker as its supervisor holds it: the roads to it, and what is known of it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use super::token::{Kind, token};
use crate::fleet::launch::{Newborn, Process};
use crate::fleet::output::{Lines, Tail};
use crate::fleet::policy::WorkerId;
use crate::fleet::protocol::Lease;
use crate::probe::clock::Nanos;
use crate::sys::fds;
use crate::sys::poll::Poll;
use crate::transport::{Link, LinkError, Outgoing, Stream};

/// When a worker came into the world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStart {
    /// It was asked for.
    pub asked: Nanos,
    /// Its first instruction.
    pub born: Nanos,
    /// We knew that it was ready.
    pub ready: Nanos,
}

/// Something to be sent to a worker.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) outgoing: Outgoing,
    /// The run that it orders, if it does.
    pub(super) lease: Option<Lease>,
}

/// What a worker writes to one of its two outputs.
#[derive(Debug)]
pub(super) struct Pipe {
    /// `None` once it has ended.
    fd: Option<OwnedFd>,
    lines: Lines,
    pub(super) tail: Tail,
}

impl Pipe {
    fn new(fd: OwnedFd, kept: usize) -> Pipe {
        Pipe { fd: Some(fd), lines: Lines::default(), tail: Tail::new(kept) }
    }

    /// Reads what is there, up to `most` bytes, and hands whole lines on.
    pub(super) fn read(&mut self, most: usize, line: &mut dyn FnMut(&[u8])) {
        let mut buffer = [0; 16 << 10];
        let mut left = most;
        while left > 0
            && let Some(fd) = &self.fd
        {
            match fds::read_now(fd, &mut buffer) {
                Ok(None) => return,
                Ok(Some(count)) if count > 0 => {
                    self.tail.take_in(&buffer[..count]);
                    self.lines.take_in(&buffer[..count], line);
                    left = left.saturating_sub(count);
                }
                Ok(Some(_)) | Err(_) => self.end(line),
            }
        }
    }

    /// No more is wanted of it: what has no newline is handed on too.
    pub(super) fn end(&mut self, line: &mut dyn FnMut(&[u8])) {
        self.fd = None;
        self.lines.end(line);
    }
}

/// A worker.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: WorkerId,
    pub(super) slot: usize,
    pub(super) process: Process,
    pub(super) link: Stream,
    pub(super) output: Pipe,
    pub(super) errors: Pipe,
    pub(super) start: WorkerStart,
    outbox: VecDeque<Letter>,
    /// Letters that are wholly on its side, and not answered.
    outstanding: usize,
    wants_room: bool,
    /// When nothing more came from its link.
    pub(super) link_ended: Option<Nanos>,
    /// Killed as soon as there is something to kill.
    pub(super) is_doomed: bool,
    /// It is none of ours, and the books know it no more.
    pub(super) is_disowned: bool,
    /// Its process has ended, and whoever collects it has not said how yet.
    pub(super) ended_at: Option<Nanos>,
    /// Nobody will say how it ended.
    pub(super) is_orphaned: bool,
    /// Why it could not be prepared.
    pub(super) unfit: Option<String>,
    /// What it said that no worker of ours says.
    pub(super) garbled: Option<String>,
    pub(super) stillness: Stillness,
}

/// How long a busy worker has stood still.
#[derive(Clone, Debug, Default)]
pub(super) struct Stillness {
    /// The CPU time that it had used when it was last looked at, in ticks.
    pub(super) ticks: u64,
    pub(super) since: Option<Nanos>,
    pub(super) state: Option<char>,
    pub(super) channel: Option<String>,
}

impl Member {
    pub(super) fn new(id: WorkerId, slot: usize, newborn: Newborn, asked: Nanos, kept: usize) -> Member {
        let Newborn { process, link, output, errors, letter } = newborn;
        let letter = letter.map(|outgoing| Letter { outgoing, lease: None });
        Member {
            id,
            slot,
            process,
            link,
            output: Pipe::new(output, 0),
            errors: Pipe::new(errors, kept),
            start: WorkerStart { asked, ..WorkerStart::default() },
            outbox: letter.into_iter().collect(),
            outstanding: 0,
            wants_room: false,
            link_ended: None,
            is_doomed: false,
            is_disowned: false,
            ended_at: None,
            is_orphaned: false,
            unfit: None,
            garbled: None,
            stillness: Stillness::default(),
        }
    }

    /// Has everything watched, once it is known which process it is: what it says before waits on its roads.
    pub(super) fn watch(&self, poll: &Poll) -> std::io::Result<()> {
        let Some(pidfd) = self.process.pidfd() else { return Ok(()) };
        poll.watch(self.link.as_fd(), token(Kind::Link, self.id.0))?;
        for (pipe, kind) in [(&self.output, Kind::Output), (&self.errors, Kind::Errors)] {
            if let Some(fd) = &pipe.fd {
                poll.watch(fd.as_fd(), token(kind, self.id.0))?;
            }
        }
        poll.watch(pidfd.as_fd(), token(Kind::Process, self.id.0))
    }

    pub(super) fn post(&mut self, letter: Letter) {
        self.outbox.push_back(letter);
    }

    /// Sends what there is room for; says how many orders to run are now wholly on the other side that were not.
    pub(super) fn flush(&mut self, poll: &Poll) -> usize {
        let mut delivered = 0;
        let mut is_full = false;
        while let Some(letter) = self.outbox.front_mut() {
            match self.link.try_send(&mut letter.outgoing) {
                Ok(true) => {
                    self.outstanding += 1;
                    delivered += usize::from(letter.lease.is_some());
                    self.outbox.pop_front();
                }
                Ok(false) => {
                    is_full = true;
                    break;
                }
                // It has ended, which is noticed by itself; what was not sent tells what it cannot have begun.
                Err(LinkError::Closed) => break,
                Err(_) => break,
            }
        }
        if is_full != self.wants_room && self.link_ended.is_none() {
            self.wants_room = is_full;
            let _ = poll.watch_room(self.link.as_fd(), token(Kind::Link, self.id.0), is_full);
        }
        delivered
    }

    /// It has answered one letter.
    pub(super) fn has_answered(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// Whether it may have begun this run, now that it has ended: it cannot have where part of the order is still here, or
    /// where it left unread what can be nothing else.
    pub(super) fn may_have_begun(&self, lease: Lease) -> bool {
        let is_here = self.outbox.iter().any(|letter| letter.lease == Some(lease));
        let nothing_else = self.outbox.front().is_none_or(|letter| letter.outgoing.is_untouched());
        let is_unread = self.link.was_reset() && self.outstanding == 1 && nothing_else;
        !is_here && !is_unread
    }

    /// Nothing more is wanted from its link.
    pub(super) fn close_ear(&mut self, poll: &Poll, now: Nanos) {
        if self.link_ended.is_none() {
            self.link_ended = Some(now);
            poll.forget(self.link.as_fd());
        }
    }

    pub(super) fn kill(&mut self) {
        self.is_doomed = true;
        self.process.kill();
    }

    pub(super) fn is_ready(&self) -> bool {
        self.start.ready > 0
    }
}
