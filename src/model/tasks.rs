//! Async tasks on tokio: each task of the batch is spawned, and so many may be in flight at once.
//!
//! A feeder, itself an async task, waits for a permit and spawns the next. What computes, computes on the runtime's
//! worker threads, as it does in every service that forgets `spawn_blocking`: one thread a lane, up to the usable CPUs.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use super::collect::Collector;
use super::serial::in_process;
use super::{Completion, Executor, Job, LaneStart, ModelError};
use crate::fleet::panic_message;
use crate::ids::TaskId;
use crate::probe::clock::{self, Nanos};
use crate::sys::cpu::Cpus;
use crate::workload::{Bench, Need};

/// Completions that may lie ready before the caller is woken for them.
const TAKEN_AT_ONCE: usize = 4096;

/// A runtime, and the bench that its tasks share.
pub(super) struct Tasks {
    job: Job,
    up: Option<Up>,
}

struct Up {
    runtime: Runtime,
    shared: Arc<Shared>,
}

struct Shared {
    bench: Bench,
    /// The lanes that are free, and since when.
    free: Mutex<Vec<(usize, Nanos)>>,
    permits: Arc<Semaphore>,
    ended: Collector,
}

impl Tasks {
    pub(super) fn new(job: Job) -> Tasks {
        Tasks { job, up: None }
    }
}

impl Shared {
    fn lane(&self) -> (usize, Nanos) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.pop().expect("a permit stands for a free lane")
    }

    fn give_back(&self, lane: usize, since: Nanos) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push((lane, since));
    }

    async fn run(&self, task: TaskId, submitted: Nanos) {
        let (lane, free_since) = self.lane();
        let assigned = free_since.max(submitted);
        let started = clock::now();
        if let Need::Wait(time) = self.bench.need() {
            tokio::time::sleep(time).await;
        }
        let computed = std::panic::catch_unwind(|| self.bench.compute(task));
        let answer = computed.unwrap_or_else(|panic| Err(format!("panicked: {}", panic_message(&*panic))));
        let finished = clock::now();
        let stamps = in_process(submitted, assigned, started, finished, finished);
        // Before the lane is free again, so that what happens on one lane is told in its order.
        self.ended.push(Completion { task, lane, answer, stamps });
        self.give_back(lane, finished);
    }
}

async fn feed(shared: Arc<Shared>, tasks: Vec<TaskId>, submitted: Nanos) {
    for task in tasks {
        let Ok(permit) = Arc::clone(&shared.permits).acquire_owned().await else { return };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            shared.run(task, submitted).await;
            drop(permit);
        });
    }
}

impl Executor for Tasks {
    fn start(&mut self) -> Result<Vec<LaneStart>, ModelError> {
        let lanes = self.job.lanes.get();
        let asked = clock::now();
        let runtime = Builder::new_multi_thread()
            .worker_threads(lanes.min(Cpus::read().usable()))
            .thread_name("runtime")
            .enable_time()
            .build()
            .map_err(|cause| ModelError::Start { what: "the async runtime", cause })?;
        let first: Vec<_> = (0..lanes).map(|_| runtime.spawn(async { clock::now() })).collect();
        let mut starts = Vec::new();
        for task in first {
            let ran = runtime.block_on(task).map_err(|cause| ModelError::LaneLost(cause.to_string()))?;
            let took = ran.saturating_sub(asked);
            starts.push(LaneStart { to_first_instruction: took, to_ready: took });
        }
        let bench = Bench::new(self.job.workload, self.job.seed);
        let free = Mutex::new((0..lanes).rev().map(|lane| (lane, 0)).collect());
        let shared = Arc::new(Shared {
            bench,
            free,
            permits: Arc::new(Semaphore::new(lanes)),
            ended: Collector::default(),
        });
        self.up = Some(Up { runtime, shared });
        Ok(starts)
    }

    fn run(&mut self, tasks: &[TaskId], done: &mut dyn FnMut(Completion)) -> Result<(), ModelError> {
        let Some(up) = &self.up else { return Err(ModelError::LaneLost("it was not started".into())) };
        up.runtime.spawn(feed(Arc::clone(&up.shared), tasks.to_vec(), clock::now()));
        let (mut open, mut ended) = (tasks.len(), Vec::new());
        while open > 0 {
            up.shared.ended.take(open.min(TAKEN_AT_ONCE), &mut ended);
            open -= ended.len();
            ended.drain(..).for_each(&mut *done);
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<(), ModelError> {
        // Dropping a runtime waits for its threads.
        self.up = None;
        Ok(())
    }
}
