//! What was measured of one arm, in nanoseconds and bytes.

use schemars::JsonSchema;
use serde::Serialize;

use super::report::Estimate;
use super::verdict::Verdict;
use crate::probe::clock::Nanos;
use crate::probe::histogram::{Buckets, Histogram};
use crate::probe::stats;

/// What was measured of an arm. Medians are over counted rounds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ArmReport {
    /// Like `threads@2`.
    pub id: String,
    /// The model.
    pub model: String,
    /// How many workers; 1 for the baseline.
    pub workers: usize,
    /// `measured`, `retired` (surely slower than half of the best, and run no more) or `failed`.
    pub state: String,
    /// Why it failed.
    pub error: Option<String>,
    /// Rounds counted of this arm.
    pub rounds_counted: usize,
    /// The batch, with the pool up.
    pub wall_ns: Option<Spread>,
    /// Whether the walls fall into two groups: two states of the machine, and a median between them means little.
    pub bimodal: bool,
    /// Tasks a second, from the median wall.
    pub throughput_per_s: Option<f64>,
    /// Pool start, batch and tear-down together: the median.
    pub cold_ns: Option<Nanos>,
    /// CPU time of a task, in all processes of the arm.
    pub cpu_ns_per_task: Option<CpuReport>,
    /// Context switches of a task.
    pub switches_per_task: Option<SwitchReport>,
    /// What `ratio` is against: always `serial`.
    pub ratio_vs: String,
    /// Its wall in `serial`'s, round by round: above 1 is faster.
    pub ratio: Option<Estimate>,
    /// How `ratio` is made.
    pub ratio_method: String,
    /// What `ratio` says.
    pub verdict: Option<Verdict>,
    /// About how many rounds would settle an inconclusive verdict.
    pub rounds_needed: Option<usize>,
    /// Whether it may be the fastest, with all arms' intervals holding at once.
    pub in_best_set: bool,
    /// Latencies.
    pub latency: LatencyReport,
    /// Where the lanes' time went.
    pub cost_ns_per_task: Option<CostReport>,
    /// Coming up and going down.
    pub startup_ns: StartupReport,
    /// What it weighs with its lanes up and idle, all its processes together.
    pub memory_bytes: Option<MemoryReport>,
    /// What must be so for it to pay.
    pub break_even: Option<BreakEven>,
    /// Reasons for doubt.
    pub caveats: Vec<String>,
    /// Every trial.
    pub rounds: Vec<TrialRow>,
}

/// The spread of a quantity over rounds.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Spread {
    /// The median.
    pub p50: Nanos,
    /// The least; not for ranking.
    pub min: Nanos,
    /// The most.
    pub max: Nanos,
}

impl Spread {
    pub(super) fn of(values: &[Nanos]) -> Option<Spread> {
        let (min, max) = (*values.iter().min()?, *values.iter().max()?);
        Some(Spread { p50: stats::median_u64(values.iter().copied())?, min, max })
    }
}

/// CPU time, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct CpuReport {
    /// In our own code.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// Both, the median of their sum.
    pub total: f64,
}

/// Context switches.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct SwitchReport {
    /// A thread gave its CPU up, to wait.
    pub voluntary: f64,
    /// A thread was taken off its CPU.
    pub involuntary: f64,
}

/// Latencies of all counted rounds together.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LatencyReport {
    /// Start to end of a task's work.
    pub service_ns: Quantiles,
    /// Handing in to answer: in a batch mostly a task's place in it.
    pub sojourn_ns: Quantiles,
    /// How late tasks were handed in; `null`, since a batch is handed in at once.
    pub send_lag_ns: Option<Quantiles>,
}

/// A distribution. A percentile with fewer than ten samples beyond it is `null`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Quantiles {
    /// Half took no longer; needs 20 samples.
    pub p50: Option<Nanos>,
    /// Nine of ten took no longer; needs 100 samples.
    pub p90: Option<Nanos>,
    /// Ninety-nine of a hundred took no longer; needs 1000 samples.
    pub p99: Option<Nanos>,
    /// The longest.
    pub max: Option<Nanos>,
    /// How many.
    pub count: u64,
    /// The distribution itself: upper end of each bucket and how many fell into it, three digits exact.
    pub buckets: Vec<(u64, u64)>,
}

