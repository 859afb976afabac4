//! What is promised, a sentence a test.

use std::collections::BTreeMap;

use super::super::rules::{Overflow, Recycle, Retry, Rules};
use super::super::{End, Event, News, Refusal, Ticket, Verdict, WorkerId};
use super::world::{MS, Process, World};
use crate::ids::TaskId;

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

/// An order so large that a worker dies receiving it is never begun, and would be sent for ever.
#[test]
fn a_task_whose_order_nobody_survives_receiving_ends_like_one_that_crashes() {
    for (crash, runs, end) in [(0, 1, End::Crashed), (2, 3, End::Quarantined)] {
        let mut world = World::ready(Rules { poison_limit: 3, ..with_retries(crash) });
        let large = world.submit().unwrap();
        let mut deaths = 0;
        while !world.ended.contains_key(&large) {
            world.all_ready();
            if let Some(id) = world.find(|process| process.inbox.iter().any(|lease| lease.task == large)) {
                world.die(id, false);
                deaths += 1;
                assert!(deaths < 20, "it is sent for ever");
            } else {
                world.now = world.core.next_deadline().unwrap();
                world.step(Event::Ticked);
            }
        }
        // Two deaths before anything is charged, and from then on each is.
        assert_eq!((world.end_of(large), deaths), ((end, runs), 2 + usize::from(runs)));
    }
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
        assert!(world.processes.values().filter(|process| !process.is_ready).count() <= 1);
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
fn a_worn_worker_whose_successor_does_not_come_serves_another_term() {
    let recycle = Recycle { tasks: Some((2, 0)), ..Recycle::default() };
    let mut world = World::ready(Rules { recycle, backlog: 100, ..Rules::of(1) });
    for _ in 0..4 {
        world.submit().unwrap();
    }
    let worker = world.nth(0).unwrap();
    world.run(worker);
    world.run(worker);
    assert!(world.processes[&worker].inbox.is_empty(), "it waits for its successor");
    let successor = world.find(|process| !process.is_ready).unwrap();
    world.die(successor, false);
    assert_eq!(world.processes[&worker].inbox.len(), 1);
    world.come_to_an_end();
    assert!(world.ends().iter().all(|end| *end == End::Done));
}

#[test]
fn a_successor_takes_the_place_of_one_that_died_before_it_was_replaced() {
    let mut world = World::ready(Rules::of(1));
    world.step(Event::ReloadAsked);
    let incumbent = world.find(|process| process.is_ready).unwrap();
    world.die(incumbent, false);
    world.all_ready();
    world.pass(60_000 * MS);
    assert_eq!((world.core.counters().started, world.core.in_service()), (2, 1));
    assert_eq!(world.news, [News::Reloaded]);
}

#[test]
fn whoever_is_not_ready_in_time_is_killed_and_replaced() {
    let mut world = World::ready(Rules::of(2));
    let victim = world.nth(0).unwrap();
    world.die(victim, false);
    let slow = world.find(|process| !process.is_ready).unwrap();
    let until = world.now + Rules::of(2).restart.ready_within;
    assert!(world.core.next_deadline().unwrap() <= until);
    world.pass(Rules::of(2).restart.ready_within);
    assert!(world.processes[&slow].is_killed);
    world.die(slow, false);
    world.pass(60_000 * MS);
    world.all_ready();
    assert_eq!(world.core.in_service(), 2);
}

#[test]
fn the_limit_of_the_next_order_runs_from_the_answer_before_it() {
    let mut world = World::ready(Rules { window: 2, ..Rules::of(1) });
    world.submit().unwrap();
    let limited = world.submit_as(|ticket| Ticket { limit: Some(500 * MS), ..ticket }).unwrap();
    let worker = world.nth(0).unwrap();
    world.deliver(worker);
    world.deliver(worker);
    world.pass(1_000 * MS);
    world.answer(worker, Verdict::Good);
    assert!(world.core.next_deadline().unwrap() <= world.now + 500 * MS);
    world.pass(499 * MS);
    assert!(!world.processes[&worker].is_asked);
    world.pass(MS);
    assert!(world.processes[&worker].is_asked);
    world.die(worker, false);
    assert_eq!(world.end_of(limited).0, End::TimedOut);
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
