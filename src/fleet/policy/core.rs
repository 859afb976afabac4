//! The books of a fleet, what can happen to it, and what it does then. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::protocol::Lease;
use super::WorkerId;
use super::life::{Departure, Life, Orders, Worker};
use super::queue::Queue;
use super::restart::Intensity;
use super::rules::{Overflow, Rules};
use super::slots::Slot;
use super::task::{End, Mishap, Task};
use crate::ids::TaskId;
use crate::probe::clock::Nanos;
use crate::seed::{Rng, Seed};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A worker is ready for orders.
    Ready(WorkerId),
    /// A worker could not be started at all; `for_good` if trying again cannot help.
    NotStarted {
        /// Which.
        worker: WorkerId,
        /// The same will happen every time.
        for_good: bool,
    },
    /// The next order of a worker is wholly on its side.
    Delivered(WorkerId),
    /// A worker answered.
    Answered {
        /// Which.
        worker: WorkerId,
        /// What it says it answers.
        lease: Lease,
        /// What it says came of it.
        verdict: Verdict,
        /// Its resident memory after the task, in bytes.
        resident: Option<u64>,
    },
    /// A worker said something that no worker of ours says.
    Garbled(WorkerId),
    /// A worker stands still.
    Stalled(WorkerId),
    /// A worker has ended, and all it had said was heard before.
    Exited {
        /// Which.
        worker: WorkerId,
        /// Whether its first order may have been begun.
        begun: bool,
        /// Whether the kernel says that it was ended for want of memory.
        out_of_memory: bool,
    },
    /// Whoever brought a task asks for it no more.
    Cancelled(TaskId),
    /// Time has passed.
    Ticked,
    /// So many workers are wanted.
    Scaled(usize),
    /// Every worker is to be replaced, one after the other.
    ReloadAsked,
    /// No order is to be sent until further notice, or again.
    Paused(bool),
    /// No more tasks come. What is not done at `until` is interrupted.
    DrainAsked {
        /// When patience ends.
        until: Nanos,
    },
}

/// What a worker says came of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A result.
    Good,
    /// An error.
    Bad,
}

/// What to do now, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start a worker, unless [`Core::awaits`] says that it is not wanted any more.
    Start {
        /// Its number.
        worker: WorkerId,
        /// Its place.
        slot: usize,
        /// How many reloads came before it.
        generation: u32,
    },
    /// Send an order.
    Send {
        /// To whom.
        worker: WorkerId,
        /// For what.
        lease: Lease,
    },
    /// Tell an idle worker that there is no more.
    Dismiss(WorkerId),
    /// Ask a worker to end, which may be busy or stopped.
    Terminate(WorkerId),
    /// End a worker.
    Kill(WorkerId),
    /// A killed worker does not end: let go of it.
    LetGo(WorkerId),
    /// A task has ended.
    Settle {
        /// Which.
        task: TaskId,
        /// How.
        end: End,
        /// The number of its last run, from 1; 0 if it never began.
        attempts: u8,
    },
    /// Tell whoever listens.
    Announce(News),
}

/// What a fleet tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Every worker is replaced.
    Reloaded,
    /// The new workers do not start; the old ones stay.
    ReloadFailed,
    /// The fleet gave up.
    Failed,
}

/// What a fleet has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Tasks taken in.
    pub accepted: u64,
    /// Tasks refused.
    pub refused: u64,
    /// Tasks that ended, by how.
    pub ended: HashMap<End, u64>,
    /// Runs that were repeated.
    pub retried: u64,
    /// Workers started.
    pub started: u64,
    /// Workers that ended before they were ready.
    pub failed_starts: u64,
    /// Workers that died under a task.
    pub busy_deaths: u64,
    /// Workers that died without one.
    pub idle_deaths: u64,
    /// Workers replaced in good health.
    pub recycled: u64,
    /// Orders sent.
    pub sent: u64,
    /// Those of them that were for a first run.
    pub first_runs: u64,
    /// What the tasks of these had waited from their submission, together, in nanoseconds.
    pub waited: u128,
}

