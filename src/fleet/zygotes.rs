//! A zygote as its supervisor sees it: asked for workers one after the other, heard, and outlived.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::engine::token::{Kind, token};
use super::output::Tail;
use super::policy::WorkerId;
use super::protocol::{self, Hello, Place, Setup, ZygoteAnswer, ZygoteOrder};
use super::worker::Roads;
use super::zygote::{self, LARGEST_MESSAGE};
use crate::role::Role;
use crate::sys::fds;
use crate::sys::pidfd::PidFd;
use crate::sys::poll::Poll;
use crate::sys::process::{self, Birth, Child, Death, ForkError, Pid, Program};

/// A worker that waits to be forked. It has no roads yet: many that wait would hold many descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) place: Place,
    pub(super) generation: u32,
}

/// What is learnt from a zygote.
#[derive(Debug)]
pub(super) enum Said {
    /// It is a worker's turn to be forked.
    Turn(Waiting),
    /// A worker was forked.
    Born { worker: WorkerId, pid: Pid, pidfd: PidFd },
    /// A worker was not forked.
    NotBorn { place: Place, for_good: bool, why: String },
    /// A worker has ended.
    Ended { worker: WorkerId, death: Death },
    /// Nobody will tell how this worker has ended.
    Orphaned { worker: WorkerId },
}

/// So many forks are asked for before one is answered: more would wait in the kernel, and might not fit there.
const MOST_UNDER_WAY: usize = 16;

/// How much is kept of what it writes to standard error, in bytes.
const STDERR_KEPT: usize = 4 << 10;

/// A zygote.
#[derive(Debug)]
pub(super) struct Zygote {
    /// `None` once it is told to leave.
    control: Option<OwnedFd>,
    process: Child,
    errors: Option<OwnedFd>,
    tail: Tail,
    is_prepared: bool,
    waiting: VecDeque<Waiting>,
    asked: BTreeMap<WorkerId, Place>,
    workers: BTreeSet<WorkerId>,
}

impl Zygote {
    /// Executes one, and has it prepare itself.
    pub(super) fn execute(program: &Program, setup: &[u8]) -> io::Result<Zygote> {
        let (control, theirs) = fds::message_pair()?;
        let (errors, errors_end) = fds::pipe_to_watch()?;
        let birth = Birth {
            program,
            role: Role::Zygote { parent: Pid::own().0 },
            link: theirs,
            output: None,
            errors: Some(errors_end),
            own_group: true,
        };
        let zygote = Zygote::new(control, Child::spawn(birth)?, Some(errors), false);
        // Of any size: a message is not.
        let mut file = fds::unnamed_file("fleet-setup")?;
        file.write_all(setup)?;
        file.rewind()?;
        match zygote.tell(ZygoteOrder::Prepare, &[file.as_fd()]) {
            // It died at once: its end tells how.
            Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(zygote),
            told => told.map(|()| zygote),
        }
    }

    /// Copies the caller, which is prepared.
    pub(super) fn copy_caller(program: &Program, setup: &Setup) -> Result<Zygote, ForkError> {
        let (control, theirs) = fds::message_pair()?;
        let parent = Pid::own();
        let life = || {
            let adopted = program.adopt_environment();
            if adopted.is_ok() { zygote::forked(&theirs, parent, setup.clone()) } else { 1 }
        };
        let process = process::fork(true, life)?;
        Ok(Zygote::new(control, process, None, true))
    }

    fn new(control: OwnedFd, process: Child, errors: Option<OwnedFd>, is_prepared: bool) -> Zygote {
        Zygote {
            control: Some(control),
            process,
            errors,
            tail: Tail::new(STDERR_KEPT),
            is_prepared,
            waiting: VecDeque::new(),
            asked: BTreeMap::new(),
            workers: BTreeSet::new(),
        }
    }

    pub(super) fn watch(&self, poll: &Poll, serial: u64) -> io::Result<()> {
        for fd in [self.control.as_ref(), self.errors.as_ref()].into_iter().flatten() {
            poll.watch(fd.as_fd(), token(Kind::Zygote, serial))?;
        }
        poll.watch(self.process.pidfd().as_fd(), token(Kind::Zygote, serial))
    }

