//! Time limits, cancellation, and the end of a fleet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fleet::fleet::postmortem::Cause;
use fleet::fleet::{FleetSpec, Outcome, SubmitError};
use fleet::sys::process::{Exit, Pid};

use super::ground::{Check, Ground, done, eventually};
use super::script::Act;

pub(crate) const CHECKS: &[Check] = &[
    Check::once("c30_time_counts_from_the_start", c30_time_counts_from_the_start),
    Check::new("c31_who_does_not_leave_is_killed", c31_who_does_not_leave_is_killed),
    Check::new("c32_a_late_answer_does_not_count", c32_a_late_answer_does_not_count),
    Check::new("c33_cancelling", c33_cancelling),
    Check::new("c34_what_a_worker_started_ends_with_it", c34_what_a_worker_started_ends_with_it),
    Check::new("c36_a_stop_of_everything_takes_no_time", c36_a_stop_of_everything_takes_no_time),
    Check::new("c45_a_drain_ends_in_time", c45_a_drain_ends_in_time),
    Check::new("c46_a_stopped_worker_can_leave", c46_a_stopped_worker_can_leave),
    Check::new("c49_a_reload_under_load", c49_a_reload_under_load),
    Check::new("c50_a_reload_that_cannot_be", c50_a_reload_that_cannot_be),
    Check::once("the_last_fleet_that_is_dropped_drains", the_last_fleet_that_is_dropped_drains),
];

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn c30_time_counts_from_the_start(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(1).queue(10).task_limit(millis(500)));
    let before =
        fleet.call(ground.functions.act, &vec![Act::Sleep(700)]).limit(millis(20_000)).submit().unwrap();
    let after = ground.submit(&fleet, &[Act::Sleep(100)]);
    done(before.wait());
    let ended = after.wait();
    assert!(ended.queue_wait_ns().unwrap() > 500_000_000);
    done(ended);
    ground.end(fleet);
}

fn c31_who_does_not_leave_is_killed(ground: &Ground) {
    let fleet = ground.launch(ground.spec().task_limit(millis(300)).grace(millis(400)));
    let begun = Instant::now();
    let (handle, pid) = ground.running(&fleet, "stubborn", &[Act::IgnoreTerm, Act::Sleep(60_000)]);
    let ended = handle.wait();
    assert!(begun.elapsed() >= millis(700), "{:?}", begun.elapsed());
    let Outcome::TimedOut(Some(death)) = &ended.outcome else { panic!("{}", ended.outcome) };
    assert_eq!((death.pid, &death.cause), (pid, &Cause::Timeout));
    assert_eq!(death.exit, Some(Exit::Signal { number: 9, core: false }));
    // One that leaves when it is asked is not killed.
    let ended = ground.submit(&fleet, &[Act::Sleep(60_000)]).wait();
    let Outcome::TimedOut(Some(death)) = &ended.outcome else { panic!("{}", ended.outcome) };
    assert_eq!(death.exit, Some(Exit::Signal { number: 15, core: false }));
    assert!(death.to_string().contains("was at a task whose time was up"), "{death}");
    assert_ne!(done(ground.submit(&fleet, &[]).wait()).pid, pid.0);
    ground.end(fleet);
}

fn c32_a_late_answer_does_not_count(ground: &Ground) {
    let fleet = ground.launch(ground.spec().task_limit(millis(200)).grace(millis(20_000)));
    let ended = ground.submit(&fleet, &[Act::IgnoreTerm, Act::Sleep(500), Act::Say(3)]).wait();
    assert!(matches!(ended.outcome, Outcome::TimedOut(None)), "{}", ended.outcome);
    let late = ended.late.unwrap().unwrap();
    assert_eq!(late.text.len(), 3);
    // That worker is not used again.
    for _ in 0..4 {
        assert_ne!(done(ground.submit(&fleet, &[]).wait()).pid, late.pid);
    }
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.ended_as("timed_out")), (4, 1));
}

fn c33_cancelling(ground: &Ground) {
    let fleet = ground.fleet();
    let (victim, pid) = ground.running(&fleet, "victim", &[Act::Sleep(60_000)]);
    let (sibling, other) = ground.running(&fleet, "sibling", &[Act::Await(ground.file("go"))]);
    let queued = ground.submit(&fleet, &[Act::Mark(ground.file("sent"))]);
    queued.cancel();
    assert!(matches!(queued.wait().outcome, Outcome::Cancelled));
    assert!(fleet.workers().iter().any(|(_, worker)| *worker == pid));
    let begun = Instant::now();
    victim.cancel();
    assert!(matches!(victim.wait().outcome, Outcome::Cancelled));
    assert!(begun.elapsed() < millis(1000), "at once: {:?}", begun.elapsed());
    eventually("its worker is gone, and replaced", || {
        let workers = fleet.workers();
        (workers.len() == 2 && workers.iter().all(|(_, worker)| *worker != pid)).then_some(())
    });
    std::fs::write(ground.file("go"), "").unwrap();
    assert_eq!(done(sibling.wait()).pid, other.0);
    // What has ended cannot be cancelled, and no worker is hurt.
    let said = fleet.submit(ground.functions.act, &vec![]).unwrap();
    eventually("it has ended", || said.has_ended().then_some(()));
    let before = fleet.workers();
    said.cancel();
    done(said.wait());
    assert_eq!(fleet.workers(), before);
    assert!(!ground.file("sent").exists());
    let stats = ground.end(fleet);
    assert_eq!((stats.ended_as("cancelled"), stats.done, stats.busy_deaths), (2, 2, 0));
}