impl Quantiles {
    pub(super) fn of<'a>(parts: impl Iterator<Item = &'a Buckets>) -> Quantiles {
        let mut all = Histogram::default();
        parts.for_each(|part| all.add(part));
        Quantiles {
            p50: all.quantile(0.5),
            p90: all.quantile(0.9),
            p99: all.quantile(0.99),
            max: all.max(),
            count: all.count(),
            buckets: all.buckets().0,
        }
    }
}

/// Where the lanes' time went, for each task: the parts but `runqueue_wait` sum to workers × wall / tasks.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct CostReport {
    /// The order was turned into bytes.
    pub encode: f64,
    /// The order was on its way.
    pub transport: f64,
    /// The lane waited for a task.
    pub queue_wait: f64,
    /// The task ran, or waited for a CPU while it could have.
    pub compute: f64,
    /// The answer was on its way.
    pub reply: f64,
    /// Bytes were turned into the order, and the answer's into a value.
    pub decode: f64,
    /// Encode, transport, reply and decode: what a boundary costs.
    pub shipping: f64,
    /// Time in which threads of the arm could run and had no CPU; lies within the other parts.
    pub runqueue_wait: f64,
    /// All parts over workers × wall: 1, or the stamps are wrong.
    pub accounted: f64,
}

/// Coming up and going down, medians in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct StartupReport {
    /// A lane, from asking for it to its being ready; `null` for the baseline.
    pub per_worker_p50: Option<Nanos>,
    /// A lane, from asking for it to its first instruction; `null` for the baseline.
    pub to_first_instruction_p50: Option<Nanos>,
    /// From nothing to all lanes ready.
    pub pool_ready_p50: Option<Nanos>,
    /// From asking it to stop until nothing is left.
    pub teardown_p50: Option<Nanos>,
}

/// Memory, medians in bytes.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct MemoryReport {
    /// What the machine gives for all of it: shared pages once. The parent and the zygote are in it.
    pub pss_total: u64,
    /// Pages that only one of the processes has.
    pub uss_total: u64,
    /// What adding up `ps` would claim: shared pages count again and again.
    pub rss_sum: u64,
    /// One more worker: the slope of `pss_total` over this model's numbers of workers; `null` for a single one.
    pub marginal_per_worker: Option<f64>,
    /// `pss_total` by kind.
    pub pss_split: PssSplit,
    /// Kernel stacks of the threads; in none of the above.
    pub kernel_stacks: u64,
    /// Page tables; in none of the above.
    pub page_tables: u64,
    /// The highest peak of a single process: VmHWM.
    pub peak_hwm_max: u64,
    /// How many processes it is.
    pub processes: usize,
}

/// Where pages come from.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct PssSplit {
    /// Heaps, stacks, written copies.
    pub anon: u64,
    /// Programs and libraries.
    pub file: u64,
    /// Shared memory.
    pub shmem: u64,
}

/// What must be so for an arm to beat `serial`.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct BreakEven {
    /// A task at least so long, in nanoseconds, in a batch of this size, start and tear-down included:
    /// (shipping + workers × pool / tasks) / (workers − 1), the workers that can run side by side; `null` where more
    /// workers compute than there are CPUs.
    pub task_ns: Option<f64>,
    /// At least so many tasks like these, before start and tear-down are earned; `null` if the arm gains nothing.
    pub tasks_to_repay_startup: Option<u64>,
}

/// One trial.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TrialRow {
    /// The round, from 0.
    pub i: usize,
    /// Its place in the round, from 0.
    pub pos: usize,
    /// Not counted.
    pub warmup: bool,
    /// The batch.
    pub wall_ns: Nanos,
    /// CPU time of the batch, all processes, our own code.
    pub cpu_user_ns: Nanos,
    /// CPU time of the batch, all processes, the kernel.
    pub cpu_system_ns: Nanos,
    /// Time in which threads could run and had no CPU.
    pub runqueue_wait_ns: Nanos,
    /// Switches given.
    pub voluntary_switches: u64,
    /// Switches taken.
    pub involuntary_switches: u64,
    /// Faults that waited for a disk.
    pub major_faults: u64,
    /// From nothing to all lanes ready.
    pub pool_ready_ns: Nanos,
    /// From asking to stop until nothing was left.
    pub teardown_ns: Nanos,
    /// All processes' memory.
    pub pss_bytes: u64,
}
