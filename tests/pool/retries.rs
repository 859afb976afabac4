//! What is repeated, how often and when; and when a fleet gives up.

use std::path::Path;
use std::time::{Duration, Instant};

use fleet::fleet::{FleetSpec, LaunchError, Mishap, Outcome};
use fleet::sys::process::Program;
use nix::sys::signal::Signal;

use super::ground::{Check, Ground, done, eventually, signal};
use super::script::Act;

pub(crate) const CHECKS: &[Check] = &[
    Check::new("c14_poison_is_found_and_costs_nobody_else", c14_poison_is_found_and_costs_nobody_else),
    Check::new("c15_what_has_begun_is_not_repeated_unasked", c15_what_has_begun_is_not_repeated_unasked),
    Check::new("c16_an_end_on_purpose_is_charged_to_nobody", c16_an_end_on_purpose_is_charged_to_nobody),
    Check::once("c17_errors_are_repeated_with_growing_gaps", c17_errors_are_repeated_with_growing_gaps),
    Check::new("c18_a_program_that_is_not_there", c18_a_program_that_is_not_there),
    Check::new("c19_workers_that_never_get_ready", c19_workers_that_never_get_ready),
    Check::new(
        "c20_crashes_with_progress_between_do_not_slow_a_fleet",
        c20_crashes_with_progress_between_do_not_slow_a_fleet,
    ),
    Check { skipped: no_pids_group, ..Check::new("c21_a_limit_of_processes", c21_a_limit_of_processes) },
];

fn c14_poison_is_found_and_costs_nobody_else(ground: &Ground) {
    let pauses = (Duration::from_millis(1), Duration::from_millis(5));
    let spec = ground.spec().queue(2000).retries(Mishap::Crash, 2).retry_pause(pauses.0, pauses.1);
    let fleet = ground.launch(spec);
    let mut handles = Vec::new();
    for number in 0..1001 {
        let acts: &[Act] = if number == 500 { &[Act::Kill] } else { &[] };
        handles.push(ground.submit(&fleet, acts));
    }
    for (number, handle) in handles.into_iter().enumerate() {
        let ended = handle.wait();
        if number == 500 {
            let Outcome::Quarantined(deaths) = &ended.outcome else { panic!("{}", ended.outcome) };
            let attempts: Vec<u8> = deaths.iter().map(|death| death.lease.unwrap().attempt).collect();
            assert_eq!(attempts, [1, 2, 3]);
        } else {
            assert_eq!(ended.attempts, 1);
            assert_eq!(done(ended).attempt, 1);
        }
    }
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.ended_as("quarantined"), stats.busy_deaths), (1000, 1, 3));
}

fn c15_what_has_begun_is_not_repeated_unasked(ground: &Ground) {
    // The second task is with the same worker, right behind the first.
    let fleet = ground.launch(FleetSpec::new(1).queue(10).prefetch(2));
    let (begun, pid) = ground.running(&fleet, "begun", &[Act::Sleep(60_000)]);
    let behind = ground.submit(&fleet, &[]);
    eventually("both are with the worker", || (fleet.stats().active == 2).then_some(()));
    signal(pid, Signal::SIGKILL);
    let ended = begun.wait();
    assert!(matches!(ended.outcome, Outcome::Crashed(_)), "{}", ended.outcome);
    assert_eq!(ended.attempts, 1);
    let ended = behind.wait();
    assert_eq!((ended.attempts, ended.deaths.len()), (1, 0));
    assert_ne!(done(ended).pid, pid.0);
    ground.end(fleet);
}

fn c16_an_end_on_purpose_is_charged_to_nobody(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(1).queue(10).prefetch(2));
    let (cancelled, pid) = ground.running(&fleet, "cancelled", &[Act::Sleep(60_000)]);
    let behind = ground.submit(&fleet, &[]);
    eventually("both are with the worker", || (fleet.stats().active == 2).then_some(()));
    cancelled.cancel();
    assert!(matches!(cancelled.wait().outcome, Outcome::Cancelled));
    let ended = behind.wait();
    assert_eq!((ended.attempts, ended.deaths.len()), (1, 0));
    let said = done(ended);
    assert_ne!(said.pid, pid.0);
    assert_eq!(said.attempt, 1);
    let stats = ground.end(fleet);
    assert_eq!((stats.busy_deaths, stats.retried), (0, 0));
}

