//! Bringing workers into the world, and learning how they left it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::protocol::{self, Order, ZygoteAnswer, ZygoteOrder};
use super::spec::{FleetSpec, Start};
use super::worker::{self, Handler};
use super::zygote::LARGEST_MESSAGE;
use crate::role::Role;
use crate::sys::fds;
use crate::sys::pidfd::PidFd;
use crate::sys::process::{self, Birth, Child, Exit, ForkError, Pid};
use crate::transport::{Link, LinkError, Stream};

/// Why no worker came into the world.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The caller cannot be forked, or the kernel refuses.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// The program cannot be executed.
    #[error("cannot start `{program}`: {cause}")]
    Exec {
        /// The program.
        program: String,
        /// What the kernel says.
        cause: io::Error,
    },
    /// The zygote is gone, or does not answer.
    #[error("the zygote {0}")]
    Zygote(String),
    /// The handler refuses its configuration.
    #[error("a worker refuses its configuration: {0}")]
    Unfit(String),
    /// A descriptor, or the road to the new process.
    #[error("cannot reach a new worker: {0}")]
    Link(#[from] LinkError),
}

impl From<io::Error> for LaunchError {
    fn from(cause: io::Error) -> LaunchError {
        LaunchError::Link(cause.into())
    }
}

/// A worker as the kernel sees it.
#[derive(Debug)]
pub(super) enum Process {
    /// A child of this process.
    Ours(Child),
    /// A child of the zygote, which reaps it.
    Zygotes { pid: Pid, pidfd: PidFd },
}

impl Process {
    pub(super) fn pid(&self) -> Pid {
        match self {
            Process::Ours(child) => child.pid(),
            Process::Zygotes { pid, .. } => *pid,
        }
    }

    fn pidfd(&self) -> &PidFd {
        match self {
            Process::Ours(child) => child.pidfd(),
            Process::Zygotes { pidfd, .. } => pidfd,
        }
    }

    pub(super) fn kill(&mut self) {
        match self {
            Process::Ours(child) => child.kill(),
            Process::Zygotes { pidfd, .. } => {
                let _ = pidfd.kill();
            }
        }
    }
}

/// What makes workers, by one of the start methods.
#[derive(Debug)]
pub(super) struct Launcher {
    spec: FleetSpec,
    source: Source,
}

/// Where workers come from.
#[derive(Debug)]
enum Source {
    /// Each is executed.
    Program,
    /// Each is forked from this process, and inherits the handler made here.
    Caller(Box<dyn Handler>),
    /// Each is forked by a zygote; `None` once that was ended.
    Zygote(Option<Zygote>),
}

#[derive(Debug)]
struct Zygote {
    control: OwnedFd,
    process: Child,
    exits: HashMap<Pid, Exit>,
    buffer: Vec<u8>,
}

impl Launcher {
    /// Makes ready to launch: for the forking methods, has the handler made that the workers will inherit.
    pub(super) fn new(spec: FleetSpec) -> Result<Launcher, LaunchError> {
        let source = match spec.start {
            Start::Spawn => Source::Program,
            Start::Fork => Source::Caller((spec.make)(&spec.config).map_err(LaunchError::Unfit)?),
            Start::Forkserver => Source::Zygote(Some(Zygote::execute(&spec)?)),
        };
        Ok(Launcher { spec, source })
    }

    /// Starts a worker. It is ready when it says so on its link.
    pub(super) fn launch(&mut self) -> Result<(Stream, Process), LaunchError> {
        let (mut link, theirs) = Stream::pair()?;
        let parent = Pid::own();
        let process = match &mut self.source {
            Source::Program => {
                let child = execute(&self.spec, Role::Worker { parent: parent.0 }, theirs)?;
                configure(&mut link, &self.spec.config)?;
                Process::Ours(child)
            }
            Source::Caller(handler) => {
                Process::Ours(process::fork(false, || worker::forked(theirs, parent, handler.as_mut()))?)
            }
            Source::Zygote(Some(zygote)) => zygote.fork(theirs, self.spec.ready_within)?,
            Source::Zygote(None) => return Err(LaunchError::Zygote("was ended".into())),
        };
        Ok((link, process))
    }

    /// How a worker whose link has ended left. One that does not leave in time is killed.
    pub(super) fn bury(&mut self, mut process: Process) -> Result<Exit, LaunchError> {
        let within = millis(self.spec.leave_within);
        let ended = fds::wait_readable(&[process.pidfd().as_fd()], Some(within))?;
        if !ended[0] {
            process.kill();
        }
        match (&mut process, &mut self.source) {
            (Process::Ours(child), _) => Ok(child.wait()?),
            (Process::Zygotes { pid, .. }, Source::Zygote(Some(zygote))) => {
                zygote.exit_of(*pid, self.spec.leave_within)
            }
            (Process::Zygotes { .. }, _) => Err(LaunchError::Zygote("is gone".into())),
        }
    }

