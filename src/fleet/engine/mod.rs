//! The supervisor: what is held under one lock, and one permanent thread that waits for everything.
//!
//! ```text
//!  any thread: submit, cancel, scale …      the supervisor's thread: starts, answers, deaths, deadlines
//!            └──────────────┬──────────────────────────┘
//!                           ▼                                     (one lock)
//!          Engine: event ─▶ policy::Core ─▶ actions ─▶ performed at once, without waiting
//!                           │
//!                           └ ends of tasks, told to whoever waits once the lock is open
//! ```
//!
//! Sending an order and signalling a worker never wait, so any thread performs them. Starting a process takes its time
//! and ties the process to its thread; only the supervisor's own thread does that, outside the lock.

mod bury;
mod hear;
mod job;
mod member;
mod memory;
mod perform;
mod room;
mod still;
mod supervise;
mod time;
pub(super) mod token;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub(super) use self::job::{Reply, Settled, Sink};
pub use self::member::WorkerStart;
pub(super) use self::supervise::Supervisor;

use self::job::{Delivery, Job};
use self::member::Member;
use self::memory::Kills;
use self::room::Room;
use self::time::Time;
use self::token::{Kind, token};
use super::feed::{Feed, FleetEvent};
use super::policy::{Action, Core, Event, Refusal, Ticket, WorkerId};
use super::postmortem::PostMortem;
use super::spec::FleetSpec;
use crate::ids::TaskId;
use crate::probe::clock::{self, Nanos};
use crate::probe::usage::Usage;
use crate::sys::poll::{Bell, Poll};
use crate::sys::process::Pid;

/// What the threads of this process share of a fleet.
#[derive(Debug)]
pub(super) struct Shared {
    books: Mutex<Engine>,
    /// Rung when a worker came or went, and when the fleet changed its state.
    changed: Condvar,
    room: Condvar,
    poll: Arc<Poll>,
    bell: Bell,
}

/// A worker to be started.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToStart {
    worker: WorkerId,
    slot: usize,
    generation: u32,
}

/// Everything under the lock.
pub(super) struct Engine {
    core: Core,
    poll: Arc<Poll>,
    members: HashMap<WorkerId, Member>,
    jobs: HashMap<TaskId, Job>,
    next_task: u64,
    time: Time,
    /// What happened and is not yet taken in.
    pending: VecDeque<Event>,
    actions: Vec<Action>,
    starts: Vec<ToStart>,
    deliveries: Vec<Delivery>,
    room: Room,
    feed: Feed,
    kills: Kills,
    zygotes: Vec<Pid>,
    survey: Survey,
    hung_after: Option<Nanos>,
    looked_for_stillness: Nanos,
    stderr_kept: usize,
    /// Why the last start failed.
    last_failure: Option<Arc<str>>,
    /// The last death that nobody here brought about.
    last_death: Option<Arc<PostMortem>>,
    failure: Option<Arc<str>>,
    /// How the last reload ended.
    reloaded: Option<Result<(), Arc<str>>>,
    has_changed: bool,
    is_over: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("workers", &self.members.len())
            .field("tasks", &self.jobs.len())
            .finish()
    }
}

/// What workers say they have used, when they are asked all together.
#[derive(Debug, Default)]
struct Survey {
    missing: BTreeSet<WorkerId>,
    sum: Usage,
}

/// A task to be taken in.
pub(super) struct Submission {
    pub(super) function: u32,
    pub(super) input: Arc<[u8]>,
    pub(super) priority: i16,
    /// From now, in nanoseconds.
    pub(super) expires_within: Option<Nanos>,
    pub(super) limit: Option<Nanos>,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) key: u64,
}

