//! How large a task, how many, and how long it will all take. Pure.

use super::CompareSpec;
use super::arm::Arm;
use crate::lab::child::Speeds;
use crate::model::Model;
use crate::probe::host::Machine;
use crate::units::{Bytes, Span};
use crate::workload::{Fault, Kind, LONGEST_TASK, Workload, WorkloadError};

/// A kind of work as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// The kind.
    pub kind: Kind,
    /// The size of a task, where it was said.
    pub size: Option<Size>,
    /// How many tasks, where that was said.
    pub tasks: Option<u64>,
    /// What goes wrong, for the kind that does.
    pub fault: Fault,
}

/// The size of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Rounds of the integer kernel.
    Iterations(u64),
    /// Bytes to hash.
    Bytes(Bytes),
    /// So long on one CPU of this machine, or so long a wait.
    Time(Span),
}

impl Request {
    /// The same request, if a size that it names is one that its kind can have.
    ///
    /// # Errors
    /// If it is not. A computing task that is sized by time is sized for good once the machine's speed is known.
    pub fn checked(self) -> Result<Request, SizeError> {
        let mismatch = |size, allowed| Err(SizeError::Mismatch { kind: self.kind, size, allowed });
        match (self.kind, self.size) {
            (Kind::Cpu, Some(Size::Bytes(_))) => {
                mismatch("bytes", "give iterations (1000000) or a time (2ms)")
            }
            (Kind::Hash, Some(Size::Iterations(_))) => {
                mismatch("iterations", "give bytes with their unit (64KiB) or a time (2ms)")
            }
            (Kind::Sleep | Kind::Fault, Some(Size::Bytes(_) | Size::Iterations(_))) => {
                mismatch("an amount of work", "give a time (50ms)")
            }
            (_, Some(Size::Time(time))) => {
                Workload::Sleep { time }.checked().map_err(|_| WorkloadError::OutOfRange {
                    kind: self.kind,
                    size: time.to_string(),
                    allowed: format!("1ns to {LONGEST_TASK}"),
                })?;
                Ok(self)
            }
            (_, Some(Size::Iterations(iterations))) => {
                Workload::Cpu { iterations }.checked()?;
                Ok(self)
            }
            (_, Some(Size::Bytes(size))) => {
                Workload::Hash { size }.checked()?;
                Ok(self)
            }
            (_, None) => Ok(self),
        }
    }
}

/// Why a size is not possible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SizeError {
    /// Out of range.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A size that means nothing to this kind.
    #[error("a {kind} task cannot be sized by {size}: {allowed}")]
    Mismatch {
        /// The kind.
        kind: Kind,
        /// What it was given.
        size: &'static str,
        /// What it takes.
        allowed: &'static str,
    },
}

/// A kind of work with everything decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sized {
    /// The work.
    pub workload: Workload,
    /// How many tasks.
    pub tasks: u64,
    /// How long a task takes on one CPU, about, in nanoseconds.
    pub task_ns: f64,
    /// How long a round takes, about, in nanoseconds.
    pub round_ns: f64,
    /// The share of the whole budget that may be spent when this one ends.
    pub share_end: f64,
}

/// How long a task is that nobody sized: long enough for a boundary to be cheap, short enough for many samples.
const USUAL_TASK_NS: f64 = 1e6;
/// How long a wait is that nobody sized.
pub(super) const USUAL_SLEEP: Span = Span::from_millis(50);
/// The fastest arm should run so long: what disturbs a run lasts milliseconds, and must not decide it.
const FAST_ARM_NS: f64 = 250e6;
/// With a quota the fastest arm must outlast ten of its periods, or it lives on the burst.
const FAST_ARM_WITH_QUOTA_NS: f64 = 1e9;
/// Less serial work than this is lost in the noise, however little time there is.
const LEAST_SERIAL_NS: f64 = 40e6;
/// Waits are regular: so many show as much as more.
const MOST_WAITS: u64 = 64;
/// Fewer waits than this show nothing.
const LEAST_WAITS: u64 = 4;
/// A fault needs few tasks around it.
const FAULT_TASKS: u64 = 20;
const HONEST_TASK_NS: f64 = 250e3;

