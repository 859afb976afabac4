//! Whatever happens, in whatever order.

use proptest::prelude::*;

use super::super::super::protocol::Lease;
use super::super::rules::{Overflow, Recycle, Retry, Rules};
use super::super::{Event, Ticket, Verdict};
use super::world::{MS, World};
use crate::ids::TaskId;
use crate::probe::clock::Nanos;

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
