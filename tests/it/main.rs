//! Tests of the whole, on real processes.
use fleet::ids::*;
use fleet::lab::child::*;
use fleet::lab::isolate::*;
use fleet::lab::trial::*;
use fleet::model::*;
use fleet::seed::Seed;
use fleet::sys::process::Program;
use std::time::Duration;
#[test]
fn scratch() {
    for model in Model::ALL {
        for lanes in [1, 2, 8] {
            for w in ["cpu:1000000", "hash:1MiB", "sleep:5ms", "fault:abort@3", "fault:panic"] {
                let order = TrialOrder {
                    model,
                    job: Job {
                        workload: w.parse().unwrap(),
                        seed: Seed(7),
                        lanes: Lanes::new(lanes).unwrap(),
                    },
                    tasks: 20,
                    shuffle: 3,
                };
                let r = Isolation::new(Program::at(env!("CARGO_BIN_EXE_fleet")))
                    .run(&ChildOrder::Trial(order), Duration::from_secs(20));
                match r {
                    Ok(ChildReport::Trial(Ok(r))) => println!(
                        "{model}@{lanes} {w}: wall {} ready {} teardown {} cpu {} pss {}k procs {} {:?} sum/lanes*wall {} starts {:?} {:?}",
                        r.wall / 1000,
                        r.pool_ready / 1000,
                        r.teardown / 1000,
                        r.usage.cpu_ns() / 1000,
                        r.memory.pss / 1024,
                        r.processes,
                        r.digest,
                        r.waterfall.sum() as f64 / (lanes as f64 * r.wall as f64),
                        r.starts.first().map(|s| s.to_ready / 1000),
                        r.failed
                    ),
                    o => println!("{model}@{lanes} {w}: {o:?}"),
                }
            }
        }
    }
}
