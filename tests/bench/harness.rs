//! What running tasks through a pool costs besides the tasks.

use fleet::ids::{Digest, Lanes, TaskId};
use fleet::model::{self, Job, Model};
use fleet::probe::clock;
use fleet::probe::usage::Usage;
use fleet::seed::Seed;
use fleet::workload::{Bench, Workload, cpu};

use crate::passes::{Side, interleaved};
use crate::table::Row;
use crate::{Failure, say};

/// Batches of each kind in a pass: with fewer, the noise of a batch would be as large as the percent that is looked for.
const BATCHES: usize = 4;

/// Tasks in a batch, and the time that one should take.
const TASKS: u64 = 200;
const TASK_NS: f64 = 1e6;

/// CPU time of this process for a batch through a pool of one thread, by that of a loop. Leaves no thread.
pub(crate) fn rows(passes: usize) -> Result<Vec<Row>, Failure> {
    say("running tasks through a pool, and in a loop …");
    let workload = Workload::Cpu { iterations: iterations() };
    let job = Job { workload, seed: Seed(1), lanes: Lanes::ONE };
    let tasks: Vec<TaskId> = (0..TASKS).map(TaskId).collect();
    let sides: [Side<'_>; 2] = [&mut || pooled(job, &tasks), &mut || bare(job, &tasks)];
    let [pool, bare] = interleaved(passes, BATCHES, sides)?;
    Ok(vec![Row::typical("threads@1: CPU", &pool, "bare loop", &bare).at_most(1.01)])
}

fn pooled(job: Job, tasks: &[TaskId]) -> Result<f64, Failure> {
    let mut pool = model::build(Model::Threads, job);
    pool.start()?;
    let mut digest = Digest::default();
    let used = cpu_of(|| {
        let mut done = |ended: model::Completion| {
            digest = digest.with(ended.task, ended.answer.unwrap_or_default());
        };
        Ok(pool.run(tasks, &mut done)?)
    })?;
    pool.stop()?;
    std::hint::black_box(digest);
    Ok(used)
}

fn bare(job: Job, tasks: &[TaskId]) -> Result<f64, Failure> {
    let bench = Bench::new(job.workload, job.seed);
    let mut digest = Digest::default();
    let used = cpu_of(|| {
        for task in tasks {
            digest = digest.with(*task, bench.run(*task)?);
        }
        Ok(())
    })?;
    std::hint::black_box(digest);
    Ok(used)
}

/// CPU time of this process while it does `work`, in nanoseconds.
fn cpu_of(work: impl FnOnce() -> Result<(), Failure>) -> Result<f64, Failure> {
    let before = Usage::of_this_process()?;
    work()?;
    Ok(Usage::of_this_process()?.since(&before).cpu_ns() as f64)
}

/// Rounds of the kernel that take about as long as a task should, by the fastest of some tries.
fn iterations() -> u64 {
    const TRIED: u64 = 1_000_000;
    let timed = || {
        let begun = clock::now();
        std::hint::black_box(cpu(TRIED, 1));
        clock::now() - begun
    };
    let fastest = (0..10).map(|_| timed()).min().unwrap_or(TRIED);
    (TASK_NS / fastest as f64 * TRIED as f64) as u64
}