fn c17_errors_are_repeated_with_growing_gaps(ground: &Ground) {
    let spec = ground
        .spec()
        .retries(Mishap::Error, 3)
        .retry_pause(Duration::from_millis(40), Duration::from_secs(1));
    let fleet = ground.launch(spec);
    let begun = Instant::now();
    let ended = ground.submit(&fleet, &[Act::FailBefore(3)]).wait();
    let took = begun.elapsed();
    assert!(ended.is_flaky() && ended.attempts == 3);
    assert_eq!(done(ended).attempt, 3);
    // Between half and all of 40 and of 80 ms.
    assert!(took >= Duration::from_millis(60), "{took:?}");
    let ended = ground.submit(&fleet, &[Act::FailBefore(200)]).wait();
    assert_eq!(ended.attempts, 4);
    let Outcome::Failed(error) = &ended.outcome else { panic!("{}", ended.outcome) };
    assert_eq!(error.message, "not yet");
    let ended = ground.submit(&fleet, &[]).wait();
    assert!(!ended.is_flaky());
    let stats = ground.end(fleet);
    assert_eq!(stats.retried, 5);
}

fn c18_a_program_that_is_not_there(ground: &Ground) {
    if ground.start == fleet::fleet::Start::Fork {
        return;
    }
    let begun = Instant::now();
    let error = ground.try_launch(ground.spec().program(Program::at("/no/such/program"))).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(error.to_string(), "cannot start `/no/such/program`: No such file or directory (os error 2)");
    // What starts, and is none of ours, is refused as well.
    let error = ground.try_launch(ground.spec().program(Program::at("/bin/true"))).unwrap_err();
    assert!(matches!(error, LaunchError::Failed(_)), "{error}");
}

fn c19_workers_that_never_get_ready(ground: &Ground) {
    let evil = ground.functions.preload;
    let error = ground.try_launch(ground.spec().init(evil, &666)).unwrap_err();
    assert!(error.to_string().contains("`preload` failed: it is evil"), "{error}");
    let error = ground.try_launch(ground.spec().preload(evil, &666)).unwrap_err();
    assert!(error.to_string().contains("`preload` failed: it is evil"), "{error}");
    // A worker that dies while it is prepared.
    let dying = ground.functions.act;
    let acts = vec![Act::PrintError(b"no database here\n".to_vec()), Act::Exit(4)];
    let error = ground.try_launch(ground.spec().init(dying, &acts)).unwrap_err().to_string();
    assert!(error.contains("exited with code 4") && error.contains("no database here"), "{error}");
}

fn c20_crashes_with_progress_between_do_not_slow_a_fleet(ground: &Ground) {
    let fleet = ground.launch(ground.spec().queue(400));
    let begun = Instant::now();
    let handles: Vec<_> = (0..300)
        .map(|number| {
            let acts: &[Act] = if number % 3 == 2 { &[Act::Kill] } else { &[] };
            ground.submit(&fleet, acts)
        })
        .collect();
    let ends: Vec<_> = handles.into_iter().map(fleet::fleet::Handle::wait).collect();
    let crashed = ends.iter().filter(|ended| matches!(ended.outcome, Outcome::Crashed(_))).count();
    assert_eq!(crashed, 100);
    // A hundred pauses of the backoff would take minutes.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.busy_deaths), (200, 100));
}

/// Where groups of processes that may have so many can be made.
fn pids_groups() -> &'static Path {
    let (v1, v2) = (Path::new("/sys/fs/cgroup/pids"), Path::new("/sys/fs/cgroup"));
    if v1.exists() { v1 } else { v2 }
}

fn no_pids_group() -> Option<String> {
    let group = pids_groups().join(format!("fleet-check-{}", std::process::id()));
    let made = std::fs::create_dir(&group).and_then(|()| std::fs::metadata(group.join("pids.max")));
    let _ = std::fs::remove_dir(&group);
    made.err().map(|cause| format!("no group that limits processes can be made: {cause}"))
}

fn c21_a_limit_of_processes(ground: &Ground) {
    let group = pids_groups().join(format!("fleet-check-{}-{}", std::process::id(), ground.start));
    std::fs::create_dir(&group).unwrap();
    std::fs::write(group.join("cgroup.procs"), std::process::id().to_string()).unwrap();
    let fleet = ground.fleet();
    let current: u64 = std::fs::read_to_string(group.join("pids.current")).unwrap().trim().parse().unwrap();
    std::fs::write(group.join("pids.max"), (current - 1).to_string()).unwrap();
    signal(fleet.workers()[0].1, Signal::SIGKILL);
    eventually("starts fail", || (fleet.stats().failed_starts > 1).then_some(()));
    let stats = fleet.stats();
    assert!(stats.is_degraded() && stats.in_service == 1, "{stats:?}");
    let why = fleet.last_failed_start().unwrap();
    assert!(why.contains("Resource temporarily unavailable"), "{why}");
    for _ in 0..10 {
        done(ground.submit(&fleet, &[]).wait());
    }
    std::fs::write(group.join("pids.max"), "max").unwrap();
    eventually("it recovers", || (fleet.stats().in_service == 2).then_some(()));
    ground.end(fleet);
    std::fs::write(pids_groups().join("cgroup.procs"), std::process::id().to_string()).unwrap();
    eventually("the group is empty", || std::fs::remove_dir(&group).ok());
}
