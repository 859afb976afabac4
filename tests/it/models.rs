//! One suite for every model: what serial answers, all answer, and none leaves anything behind.

use fleet::lab::trial::TrialReport;
use fleet::model::Model;

use crate::rig::{Rig, WATCHDOG, order};

fn tried(model: Model, lanes: usize, workload: &str, tasks: u64) -> TrialReport {
    let rig = Rig::new();
    rig.trial(order(model, lanes, workload, tasks), WATCHDOG)
        .unwrap_or_else(|error| panic!("{model}@{lanes}: {error}"))
}

fn answers_like_serial(model: Model) {
    for (workload, tasks) in [("cpu:2000", 50), ("hash:64KiB", 21), ("sleep:1ms", 9), ("cpu:10", 1)] {
        let serial = tried(Model::Serial, 1, workload, tasks);
        for lanes in [1, 2, 5] {
            let report = tried(model, lanes, workload, tasks);
            assert_eq!(report.digest, serial.digest, "{model}@{lanes} {workload}");
            assert_eq!((report.done, &report.failed), (tasks, &None), "{model}@{lanes} {workload}");
        }
    }
}

/// Worker-time parts sum to lanes × wall: no moment of a lane is missing, and none is counted twice.
fn accounts_for_all_of_its_lanes_time(model: Model) {
    for (workload, lanes, tasks) in
        [("cpu:200000", 1, 60), ("cpu:200000", 3, 60), ("sleep:2ms", 4, 20), ("cpu:1", 2, 5000)]
    {
        let lanes = if model == Model::Serial { 1 } else { lanes };
        let report = tried(model, lanes, workload, tasks);
        let whole = report.wall as f64 * lanes as f64;
        let gap = (report.waterfall.sum() as f64 - whole).abs() / whole;
        assert!(gap < 0.02, "{model}@{lanes} {workload}: {gap}: {report:?}");
        assert!(report.waterfall.compute > 0);
    }
}

fn tells_every_lanes_start(model: Model) {
    let report = tried(model, 4, "cpu:10", 8);
    let lanes = if model == Model::Serial { 0 } else { 4 };
    assert_eq!(report.starts.len(), lanes);
    for start in &report.starts {
        assert!(
            start.to_first_instruction <= start.to_ready && start.to_ready <= report.pool_ready,
            "{report:?}"
        );
    }
    // Replacements are forked from a zygote, where workers are forked at all.
    let zygote = usize::from(matches!(model, Model::Fork | Model::Forkserver));
    let workers = if model.isolates_crashes() { 4 } else { 0 };
    assert_eq!(report.processes, 1 + workers + zygote);
}

fn takes_many_more_lanes_than_cpus(model: Model) {
    let serial = tried(Model::Serial, 1, "cpu:1000", 200);
    assert_eq!(tried(model, 64, "cpu:1000", 200).digest, serial.digest);
}

macro_rules! every_model {
    ($($name:ident: $model:expr),*) => { $(
        mod $name {
            use fleet::model::Model;

            #[test]
            fn answers_like_serial() {
                super::answers_like_serial($model);
            }

            #[test]
            fn accounts_for_all_of_its_lanes_time() {
                super::accounts_for_all_of_its_lanes_time($model);
            }

            #[test]
            fn tells_every_lanes_start() {
                super::tells_every_lanes_start($model);
            }

            #[test]
            fn takes_many_more_lanes_than_cpus() {
                super::takes_many_more_lanes_than_cpus($model);
            }
        }
    )* };
}

every_model! {
    serial: Model::Serial, threads: Model::Threads, tasks: Model::Tasks,
    fork: Model::Fork, spawn: Model::Spawn, forkserver: Model::Forkserver
}

/// Counts every task, without a service-time histogram that was averaged somewhere.
#[test]
fn every_task_is_in_the_histograms() {
    let report = tried(Model::Forkserver, 2, "cpu:100", 500);
    let counted = |buckets: &[(u64, u64)]| buckets.iter().map(|(_, count)| count).sum::<u64>();
    assert_eq!((counted(&report.service.0), counted(&report.sojourn.0)), (500, 500));
}

/// Forked workers share what the zygote prepared; executed ones have a copy each. RSS cannot tell the two apart.
#[test]
fn copy_on_write_is_seen_by_pss_and_not_by_rss() {
    const BUFFER: f64 = 64.0 * 1024.0 * 1024.0;
    let weigh = |model| tried(model, 4, "hash:64MiB", 4).memory;
    for model in [Model::Fork, Model::Forkserver] {
        let memory = weigh(model);
        // Whoever forked them and four workers map one buffer; the program itself weighs a few MiB.
        assert!(
            memory.pss as f64 >= BUFFER && (memory.pss as f64) < BUFFER * 1.03 + 8e6,
            "{model}: {memory:?}"
        );
        assert!(memory.rss as f64 >= 5.0 * BUFFER, "{model}: {memory:?}");
        assert!((memory.uss as f64) < 0.1 * BUFFER, "{model}: {memory:?}");
    }
    let spawned = weigh(Model::Spawn);
    assert!(spawned.pss as f64 >= 4.0 * BUFFER && spawned.uss as f64 >= 4.0 * BUFFER, "{spawned:?}");
    let threads = weigh(Model::Threads);
    assert!((threads.pss as f64) < BUFFER * 1.03 + 8e6, "{threads:?}");
}

/// `ru_maxrss` of a child remembers its parent's size from before the exec; VmHWM does not.
#[test]
fn the_peak_of_a_small_worker_is_small_under_a_large_parent() {
    let large = vec![1u8; 512 << 20];
    let peak = tried(Model::Spawn, 1, "cpu:10", 1).memory.peak_rss;
    assert!(std::hint::black_box(&large).len() > 50 * peak as usize, "{peak}");
    assert!(peak < 10 << 20, "{peak}");
}