/// What is known of a worker that is about to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Farewell {
    /// The order that it was at, or would have been next.
    pub first: Option<Lease>,
    /// When that began, as far as can be seen from here.
    pub began: Option<Nanos>,
    /// Why it had to leave; `None` if nobody told it to.
    pub departure: Option<Departure>,
    /// It was never ready.
    pub is_unready: bool,
}

/// Whether tasks come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// What is here may finish until then.
    Draining {
        until: Nanos,
    },
    /// Everything is to end now.
    Stopping,
    /// Workers do not start, or do not live.
    Failed,
}

/// The books.
#[derive(Debug)]
pub struct Core {
    pub(super) rules: Rules,
    pub(super) phase: Phase,
    pub(super) is_paused: bool,
    pub(super) tasks: HashMap<TaskId, Task>,
    pub(super) arrivals: u64,
    pub(super) queue: Queue,
    pub(super) workers: BTreeMap<WorkerId, Worker>,
    pub(super) next_worker: u64,
    pub(super) slots: BTreeMap<usize, Slot>,
    pub(super) generation: u32,
    pub(super) is_reloading: bool,
    /// Workers with room, those with the least to do first.
    pub(super) with_room: BTreeSet<(usize, WorkerId)>,
    pub(super) intensity: Intensity,
    pub(super) chance: Rng,
    pub(super) counters: Counters,
    /// Nothing about workers and slots is due before.
    soonest: Nanos,
}

impl Core {
    /// Books without workers; the first [`Core::step`] starts them.
    pub fn new(rules: Rules) -> Core {
        let slots = (0..rules.workers).map(|slot| (slot, Slot::default())).collect();
        Core {
            chance: Seed(rules.seed).stream(0x706f_6c69_6379),
            rules,
            phase: Phase::Open,
            is_paused: false,
            tasks: HashMap::new(),
            arrivals: 0,
            queue: Queue::default(),
            workers: BTreeMap::new(),
            next_worker: 0,
            slots,
            generation: 0,
            is_reloading: false,
            with_room: BTreeSet::new(),
            intensity: Intensity::default(),
            counters: Counters::default(),
            soonest: 0,
        }
    }

    /// Takes in what happened and says what to do now.
    pub fn step(&mut self, now: Nanos, event: Event, out: &mut Vec<Action>) {
        match event {
            Event::Ready(worker) => self.ready(now, worker, out),
            Event::NotStarted { worker, for_good } => self.not_started(now, worker, for_good, out),
            Event::Delivered(worker) => self.delivered(now, worker),
            Event::Answered { worker, lease, verdict, resident } => {
                self.answered(now, worker, lease, verdict, resident, out);
            }
            Event::Garbled(worker) => self.kill(now, worker, Departure::Blamed(Mishap::Crash), out),
            Event::Stalled(worker) => self.stalled(now, worker, out),
            Event::Exited { worker, begun, out_of_memory } => {
                self.exited(now, worker, begun, out_of_memory, out);
            }
            Event::Cancelled(task) => self.cancel(now, task, out),
            Event::Ticked => {}
            Event::Scaled(workers) => self.scale(now, workers, out),
            Event::ReloadAsked => self.reload(),
            Event::Paused(is_paused) => self.pause(is_paused),
            Event::DrainAsked { until } => self.drain(now, until),
        }
        self.tend(now, out);
    }

    /// When [`Event::Ticked`] is wanted, if nothing happens before. It may be asked a little too often.
    pub fn next_deadline(&self) -> Option<Nanos> {
        let own = Some(self.soonest).filter(|at| *at < Nanos::MAX);
        [own, self.queue.next_deadline()].into_iter().flatten().min()
    }

    /// Whether a worker that was to be started is still to be.
    pub fn awaits(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(Worker::is_starting)
    }

    /// Whether everything has ended.
    pub fn is_over(&self) -> bool {
        self.phase != Phase::Open && self.tasks.is_empty() && self.workers.is_empty()
    }

    /// What is known of a worker.
    pub fn farewell(&self, worker: WorkerId) -> Option<Farewell> {
        let worker = self.workers.get(&worker)?;
        let departure = match worker.life {
            Life::Leaving { why, .. } | Life::Killed { why, .. } => Some(why),
            Life::Starting { .. } | Life::Serving { .. } | Life::Retiring { .. } => None,
        };
        let held = worker.held();
        Some(Farewell {
            first: held.and_then(Orders::first),
            began: held.and_then(Orders::began),
            departure,
            is_unready: worker.is_starting() || departure == Some(Departure::Unready),
        })
    }

