//! Made-up workers that do as the policy says, and watch what it says.

use std::collections::{BTreeMap, VecDeque};

use super::super::super::protocol::Lease;
use super::super::rules::Rules;
use super::super::{Action, Core, End, Event, News, Refusal, Ticket, Verdict, WorkerId};
use crate::ids::TaskId;
use crate::probe::clock::Nanos;

pub(super) const MS: Nanos = 1_000_000;

/// A made-up worker process.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) is_ready: bool,
    pub(super) is_asked: bool,
    pub(super) is_killed: bool,
    pub(super) inbox: VecDeque<Lease>,
    pub(super) delivered: usize,
    pub(super) has_begun: bool,
}

pub(super) struct World {
    pub(super) core: Core,
    pub(super) now: Nanos,
    pub(super) window: usize,
    pub(super) processes: BTreeMap<WorkerId, Process>,
    pub(super) ended: BTreeMap<TaskId, Vec<(End, u8)>>,
    pub(super) begun: BTreeMap<TaskId, u8>,
    /// Workers that died before they had the whole of a task's order.
    unreceived: BTreeMap<TaskId, u8>,
    poison_limit: u8,
    pub(super) accepted: Vec<TaskId>,
    pub(super) next_task: u64,
    pub(super) news: Vec<News>,
    /// Starts that the machine has room for.
    pub(super) room: usize,
    /// What the last event settled.
    pub(super) settled: Vec<(TaskId, End)>,
}

impl World {
    pub(super) fn new(rules: Rules) -> World {
        let (window, poison_limit) = (rules.window, rules.poison_limit);
        let mut world = World {
            core: Core::new(rules),
            now: 1_000,
            window,
            processes: BTreeMap::new(),
            ended: BTreeMap::new(),
            begun: BTreeMap::new(),
            unreceived: BTreeMap::new(),
            poison_limit,
            accepted: Vec::new(),
            next_task: 0,
            news: Vec::new(),
            room: usize::MAX,
            settled: Vec::new(),
        };
        world.step(Event::Ticked);
        world
    }

    /// With all workers ready.
    pub(super) fn ready(rules: Rules) -> World {
        let mut world = World::new(rules);
        world.all_ready();
        world
    }

    pub(super) fn all_ready(&mut self) {
        while let Some(id) = self.find(|process| !process.is_ready && !process.is_killed) {
            self.get_ready(id);
        }
    }

    pub(super) fn find(&self, wanted: impl Fn(&Process) -> bool) -> Option<WorkerId> {
        self.processes.iter().find(|(_, process)| wanted(process)).map(|(id, _)| *id)
    }

    pub(super) fn nth(&self, nth: usize) -> Option<WorkerId> {
        self.processes.keys().nth(nth % self.processes.len().max(1)).copied()
    }

    pub(super) fn step(&mut self, event: Event) {
        let mut out = Vec::new();
        self.settled.clear();
        self.core.step(self.now, event, &mut out);
        self.perform(out);
    }

    pub(super) fn perform(&mut self, actions: Vec<Action>) {
        let mut unstarted = Vec::new();
        for action in actions {
            match action {
                Action::Start { worker, .. }
                    if self.processes.len() < self.room && self.core.awaits(worker) =>
                {
                    self.processes.insert(worker, Process::default());
                }
                Action::Start { worker, .. } => unstarted.push(worker),
                Action::Send { worker, lease } => {
                    let process = self.processes.get_mut(&worker).expect("orders go to somebody");
                    assert!(process.is_ready && !process.is_asked && !process.is_killed, "{worker:?}");
                    process.inbox.push_back(lease);
                    assert!(process.inbox.len() <= self.window);
                    let begun = self.begun.get(&lease.task).copied().unwrap_or(0);
                    let charged = begun + 1..=begun + 1 + self.charges_for_want_of_receipt(lease.task);
                    assert!(charged.contains(&lease.attempt), "only what had begun is charged");
                }
                Action::Dismiss(worker) => {
                    let process = self.processes.get_mut(&worker).expect("somebody leaves");
                    assert!(process.inbox.is_empty(), "nobody is dismissed who has something to do");
                    process.is_asked = true;
                }
                Action::Terminate(worker) => {
                    self.processes.get_mut(&worker).expect("somebody leaves").is_asked = true;
                }
                Action::Kill(worker) => {
                    if let Some(process) = self.processes.get_mut(&worker) {
                        process.is_killed = true;
                    }
                }
                Action::LetGo(worker) => {
                    if let Some(process) = self.processes.remove(&worker) {
                        assert!(process.is_killed);
                        self.note_unreceived(&process);
                    }
                }
                Action::Settle { task, end, attempts } => {
                    self.ended.entry(task).or_default().push((end, attempts));
                    self.settled.push((task, end));
                }
                Action::Announce(news) => self.news.push(news),
            }
        }
        for worker in unstarted {
            self.step(Event::NotStarted { worker, for_good: false });
        }
    }

