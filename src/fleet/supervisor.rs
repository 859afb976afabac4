//! The supervisor: launches the workers, feeds each one task at a time, and notices whoever dies.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::launch::{LaunchError, Launcher, Process};
use super::protocol::{self, Answer, Hello, Lease, Marks, Order};
use super::spec::FleetSpec;
use crate::ids::TaskId;
use crate::probe::clock::{self, Nanos};
use crate::probe::stamps::Stamps;
use crate::probe::usage::Usage;
use crate::sys::process::{Exit, Pid};
use crate::transport::{Arrival, Link, LinkError, Stream};

/// Why a fleet could not go on.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// No worker, or too few, came into the world.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A worker died.
    #[error("worker {slot} (pid {pid}) {exit}{}", doing(*.task))]
    WorkerDied {
        /// Its slot.
        slot: usize,
        /// Its number.
        pid: Pid,
        /// How it ended.
        exit: Exit,
        /// The task it was running.
        task: Option<TaskId>,
    },
    /// A worker said what no worker of ours says.
    #[error("worker {slot} is not one of ours, or has lost its mind: {what}")]
    Stranger {
        /// Its slot.
        slot: usize,
        /// What it said.
        what: String,
    },
    /// A worker took too long to be ready.
    #[error("worker {slot} was not ready within {within:?}")]
    NotReady {
        /// Its slot.
        slot: usize,
        /// The time it had.
        within: Duration,
    },
    /// What the kernel says.
    #[error("the supervisor failed: {0}")]
    Io(#[from] io::Error),
}

fn doing(task: Option<TaskId>) -> String {
    task.map_or_else(|| " while it had no task".to_owned(), |task| format!(" while running {task}"))
}

impl From<nix::Error> for FleetError {
    fn from(cause: nix::Error) -> FleetError {
        FleetError::Io(cause.into())
    }
}

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

/// A task that has ended, and where its result is.
#[derive(Debug)]
pub struct Settled<'a> {
    /// The worker's slot.
    pub slot: usize,
    /// The task.
    pub task: TaskId,
    /// Its moments, but for `settled`, which is when the caller has decoded the result.
    pub stamps: Stamps,
    /// The result, or what the task said when it failed.
    pub result: Result<&'a [u8], String>,
}

/// Worker processes, ready to run tasks. Dropping it kills them; [`Fleet::stop`] lets them leave.
#[derive(Debug)]
pub struct Fleet {
    slots: Vec<Slot>,
    // After the slots: workers end before the zygote that reaps them.
    launcher: Launcher,
    ready_within: Duration,
    epoll: Epoll,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Slot {
    link: Stream,
    process: Process,
    start: WorkerStart,
    running: Option<Running>,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    lease: Lease,
    submitted: Nanos,
    assigned: Nanos,
    encoded: Nanos,
}

impl Fleet {
    /// Launches the workers, and returns when all are ready.
    ///
    /// # Errors
    /// If one cannot be launched, dies, or takes too long. Those that live are killed.
    pub fn launch(spec: FleetSpec) -> Result<Fleet, FleetError> {
        let (workers, ready_within) = (spec.workers.get(), spec.ready_within);
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let launcher = Launcher::new(spec)?;
        let mut fleet =
            Fleet { slots: Vec::with_capacity(workers), launcher, ready_within, epoll, buffer: Vec::new() };
        for slot in 0..workers {
            let asked = clock::now();
            let (link, process) = fleet.launcher.launch()?;
            fleet.epoll.add(link.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, slot as u64))?;
            let start = WorkerStart { asked, ..WorkerStart::default() };
            fleet.slots.push(Slot { link, process, start, running: None });
        }
        fleet.gather(|start, answer, now| match answer {
            Answer::Ready { hello, born } if hello == Hello::own() => {
                (start.born, start.ready) = (born, now);
                Ok(())
            }
            other => Err(other),
        })?;
        Ok(fleet)
    }

    /// When each worker came into the world, by slot.
    pub fn starts(&self) -> Vec<WorkerStart> {
        self.slots.iter().map(|slot| slot.start).collect()
    }

    /// The processes of this fleet besides our own: its workers, and the zygote where there is one.
    pub fn pids(&self) -> Vec<Pid> {
        self.slots.iter().map(|slot| slot.process.pid()).chain(self.launcher.zygote()).collect()
    }

