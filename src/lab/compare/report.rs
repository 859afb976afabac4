//! The result: one document, in nanoseconds and bytes. What is not known is `null`, never absent.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::arm_report::ArmReport;
use super::scaling::Scaling;
use super::{Arm, CompareSpec};
use crate::probe::clock::Nanos;
use crate::probe::host::Machine;
use crate::probe::noise::Noise;
use crate::probe::stats::Interval;
use crate::units::Span;

/// The name and version of this document's form.
pub(super) const SCHEMA: &str = "fleet.compare/1";

/// What `fleet compare` found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CompareReport {
    /// The form of this document: `fleet.compare/1`.
    pub schema: String,
    /// What made it.
    pub tool: Tool,
    /// What was typed.
    pub argv: Vec<String>,
    /// From which all inputs and orders follow.
    pub seed: u32,
    /// When it began, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_ns: Nanos,
    /// Whether somebody ended it early; what is here is of whole rounds all the same.
    pub interrupted: bool,
    /// Where it was measured.
    pub machine: Machine,
    /// How it was measured.
    pub design: Design,
    /// What was found, one a workload.
    pub comparisons: Vec<Comparison>,
    /// The chief figures under one flat name each, like `cpu.threads@2.speedup`, for thresholds in scripts.
    pub metrics: BTreeMap<String, f64>,
    /// Whether people get to see every arm, however many; no part of the document.
    #[serde(skip)]
    pub all_arms: bool,
}

/// What made a document.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Tool {
    /// The package's version.
    pub version: String,
    /// The commit it was built from, where the build was told (FLEET_GIT_COMMIT).
    pub git: Option<String>,
    /// `release` or `debug`.
    pub profile: String,
}

/// How a comparison was made.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Design {
    /// Rounds counted at the most.
    pub rounds: usize,
    /// Rounds run before, and not counted.
    pub warmup: usize,
    /// Arms run in a random order, drawn anew each round.
    pub order: String,
    /// A difference below this share does not matter.
    pub margin: f64,
    /// The confidence asked of intervals.
    pub confidence: f64,
    /// `width`: rounds end when intervals are narrow enough; `rounds`: their number is fixed.
    pub stop: String,
    /// That width, on each side, as a share.
    pub stop_width: Option<f64>,
    /// The time given to all workloads together, in nanoseconds.
    pub budget_ns: Option<Nanos>,
}

/// A median and its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The median.
    pub point: f64,
    /// The lower end of its interval.
    pub lo: f64,
    /// The upper end.
    pub hi: f64,
    /// The confidence that the interval really has.
    pub confidence: f64,
}

impl From<Interval> for Estimate {
    fn from(interval: Interval) -> Estimate {
        Estimate { point: interval.point, lo: interval.lo, hi: interval.hi, confidence: interval.confidence }
    }
}

/// What was found for one workload.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Comparison {
    /// The work.
    pub workload: WorkloadReport,
    /// Rounds counted.
    pub rounds: usize,
    /// Why no more were run: `rounds`, `width`, `budget` or `interrupted`.
    pub stopped: String,
    /// What disturbed the machine.
    pub noise: NoiseReport,
    /// The arms, the baseline first and its control second.
    pub arms: Vec<ArmReport>,
    /// How each model's speed grows.
    pub scaling: BTreeMap<String, Scaling>,
    /// What follows from it.
    pub answer: Answer,
}

/// The work.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WorkloadReport {
    /// `cpu`, `hash`, `sleep` or `fault`.
    pub name: String,
    /// The size of a task, in its own unit.
    pub size: String,
    /// What computes it, where machines differ: `hash` is several times faster with SHA instructions, and every
    /// break-even size in bytes with it.
    pub implementation: Option<String>,
    /// How many tasks a batch has.
    pub tasks: u64,
    /// Bytes a task reads, where that is its size.
    pub task_bytes: Option<u64>,
    /// How long a task takes when it runs alone: the median of `serial`, in nanoseconds.
    pub task_ns: Option<Nanos>,
    /// The joined answers, equal under every model.
    pub checksum: Option<String>,
    /// Whether all arms agreed on it.
    pub checksum_agreed: bool,
    /// CPU time over run time of `serial`: 1 computes, 0 waits.
    pub cpu_bound_ratio: Option<f64>,
}

/// What disturbed the machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NoiseReport {
    /// The baseline against itself: 1 on a quiet machine.
    pub aa_ratio: Option<Estimate>,
    /// The median over rounds of other processes' share of the usable CPUs.
    pub foreign_cpu_p50: f64,
    /// The median over rounds of the CPU time that the hypervisor gave to others.
    pub steal_p50: f64,
    /// Rounds with a flag.
    pub flagged_rounds: usize,
    /// Whether wall times may not be ranked; CPU times still mean something.
    pub too_noisy: bool,
    /// The other process that took most, over all rounds.
    pub culprit: Option<CulpritReport>,
    /// Each round.
    pub rounds: Vec<RoundNoise>,
}

/// Another process that used the CPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CulpritReport {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// The rounds in which it took most.
    pub rounds: usize,
    /// Its share of the usable CPUs in the worst of them.
    pub worst_share: f64,
}