    pub(super) fn submit(&mut self) -> Result<TaskId, Refusal> {
        self.submit_as(|ticket| ticket)
    }

    pub(super) fn submit_as(&mut self, with: impl Fn(Ticket) -> Ticket) -> Result<TaskId, Refusal> {
        let task = TaskId(self.next_task);
        self.next_task += 1;
        let mut out = Vec::new();
        self.core.submit(self.now, with(Ticket::of(task)), &mut out)?;
        self.accepted.push(task);
        self.perform(out);
        Ok(task)
    }

    pub(super) fn get_ready(&mut self, id: WorkerId) {
        let process = self.processes.get_mut(&id).unwrap();
        if !process.is_ready && !process.is_killed {
            process.is_ready = true;
            self.step(Event::Ready(id));
        }
    }

    /// The next order is wholly there, and begun if nothing is before it.
    pub(super) fn deliver(&mut self, id: WorkerId) {
        let process = self.processes.get_mut(&id).unwrap();
        if process.delivered < process.inbox.len() && !process.is_killed {
            process.delivered += 1;
            self.step(Event::Delivered(id));
            self.begin(id);
        }
    }

    pub(super) fn begin(&mut self, id: WorkerId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        if process.delivered > 0 && !process.has_begun && !process.is_killed {
            process.has_begun = true;
            *self.begun.entry(process.inbox[0].task).or_default() += 1;
        }
    }

    pub(super) fn answer(&mut self, id: WorkerId, verdict: Verdict) {
        let process = self.processes.get_mut(&id).unwrap();
        if !process.has_begun {
            return;
        }
        let lease = process.inbox.pop_front().unwrap();
        process.delivered -= 1;
        process.has_begun = false;
        self.step(Event::Answered { worker: id, lease, verdict, resident: None });
        self.begin(id);
    }

    pub(super) fn run(&mut self, id: WorkerId) {
        self.deliver(id);
        self.answer(id, Verdict::Good);
    }

    pub(super) fn die(&mut self, id: WorkerId, out_of_memory: bool) {
        let process = self.processes.remove(&id).unwrap();
        let running = process.inbox.front().map(|lease| lease.task);
        self.note_unreceived(&process);
        self.step(Event::Exited { worker: id, begun: process.has_begun, out_of_memory });
        for (task, end) in &self.settled {
            assert!(
                Some(*task) == running || matches!(end, End::Interrupted | End::Abandoned | End::Expired),
                "a death costs the task that was running: {task} {end:?}"
            );
        }
    }

    fn note_unreceived(&mut self, process: &Process) {
        if let Some(lease) = process.inbox.front().filter(|_| !process.has_begun) {
            *self.unreceived.entry(lease.task).or_default() += 1;
        }
    }

    /// How many runs may be charged that never began: none, unless too many workers died receiving the order.
    fn charges_for_want_of_receipt(&self, task: TaskId) -> u8 {
        let deaths = self.unreceived.get(&task).copied().unwrap_or(0);
        (deaths + 1).saturating_sub(self.poison_limit)
    }

    pub(super) fn pass(&mut self, time: Nanos) {
        self.now += time;
        self.step(Event::Ticked);
    }

    /// Everybody behaves from now on, and nothing more comes.
    pub(super) fn come_to_an_end(&mut self) {
        self.room = usize::MAX;
        self.step(Event::DrainAsked { until: self.now + 3_600_000 * MS });
        for _ in 0..20_000 {
            if self.core.is_over() {
                return;
            }
            if let Some(id) = self.find(|process| process.is_killed || process.is_asked) {
                self.die(id, false);
            } else if let Some(id) = self.find(|process| !process.is_ready) {
                self.get_ready(id);
            } else if let Some(id) = self.find(|process| !process.inbox.is_empty()) {
                self.run(id);
            } else {
                let at = self.core.next_deadline().expect("something is to come");
                self.now = self.now.max(at);
                self.step(Event::Ticked);
            }
        }
        panic!("no end: {:?}", self.core);
    }

    pub(super) fn end_of(&self, task: TaskId) -> (End, u8) {
        assert_eq!(self.ended[&task].len(), 1, "{task}");
        self.ended[&task][0]
    }

    pub(super) fn ends(&self) -> Vec<End> {
        self.accepted.iter().map(|task| self.end_of(*task).0).collect()
    }
}
