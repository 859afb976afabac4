//! Bringing workers into the world: executed, forked from the caller, or forked by a zygote.
//!
//! All of this belongs to the supervisor's thread: the kernel sends the signal that ends an orphan when the *thread*
//! ends that made it. The one exception is the launch of a fleet whose workers are forked from their caller.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::protocol::{self, Order, Place, Setup};
use super::spec::{FleetSpec, Start};
use super::worker::{self, Roads};
use super::zygotes::{Said, Waiting, Zygote};
use crate::role::Role;
use crate::sys::fds;
use crate::sys::pidfd::PidFd;
use crate::sys::poll::Poll;
use crate::sys::process::{self, Birth, Child, ForkError, Pid, Program};
use crate::transport::{Outgoing, Stream, codec};

/// Why a worker did not come into the world.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// The caller cannot be forked, or the kernel refuses.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// The program cannot be executed.
    #[error("cannot start `{program}`: {cause}")]
    Exec { program: String, cause: io::Error },
    /// The copy of the caller is gone, and cannot be made again.
    #[error("the copy of the caller that workers are forked from has ended; launch the fleet anew")]
    NoCopy,
    /// No descriptor is left, or the like.
    #[error("cannot reach a new worker: {0}")]
    Io(#[from] io::Error),
}

impl StartError {
    /// Whether the same will happen every time.
    pub(super) fn is_for_good(&self) -> bool {
        match self {
            StartError::NoCopy | StartError::Fork(ForkError::Threaded { .. }) => true,
            StartError::Exec { cause, .. } => {
                matches!(
                    cause.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput
                ) || cause.raw_os_error() == Some(libc::ENOEXEC)
            }
            StartError::Fork(ForkError::Kernel(_)) | StartError::Io(_) => false,
        }
    }
}

/// A worker as the kernel sees it.
#[derive(Debug)]
pub(super) enum Process {
    /// A zygote was asked for it.
    Unborn,
    /// A child of this process.
    Ours(Child),
    /// A child of a zygote, which reaps it.
    Zygotes { pid: Pid, pidfd: PidFd },
}

impl Process {
    pub(super) fn pid(&self) -> Option<Pid> {
        match self {
            Process::Unborn => None,
            Process::Ours(child) => Some(child.pid()),
            Process::Zygotes { pid, .. } => Some(*pid),
        }
    }

    pub(super) fn pidfd(&self) -> Option<&PidFd> {
        match self {
            Process::Unborn => None,
            Process::Ours(child) => Some(child.pidfd()),
            Process::Zygotes { pidfd, .. } => Some(pidfd),
        }
    }

    pub(super) fn kill(&mut self) {
        match self {
            Process::Unborn => {}
            Process::Ours(child) => child.kill(),
            Process::Zygotes { pidfd, .. } => {
                let _ = pidfd.kill();
            }
        }
    }
}

/// A worker that was just started, and the roads to it.
#[derive(Debug)]
pub(super) struct Newborn {
    pub(super) process: Process,
    pub(super) link: Stream,
    pub(super) output: OwnedFd,
    pub(super) errors: OwnedFd,
    /// What it has to be told before anything else.
    pub(super) letter: Option<Outgoing>,
}

/// What makes workers.
#[derive(Debug)]
pub(super) struct Launcher {
    program: Program,
    start: Start,
    setup: Setup,
    encoded: Arc<[u8]>,
    zygotes: BTreeMap<u64, Zygote>,
    /// The serial number of the one that is asked for workers, and how many reloads came before it.
    current: Option<(u64, u32)>,
    next: u64,
    /// The caller has no threads yet, and may be forked.
    is_caller: bool,
}

impl Launcher {
    pub(super) fn new(spec: &FleetSpec) -> Launcher {
        let mut encoded = Vec::new();
        codec::encode(&spec.setup, &mut encoded).expect("a setup has a form on the wire");
        Launcher {
            program: spec.program.clone(),
            start: spec.start,
            setup: spec.setup.clone(),
            encoded: encoded.into(),
            zygotes: BTreeMap::new(),
            current: None,
            next: 0,
            is_caller: spec.start == Start::Fork,
        }
    }