impl Shared {
    pub(super) fn new(spec: &FleetSpec) -> io::Result<Shared> {
        let (poll, bell) = (Arc::new(Poll::new()?), Bell::new()?);
        poll.watch(bell.as_fd(), token(Kind::Bell, 0))?;
        let books = Mutex::new(Engine::new(spec, Arc::clone(&poll)));
        Ok(Shared { books, changed: Condvar::new(), room: Condvar::new(), poll, bell })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Engine> {
        // A panic under the lock would be a bug of ours; what is then left is used on, rather than hanging everybody.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something under the lock, and afterwards tells everybody what came of it.
    pub(super) fn act<T>(&self, act: impl FnOnce(&mut Engine) -> T) -> T {
        let mut engine = self.lock();
        let result = act(&mut engine);
        self.release(engine);
        result
    }

    pub(super) fn release(&self, mut engine: MutexGuard<'_, Engine>) {
        let deliveries = std::mem::take(&mut engine.deliveries);
        let is_wanted = engine.wants_supervisor();
        let has_changed = std::mem::take(&mut engine.has_changed);
        let may_enter = engine.let_one_in();
        drop(engine);
        if is_wanted {
            self.bell.ring();
        }
        if has_changed {
            self.changed.notify_all();
        }
        match may_enter {
            room::MayEnter::Nobody => {}
            room::MayEnter::Thread => self.room.notify_one(),
            room::MayEnter::Task(waker) => waker.wake(),
        }
        deliveries.into_iter().for_each(Delivery::deliver);
    }

    /// Waits until there may be room, or so long.
    pub(super) fn wait_for_room<'a>(
        &self,
        engine: MutexGuard<'a, Engine>,
        time: Duration,
    ) -> MutexGuard<'a, Engine> {
        self.room.wait_timeout(engine, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits until `look` finds something; it is asked again whenever the fleet has changed.
    pub(super) fn wait_for<T>(&self, mut look: impl FnMut(&mut Engine) -> Option<T>) -> T {
        let mut engine = self.lock();
        loop {
            if let Some(found) = look(&mut engine) {
                return found;
            }
            engine = self.changed.wait(engine).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Engine {
    fn new(spec: &FleetSpec, poll: Arc<Poll>) -> Engine {
        Engine {
            core: Core::new(spec.rules.clone()),
            poll,
            members: HashMap::new(),
            jobs: HashMap::new(),
            next_task: 0,
            time: Time::default(),
            pending: VecDeque::new(),
            actions: Vec::new(),
            starts: Vec::new(),
            deliveries: Vec::new(),
            room: Room::default(),
            feed: Feed::default(),
            kills: Kills::now(),
            zygotes: Vec::new(),
            survey: Survey::default(),
            hung_after: spec.hung_after,
            looked_for_stillness: 0,
            stderr_kept: spec.stderr_kept,
            last_failure: None,
            last_death: None,
            failure: None,
            reloaded: None,
            has_changed: false,
            is_over: false,
        }
    }

    /// The fleet's time: the machine's, but for the pauses in which the whole fleet was stopped.
    fn now(&mut self) -> Nanos {
        self.time.now(clock::now())
    }

    /// Takes in what happened, and does what is to be done.
    pub(super) fn step(&mut self, event: Event) {
        self.pending.push_back(event);
        self.go_on();
    }

    fn go_on(&mut self) {
        while let Some(event) = self.pending.pop_front() {
            let now = self.now();
            let mut actions = std::mem::take(&mut self.actions);
            self.core.step(now, event, &mut actions);
            self.perform(&mut actions);
            self.actions = actions;
        }
    }

    /// Takes a task in, or says why not.
    pub(super) fn submit(&mut self, submission: Submission) -> Result<TaskId, Refusal> {
        let now = self.now();
        let task = TaskId(self.next_task);
        let Submission { function, input, priority, expires_within, limit, sink, key } = submission;
        let expires = expires_within.map(|within| now.saturating_add(within));
        let ticket = Ticket { task, priority, expires, limit };
        // It is there before it is accepted, which may send it at once.
        self.jobs.insert(task, Job::new(function, input, sink, key, clock::now()));
        let mut actions = std::mem::take(&mut self.actions);
        let admitted = self.core.submit(now, ticket, &mut actions);
        match admitted {
            Ok(()) => self.next_task += 1,
            Err(_) => {
                self.jobs.remove(&task);
            }
        }
        self.perform(&mut actions);
        self.actions = actions;
        self.go_on();
        admitted.map(|()| task)
    }

    /// Whether the supervisor's thread has to do something sooner than it thinks.
    fn wants_supervisor(&mut self) -> bool {
        let is_due = !self.starts.is_empty() || self.is_finished();
        let deadline = if is_due { Some(0) } else { self.core.next_deadline() };
        self.time.must_wake(deadline)
    }

    /// Whether nothing is left to be done but to end.
    fn is_finished(&self) -> bool {
        self.core.is_over() && self.members.is_empty()
    }

    /// A worker is no member any more, whatever came of it.
    fn strike_off(&mut self, worker: WorkerId) -> Option<Member> {
        // Nobody waits for what it will not say.
        self.survey.missing.remove(&worker);
        self.has_changed = true;
        self.members.remove(&worker)
    }

    fn tell(&mut self, event: &FleetEvent) {
        self.has_changed = true;
        if self.feed.is_heard() {
            self.feed.tell(event);
        }
    }

    pub(super) fn feed(&mut self) -> &mut Feed {
        &mut self.feed
    }

    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    pub(super) fn last_failure(&self) -> Option<Arc<str>> {
        self.last_failure.clone()
    }

    pub(super) fn last_death(&self) -> Option<Arc<PostMortem>> {
        self.last_death.clone()
    }

    /// Why the fleet gave up, if it did.
    pub(super) fn failure(&self) -> Option<Arc<str>> {
        self.failure.clone()
    }

    /// Whether the supervisor's thread is about to end, and nothing is left.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// When each worker came into the world, by slot.
    pub(super) fn starts(&self) -> Vec<WorkerStart> {
        let mut starts: Vec<_> = self.members.values().map(|member| (member.slot, member.start)).collect();
        starts.sort_unstable_by_key(|(slot, _)| *slot);
        starts.into_iter().map(|(_, start)| start).collect()
    }

    /// The processes of the workers.
    pub(super) fn workers(&self) -> Vec<(usize, Pid)> {
        let pids = self.members.values().filter_map(|member| Some((member.slot, member.process.pid()?)));
        let mut pids: Vec<_> = pids.collect();
        pids.sort_unstable();
        pids
    }

    /// The processes of the zygotes.
    pub(super) fn zygotes(&self) -> &[Pid] {
        &self.zygotes
    }

    pub(super) fn begin_reload(&mut self) {
        self.reloaded = None;
        self.step(Event::ReloadAsked);
    }

    /// How a reload ended, if it has.
    pub(super) fn end_reload(&mut self) -> Option<Result<(), Arc<str>>> {
        let is_closed = !self.core.is_open();
        self.reloaded.clone().or_else(|| is_closed.then(|| Err("the fleet is closed".into())))
    }

    pub(super) fn drain(&mut self, within: Nanos) {
        let until = self.now().saturating_add(within);
        self.has_changed = true;
        self.step(Event::DrainAsked { until });
    }
}
