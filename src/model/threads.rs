//! A fixed pool of threads on a bounded queue.
//!
//! ```text
//!  run ─ tasks ─▶ [ queue: bounded ] ─▶ thread 0, thread 1, … ─▶ [ collector ] ─▶ done(…)
//! ```

use std::collections::VecDeque;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::collect::Collector;
use super::serial::in_process;
use super::{Completion, Executor, Job, LaneStart, ModelError};
use crate::fleet::panic_message;
use crate::ids::TaskId;
use crate::probe::clock::{self, Nanos};
use crate::workload::Bench;

/// Tasks that may wait for each thread. The caller fills the queue up when half of it has been worked off, so a thread
/// that has finished finds the next task there.
const ROOM_PER_THREAD: usize = 64;

/// The pool.
pub(super) struct Threads {
    job: Job,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Rung for the threads: tasks wait, or the pool closes.
    work: Condvar,
    ended: Collector,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    closed: bool,
}

#[derive(Clone, Copy)]
struct Waiting {
    task: TaskId,
    submitted: Nanos,
    queued: Nanos,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No code that could panic runs under this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's life.
    fn serve(&self, lane: usize, bench: &Bench) {
        let mut free_since = clock::now();
        while let Some(next) = self.next() {
            // Given to this lane once both were there: the task in the queue, and the lane free.
            let assigned = next.queued.max(free_since);
            let started = clock::now();
            let computed = std::panic::catch_unwind(|| bench.run(next.task));
            let answer =
                computed.unwrap_or_else(|panic| Err(format!("panicked: {}", panic_message(&*panic))));
            let finished = clock::now();
            free_since = finished;
            let stamps = in_process(next.submitted, assigned, started, finished, free_since);
            self.ended.push(Completion { task: next.task, lane, answer, stamps });
        }
    }

    /// The next task, waiting for one; `None` once the pool is closed.
    fn next(&self) -> Option<Waiting> {
        let mut queue = self.lock();
        loop {
            match queue.waiting.pop_front() {
                None if !queue.closed => {
                    queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
                next => return next,
            }
        }
    }

    /// Puts tasks into the queue while there is room.
    fn fill(&self, rest: &mut dyn Iterator<Item = &TaskId>, submitted: Nanos, room: usize) {
        let mut queue = self.lock();
        let was_empty = queue.waiting.is_empty();
        while queue.waiting.len() < room
            && let Some(&task) = rest.next()
        {
            queue.waiting.push_back(Waiting { task, submitted, queued: clock::now() });
        }
        drop(queue);
        // Where tasks waited already, every thread is at work and looks at the queue by itself.
        if was_empty {
            self.work.notify_all();
        }
    }
}

impl Threads {
    pub(super) fn new(job: Job) -> Threads {
        Threads { job, shared: Arc::default(), threads: Vec::new() }
    }
}

impl Executor for Threads {
    fn start(&mut self) -> Result<Vec<LaneStart>, ModelError> {
        let bench = Arc::new(Bench::new(self.job.workload, self.job.seed));
        let (ready, all_ready) = mpsc::channel();
        for lane in 0..self.job.lanes.get() {
            let (shared, bench, ready) = (Arc::clone(&self.shared), Arc::clone(&bench), ready.clone());
            let asked = clock::now();
            let life = move || {
                // The caller waits for every thread, so it is there.
                let _ = ready.send(clock::now() - asked);
                drop(ready);
                shared.serve(lane, &bench);
            };
            let thread = std::thread::Builder::new().name(format!("lane-{lane}")).spawn(life);
            self.threads.push(thread.map_err(|cause| ModelError::Start { what: "a thread", cause })?);
        }
        drop(ready);
        Ok(all_ready.iter().map(|took| LaneStart { to_first_instruction: took, to_ready: took }).collect())
    }

    fn run(&mut self, tasks: &[TaskId], done: &mut dyn FnMut(Completion)) -> Result<(), ModelError> {
        let submitted = clock::now();
        let room = self.job.lanes.get() * ROOM_PER_THREAD;
        let (mut rest, mut open) = (tasks.iter(), tasks.len());
        let mut ended = Vec::new();
        while open > 0 {
            self.shared.fill(&mut rest, submitted, room);
            // Where nothing is left to be fed, there is nothing to do before all have ended.
            let wanted = if rest.len() == 0 { open } else { open.min(room / 2) };
            self.shared.ended.take(wanted, &mut ended);
            open -= ended.len();
            ended.drain(..).for_each(&mut *done);
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<(), ModelError> {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            thread.join().map_err(|panic| ModelError::LaneLost(panic_message(&*panic)))?;
        }
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
