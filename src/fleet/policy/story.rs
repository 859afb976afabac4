//! Stories: a world of made-up workers in which anything happens, and what must be true all the same.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::super::protocol::Lease;
use super::rules::{Overflow, Recycle, Retry, Rules};
use super::{Action, Core, End, Event, News, Refusal, Ticket, Verdict, WorkerId};
use crate::ids::TaskId;
use crate::probe::clock::Nanos;

const MS: Nanos = 1_000_000;

/// A made-up worker process.
#[derive(Debug, Default)]
struct Process {
    is_ready: bool,
    is_asked: bool,
    is_killed: bool,
    inbox: VecDeque<Lease>,
    delivered: usize,
    has_begun: bool,
}

struct World {
    core: Core,
    now: Nanos,
    window: usize,
    processes: BTreeMap<WorkerId, Process>,
    ended: BTreeMap<TaskId, Vec<(End, u8)>>,
    begun: BTreeMap<TaskId, u8>,
    accepted: Vec<TaskId>,
    next_task: u64,
    news: Vec<News>,
    /// Starts that the machine has room for.
    room: usize,
    /// What the last event settled.
    settled: Vec<(TaskId, End)>,
}

impl World {
    fn new(rules: Rules) -> World {
        let window = rules.window;
        let mut world = World {
            core: Core::new(rules),
            now: 1_000,
            window,
            processes: BTreeMap::new(),
            ended: BTreeMap::new(),
            begun: BTreeMap::new(),
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
    fn ready(rules: Rules) -> World {
        let mut world = World::new(rules);
        world.all_ready();
        world
    }

    fn all_ready(&mut self) {
        while let Some(id) = self.find(|process| !process.is_ready && !process.is_killed) {
            self.get_ready(id);
        }
    }

    fn find(&self, wanted: impl Fn(&Process) -> bool) -> Option<WorkerId> {
        self.processes.iter().find(|(_, process)| wanted(process)).map(|(id, _)| *id)
    }

    fn nth(&self, nth: usize) -> Option<WorkerId> {
        self.processes.keys().nth(nth % self.processes.len().max(1)).copied()
    }

    fn step(&mut self, event: Event) {
        let mut out = Vec::new();
        self.settled.clear();
        self.core.step(self.now, event, &mut out);
        self.perform(out);
    }

    fn perform(&mut self, actions: Vec<Action>) {
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
                    assert_eq!(lease.attempt, begun + 1, "only what had begun is charged");
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
                    let process = self.processes.remove(&worker);
                    assert!(process.is_none_or(|process| process.is_killed));
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

    fn submit(&mut self) -> Result<TaskId, Refusal> {
        self.submit_as(|ticket| ticket)
    }

    fn submit_as(&mut self, with: impl Fn(Ticket) -> Ticket) -> Result<TaskId, Refusal> {
        let task = TaskId(self.next_task);
        self.next_task += 1;
        let mut out = Vec::new();
        self.core.submit(self.now, with(Ticket::of(task)), &mut out)?;
        self.accepted.push(task);
        self.perform(out);
        Ok(task)
    }

    fn get_ready(&mut self, id: WorkerId) {
        let process = self.processes.get_mut(&id).unwrap();
        if !process.is_ready && !process.is_killed {
            process.is_ready = true;
            self.step(Event::Ready(id));
        }
    }

    /// The next order is wholly there, and begun if nothing is before it.
    fn deliver(&mut self, id: WorkerId) {
        let process = self.processes.get_mut(&id).unwrap();
        if process.delivered < process.inbox.len() && !process.is_killed {
            process.delivered += 1;
            self.step(Event::Delivered(id));
            self.begin(id);
        }
    }

    fn begin(&mut self, id: WorkerId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        if process.delivered > 0 && !process.has_begun && !process.is_killed {
            process.has_begun = true;
            *self.begun.entry(process.inbox[0].task).or_default() += 1;
        }
    }

    fn answer(&mut self, id: WorkerId, verdict: Verdict) {
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

    fn run(&mut self, id: WorkerId) {
        self.deliver(id);
        self.answer(id, Verdict::Good);
    }

    fn die(&mut self, id: WorkerId, out_of_memory: bool) {
        let process = self.processes.remove(&id).unwrap();
        let running = process.inbox.front().map(|lease| lease.task);
        self.step(Event::Exited { worker: id, begun: process.has_begun, out_of_memory });
        for (task, end) in &self.settled {
            assert!(
                Some(*task) == running || matches!(end, End::Interrupted | End::Abandoned | End::Expired),
                "a death costs the task that was running: {task} {end:?}"
            );
        }
    }

    fn pass(&mut self, time: Nanos) {
        self.now += time;
        self.step(Event::Ticked);
    }

    /// Everybody behaves from now on, and nothing more comes.
    fn come_to_an_end(&mut self) {
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

    fn end_of(&self, task: TaskId) -> (End, u8) {
        assert_eq!(self.ended[&task].len(), 1, "{task}");
        self.ended[&task][0]
    }

    fn ends(&self) -> Vec<End> {
        self.accepted.iter().map(|task| self.end_of(*task).0).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Turn {
    Submit { priority: i16, expires: Option<u16>, limit: Option<u16> },
    Cancel(usize),
    Ready(usize),
    Deliver(usize),
    Answer(usize, bool),
    Mistake(usize),
    Garble(usize),
    Stall(usize),
    Die(usize, bool),
    Pass(u16),
    Room(u8),
    Scale(u8),
    Reload,
    Pause(bool),
    Drain(u16),
}

fn turn() -> impl Strategy<Value = Turn> {
    let times = prop::option::weighted(0.2, any::<u16>());
    prop_oneof![
        8 => (-1..2_i16, times.clone(), times)
            .prop_map(|(priority, expires, limit)| Turn::Submit { priority, expires, limit }),
        1 => any::<usize>().prop_map(Turn::Cancel),
        6 => any::<usize>().prop_map(Turn::Ready),
        8 => any::<usize>().prop_map(Turn::Deliver),
        8 => (any::<usize>(), prop::bool::weighted(0.8)).prop_map(|(nth, good)| Turn::Answer(nth, good)),
        1 => any::<usize>().prop_map(Turn::Mistake),
        1 => any::<usize>().prop_map(Turn::Garble),
        1 => any::<usize>().prop_map(Turn::Stall),
        3 => (any::<usize>(), prop::bool::weighted(0.2)).prop_map(|(nth, oom)| Turn::Die(nth, oom)),
        4 => any::<u16>().prop_map(Turn::Pass),
        1 => (0..8_u8).prop_map(Turn::Room),
        1 => (0..6_u8).prop_map(Turn::Scale),
        1 => Just(Turn::Reload),
        1 => any::<bool>().prop_map(Turn::Pause),
        1 => any::<u16>().prop_map(Turn::Drain),
    ]
}

fn rules() -> impl Strategy<Value = Rules> {
    let retry = (0..3_u8, 0..4_u8, 0..3_u8, 0..2_u8);
    let counts = (0..4_usize, 0..6_usize, 1..4_usize, any::<bool>());
    (counts, retry, prop::option::of(1..5_u64), prop::option::of(0..40_000_u64), any::<u32>()).prop_map(
        |((workers, backlog, window, drops), (error, crash, timeout, out_of_memory), tasks, limit, seed)| {
            let plain = Rules::of(workers);
            Rules {
                backlog,
                window,
                seed,
                overflow: if drops { Overflow::DropOldest } else { Overflow::Refuse },
                task_limit: limit.map(|limit| limit * MS),
                ageing: limit.map(|limit| limit * MS),
                retry: Retry { error, crash, timeout, out_of_memory, ..plain.retry },
                recycle: Recycle { tasks: tasks.map(|tasks| (tasks, 1)), ..Recycle::default() },
                ..plain
            }
        },
    )
}

fn play(world: &mut World, turn: Turn) {
    let later = |time: u16| world.now + Nanos::from(time) * MS;
    let (event, nth) = match turn {
        Turn::Submit { priority, expires, limit } => {
            let expires = expires.map(later);
            let limit = limit.map(|limit| Nanos::from(limit) * MS);
            let _ = world.submit_as(|ticket| Ticket { priority, expires, limit, ..ticket });
            return;
        }
        Turn::Cancel(nth) if world.next_task > 0 => {
            return world.step(Event::Cancelled(TaskId(nth as u64 % world.next_task)));
        }
        Turn::Cancel(_) => return,
        Turn::Pass(time) => return world.pass(Nanos::from(time) * MS),
        Turn::Room(room) => return world.room = usize::from(room),
        Turn::Scale(workers) => return world.step(Event::Scaled(usize::from(workers))),
        Turn::Reload => return world.step(Event::ReloadAsked),
        Turn::Pause(is_paused) => return world.step(Event::Paused(is_paused)),
        Turn::Drain(time) => return world.step(Event::DrainAsked { until: later(time) }),
        Turn::Ready(nth)
        | Turn::Deliver(nth)
        | Turn::Answer(nth, _)
        | Turn::Mistake(nth)
        | Turn::Garble(nth)
        | Turn::Stall(nth)
        | Turn::Die(nth, _) => (turn, nth),
    };
    let Some(id) = world.nth(nth) else { return };
    match event {
        Turn::Ready(_) => world.get_ready(id),
        Turn::Deliver(_) => world.deliver(id),
        Turn::Answer(_, good) => world.answer(id, if good { Verdict::Good } else { Verdict::Bad }),
        Turn::Mistake(_) => {
            let lease = Lease { task: TaskId(nth as u64 % 50), attempt: 200 };
            world.step(Event::Answered { worker: id, lease, verdict: Verdict::Good, resident: None });
        }
        Turn::Garble(_) => world.step(Event::Garbled(id)),
        Turn::Stall(_) => world.step(Event::Stalled(id)),
        Turn::Die(_, out_of_memory) => world.die(id, out_of_memory),
        _ => unreachable!("handled above"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever dies, stalls, is scaled, reloaded, drained or answers late: every accepted task ends exactly once,
    /// and none begins more often than its retries allow.
    #[test]
    fn every_accepted_task_ends_exactly_once(
        rules in rules(),
        story in prop::collection::vec(turn(), 0..120),
    ) {
        let retry = rules.retry;
        let most = 1 + retry.error + retry.crash + retry.timeout + retry.out_of_memory;
        let mut world = World::new(rules);
        for turn in story {
            play(&mut world, turn);
        }
        world.come_to_an_end();
        let ended: Vec<TaskId> = world.ended.keys().copied().collect();
        let mut accepted = world.accepted.clone();
        accepted.sort_unstable();
        prop_assert_eq!(ended, accepted);
        for (task, ends) in &world.ended {
            prop_assert_eq!(ends.len(), 1, "{}", task);
            prop_assert!(ends[0].1 <= most, "{} took {} attempts of {}", task, ends[0].1, most);
        }
        for (task, begun) in &world.begun {
            prop_assert!(*begun <= most, "{} began {} times, {} allowed", task, begun, most);
        }
        prop_assert_eq!(world.core.load(), (0, 0));
        let counters = world.core.counters();
        prop_assert_eq!(counters.accepted, counters.ended.values().sum::<u64>());
        prop_assert!(world.processes.is_empty(), "nobody is left behind");
    }
}

fn with_retries(crash: u8) -> Rules {
    let plain = Rules::of(2);
    Rules { backlog: 100, retry: Retry { crash, ..plain.retry }, ..plain }
}

fn holder_of(world: &World, task: TaskId) -> WorkerId {
    world.find(|process| process.inbox.iter().any(|lease| lease.task == task)).expect("somebody holds it")
}

#[test]
fn one_death_fails_one_task() {
    let mut world = World::ready(Rules { backlog: 20, ..Rules::of(2) });
    let tasks: Vec<TaskId> = (0..22).map(|_| world.submit().unwrap()).collect();
    let victim = holder_of(&world, tasks[0]);
    world.deliver(victim);
    world.die(victim, false);
    world.come_to_an_end();
    assert_eq!(world.end_of(tasks[0]), (End::Crashed, 1));
    assert!(tasks[1..].iter().all(|task| world.end_of(*task).0 == End::Done));
    assert_eq!(world.core.counters().busy_deaths, 1);
}

#[test]
fn what_was_not_begun_is_run_elsewhere_without_a_charge() {
    let mut world = World::ready(Rules { window: 2, ..Rules::of(1) });
    let (first, second) = (world.submit().unwrap(), world.submit().unwrap());
    let worker = holder_of(&world, first);
    world.deliver(worker);
    world.deliver(worker);
    world.die(worker, false);
    world.come_to_an_end();
    assert_eq!((world.end_of(first), world.end_of(second)), ((End::Crashed, 1), (End::Done, 1)));
}

#[test]
fn a_poison_task_is_quarantined_and_nobody_else_is_charged() {
    let mut world = World::ready(with_retries(2));
    let poison = world.submit().unwrap();
    let good: Vec<TaskId> = (0..50).map(|_| world.submit().unwrap()).collect();
    for _ in 0..10_000 {
        world.all_ready();
        let holds_poison = |process: &Process| process.inbox.iter().any(|lease| lease.task == poison);
        if let Some(id) = world.find(holds_poison) {
            world.deliver(id);
            world.die(id, false);
        } else if let Some(id) = world.find(|process| !process.inbox.is_empty()) {
            world.run(id);
        } else if world.ended.len() < 51 {
            world.now = world.core.next_deadline().unwrap();
            world.step(Event::Ticked);
        }
    }
    assert_eq!(world.end_of(poison), (End::Quarantined, 3));
    assert!(good.iter().all(|task| world.end_of(*task) == (End::Done, 1)));
    assert_eq!(world.begun[&poison], 3);
}

#[test]
fn a_full_queue_refuses_and_counts() {
    let mut world = World::ready(Rules { backlog: 2, ..Rules::of(2) });
    let said: Vec<_> = (0..5).map(|_| world.submit().map(|_| ())).collect();
    assert_eq!(said, [Ok(()), Ok(()), Ok(()), Ok(()), Err(Refusal::Full)]);
    assert_eq!((world.core.load(), world.core.counters().refused), ((2, 2), 1));
}

#[test]
fn the_oldest_gives_way_where_that_was_asked_for() {
    let mut world = World::ready(Rules { backlog: 1, overflow: Overflow::DropOldest, ..Rules::of(1) });
    let tasks: Vec<TaskId> = (0..3).map(|_| world.submit().unwrap()).collect();
    world.come_to_an_end();
    assert_eq!(world.ends(), [End::Done, End::Dropped, End::Done]);
    assert_eq!(world.end_of(tasks[1]).1, 0, "it never began");
}

#[test]
fn an_expired_task_is_never_sent() {
    let mut world = World::ready(Rules::of(1));
    let running = world.submit().unwrap();
    let deadline = world.now + 100 * MS;
    let late = world.submit_as(|ticket| Ticket { expires: Some(deadline), ..ticket }).unwrap();
    assert!(world.core.next_deadline().unwrap() <= deadline);
    world.pass(100 * MS);
    assert_eq!(world.end_of(late), (End::Expired, 0));
    world.run(holder_of(&world, running));
    assert!(!world.begun.contains_key(&late));
}

#[test]
fn time_counts_from_the_start_and_a_late_answer_does_not() {
    let mut world = World::ready(Rules { task_limit: Some(500 * MS), grace: 1_000 * MS, ..Rules::of(1) });
    let (first, second) = (world.submit().unwrap(), world.submit().unwrap());
    let worker = holder_of(&world, first);
    world.pass(2_000 * MS);
    world.deliver(worker);
    world.pass(499 * MS);
    assert!(!world.processes[&worker].is_asked, "what was not yet there has not begun");
    world.pass(MS);
    assert!(world.processes[&worker].is_asked && !world.processes[&worker].is_killed);
    world.answer(worker, Verdict::Good);
    assert_eq!(world.end_of(first), (End::TimedOut, 1));
    assert!(world.processes[&worker].is_killed, "it is never used again");
    world.all_ready();
    world.run(holder_of(&world, second));
    assert_eq!(world.end_of(second), (End::Done, 1));
}

#[test]
fn whoever_does_not_leave_is_killed_and_at_last_let_go_of() {
    let mut world = World::ready(Rules { task_limit: Some(500 * MS), grace: 1_000 * MS, ..Rules::of(1) });
    let task = world.submit().unwrap();
    let worker = holder_of(&world, task);
    world.deliver(worker);
    world.pass(500 * MS);
    world.pass(999 * MS);
    assert!(!world.processes[&worker].is_killed);
    world.pass(MS);
    assert!(world.processes[&worker].is_killed && world.ended.is_empty());
    world.pass(2_000 * MS);
    assert_eq!(world.end_of(task), (End::TimedOut, 1));
    assert!(!world.processes.contains_key(&worker));
}

#[test]
fn cancelling_costs_a_worker_only_if_it_may_run_the_task() {
    let mut world = World::ready(Rules { window: 2, backlog: 4, ..Rules::of(1) });
    let tasks: Vec<TaskId> = (0..3).map(|_| world.submit().unwrap()).collect();
    let worker = holder_of(&world, tasks[0]);
    world.step(Event::Cancelled(tasks[2]));
    world.step(Event::Cancelled(tasks[1]));
    assert!(!world.processes[&worker].is_asked);
    assert_eq!((world.end_of(tasks[2]), world.end_of(tasks[1]).0), ((End::Cancelled, 0), End::Cancelled));
    world.step(Event::Cancelled(tasks[0]));
    assert!(world.processes[&worker].is_asked);
    assert_eq!(world.end_of(tasks[0]).0, End::Cancelled);
}

#[test]
fn workers_that_never_start_end_the_fleet_after_a_few_tries() {
    let mut world = World::new(Rules::of(1));
    let task = world.submit().unwrap();
    while world.news.is_empty() {
        match world.find(|_| true) {
            Some(id) => world.die(id, false),
            None => {
                world.now = world.core.next_deadline().unwrap();
                world.step(Event::Ticked);
            }
        }
    }
    assert_eq!((world.core.counters().failed_starts, world.end_of(task)), (3, (End::Abandoned, 0)));
    assert_eq!(world.submit(), Err(Refusal::Failed));
}

#[test]
fn a_start_that_cannot_ever_work_is_tried_once() {
    let mut world = World::new(Rules::of(1));
    let id = world.processes.pop_first().unwrap().0;
    world.step(Event::NotStarted { worker: id, for_good: true });
    assert_eq!((world.news.as_slice(), world.core.counters().started), (&[News::Failed][..], 1));
}

#[test]
fn with_room_for_fewer_the_fleet_goes_on_with_those_it_has() {
    let mut world = World::new(Rules::of(1));
    world.room = 2;
    world.step(Event::Scaled(4));
    world.all_ready();
    for _ in 0..50 {
        world.now = world.core.next_deadline().unwrap();
        world.step(Event::Ticked);
    }
    assert_eq!((world.core.in_service(), world.news.len()), (2, 0));
    world.room = 4;
    world.pass(60_000 * MS);
    world.all_ready();
    assert_eq!(world.core.in_service(), 4);
}

#[test]
fn a_crash_now_and_then_does_not_slow_the_restarts_down() {
    let mut world = World::ready(Rules::of(1));
    for round in 0..300 {
        world.submit().unwrap();
        let id = world.find(|process| !process.inbox.is_empty()).unwrap();
        world.deliver(id);
        if round % 3 == 2 {
            world.die(id, false);
            assert_eq!(world.processes.len(), 1, "replaced at once");
            world.all_ready();
        } else {
            world.answer(id, Verdict::Good);
        }
    }
    assert!(world.news.is_empty());
}

#[test]
fn a_reload_replaces_everybody_one_by_one_and_service_never_falls() {
    let mut world = World::ready(Rules::of(3));
    let old: Vec<WorkerId> = world.processes.keys().copied().collect();
    world.step(Event::ReloadAsked);
    while world.news.is_empty() {
        assert!(world.core.in_service() >= 3);
        let newcomer = world.find(|process| !process.is_ready);
        match newcomer {
            Some(id) => world.get_ready(id),
            None => {
                let id = world.find(|process| process.is_asked).unwrap();
                world.die(id, false);
            }
        }
    }
    assert_eq!(world.news, [News::Reloaded]);
    assert!(old.iter().all(|id| !world.processes.contains_key(id)));
}

#[test]
fn a_reload_to_what_does_not_start_leaves_the_old_in_place() {
    let mut world = World::ready(Rules::of(2));
    world.step(Event::ReloadAsked);
    let newcomer = world.find(|process| !process.is_ready).unwrap();
    world.die(newcomer, false);
    assert_eq!((world.news.as_slice(), world.core.in_service()), (&[News::ReloadFailed][..], 2));
}

#[test]
fn a_worker_does_its_number_of_tasks_and_its_successor_is_there_first() {
    let recycle = Recycle { tasks: Some((10, 3)), ..Recycle::default() };
    let mut world = World::ready(Rules { recycle, backlog: 1_000, ..Rules::of(2) });
    for _ in 0..1_000 {
        world.submit().unwrap();
    }
    let mut done: BTreeMap<WorkerId, u64> = BTreeMap::new();
    while world.ended.len() < 1_000 {
        assert!(world.core.in_service() >= 2);
        if let Some(id) = world.find(|process| !process.inbox.is_empty()) {
            world.run(id);
            *done.entry(id).or_default() += 1;
        } else if let Some(id) = world.find(|process| process.is_asked) {
            world.die(id, false);
        } else {
            world.all_ready();
        }
    }
    let retired =
        done.iter().filter(|(id, _)| world.processes.get(id).is_none_or(|process| process.is_asked));
    let counts: Vec<u64> = retired.map(|(_, count)| *count).collect();
    assert!(counts.len() > 70 && counts.iter().all(|count| (7..=13).contains(count)), "{counts:?}");
}

#[test]
fn scaling_hurts_nothing_that_runs() {
    let mut world = World::ready(Rules { backlog: 8, ..Rules::of(2) });
    let tasks: Vec<TaskId> = (0..8).map(|_| world.submit().unwrap()).collect();
    world.step(Event::Scaled(8));
    world.all_ready();
    assert!(
        tasks.iter().all(|task| world.processes.values().any(|p| p.inbox.iter().any(|l| l.task == *task)))
    );
    world.step(Event::Scaled(1));
    assert!(world.processes.values().all(|process| !process.is_asked && !process.is_killed));
    for task in &tasks {
        world.run(holder_of(&world, *task));
    }
    assert!(world.ends().iter().all(|end| *end == End::Done));
    assert_eq!((world.core.in_service(), world.processes.values().filter(|p| p.is_asked).count()), (1, 7));
}

#[test]
fn a_drain_that_runs_out_names_what_it_interrupts() {
    let mut world = World::ready(Rules { backlog: 4, ..Rules::of(1) });
    let (running, waiting) = (world.submit().unwrap(), world.submit().unwrap());
    let worker = holder_of(&world, running);
    world.deliver(worker);
    world.step(Event::DrainAsked { until: world.now + 1_000 * MS });
    assert_eq!(world.submit(), Err(Refusal::Closed));
    world.pass(1_000 * MS);
    assert_eq!(world.end_of(waiting), (End::Interrupted, 0));
    assert!(world.processes[&worker].is_asked);
    world.die(worker, false);
    assert_eq!(world.end_of(running), (End::Interrupted, 1));
    assert!(world.core.is_over());
}

#[test]
fn while_paused_nothing_is_sent() {
    let mut world = World::ready(Rules::of(1));
    world.step(Event::Paused(true));
    world.submit().unwrap();
    assert!(world.processes.values().all(|process| process.inbox.is_empty()));
    world.step(Event::Paused(false));
    assert!(world.processes.values().any(|process| !process.inbox.is_empty()));
}