/// What handing a task over takes, in nanoseconds: little for a thread, two wake-ups for a worker process.
fn handing_over(arm: &Arm) -> f64 {
    match arm.model {
        Model::Serial => 0.0,
        Model::Threads | Model::Tasks => 2e3,
        Model::Fork | Model::Spawn | Model::Forkserver => 30e3,
    }
}

/// What a trial takes besides the work, in nanoseconds: a lab process, its scales, and bringing the lanes up and down.
fn overhead(arm: &Arm) -> f64 {
    let lanes = arm.lanes.get() as f64;
    8e6 + match arm.model {
        Model::Serial => 0.0,
        Model::Threads | Model::Tasks => 0.2e6 * lanes,
        Model::Fork => 2e6 + 0.8e6 * lanes,
        Model::Spawn => 2e6 + 2.5e6 * lanes,
        Model::Forkserver => 5e6 + 0.8e6 * lanes,
    }
}

/// How many times faster than serial the arm can be at most.
pub(super) fn parallelism(kind: Kind, arm: &Arm, usable: usize, tasks: u64) -> f64 {
    let lanes = arm.lanes.get().min(tasks.max(1) as usize);
    let side_by_side = if kind == Kind::Sleep { lanes } else { lanes.min(usable) };
    // So many turns are taken one after the other.
    tasks as f64 / tasks.div_ceil(side_by_side as u64) as f64
}

/// Decides sizes for all requests, so that all of it fits the budget where there is one.
///
/// # Errors
/// If a size that was asked for is not possible.
pub(super) fn plan(spec: &CompareSpec, speeds: &Speeds, machine: &Machine) -> Result<Vec<Sized>, SizeError> {
    let mut arms = spec.arms();
    arms.push(Arm::CONTROL);
    let planner =
        Planner { spec, speeds, arms, usable: machine.usable_cpus, has_quota: machine.quota_cpus.is_some() };
    let budget = spec.budget.map_or(f64::INFINITY, |budget| budget.nanos() as f64);
    let mut share_end = 0.0;
    let shares = spec.requests.iter().zip(planner.shares());
    shares
        .map(|(request, share)| {
            share_end += share;
            planner.size(request, budget * share, share_end)
        })
        .collect()
}

struct Planner<'a> {
    spec: &'a CompareSpec,
    speeds: &'a Speeds,
    arms: Vec<Arm>,
    usable: usize,
    has_quota: bool,
}