    /// Runs the tasks, each on whatever worker is free; `input` writes a task's payload, `done` is told of each end.
    ///
    /// # Errors
    /// The first death of a worker, which ends the run: the tasks that were not done are not tried again.
    pub fn run(
        &mut self,
        tasks: &[TaskId],
        input: &mut dyn FnMut(TaskId, &mut Vec<u8>),
        done: &mut dyn FnMut(Settled<'_>),
    ) -> Result<(), FleetError> {
        let submitted = clock::now();
        let mut waiting: VecDeque<TaskId> = tasks.iter().copied().collect();
        let mut open = waiting.len();
        for slot in 0..self.slots.len() {
            self.assign(slot, &mut waiting, submitted, input)?;
        }
        let mut events = [EpollEvent::empty(); 64];
        while open > 0 {
            let count = self.wait(&mut events, EpollTimeout::NONE)?;
            for event in &events[..count] {
                let slot = event.data() as usize;
                if self.settle(slot, done)? {
                    open -= 1;
                    self.assign(slot, &mut waiting, submitted, input)?;
                }
            }
        }
        Ok(())
    }

    /// What the workers have used so far, together.
    ///
    /// # Errors
    /// If one has died.
    pub fn usage(&mut self) -> Result<Usage, FleetError> {
        self.buffer.clear();
        protocol::write(&Order::Report, &[], &mut self.buffer).map_err(io::Error::other)?;
        let order = std::mem::take(&mut self.buffer);
        for slot in 0..self.slots.len() {
            self.send(slot, &order)?;
        }
        self.buffer = order;
        let mut sum = Usage::default();
        self.gather(|_, answer, _| match answer {
            Answer::Report(usage) => {
                sum = sum.plus(&usage);
                Ok(())
            }
            other => Err(other),
        })?;
        Ok(sum)
    }

    /// Lets the workers leave, and waits for them and for the zygote.
    ///
    /// # Errors
    /// If one did not end in peace.
    pub fn stop(self) -> Result<(), FleetError> {
        let Fleet { slots, mut launcher, .. } = self;
        let (links, processes): (Vec<_>, Vec<_>) =
            slots.into_iter().map(|slot| (slot.link, slot.process)).unzip();
        // All links first: workers leave side by side.
        drop(links);
        let mut first = Ok(());
        for (slot, process) in processes.into_iter().enumerate() {
            let pid = process.pid();
            let exit = launcher.bury(process)?;
            if first.is_ok() && !exit.is_success() {
                first = Err(FleetError::WorkerDied { slot, pid, exit, task: None });
            }
        }
        launcher.close()?;
        first
    }

    fn wait(&self, events: &mut [EpollEvent], timeout: EpollTimeout) -> Result<usize, FleetError> {
        match self.epoll.wait(events, timeout) {
            Err(nix::Error::EINTR) => Ok(0),
            other => Ok(other?),
        }
    }

    /// One answer from every worker, each given to `take`, which hands back what it did not expect.
    fn gather(
        &mut self,
        mut take: impl FnMut(&mut WorkerStart, Answer, Nanos) -> Result<(), Answer>,
    ) -> Result<(), FleetError> {
        let give_up = clock::now() + self.ready_within.as_nanos() as u64;
        let mut missing: Vec<bool> = vec![true; self.slots.len()];
        let mut events = [EpollEvent::empty(); 64];
        while let Some(late) = missing.iter().position(|missing| *missing) {
            let left = give_up.saturating_sub(clock::now()).div_ceil(1_000_000);
            if left == 0 {
                return Err(FleetError::NotReady { slot: late, within: self.ready_within });
            }
            let timeout = EpollTimeout::try_from(left).unwrap_or(EpollTimeout::MAX);
            let count = self.wait(&mut events, timeout)?;
            for event in &events[..count] {
                let index = event.data() as usize;
                let slot = &mut self.slots[index];
                let answer = match slot.link.try_receive() {
                    Ok(Arrival::Nothing) => continue,
                    Ok(Arrival::Frame(frame)) => protocol::read::<Answer>(frame).map(|(answer, _)| answer),
                    Ok(Arrival::Closed) | Err(LinkError::Closed) => return Err(self.mourn(index)),
                    Err(cause) => return Err(stranger(index, &cause)),
                };
                let answer = answer.map_err(|cause| stranger(index, &cause))?;
                take(&mut slot.start, answer, clock::now()).map_err(|other| match other {
                    Answer::Unfit { reason } => LaunchError::Unfit(reason).into(),
                    other => stranger(index, &format!("{other:?}")),
                })?;
                missing[index] = false;
            }
        }
        Ok(())
    }

    /// Gives the next waiting task to the worker in `slot`, if there is one.
    fn assign(
        &mut self,
        slot: usize,
        waiting: &mut VecDeque<TaskId>,
        submitted: Nanos,
        input: &mut dyn FnMut(TaskId, &mut Vec<u8>),
    ) -> Result<(), FleetError> {
        let Some(task) = waiting.pop_front() else { return Ok(()) };
        let assigned = clock::now();
        let lease = Lease { task, attempt: 1 };
        self.buffer.clear();
        protocol::write(&Order::Run(lease), &[], &mut self.buffer).map_err(io::Error::other)?;
        input(task, &mut self.buffer);
        let encoded = clock::now();
        self.slots[slot].running = Some(Running { lease, submitted, assigned, encoded });
        let order = std::mem::take(&mut self.buffer);
        let sent = self.send(slot, &order);
        self.buffer = order;
        sent
    }

    fn send(&mut self, slot: usize, order: &[u8]) -> Result<(), FleetError> {
        match self.slots[slot].link.send(order) {
            Ok(()) => Ok(()),
            Err(LinkError::Closed) => Err(self.mourn(slot)),
            Err(cause) => Err(stranger(slot, &cause)),
        }
    }

    /// Takes in the answer of the worker in `slot`, if all of it is here; says whether it was.
    fn settle(&mut self, index: usize, done: &mut dyn FnMut(Settled<'_>)) -> Result<bool, FleetError> {
        let slot = &mut self.slots[index];
        let frame = match slot.link.try_receive() {
            Ok(Arrival::Frame(frame)) => frame,
            Ok(Arrival::Nothing) => return Ok(false),
            Ok(Arrival::Closed) | Err(LinkError::Closed) => return Err(self.mourn(index)),
            // The frame that a death tore is the death's doing.
            Err(LinkError::Frame(crate::transport::FrameError::Torn { .. })) => return Err(self.mourn(index)),
            Err(cause) => return Err(stranger(index, &cause)),
        };
        let received = clock::now();
        let (answer, payload) = protocol::read::<Answer>(frame).map_err(|cause| stranger(index, &cause))?;
        let (lease, marks, failed) = match answer {
            Answer::Done(lease, marks) => (lease, marks, false),
            Answer::Failed(lease, marks) => (lease, marks, true),
            other => return Err(stranger(index, &format!("{other:?}"))),
        };
        let Some(running) = slot.running.take_if(|running| running.lease == lease) else {
            return Err(stranger(
                index,
                &format!("it answered for {}, which it was not running", lease.task),
            ));
        };
        let result = if failed { Err(String::from_utf8_lossy(payload).into_owned()) } else { Ok(payload) };
        done(Settled { slot: index, task: lease.task, stamps: stamps(&running, &marks, received), result });
        Ok(true)
    }

    /// The worker in `slot` has closed its link: learns how it ended.
    fn mourn(&mut self, index: usize) -> FleetError {
        let Slot { link, process, running, .. } = self.slots.swap_remove(index);
        drop(link);
        let (pid, task) = (process.pid(), running.map(|running| running.lease.task));
        match self.launcher.bury(process) {
            Ok(exit) => FleetError::WorkerDied { slot: index, pid, exit, task },
            Err(cause) => cause.into(),
        }
    }
}

/// A worker's clock is ours, but its word is not: what it says is kept between what we saw.
fn stamps(running: &Running, marks: &Marks, received: Nanos) -> Stamps {
    let arrived = marks.arrived.clamp(running.encoded, received);
    let started = marks.started.clamp(arrived, received);
    let finished = marks.finished.clamp(started, received);
    Stamps {
        submitted: running.submitted,
        assigned: running.assigned,
        encoded: running.encoded,
        arrived,
        started,
        finished,
        received,
        settled: received,
    }
}

fn stranger(slot: usize, what: &dyn std::fmt::Display) -> FleetError {
    FleetError::Stranger { slot, what: what.to_string() }
}