    pub(super) fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// Whether nobody is left that it would have to reap.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.asked.is_empty() && self.workers.is_empty()
    }

    /// It leaves, and ends what is left of its workers.
    pub(super) fn dismiss(&mut self) {
        self.control = None;
    }

    /// Whether it can be asked for a worker now.
    pub(super) fn can_fork(&self) -> bool {
        self.is_prepared && self.asked.len() < MOST_UNDER_WAY
    }

    /// Has a worker wait for its turn.
    pub(super) fn wait(&mut self, waiting: Waiting) {
        self.waiting.push_back(waiting);
    }

    /// Has a worker forked.
    pub(super) fn ask(&mut self, place: Place, roads: &Roads) {
        // Where it cannot be told, it has ended, which is noticed by itself.
        let gifts = [roads.link.as_fd(), roads.output.as_fd(), roads.errors.as_fd()];
        let _ = self.tell(ZygoteOrder::Fork(place), &gifts);
        self.asked.insert(WorkerId(place.worker), place);
    }

    fn tell(&self, order: ZygoteOrder, gifts: &[BorrowedFd<'_>]) -> io::Result<()> {
        let Some(control) = &self.control else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let mut message = Vec::new();
        protocol::write(&order, &[], &mut message).map_err(io::Error::other)?;
        fds::send_with(control.as_fd(), &message, gifts)
    }

    /// Takes in everything it has said; false once it has ended.
    pub(super) fn hear(&mut self, said: &mut Vec<Said>) -> bool {
        let has_ended = has_ended(&self.process);
        self.read_errors();
        let mut buffer = vec![0; LARGEST_MESSAGE];
        let is_reasonable = loop {
            let Some(control) = &self.control else { break true };
            match fds::receive_with(control.as_fd(), &mut buffer, false) {
                Ok((0, _)) => break false,
                Ok((length, gifts)) => {
                    if !self.take(&buffer[..length], gifts, said) {
                        break false;
                    }
                }
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => break true,
                Err(_) => break false,
            }
        };
        if has_ended || !is_reasonable {
            self.end(said);
            return false;
        }
        if self.is_prepared {
            let turns = self.waiting.len().min(MOST_UNDER_WAY.saturating_sub(self.asked.len()));
            said.extend(self.waiting.drain(..turns).map(Said::Turn));
        }
        true
    }

    fn read_errors(&mut self) {
        let mut buffer = [0; 4096];
        while let Some(errors) = &self.errors {
            match fds::read_now(errors, &mut buffer) {
                Ok(None) => return,
                Ok(Some(count)) if count > 0 => self.tail.take_in(&buffer[..count]),
                Ok(Some(_)) | Err(_) => self.errors = None,
            }
        }
    }

    /// Takes in one answer; false if no zygote of ours says this.
    fn take(&mut self, message: &[u8], mut gifts: Vec<OwnedFd>, said: &mut Vec<Said>) -> bool {
        let Ok((answer, _)) = protocol::read::<ZygoteAnswer>(message) else { return false };
        match answer {
            ZygoteAnswer::Prepared(Ok(hello)) if hello == Hello::own() => self.is_prepared = true,
            ZygoteAnswer::Prepared(other) => {
                let why = match other {
                    Ok(_) => "the zygote is of another build, or knows other functions".to_owned(),
                    Err(why) => format!("its preload: {why}"),
                };
                for Waiting { place, .. } in self.waiting.drain(..) {
                    said.push(Said::NotBorn { place, for_good: true, why: why.clone() });
                }
            }
            ZygoteAnswer::Forked { worker, pid } => {
                let worker = WorkerId(worker);
                let Some(place) = self.asked.remove(&worker) else { return false };
                match (pid, gifts.pop()) {
                    (Ok(pid), Some(pidfd)) => {
                        self.workers.insert(worker);
                        said.push(Said::Born { worker, pid, pidfd: pidfd.into() });
                    }
                    (Ok(_), None) => return false,
                    (Err(why), _) => said.push(Said::NotBorn { place, for_good: false, why }),
                }
            }
            ZygoteAnswer::Ended { worker, death } => {
                let worker = WorkerId(worker);
                self.workers.remove(&worker);
                said.push(Said::Ended { worker, death });
            }
        }
        true
    }

    /// It has ended, or is to: what that means for those that came from it, and those that were to come.
    fn end(&mut self, said: &mut Vec<Said>) {
        self.process.kill();
        let how = self.process.wait().map_or_else(|cause| cause.to_string(), |exit| exit.to_string());
        self.read_errors();
        let last = self.tail.text();
        let last = last.trim_end();
        let words = if last.is_empty() { String::new() } else { format!("; it wrote: {last}") };
        let why = format!("the zygote {how}{words}");
        let asked = std::mem::take(&mut self.asked).into_values();
        let unborn = self.waiting.drain(..).map(|waiting| waiting.place).chain(asked);
        said.extend(unborn.map(|place| Said::NotBorn { place, for_good: false, why: why.clone() }));
        said.extend(std::mem::take(&mut self.workers).into_iter().map(|worker| Said::Orphaned { worker }));
    }
}

fn has_ended(process: &Child) -> bool {
    fds::wait_readable(&[process.pidfd().as_fd()], Some(0)).is_ok_and(|ended| ended[0])
}