impl Planner<'_> {
    /// The share of the budget for each request. A wait cannot be made shorter than it was asked for, so it gets half as
    /// much again as the others.
    fn shares(&self) -> Vec<f64> {
        let weight = |request: &Request| if request.kind == Kind::Sleep { 1.5 } else { 1.0 };
        let sum: f64 = self.spec.requests.iter().map(weight).sum();
        self.spec.requests.iter().map(|request| weight(request) / sum).collect()
    }

    fn size(&self, request: &Request, share: f64, share_end: f64) -> Result<Sized, SizeError> {
        let (workload, tasks) = match request.kind {
            Kind::Cpu | Kind::Hash => self.computing(request, share),
            Kind::Sleep => self.waiting(request, share),
            Kind::Fault => (Workload::Fault(request.fault), request.tasks.unwrap_or(FAULT_TASKS)),
        };
        let workload = workload.checked()?;
        let task_ns = self.task_ns(&workload);
        let round_ns = self.round(workload.kind(), tasks, task_ns);
        Ok(Sized { workload, tasks, task_ns, round_ns, share_end })
    }

    fn round(&self, kind: Kind, tasks: u64, task_ns: f64) -> f64 {
        let each = |arm: &Arm| task_ns / parallelism(kind, arm, self.usable, tasks) + handing_over(arm);
        self.arms.iter().map(|arm| tasks as f64 * each(arm) + overhead(arm)).sum()
    }

    fn task_ns(&self, workload: &Workload) -> f64 {
        match workload {
            Workload::Cpu { iterations } => *iterations as f64 * self.speeds.ns_per_iteration,
            Workload::Hash { size } => size.get() as f64 * self.speeds.ns_per_byte,
            Workload::Sleep { time } => time.nanos() as f64,
            Workload::Fault(_) => HONEST_TASK_NS,
        }
    }

    /// The serial work, in nanoseconds, with which every round fits its share of the time.
    fn serial_work(&self, kind: Kind, share: f64) -> f64 {
        let enough = self.usable as f64 * if self.has_quota { FAST_ARM_WITH_QUOTA_NS } else { FAST_ARM_NS };
        let round = share / self.spec.rounds.planned() as f64;
        let overheads: f64 = self.arms.iter().map(overhead).sum();
        let turns: f64 = self.arms.iter().map(|arm| 1.0 / parallelism(kind, arm, self.usable, 1000)).sum();
        ((round - overheads) / turns).min(enough).max(LEAST_SERIAL_NS)
    }

    fn computing(&self, request: &Request, share: f64) -> (Workload, u64) {
        let work = self.serial_work(request.kind, share);
        let most_lanes = self.arms.iter().map(|arm| arm.lanes.get()).max().unwrap_or(1) as u64;
        let usual = match request.tasks {
            // So many tasks were asked for: together they are the work that fits.
            Some(tasks) => (work / tasks as f64).max(USUAL_TASK_NS / 10.0),
            None => USUAL_TASK_NS,
        };
        let size = request.size.unwrap_or(Size::Time(Span(usual as u64)));
        let workload = match (request.kind, size) {
            (Kind::Cpu, Size::Iterations(iterations)) => Workload::Cpu { iterations },
            (Kind::Cpu, Size::Time(time)) => {
                Workload::Cpu { iterations: two_digits(amount(time, self.speeds.ns_per_iteration)).max(1) }
            }
            (_, Size::Time(time)) => {
                Workload::Hash { size: Bytes(whole_kib(amount(time, self.speeds.ns_per_byte)).max(1)) }
            }
            (_, Size::Bytes(size)) => Workload::Hash { size },
            // Refused by `Request::checked`.
            (_, Size::Iterations(bytes)) => Workload::Hash { size: Bytes(bytes) },
        };
        let dearest = self.arms.iter().map(handing_over).fold(0.0, f64::max);
        let fits = (work / (self.task_ns(&workload) + dearest)).round() as u64;
        // Fewer than two tasks for each lane, and the last task decides.
        (workload, request.tasks.unwrap_or(fits.max(2 * most_lanes)))
    }

    fn waiting(&self, request: &Request, share: f64) -> (Workload, u64) {
        let time = if let Some(Size::Time(time)) = request.size { time } else { USUAL_SLEEP };
        let workload = Workload::Sleep { time };
        let most_lanes = self.arms.iter().map(|arm| arm.lanes.get()).max().unwrap_or(1) as u64;
        // As many rounds as must be run; after those the slow arms are out of the running.
        let round = share / self.spec.rounds.surely() as f64;
        let fits = |tasks: u64| self.round(Kind::Sleep, tasks, time.nanos() as f64) <= round;
        let wanted = most_lanes.clamp(LEAST_WAITS, MOST_WAITS);
        let most = (wanted..=MOST_WAITS).rev().find(|tasks| fits(*tasks));
        let tasks = most
            .unwrap_or_else(|| (LEAST_WAITS..wanted).rev().find(|tasks| fits(*tasks)).unwrap_or(LEAST_WAITS));
        (workload, request.tasks.unwrap_or(tasks.min(2 * wanted)))
    }
}

fn amount(time: Span, ns_for_one: f64) -> u64 {
    (time.nanos() as f64 / ns_for_one.max(1e-6)).round() as u64
}

/// A measured amount is not exact to more than this, and is easier to read and to repeat.
fn two_digits(amount: u64) -> u64 {
    let unit = 10u64.pow(amount.max(1).ilog10().saturating_sub(1));
    amount / unit * unit
}

