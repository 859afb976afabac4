//! The queue: bounded, fair to priorities, and honest with whoever does not get in.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fleet::fleet::{FleetSpec, Outcome, Overflow, SubmitError};
use serde_bytes::ByteBuf;

use super::ground::{Check, Ground, done, eventually};
use super::script::Act;

pub(crate) const CHECKS: &[Check] = &[
    Check::new(
        "c22_what_is_over_the_queue_is_refused_at_once",
        c22_what_is_over_the_queue_is_refused_at_once,
    ),
    Check::once("c23_a_submitter_waits_until_its_deadline", c23_a_submitter_waits_until_its_deadline),
    Check::once(
        "c24_an_endless_input_is_pulled_no_faster_than_taken",
        c24_an_endless_input_is_pulled_no_faster_than_taken,
    ),
    Check::new("c25_many_tiny_tasks", c25_many_tiny_tasks),
    Check::once("c26_submitters_race_with_the_end", c26_submitters_race_with_the_end),
    Check::once("c27_what_is_not_begun_in_time_is_never_sent", c27_what_is_not_begun_in_time_is_never_sent),
    Check::once("c28_priorities_and_ageing", c28_priorities_and_ageing),
    Check {
        stderr: &["the source ran dry", "panicked at", "note: run with"],
        ..Check::once("c29_an_input_that_panics", c29_an_input_that_panics)
    },
    Check::once("c60_results_in_order_with_a_slow_first_one", c60_results_in_order_with_a_slow_first_one),
    Check::once("an_endless_input_ends_with_the_fleet", an_endless_input_ends_with_the_fleet),
    Check::once("the_oldest_gives_way_where_that_is_wanted", the_oldest_gives_way_where_that_is_wanted),
    Check::once("a_paused_fleet_takes_tasks_in_and_sends_none", a_paused_fleet_takes_tasks_in_and_sends_none),
    Check::once("async_tasks_submit_and_await", async_tasks_submit_and_await),
    Check::once(
        "an_async_submitter_that_is_dropped_takes_no_place",
        an_async_submitter_that_is_dropped_takes_no_place,
    ),
];

fn c22_what_is_over_the_queue_is_refused_at_once(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(2).queue(2));
    let wait = vec![Act::Await(ground.file("go"))];
    let mut handles = Vec::new();
    for _ in 0..4 {
        handles.push(fleet.try_submit(ground.functions.act, &wait).unwrap());
    }
    assert_eq!(fleet.try_submit(ground.functions.act, &wait).unwrap_err(), SubmitError::Full);
    let stats = fleet.stats();
    assert_eq!((stats.queued, stats.queue_capacity, stats.active, stats.rejected), (2, 2, 2, 1));
    std::fs::write(ground.file("go"), "").unwrap();
    handles.into_iter().for_each(|handle| drop(done(handle.wait())));
    let stats = ground.end(fleet);
    assert_eq!((stats.accepted, stats.done, stats.rejected), (4, 4, 1));
}

fn c23_a_submitter_waits_until_its_deadline(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(1).queue(1));
    let (first, _) = ground.running(&fleet, "first", &[Act::Await(ground.file("go"))]);
    let second = ground.submit(&fleet, &[]);
    let begun = Instant::now();
    let deadline = begun + Duration::from_millis(200);
    let refused = fleet.submit_until(ground.functions.act, &vec![], deadline).unwrap_err();
    assert_eq!(refused, SubmitError::Full);
    assert!(begun.elapsed() >= Duration::from_millis(200), "{:?}", begun.elapsed());
    let deadline = Instant::now() + Duration::from_secs(20);
    let accepted = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| fleet.submit_until(ground.functions.act, &vec![], deadline).unwrap());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiter.is_finished());
        std::fs::write(ground.file("go"), "").unwrap();
        waiter.join().unwrap()
    });
    for handle in [first, second, accepted] {
        done(handle.wait());
    }
    let stats = ground.end(fleet);
    assert_eq!((stats.accepted, stats.rejected), (3, 1));
}

fn resident() -> u64 {
    fleet::probe::memory::Resident::open().unwrap().read().unwrap()
}

fn c24_an_endless_input_is_pulled_no_faster_than_taken(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(2).queue(10));
    let pulled = AtomicU64::new(0);
    let inputs = std::iter::repeat_with(|| {
        pulled.fetch_add(1, Ordering::SeqCst);
        ByteBuf::from(vec![1; 10_000])
    });
    let mut results = fleet.map(ground.functions.echo, inputs).look_ahead(8);
    let mut after_ten = 0;
    for taken in 1..=400_u64 {
        done(results.next().unwrap().unwrap());
        assert!(pulled.load(Ordering::SeqCst) <= taken + 8);
        if taken == 10 {
            after_ten = resident();
        }
    }
    assert!(resident() < after_ten + (4 << 20), "{after_ten} {}", resident());
    drop(results);
    ground.end(fleet);
}

