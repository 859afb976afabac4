//! One trial: a model, a batch, and everything that is measured of them, in a process of its own.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{Digest, TaskId};
use crate::model::{self, Completion, Executor, Job, LaneStart, Model, ModelError};
use crate::probe::clock::{self, Nanos};
use crate::probe::histogram::{Buckets, Histogram};
use crate::probe::memory::Memory;
use crate::probe::stamps::Stamps;
use crate::probe::usage::Usage;
use crate::seed::Rng;
use crate::sys::process::Pid;
use crate::sys::{fds, process};

/// What is to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialOrder {
    /// The model.
    pub model: Model,
    /// The work, and on how many lanes.
    pub job: Job,
    /// How many tasks.
    pub tasks: u64,
    /// Decides the order of the tasks, so that a slow one does not always meet the same lane.
    pub shuffle: u64,
}

/// Where the time of the lanes went, in nanoseconds, all lanes together: the parts sum to lanes × wall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waterfall {
    /// The lane waited for a task.
    pub queue_wait: Nanos,
    /// The order was turned into bytes.
    pub encode: Nanos,
    /// The order was on its way, the wake-up of the lane included.
    pub transport: Nanos,
    /// The lane turned bytes into a task.
    pub decode: Nanos,
    /// The task ran.
    pub compute: Nanos,
    /// The answer was turned into bytes and was on its way, our wake-up included.
    pub reply: Nanos,
    /// The answer was turned into a value.
    pub settle: Nanos,
}

impl Waterfall {
    /// All parts.
    pub fn sum(&self) -> Nanos {
        self.queue_wait + self.encode + self.transport + self.decode + self.compute + self.reply + self.settle
    }

    /// The parts that a model without a boundary would not have.
    pub fn shipping(&self) -> Nanos {
        self.encode + self.transport + self.decode + self.reply + self.settle
    }

    /// Two waterfalls together.
    #[must_use]
    pub fn plus(&self, other: &Waterfall) -> Waterfall {
        Waterfall {
            queue_wait: self.queue_wait + other.queue_wait,
            encode: self.encode + other.encode,
            transport: self.transport + other.transport,
            decode: self.decode + other.decode,
            compute: self.compute + other.compute,
            reply: self.reply + other.reply,
            settle: self.settle + other.settle,
        }
    }
}

/// What an executor left behind that it should not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftovers {
    /// Descriptors.
    pub descriptors: i64,
    /// Threads.
    pub threads: i64,
    /// Children.
    pub children: i64,
}

/// What a trial measured. Times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialReport {
    /// The batch, from handing it in to the last answer; the pool was up.
    pub wall: Nanos,
    /// What all processes of the trial used meanwhile.
    pub usage: Usage,
    /// How long each lane took to come up; the baseline has none.
    pub starts: Vec<LaneStart>,
    /// From nothing to all lanes ready.
    pub pool_ready: Nanos,
    /// From asking the pool to stop until nothing was left of it.
    pub teardown: Nanos,
    /// Memory of all processes of the trial, after the batch, with the pool still up and idle.
    pub memory: Memory,
    /// How many processes that were.
    pub processes: usize,
    /// Start of work to end of work.
    pub service: Buckets,
    /// Handing in to answer: in a batch mostly the position in it.
    pub sojourn: Buckets,
    /// Where the lanes' time went.
    pub waterfall: Waterfall,
    /// The joined answers.
    pub digest: Digest,
    /// Tasks that answered.
    pub done: u64,
    /// Tasks that failed by themselves, and what the first of them said.
    pub failed: Option<(u64, String)>,
}

/// Why a trial has no report.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The model could not go on.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// Something could not be measured.
    #[error("cannot measure: {0}")]
    Probe(#[from] io::Error),
    /// The executor broke its promise.
    #[error("{model} left something behind: {left:?}")]
    LeftBehind {
        /// The model.
        model: Model,
        /// What.
        left: Leftovers,
    },
}

/// Runs a trial in this process, which should be a fresh one with a single thread.
///
/// # Errors
/// If a lane is lost, or something cannot be measured, or the executor leaves something behind.
pub fn run(order: &TrialOrder) -> Result<TrialReport, TrialError> {
    let before = Holdings::now()?;
    let tasks = shuffled(order);
    let mut executor = model::build(order.model, order.job);

    let begun = clock::now();
    let starts = executor.start()?;
    let pool_ready = clock::now() - begun;

    let mut ledger = Ledger::new(order.job.lanes.get());
    let used_before = usage(&mut *executor)?;
    let handed_in = clock::now();
    ledger.open(handed_in);
    executor.run(&tasks, &mut |completion| ledger.record(&completion))?;
    let ended = clock::now();
    let usage = usage(&mut *executor)?.since(&used_before);
    ledger.close(ended);

    let (memory, processes) = weigh(&*executor)?;

    let stopping = clock::now();
    executor.stop()?;
    let teardown = clock::now() - stopping;
    drop(executor);
    let left = Holdings::settled(&before)?;
    if left != Leftovers::default() {
        return Err(TrialError::LeftBehind { model: order.model, left });
    }
    Ok(TrialReport {
        wall: ended - handed_in,
        usage,
        starts,
        pool_ready,
        teardown,
        memory,
        processes,
        service: ledger.service.buckets(),
        sojourn: ledger.sojourn.buckets(),
        waterfall: ledger.waterfall,
        digest: ledger.digest,
        done: ledger.done,
        failed: ledger.failed,
    })
}