fn c34_what_a_worker_started_ends_with_it(ground: &Ground) {
    let fleet = ground.launch(ground.spec().task_limit(millis(200)).grace(millis(200)));
    let orphan = || Act::Orphan { seconds: 600, in_group: true };
    let ended = ground.submit(&fleet, &[orphan(), orphan(), Act::IgnoreTerm, Act::Sleep(60_000)]).wait();
    assert!(matches!(ended.outcome, Outcome::TimedOut(_)), "{}", ended.outcome);
    // Whoever watches this check sees whether they are gone.
    ground.end(fleet);
}

fn c36_a_stop_of_everything_takes_no_time(ground: &Ground) {
    let fleet = ground.launch(ground.spec().task_limit(millis(2500)).hung_after(Some(millis(2500))));
    // It goes on for a second after the stop.
    let mut acts = Vec::new();
    acts.resize(15, Act::Sleep(100));
    let (handle, _) = ground.running(&fleet, "task", &acts);
    let mut everybody: Vec<Pid> = fleet.pids();
    everybody.push(Pid::own());
    let pids: Vec<String> = everybody.iter().map(ToString::to_string).collect();
    let line = format!("kill -STOP {0}; sleep 4; kill -CONT {0}", pids.join(" "));
    let begun = Instant::now();
    let mut stopper = std::process::Command::new("sh").args(["-c", &line]).spawn().unwrap();
    let ended = handle.wait();
    assert!(begun.elapsed() >= millis(4000));
    done(ended);
    stopper.wait().unwrap();
    // Time that passes while everybody runs still counts.
    let ended = ground.submit(&fleet, &[Act::Sleep(60_000)]).wait();
    assert!(matches!(ended.outcome, Outcome::TimedOut(_)), "{}", ended.outcome);
    ground.end(fleet);
}

fn c45_a_drain_ends_in_time(ground: &Ground) {
    let fleet = ground.launch(ground.spec().grace(millis(300)));
    let (stuck, _) = ground.running(&fleet, "stuck", &[Act::IgnoreTerm, Act::Sleep(60_000)]);
    let (slow, _) = ground.running(&fleet, "slow", &[Act::Sleep(60_000)]);
    let queued: Vec<_> = (0..3).map(|_| ground.submit(&fleet, &[])).collect();
    let begun = Instant::now();
    let stats = fleet.drain(millis(400));
    let took = begun.elapsed();
    assert!(took >= millis(700) && took < millis(10_000), "{took:?}");
    for handle in [stuck, slow].into_iter().chain(queued) {
        assert!(matches!(handle.wait().outcome, Outcome::Interrupted));
    }
    assert_eq!((stats.ended_as("interrupted"), stats.accepted), (5, 5));
    let refused = fleet.submit(ground.functions.act, &vec![]).unwrap_err();
    assert_eq!(refused, SubmitError::Closed);
    ground.end(fleet);
}

fn c46_a_stopped_worker_can_leave(ground: &Ground) {
    let fleet = ground.launch(ground.spec().grace(millis(30_000)));
    let (handle, pid) = ground.running(&fleet, "stopped", &[Act::Stop]);
    eventually("it is stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.contains(") T ").then_some(())
    });
    let begun = Instant::now();
    fleet.drain(millis(50));
    assert!(begun.elapsed() < millis(15_000), "{:?}", begun.elapsed());
    let ended = handle.wait();
    assert!(matches!(ended.outcome, Outcome::Interrupted), "{}", ended.outcome);
    assert_eq!(ended.deaths[0].exit, Some(Exit::Signal { number: 15, core: false }));
    ground.end(fleet);
}

fn c49_a_reload_under_load(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(4).queue(100));
    let before: Vec<Pid> = fleet.workers().into_iter().map(|(_, pid)| pid).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    done(ground.submit(&fleet, &[Act::Sleep(2)]).wait());
                }
            });
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let stats = fleet.stats();
                assert!(stats.in_service >= 4, "{stats:?}");
            }
        });
        let reloaded = fleet.reload();
        is_over.store(true, Ordering::SeqCst);
        reloaded.unwrap();
    });
    let after: Vec<Pid> = fleet.workers().into_iter().map(|(_, pid)| pid).collect();
    assert!(after.len() >= 4 && before.iter().all(|pid| !after.contains(pid)), "{before:?} {after:?}");
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.recycled, stats.busy_deaths), (stats.accepted, 4, 0));
}

fn c50_a_reload_that_cannot_be(ground: &Ground) {
    let evil = ground.file("evil");
    let fleet = ground.launch(ground.spec().init(ground.functions.act, &vec![Act::FailIf(evil.clone())]));
    let before = fleet.workers();
    std::fs::write(&evil, "").unwrap();
    let error = fleet.reload().unwrap_err().to_string();
    assert!(
        error.starts_with("the workers were not replaced: ") && error.contains("there is a file"),
        "{error}"
    );
    assert_eq!(fleet.workers(), before);
    done(ground.submit(&fleet, &[]).wait());
    std::fs::remove_file(&evil).unwrap();
    fleet.reload().unwrap();
    assert!(fleet.workers().iter().all(|worker| !before.contains(worker)));
    ground.end(fleet);
}

fn the_last_fleet_that_is_dropped_drains(ground: &Ground) {
    let fleet = ground.fleet();
    let marks: Vec<_> = (0..10).map(|number| ground.file(&number.to_string())).collect();
    for mark in &marks {
        drop(ground.submit(&fleet, &[Act::Sleep(10), Act::Mark(mark.clone())]));
    }
    let clone = fleet.clone();
    drop(fleet);
    done(ground.submit(&clone, &[]).wait());
    drop(clone);
    assert!(marks.iter().all(|mark| mark.exists()));
}
