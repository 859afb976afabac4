//! The lab child: a fresh process that takes one order, does it, reports, and ends.

use serde::{Deserialize, Serialize};

use super::trial::{self, TrialOrder, TrialReport};
use crate::probe::clock;
use crate::probe::usage::Usage;
use crate::seed::Seed;
use crate::sys::cpu::Cpus;
use crate::sys::process::{Pid, die_with, set_name};
use crate::sys::{fds, signals};
use crate::transport::{Link, LinkError, Stream, codec};
use crate::units::Bytes;
use crate::workload::{Bench, Kind, Workload, cpu};

/// What a lab child is to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ChildOrder {
    /// Run one trial.
    Trial(TrialOrder),
    /// Find out how fast this machine does these kinds of work.
    Calibrate(Vec<Kind>),
}

/// What it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ChildReport {
    /// A trial's measurements, or the error that ended it.
    Trial(Result<Box<TrialReport>, String>),
    /// How fast the kinds of work are.
    Calibrated(Speeds),
}

/// How fast one CPU of this machine computes. 0 where that was not asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Speeds {
    /// Nanoseconds for a round of the `cpu` kernel.
    pub ns_per_iteration: f64,
    /// Nanoseconds for a byte of the `hash` kernel.
    pub ns_per_byte: f64,
    /// CPUs' worth of time obtained just now by one busy thread for each usable CPU. Weights of control groups, and
    /// whoever else is busy, show here and in no count of CPUs.
    pub obtained_cpus: f64,
}

/// The life of a lab child; returns its exit code.
pub fn main(parent: u32) -> i32 {
    set_name(c"fleet-lab");
    signals::unblock_all();
    if !die_with(Pid(parent)) {
        return 0;
    }
    let Ok(fd) = fds::take_link() else { return 1 };
    i32::from(obey(&mut Stream::from(fd)).is_err())
}

fn obey(link: &mut Stream) -> Result<(), LinkError> {
    let Some(frame) = link.receive()? else { return Ok(()) };
    let report = match codec::decode::<ChildOrder>(frame)? {
        ChildOrder::Trial(order) => {
            ChildReport::Trial(trial::run(&order).map(Box::new).map_err(|error| error.to_string()))
        }
        ChildOrder::Calibrate(kinds) => ChildReport::Calibrated(calibrate(&kinds)),
    };
    let mut bytes = Vec::new();
    codec::encode(&report, &mut bytes)?;
    link.send(&bytes)
}

/// A measurement shorter than this says little about a kernel's speed.
const LONG_ENOUGH: u64 = 4_000_000;

fn calibrate(kinds: &[Kind]) -> Speeds {
    let mut speeds = Speeds::default();
    if kinds.contains(&Kind::Cpu) {
        let once = |rounds: u64| {
            std::hint::black_box(cpu(rounds, 1));
        };
        speeds.ns_per_iteration = speed(1000, once);
    }
    if kinds.contains(&Kind::Hash) {
        let bench = Bench::new(Workload::Hash { size: Bytes(1 << 20) }, Seed(1));
        let once = |megabytes: u64| {
            for task in 0..megabytes {
                let _ = std::hint::black_box(bench.run(crate::ids::TaskId(task)));
            }
        };
        speeds.ns_per_byte = speed(1, once) / f64::from(1 << 20);
    }
    speeds.obtained_cpus = obtained_cpus(Cpus::read().usable());
    speeds
}

/// How long a share of the CPUs is probed for, in nanoseconds.
const PROBE: u64 = 200_000_000;

fn obtained_cpus(threads: usize) -> f64 {
    let cpu_ns = || Usage::of_this_process().map_or(0, |usage| usage.cpu_ns());
    let (begun, used_before) = (clock::now(), cpu_ns());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| while clock::now() - begun < PROBE {});
        }
    });
    (cpu_ns() - used_before) as f64 / (clock::now() - begun) as f64
}

/// Nanoseconds for one of whatever `run` does so many of: the fastest of five, since disturbance only slows.
fn speed(mut amount: u64, run: impl Fn(u64)) -> f64 {
    let timed = |amount: u64| {
        let begun = clock::now();
        run(amount);
        clock::now() - begun
    };
    while timed(amount) < LONG_ENOUGH {
        amount *= 2;
    }
    let fastest = (0..5).map(|_| timed(amount)).min().unwrap_or(LONG_ENOUGH);
    fastest as f64 / amount as f64
}