fn c25_many_tiny_tasks(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(2).queue(200).prefetch(4));
    let mut sum = 0_u64;
    let mut first = 0;
    let inputs = (0..20_000_u64).map(|number| ByteBuf::from(number.to_le_bytes()));
    for (index, ended) in fleet.map_unordered(ground.functions.echo, inputs) {
        let bytes: [u8; 8] = done(ended.unwrap())[..].try_into().unwrap();
        assert_eq!(u64::from_le_bytes(bytes), index);
        sum += index;
        if first == 0 && sum > 1_000_000 {
            first = resident();
        }
    }
    assert_eq!(sum, 20_000 * 19_999 / 2);
    assert!(resident() < first + (4 << 20), "{first} {}", resident());
    let stats = ground.end(fleet);
    assert_eq!(stats.done, 20_000);
}

fn c26_submitters_race_with_the_end(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(2).queue(50).prefetch(2));
    let (ran, closed) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    match fleet.submit(ground.functions.echo, &ByteBuf::new()) {
                        Ok(handle) => {
                            done(handle.wait());
                            ran.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(SubmitError::Closed) => {
                            closed.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
        eventually("some ran", || (ran.load(Ordering::SeqCst) > 2000).then_some(()));
        fleet.shut_down();
    });
    let (ran, closed) = (ran.into_inner(), closed.into_inner());
    assert_eq!(ran + closed, 32_000);
    assert!(closed > 0);
    let stats = ground.end(fleet);
    assert_eq!((stats.accepted, stats.done), (ran, ran));
}

fn c27_what_is_not_begun_in_time_is_never_sent(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(1).queue(10));
    let (busy, _) = ground.running(&fleet, "busy", &[Act::Await(ground.file("go"))]);
    let acts = vec![Act::Mark(ground.file("sent"))];
    let late =
        fleet.call(ground.functions.act, &acts).expires_within(Duration::from_millis(100)).submit().unwrap();
    let ended = late.wait();
    assert!(matches!(ended.outcome, Outcome::Expired), "{}", ended.outcome);
    assert_eq!((ended.attempts, ended.queue_wait_ns()), (0, None));
    std::fs::write(ground.file("go"), "").unwrap();
    done(busy.wait());
    done(ground.submit(&fleet, &[]).wait());
    assert!(!ground.file("sent").exists());
    ground.end(fleet);
}

fn c28_priorities_and_ageing(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(1).queue(100));
    let (busy, _) = ground.running(&fleet, "busy", &[Act::Await(ground.file("go"))]);
    let priorities = [0, 10, 0, 10, -5, 10];
    let submit =
        |priority: &i16| fleet.call(ground.functions.act, &vec![]).priority(*priority).submit().unwrap();
    let handles: Vec<_> = priorities.iter().map(submit).collect();
    std::fs::write(ground.file("go"), "").unwrap();
    done(busy.wait());
    let order: Vec<u64> = handles.into_iter().map(|handle| done(handle.wait()).nth).collect();
    assert_eq!(order, [5, 2, 6, 3, 7, 4]);
    ground.end(fleet);

    let fleet = ground.launch(FleetSpec::new(1).queue(100).ageing(Duration::from_millis(10)));
    let (busy, _) = ground.running(&fleet, "again", &[Act::Await(ground.file("on"))]);
    let low = ground.submit(&fleet, &[]);
    std::thread::sleep(Duration::from_millis(150));
    let high = fleet.call(ground.functions.act, &vec![]).priority(10).submit().unwrap();
    std::fs::write(ground.file("on"), "").unwrap();
    done(busy.wait());
    assert_eq!((done(low.wait()).nth, done(high.wait()).nth), (2, 3), "ten steps of 10 ms are over");
    ground.end(fleet);
}

fn c29_an_input_that_panics(ground: &Ground) {
    let fleet = ground.fleet();
    let mut got = 0;
    let inputs = (0..100).map(|number: u32| {
        assert!(number < 50, "the source ran dry");
        Vec::<Act>::new()
    });
    let panic = catch_unwind(AssertUnwindSafe(|| {
        for ended in fleet.map(ground.functions.act, inputs) {
            done(ended.unwrap());
            got += 1;
        }
    }));
    let message = fleet::fleet::panic_message(&*panic.unwrap_err());
    assert_eq!((got, message.as_str()), (50, "the source ran dry"));
    done(ground.submit(&fleet, &[]).wait());
    ground.end(fleet);
}

fn an_endless_input_ends_with_the_fleet(ground: &Ground) {
    let fleet = ground.fleet();
    let mut results = fleet.map(ground.functions.echo, std::iter::repeat_with(ByteBuf::new));
    for _ in 0..10 {
        done(results.next().unwrap().unwrap());
    }
    fleet.shut_down();
    let rest: Vec<_> = results.collect();
    let refused: Vec<_> = rest.iter().filter_map(|end| end.as_ref().err()).collect();
    assert_eq!(refused, [&SubmitError::Closed]);
    ground.end(fleet);
}