    /// Starts a worker, which is ready when it says so on its link. `None`: it waits for its turn with its zygote, which
    /// says when that has come.
    pub(super) fn launch(
        &mut self,
        poll: &Poll,
        place: Place,
        generation: u32,
    ) -> Result<Option<Newborn>, StartError> {
        let is_forked = match self.start {
            Start::Spawn => false,
            Start::Fork => !self.is_caller,
            Start::Forkserver => true,
        };
        if is_forked {
            let zygote = self.zygote(poll, generation)?;
            if !zygote.can_fork() {
                zygote.wait(Waiting { place, generation });
                return Ok(None);
            }
        }
        let (link, theirs) = Stream::pair()?;
        let (output, output_end) = fds::pipe_to_watch()?;
        let (errors, errors_end) = fds::pipe_to_watch()?;
        let roads = Roads { link: theirs, output: output_end, errors: errors_end };
        let (process, letter) = match self.start {
            Start::Spawn => (self.execute(roads)?, Some(self.preparation(place)?)),
            Start::Fork if self.is_caller => (self.fork_caller(roads, place)?, None),
            Start::Fork | Start::Forkserver => {
                self.zygote(poll, generation)?.ask(place, &roads);
                (Process::Unborn, None)
            }
        };
        Ok(Some(Newborn { process, link, output, errors, letter }))
    }

    fn execute(&self, roads: Roads) -> Result<Process, StartError> {
        let birth = Birth {
            program: &self.program,
            role: Role::Worker { parent: Pid::own().0 },
            link: roads.link,
            output: Some(roads.output),
            errors: Some(roads.errors),
            own_group: true,
        };
        Ok(Process::Ours(Child::spawn(birth).map_err(|cause| self.no_exec(cause))?))
    }

    fn no_exec(&self, cause: io::Error) -> StartError {
        StartError::Exec { program: self.program.path().display().to_string(), cause }
    }

    fn preparation(&self, place: Place) -> Result<Outgoing, io::Error> {
        let mut head = Vec::new();
        protocol::write(&Order::Prepare(place), &[], &mut head).map_err(io::Error::other)?;
        Outgoing::new(&head, Arc::clone(&self.encoded)).map_err(io::Error::other)
    }

    fn fork_caller(&self, roads: Roads, place: Place) -> Result<Process, StartError> {
        let parent = Pid::own();
        let life = || {
            let adopted = self.program.adopt_environment();
            if adopted.is_ok() { worker::forked(roads, parent, &self.setup, place) } else { 1 }
        };
        Ok(Process::Ours(process::fork(true, life)?))
    }

    /// From now on the caller has threads: what is still to be forked is forked from a copy that is made here.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub(super) fn leave_caller(&mut self, poll: &Poll) -> Result<(), StartError> {
        if self.is_caller {
            self.is_caller = false;
            let zygote = Zygote::copy_caller(&self.program, &self.setup)?;
            self.take_in(poll, zygote, 0)?;
        }
        Ok(())
    }

    /// The zygote that is asked for workers of this generation.
    fn zygote(&mut self, poll: &Poll, generation: u32) -> Result<&mut Zygote, StartError> {
        let current = self.current.filter(|(serial, _)| self.zygotes.contains_key(serial));
        let serial = match current {
            Some((serial, of)) if of >= generation || self.start == Start::Fork => serial,
            _ if self.start == Start::Fork => return Err(StartError::NoCopy),
            _ => {
                let zygote = Zygote::execute(&self.program, &self.encoded);
                let zygote = zygote.map_err(|cause| self.no_exec(cause))?;
                self.take_in(poll, zygote, generation)?
            }
        };
        self.zygotes.get_mut(&serial).ok_or(StartError::NoCopy)
    }

    fn take_in(&mut self, poll: &Poll, zygote: Zygote, generation: u32) -> Result<u64, io::Error> {
        let serial = self.next;
        self.next += 1;
        zygote.watch(poll, serial)?;
        self.zygotes.insert(serial, zygote);
        self.current = Some((serial, generation));
        self.dismiss_idle();
        Ok(serial)
    }

    /// Something has happened to a zygote: what it says, and what its end means.
    pub(super) fn hear(&mut self, serial: u64, said: &mut Vec<Said>) {
        let Some(zygote) = self.zygotes.get_mut(&serial) else { return };
        if !zygote.hear(said) {
            self.zygotes.remove(&serial);
        }
        self.dismiss_idle();
    }

    /// A zygote that is not asked any more leaves with the last of its workers.
    fn dismiss_idle(&mut self) {
        let current = self.current.map(|(serial, _)| serial);
        for (serial, zygote) in &mut self.zygotes {
            if Some(*serial) != current && zygote.is_idle() {
                zygote.dismiss();
            }
        }
    }

    /// The processes of the zygotes.
    pub(super) fn pids(&self) -> Vec<Pid> {
        self.zygotes.values().map(Zygote::pid).collect()
    }

    /// Has every zygote leave, whose workers are gone; says whether all have left.
    pub(super) fn close(&mut self) -> bool {
        self.zygotes.values_mut().for_each(Zygote::dismiss);
        self.zygotes.is_empty()
    }
}