    /// Whether a task has not ended yet.
    pub fn knows(&self, task: TaskId) -> bool {
        self.tasks.contains_key(&task)
    }

    /// Whether one more task would find that there is no room, and had better wait.
    pub fn is_full(&self) -> bool {
        self.phase == Phase::Open
            && !self.has_room()
            && (self.rules.overflow == Overflow::Refuse || self.queue.oldest().is_none())
    }

    /// Whether tasks are taken in.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether what runs is being ended.
    pub fn is_stopping(&self) -> bool {
        self.phase == Phase::Stopping
    }

    /// Whether the fleet gave up.
    pub fn has_failed(&self) -> bool {
        self.phase == Phase::Failed
    }

    /// Whether orders are held back.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Workers that are wanted in service.
    pub fn wanted(&self) -> usize {
        self.slots.len()
    }

    /// Tasks that may wait.
    pub fn backlog(&self) -> usize {
        self.rules.backlog
    }

    /// Tasks that wait for a worker, and those that have one.
    pub fn load(&self) -> (usize, usize) {
        (self.queue.len(), self.tasks.len() - self.queue.len())
    }

    /// Workers that are ready for orders or at them.
    pub fn in_service(&self) -> usize {
        self.workers.values().filter(|worker| worker.is_serving()).count()
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// That something is due then.
    pub(super) fn due(&mut self, at: Nanos) {
        self.soonest = self.soonest.min(at);
    }

    /// Does what time and the last event made possible.
    fn tend(&mut self, now: Nanos, out: &mut Vec<Action>) {
        if let Phase::Draining { until } = self.phase
            && until <= now
        {
            self.interrupt(now, out);
        }
        self.tend_queue(now, out);
        if self.soonest <= now {
            self.soonest = Nanos::MAX;
            self.tend_workers(now, out);
            self.tend_slots(now, out);
        }
        self.hand_out(now, out);
        if self.phase != Phase::Open && self.tasks.is_empty() {
            self.dismiss_all(now, out);
        }
    }

    /// Deadlines of workers: of starting, of their task, of leaving, of age.
    fn tend_workers(&mut self, now: Nanos, out: &mut Vec<Action>) {
        if let Phase::Draining { until } = self.phase {
            self.due(until);
        }
        let all: Vec<WorkerId> = self.workers.keys().copied().collect();
        for id in all {
            let Some(worker) = self.workers.get(&id) else { continue };
            let limit = worker.held().and_then(|held| self.time_up(held));
            match &worker.life {
                Life::Starting { until } if *until <= now => self.kill(now, id, Departure::Unready, out),
                Life::Leaving { kill_at, why, .. } if *kill_at <= now => {
                    let why = *why;
                    self.kill(now, id, why, out);
                }
                Life::Killed { give_up_at, .. } if *give_up_at <= now => {
                    let begun = worker.held().is_some_and(|held| held.began().is_some());
                    out.push(Action::LetGo(id));
                    self.exited(now, id, begun, false, out);
                }
                Life::Serving { .. } | Life::Retiring { .. } if limit.is_some_and(|limit| limit <= now) => {
                    self.terminate(now, id, Departure::Blamed(Mishap::Timeout), out);
                }
                Life::Serving { .. } => self.check_age(now, id),
                _ => {}
            }
            let next = self.workers.get(&id).and_then(|worker| match &worker.life {
                Life::Starting { until } => Some(*until),
                Life::Leaving { kill_at, .. } => Some(*kill_at),
                Life::Killed { give_up_at, .. } => Some(*give_up_at),
                Life::Serving { held } | Life::Retiring { held } => {
                    let age = self.rules.recycle.age.filter(|_| !worker.is_worn);
                    let age = age.map(|age| worker.since.saturating_add(age));
                    [self.time_up(held), age].into_iter().flatten().min()
                }
            });
            self.due(next.unwrap_or(Nanos::MAX));
        }
    }
}