/// What disturbed a round.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RoundNoise {
    /// Its number, from 0.
    pub i: usize,
    /// Not counted.
    pub warmup: bool,
    /// Other processes' share of the usable CPUs.
    pub foreign_cpu: f64,
    /// The hypervisor's share of all CPU time.
    pub steal: f64,
    /// Quota periods in which we were held back; `null` without a quota.
    pub throttled_periods: Option<u64>,
    /// Time in which some task waited for a CPU, ours included; `null` without pressure counters.
    pub psi_some_us: Option<u64>,
    /// Tasks that could run when the round began.
    pub procs_running: u64,
    /// Pages swapped; `null` where not counted.
    pub swapped_pages: Option<u64>,
    /// Why it is doubtful: `foreign_cpu`, `steal`, `throttled`, `swapping`.
    pub flags: Vec<String>,
}

impl RoundNoise {
    pub(super) fn new(i: usize, warmup: bool, noise: &Noise) -> RoundNoise {
        RoundNoise {
            i,
            warmup,
            foreign_cpu: noise.foreign_cpu,
            steal: noise.steal,
            throttled_periods: noise.throttled_periods,
            psi_some_us: noise.pressure_us,
            procs_running: noise.procs_running,
            swapped_pages: noise.swapped_pages,
            flags: noise.flags().into_iter().map(str::to_owned).collect(),
        }
    }
}

/// How sure the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AnswerCode {
    /// An arm is recommended, and its advantage is settled.
    VerdictOk,
    /// The best arm's advantage is not settled.
    Inconclusive,
    /// The machine was too noisy to rank wall times.
    TooNoisy,
    /// Too few rounds to be sure; what is said is a first impression.
    Indicative,
    /// Arms disagreed on the checksum: nothing else counts.
    Disagreed,
    /// There is nothing to compare with: the baseline failed, or no round was whole.
    NoBaseline,
}

impl AnswerCode {
    /// Whether it settles the question.
    pub fn is_verdict(self) -> bool {
        self == AnswerCode::VerdictOk
    }
}

/// What follows from a comparison.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// How sure.
    pub code: AnswerCode,
    /// The arm to take.
    pub arm: Option<String>,
    /// In a sentence.
    pub headline: String,
    /// Why, the price, the alternatives and what would change it: a label and a sentence each.
    pub lines: Vec<AnswerLine>,
    /// The smallest number of workers of each model that is as fast as the model gets.
    pub sufficient_workers: BTreeMap<String, usize>,
    /// Other arms that are as fast.
    pub alternatives: Vec<String>,
}

/// A sentence of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AnswerLine {
    /// What it is about: `why`, `price`, `more`, `alt`, `avoid`, `change`, `do`, `doubt`.
    pub label: String,
    /// The sentence.
    pub text: String,
}

impl CompareReport {
    pub(super) fn new(
        spec: &CompareSpec,
        machine: Machine,
        comparisons: Vec<Comparison>,
        interrupted: bool,
        started_unix_ns: u64,
        elapsed_ns: Nanos,
    ) -> CompareReport {
        let metrics = metrics(&comparisons);
        CompareReport {
            schema: SCHEMA.to_owned(),
            tool: Tool {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                git: option_env!("FLEET_GIT_COMMIT").map(str::to_owned),
                profile: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            },
            argv: spec.argv.clone(),
            seed: spec.seed.0,
            started_unix_ns,
            elapsed_ns,
            interrupted,
            machine,
            design: Design {
                rounds: spec.rounds.most,
                warmup: spec.rounds.warmup,
                order: "shuffled".to_owned(),
                margin: spec.margin,
                confidence: spec.confidence,
                stop: if spec.rounds.width.is_some() { "width" } else { "rounds" }.to_owned(),
                stop_width: spec.rounds.width,
                budget_ns: spec.budget.map(Span::nanos),
            },
            comparisons,
            metrics,
            all_arms: false,
        }
    }

    /// Whether an arm of some workload failed.
    pub fn any_failed(&self) -> bool {
        self.comparisons.iter().flat_map(|comparison| &comparison.arms).any(|arm| arm.error.is_some())
    }
}

impl Comparison {
    pub(super) fn arm(&self, arm: Arm) -> Option<&ArmReport> {
        let id = arm.to_string();
        self.arms.iter().find(|report| report.id == id)
    }
}

fn metrics(comparisons: &[Comparison]) -> BTreeMap<String, f64> {
    let mut metrics = BTreeMap::new();
    for comparison in comparisons {
        for arm in &comparison.arms {
            let mut put = |name: &str, value: Option<f64>| {
                if let Some(value) = value {
                    metrics.insert(format!("{}.{}.{name}", comparison.workload.name, arm.id), value);
                }
            };
            put("wall_ns", arm.wall_ns.map(|wall| wall.p50 as f64));
            put("speedup", arm.ratio.map(|ratio| ratio.point));
            put("cpu_ns_per_task", arm.cpu_ns_per_task.map(|cpu| cpu.total));
            put("pss_bytes", arm.memory_bytes.map(|memory| memory.pss_total as f64));
            put("pool_ready_ns", arm.startup_ns.pool_ready_p50.map(|ready| ready as f64));
            put("shipping_ns_per_task", arm.cost_ns_per_task.map(|cost| cost.shipping));
        }
    }
    metrics
}