fn c60_results_in_order_with_a_slow_first_one(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(4).queue(1000));
    let pulled = AtomicU64::new(0);
    let go = ground.file("go");
    let inputs = (0..500_u64).map(|number| {
        pulled.fetch_add(1, Ordering::SeqCst);
        if number == 0 { vec![Act::Await(go.clone())] } else { vec![Act::Say(number as usize)] }
    });
    std::thread::scope(|scope| {
        let results = fleet.map(ground.functions.act, inputs).look_ahead(50);
        scope.spawn(|| {
            eventually("as much is done as may be", || (fleet.stats().done == 49).then_some(()));
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(pulled.load(Ordering::SeqCst), 50);
            std::fs::write(&go, "").unwrap();
        });
        let lengths: Vec<usize> = results.map(|ended| done(ended.unwrap()).text.len()).collect();
        assert_eq!(lengths, (0..500).collect::<Vec<_>>());
    });
    // Few large ones are as many as many small ones.
    let large = vec![9; 1 << 20];
    let slow = ground.file("slow");
    let inputs = (0..100).map(|number| {
        let wait = if number == 0 { Act::Await(slow.clone()) } else { Act::Say(1) };
        vec![wait, Act::Take(ByteBuf::from(large.clone()))]
    });
    let mut results = fleet.map(ground.functions.act, inputs).look_ahead(1000).look_ahead_bytes(10 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("it has begun", || (fleet.stats().accepted > 501).then_some(()));
            std::thread::sleep(Duration::from_millis(100));
            assert!(fleet.stats().queued <= 12, "{:?}", fleet.stats());
            std::fs::write(&slow, "").unwrap();
        });
        assert_eq!(results.by_ref().map(|ended| drop(done(ended.unwrap()))).count(), 100);
    });
    drop(results);
    ground.end(fleet);
}

fn the_oldest_gives_way_where_that_is_wanted(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(1).queue(2).overflow(Overflow::DropOldest));
    let (busy, _) = ground.running(&fleet, "busy", &[Act::Await(ground.file("go"))]);
    let handles: Vec<_> = (0..4).map(|_| fleet.try_submit(ground.functions.act, &vec![]).unwrap()).collect();
    std::fs::write(ground.file("go"), "").unwrap();
    done(busy.wait());
    let ends: Vec<bool> =
        handles.into_iter().map(|handle| matches!(handle.wait().outcome, Outcome::Dropped)).collect();
    assert_eq!(ends, [true, true, false, false]);
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.ended_as("dropped"), stats.rejected), (3, 2, 0));
}

fn a_paused_fleet_takes_tasks_in_and_sends_none(ground: &Ground) {
    let fleet = ground.fleet();
    fleet.pause();
    let handle = ground.submit(&fleet, &[Act::Mark(ground.file("sent"))]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!ground.file("sent").exists() && fleet.stats().is_paused);
    fleet.resume();
    done(handle.wait());
    // A drain is the end of a pause.
    fleet.pause();
    let handle = ground.submit(&fleet, &[]);
    ground.end(fleet);
    done(handle.wait());
}

fn async_tasks_submit_and_await(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(2).queue(2));
    let one = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
    for runtime in [one, many] {
        let all = runtime.block_on(async {
            let tasks: Vec<_> = (0..60_u64)
                .map(|number| {
                    let (fleet, echo) = (fleet.clone(), ground.functions.echo);
                    tokio::spawn(async move {
                        let input = ByteBuf::from(number.to_le_bytes());
                        let handle = fleet.submit_async(echo, &input).await.unwrap();
                        handle.await.into_result().unwrap()[0]
                    })
                })
                .collect();
            let mut all = Vec::new();
            for task in tasks {
                all.push(task.await.unwrap());
            }
            all
        });
        assert_eq!(all, (0..60).collect::<Vec<u8>>());
    }
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.rejected), (120, 0), "waiting for room is no refusal");
}

fn an_async_submitter_that_is_dropped_takes_no_place(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(1).queue(1));
    let (busy, _) = ground.running(&fleet, "busy", &[Act::Await(ground.file("go"))]);
    let queued = ground.submit(&fleet, &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let impatient: Vec<_> = (0..5)
            .map(|_| {
                let (fleet, act) = (fleet.clone(), ground.functions.act);
                tokio::spawn(async move { fleet.submit_async(act, &vec![]).await.unwrap().await })
            })
            .collect();
        let patient = {
            let (fleet, act) = (fleet.clone(), ground.functions.act);
            tokio::spawn(async move { fleet.submit_async(act, &vec![]).await.unwrap().await })
        };
        tokio::time::sleep(Duration::from_millis(20)).await;
        impatient.iter().for_each(tokio::task::JoinHandle::abort);
        std::fs::write(ground.file("go"), "").unwrap();
        done(patient.await.unwrap());
    });
    done(busy.wait());
    done(queued.wait());
    ground.end(fleet);
}