fn shuffled(order: &TrialOrder) -> Vec<TaskId> {
    let mut tasks: Vec<TaskId> = (0..order.tasks).map(TaskId).collect();
    let mut rng: Rng = order.job.seed.stream(order.shuffle);
    rng.shuffle(&mut tasks);
    tasks
}

fn usage(executor: &mut dyn Executor) -> Result<Usage, TrialError> {
    let elsewhere = executor.usage_elsewhere()?;
    Ok(Usage::of_this_process()?.plus(&elsewhere))
}

/// The memory of this process and of the executor's, and how many those are.
fn weigh(executor: &dyn Executor) -> io::Result<(Memory, usize)> {
    let mut pids = executor.processes();
    pids.push(Pid::own());
    let mut sum = Memory::default();
    for pid in &pids {
        sum = sum.plus(&Memory::of(*pid)?);
    }
    Ok((sum, pids.len()))
}

/// How long the kernel may take to be done with what has ended, in nanoseconds.
const SETTLING: Nanos = 2_000_000_000;

/// What this process holds.
struct Holdings {
    descriptors: usize,
    threads: usize,
    children: usize,
}

impl Holdings {
    fn now() -> io::Result<Holdings> {
        Ok(Holdings {
            descriptors: fds::open_count()?,
            threads: process::own_threads()?,
            children: process::own_children()?,
        })
    }

    /// What is left once nothing more goes away: a thread that was joined, or a child that was reaped, is listed until
    /// the kernel is done with it, which is a moment later.
    fn settled(before: &Holdings) -> io::Result<Leftovers> {
        let give_up = clock::now() + SETTLING;
        loop {
            let left = Holdings::now()?.since(before);
            if left == Leftovers::default() || clock::now() > give_up {
                return Ok(left);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn since(&self, before: &Holdings) -> Leftovers {
        let more = |now: usize, then: usize| now as i64 - then as i64;
        Leftovers {
            descriptors: more(self.descriptors, before.descriptors),
            threads: more(self.threads, before.threads),
            children: more(self.children, before.children),
        }
    }
}

/// Takes completions down as they come, in a space that does not grow with their number.
struct Ledger {
    free_since: Vec<Nanos>,
    waterfall: Waterfall,
    service: Histogram,
    sojourn: Histogram,
    digest: Digest,
    done: u64,
    failed: Option<(u64, String)>,
}

impl Ledger {
    fn new(lanes: usize) -> Ledger {
        Ledger {
            free_since: vec![0; lanes],
            waterfall: Waterfall::default(),
            service: Histogram::default(),
            sojourn: Histogram::default(),
            digest: Digest::default(),
            done: 0,
            failed: None,
        }
    }

    fn open(&mut self, now: Nanos) {
        self.free_since.fill(now);
    }

    fn record(&mut self, completion: &Completion) {
        let Completion { task, lane, answer, stamps } = completion;
        self.pour(*lane, stamps);
        self.service.record(stamps.finished.saturating_sub(stamps.started));
        self.sojourn.record(stamps.received.saturating_sub(stamps.submitted));
        match answer {
            Ok(answer) => {
                self.digest = self.digest.with(*task, *answer);
                self.done += 1;
            }
            Err(message) => self.failed.get_or_insert_with(|| (0, message.clone())).0 += 1,
        }
    }

    fn pour(&mut self, lane: usize, stamps: &Stamps) {
        let span = |from: Nanos, to: Nanos| to.saturating_sub(from);
        let free_since = std::mem::replace(&mut self.free_since[lane], stamps.settled);
        self.waterfall = self.waterfall.plus(&Waterfall {
            queue_wait: span(free_since, stamps.assigned),
            encode: span(stamps.assigned, stamps.encoded),
            transport: span(stamps.encoded, stamps.arrived),
            decode: span(stamps.arrived, stamps.started),
            compute: span(stamps.started, stamps.finished),
            reply: span(stamps.finished, stamps.received),
            settle: span(stamps.received, stamps.settled),
        });
    }

    fn close(&mut self, now: Nanos) {
        for free_since in &mut self.free_since {
            self.waterfall.queue_wait += now.saturating_sub(*free_since);
            *free_since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_lanes_time_leave_no_gap() {
        let mut ledger = Ledger::new(2);
        ledger.open(100);
        let stamps = |at: u64| Stamps {
            submitted: 100,
            assigned: at,
            encoded: at + 1,
            arrived: at + 3,
            started: at + 4,
            finished: at + 14,
            received: at + 16,
            settled: at + 17,
        };
        for (task, lane, at) in [(0, 0, 100), (1, 1, 105), (2, 0, 120)] {
            ledger.record(&Completion {
                task: TaskId(task),
                lane,
                answer: Ok(Digest(task)),
                stamps: stamps(at),
            });
        }
        ledger.close(150);
        assert_eq!(ledger.waterfall.sum(), 2 * 50);
        assert_eq!((ledger.waterfall.compute, ledger.waterfall.encode), (30, 3));
        assert_eq!(ledger.waterfall.queue_wait, 3 + 13 + 5 + 28);
        assert_eq!(ledger.done, 3);
    }

    #[test]
    fn failures_are_counted_and_the_first_is_kept() {
        let mut ledger = Ledger::new(1);
        for (task, words) in [(0, "first"), (1, "second")] {
            let answer = Err(words.to_owned());
            ledger.record(&Completion { task: TaskId(task), lane: 0, answer, stamps: Stamps::default() });
        }
        assert_eq!(ledger.failed, Some((2, "first".to_owned())));
    }
}