    /// The zygote's number, where there is one.
    pub(super) fn zygote(&self) -> Option<Pid> {
        match &self.source {
            Source::Zygote(Some(zygote)) => Some(zygote.process.pid()),
            _ => None,
        }
    }

    /// Ends the zygote, which kills and reaps the workers that have not left.
    pub(super) fn close(&mut self) -> Result<(), LaunchError> {
        let Source::Zygote(zygote) = &mut self.source else { return Ok(()) };
        let Some(Zygote { control, mut process, .. }) = zygote.take() else { return Ok(()) };
        drop(control);
        let ended = fds::wait_readable(&[process.pidfd().as_fd()], Some(millis(self.spec.leave_within)))?;
        if !ended[0] {
            process.kill();
        }
        process.wait()?;
        Ok(())
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

fn execute(spec: &FleetSpec, role: Role, link: OwnedFd) -> Result<Child, LaunchError> {
    Child::spawn(Birth { program: &spec.program, role, link, output: None, errors: None, own_group: false })
        .map_err(|cause| LaunchError::Exec { program: spec.program.path().display().to_string(), cause })
}

/// Tells an executed worker what to make its handler from.
fn configure(link: &mut Stream, config: &[u8]) -> Result<(), LinkError> {
    let mut order = Vec::new();
    protocol::write(&Order::Configure, config, &mut order)?;
    match link.send(&order) {
        // It died at once. Whoever waits for its hello learns how.
        Ok(()) | Err(LinkError::Closed) => Ok(()),
        Err(cause) => Err(cause),
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

impl Zygote {
    fn execute(spec: &FleetSpec) -> Result<Zygote, LaunchError> {
        let (control, theirs) = fds::message_pair()?;
        let process = execute(spec, Role::Zygote { parent: Pid::own().0 }, theirs)?;
        let mut zygote = Zygote { control, process, exits: HashMap::new(), buffer: vec![0; LARGEST_MESSAGE] };
        zygote.tell(ZygoteOrder::Configure, &spec.config, None)?;
        match zygote.next(spec.ready_within)? {
            (ZygoteAnswer::Configured(Ok(())), _) => Ok(zygote),
            (ZygoteAnswer::Configured(Err(reason)), _) => Err(LaunchError::Unfit(reason)),
            (other, _) => Err(LaunchError::Zygote(format!("answered {other:?} to its configuration"))),
        }
    }

    /// One fork at a time: two sides that both send and do not receive would wait for each other.
    fn fork(&mut self, link: OwnedFd, within: Duration) -> Result<Process, LaunchError> {
        self.tell(ZygoteOrder::Fork, &[], Some(&link))?;
        drop(link);
        loop {
            match self.next(within)? {
                (ZygoteAnswer::Forked(Ok(pid)), Some(pidfd)) => {
                    return Ok(Process::Zygotes { pid, pidfd: pidfd.into() });
                }
                (ZygoteAnswer::Forked(Err(reason)), _) => {
                    return Err(LaunchError::Zygote(format!("says: {reason}")));
                }
                (ZygoteAnswer::Ended(pid, exit), _) => {
                    self.exits.insert(pid, exit);
                }
                (other, _) => return Err(LaunchError::Zygote(format!("answered {other:?} to a fork"))),
            }
        }
    }

    fn exit_of(&mut self, pid: Pid, within: Duration) -> Result<Exit, LaunchError> {
        loop {
            if let Some(exit) = self.exits.remove(&pid) {
                return Ok(exit);
            }
            match self.next(within)? {
                (ZygoteAnswer::Ended(pid, exit), _) => {
                    self.exits.insert(pid, exit);
                }
                (other, _) => return Err(LaunchError::Zygote(format!("answered {other:?} unasked"))),
            }
        }
    }

    fn tell(&self, order: ZygoteOrder, payload: &[u8], gift: Option<&OwnedFd>) -> Result<(), LaunchError> {
        let mut message = Vec::new();
        protocol::write(&order, payload, &mut message).map_err(LinkError::from)?;
        fds::send_with(self.control.as_fd(), &message, gift.map(AsFd::as_fd))
            .map_err(|cause| LaunchError::Zygote(format!("cannot be told: {cause}")))
    }

    fn next(&mut self, within: Duration) -> Result<(ZygoteAnswer, Option<OwnedFd>), LaunchError> {
        let ready = fds::wait_readable(&[self.control.as_fd()], Some(millis(within)))?;
        if !ready[0] {
            return Err(LaunchError::Zygote(format!("did not answer within {within:?}")));
        }
        let (length, gift) = fds::receive_with(self.control.as_fd(), &mut self.buffer, true)?;
        if length == 0 {
            let exit = self.process.wait()?;
            return Err(LaunchError::Zygote(exit.to_string()));
        }
        let (answer, _) = protocol::read(&self.buffer[..length]).map_err(LinkError::from)?;
        Ok((answer, gift))
    }
}