fn whole_kib(amount: u64) -> u64 {
    if amount < 1024 { amount } else { two_digits(amount / 1024) * 1024 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Lanes;
    use crate::lab::compare::Rounds;
    use crate::seed::Seed;
    use crate::workload::FaultKind;

    const SPEEDS: Speeds = Speeds { ns_per_iteration: 2.0, ns_per_byte: 1.0, obtained_cpus: 2.0 };

    fn request(kind: Kind) -> Request {
        Request { kind, size: None, tasks: None, fault: Fault { kind: FaultKind::Abort, at: 3 } }
    }

    fn spec(requests: Vec<Request>) -> CompareSpec {
        CompareSpec {
            requests,
            models: Model::ALL.to_vec(),
            workers: [1, 2, 4, 8].into_iter().filter_map(Lanes::new).collect(),
            rounds: Rounds::DEFAULT,
            budget: Some(Span::from_secs(90)),
            margin: 0.05,
            confidence: 0.95,
            seed: Seed(7),
            argv: Vec::new(),
        }
    }

    fn planned(spec: &CompareSpec) -> Result<Vec<Sized>, SizeError> {
        let mut machine = Machine::read();
        (machine.usable_cpus, machine.quota_cpus) = (2, None);
        plan(spec, &SPEEDS, &machine)
    }

    #[test]
    fn the_three_kinds_fit_their_budget() {
        let spec = spec(Kind::MEASURED.map(request).to_vec());
        let plan = planned(&spec).unwrap();
        let rounds = spec.rounds.planned() as f64;
        let computing: f64 = plan[..2].iter().map(|sized| sized.round_ns * rounds).sum();
        assert!(computing < 60e9 && computing > 40e9, "{computing}");
        // Waits are regular and end at the fewest rounds; the slow arms leave after five.
        assert!(plan[2].round_ns * 7.0 < 40e9, "{plan:?}");
        assert_eq!(plan[2].tasks, 8);
        assert!(plan[0].tasks >= 40, "{plan:?}");
    }

    #[test]
    fn what_was_asked_for_is_kept_to() {
        let mut cpu = request(Kind::Cpu);
        (cpu.size, cpu.tasks) = (Some(Size::Iterations(5000)), Some(16));
        let mut hash = request(Kind::Hash);
        hash.size = Some(Size::Time(Span::from_millis(2)));
        let mut sleep = request(Kind::Sleep);
        (sleep.size, sleep.tasks) = (Some(Size::Time(Span::from_millis(20))), Some(16));
        let plan = planned(&spec(vec![cpu, hash, sleep])).unwrap();
        assert_eq!((plan[0].workload, plan[0].tasks), (Workload::Cpu { iterations: 5000 }, 16));
        assert_eq!(plan[1].workload, Workload::Hash { size: Bytes(1900 << 10) });
        assert_eq!((plan[2].workload, plan[2].tasks), (Workload::Sleep { time: Span::from_millis(20) }, 16));
    }

    #[test]
    fn few_tasks_become_longer_ones() {
        let mut cpu = request(Kind::Cpu);
        cpu.tasks = Some(16);
        let plan = planned(&spec(vec![cpu])).unwrap();
        assert!(plan[0].tasks == 16 && plan[0].task_ns > 5e6, "{plan:?}");
    }

    #[test]
    fn a_size_of_the_wrong_kind_is_refused_with_what_fits() {
        let told = |kind, size| {
            let mut request = request(kind);
            request.size = Some(size);
            let refused =
                request.checked().and_then(|request| planned(&spec(vec![request])).map(|_| request));
            refused.unwrap_err().to_string()
        };
        assert_eq!(
            told(Kind::Cpu, Size::Bytes(Bytes(7))),
            "a cpu task cannot be sized by bytes: give iterations (1000000) or a time (2ms)"
        );
        assert!(told(Kind::Hash, Size::Iterations(7)).contains("64KiB"));
        assert!(told(Kind::Sleep, Size::Bytes(Bytes(7))).contains("50ms"));
        assert!(told(Kind::Hash, Size::Bytes(Bytes(1 << 40))).contains("not possible"));
        assert!(told(Kind::Cpu, Size::Time(Span::from_secs(61))).contains("1ns to 1min allowed"));
        assert!(told(Kind::Hash, Size::Time(Span::from_secs(50))).contains("1B to 1GiB allowed"));
    }

    #[test]
    fn lanes_share_what_they_can() {
        let arm = |text: &str| text.parse::<Arm>().unwrap();
        assert_eq!(parallelism(Kind::Cpu, &arm("threads@8"), 2, 100), 2.0);
        assert_eq!(parallelism(Kind::Sleep, &arm("threads@8"), 2, 16), 8.0);
        assert_eq!(parallelism(Kind::Sleep, &arm("threads@8"), 2, 12), 6.0);
        assert_eq!(parallelism(Kind::Sleep, &arm("threads@64"), 2, 8), 8.0);
        assert_eq!(parallelism(Kind::Cpu, &Arm::SERIAL, 2, 100), 1.0);
    }
}
