//! Whatever a task does to its process, the arm ends with a named error, soon, and nothing is left.

use std::time::{Duration, Instant};

use fleet::model::Model;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::rig::{Rig, WATCHDOG, order};

const PROCESSES: [Model; 3] = [Model::Fork, Model::Spawn, Model::Forkserver];
const IN_PROCESS: [Model; 3] = [Model::Serial, Model::Threads, Model::Tasks];

fn failure(model: Model, fault: &str) -> String {
    let rig = Rig::new();
    rig.trial(order(model, 2, &format!("fault:{fault}@3"), 20), WATCHDOG).unwrap_err()
}

#[test]
fn a_worker_that_dies_is_named_with_its_task_and_the_way_it_went() {
    for model in PROCESSES {
        for (fault, way) in [
            ("abort", "was killed by SIGABRT"),
            ("segv", "was killed by SIGSEGV"),
            ("kill", "was killed by SIGKILL"),
            ("exit", "exited with code 7"),
        ] {
            let error = failure(model, fault);
            assert!(error.starts_with("task 3 (attempt 1): worker "), "{model} {fault}: {error}");
            assert!(error.contains("(pid ") && error.contains(way), "{model} {fault}: {error}");
        }
    }
}

#[test]
fn without_isolation_a_crash_takes_the_whole_lab_process_and_is_named_all_the_same() {
    for model in IN_PROCESS {
        assert!(failure(model, "segv").starts_with("its process was killed by SIGSEGV"), "{model}");
        assert!(failure(model, "exit").starts_with("its process exited with code 7"), "{model}");
    }
}

#[test]
fn a_panic_or_an_error_is_the_tasks_own_failure_and_the_others_are_done() {
    for model in [Model::Threads, Model::Tasks, Model::Fork, Model::Spawn, Model::Forkserver] {
        for (fault, words) in
            [("panic", "panicked: task 3 panics on purpose"), ("error", "task 3 fails on purpose")]
        {
            let rig = Rig::new();
            let report = rig.trial(order(model, 2, &format!("fault:{fault}@3"), 20), WATCHDOG).unwrap();
            assert_eq!(report.done, 19, "{model} {fault}");
            assert_eq!(report.failed, Some((1, words.to_owned())), "{model} {fault}");
        }
    }
}

#[test]
fn a_hanging_task_is_ended_from_outside_with_all_its_workers() {
    for model in Model::ALL {
        let rig = Rig::new();
        let begun = Instant::now();
        let error = rig.trial(order(model, 2, "fault:hang@3", 20), Duration::from_secs(1)).unwrap_err();
        assert!(error.starts_with("it did not end within 1s and was killed"), "{model}: {error}");
        rig.nothing_is_left();
        assert!(begun.elapsed() < Duration::from_secs(10), "{model}");
    }
}

/// Kills whoever the kernel calls `victim` in the middle of a batch, and hands back how the trial ended.
fn killed_midway(model: Model, victim: &str) -> Result<(), String> {
    let rig = Rig::new();
    std::thread::scope(|scope| {
        let trial = scope.spawn(|| rig.trial(order(model, 2, "sleep:20ms", 1000), WATCHDOG));
        let workers = if model.isolates_crashes() { 2 } else { 0 };
        let pid = rig.eventually("the victim and all workers live", || {
            let alive = rig.alive();
            let named = |name: &str| {
                alive.iter().filter(|(_, comm)| comm == name).map(|(pid, _)| *pid).collect::<Vec<_>>()
            };
            let all_there = named("fleet-worker").len() == workers;
            named(victim).first().copied().filter(|_| all_there)
        });
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
        trial.join().unwrap().map(|_| ())
    })
}

#[test]
fn a_worker_killed_from_outside_ends_the_trial_with_its_name() {
    for model in PROCESSES {
        let error = killed_midway(model, "fleet-worker").unwrap_err();
        assert!(error.contains("worker ") && error.contains("was killed by SIGKILL"), "{model}: {error}");
    }
}

#[test]
fn a_killed_zygote_takes_its_workers_along_and_is_named() {
    let error = killed_midway(Model::Forkserver, "fleet-zygote").unwrap_err();
    assert!(error.contains("worker ") && error.contains("ended, nobody knows how"), "{error}");
}

#[test]
fn a_killed_lab_process_takes_everything_along() {
    for model in Model::ALL {
        let error = killed_midway(model, "fleet-lab").unwrap_err();
        assert!(error.starts_with("its process was killed by SIGKILL"), "{model}: {error}");
    }
}
