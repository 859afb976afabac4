//! A fixed pool of threads on a bounded queue.
//!
//! ```text
//!  run ─ tasks ─▶ [ waiting: bounded ] ─▶ thread 0, thread 1, … ─▶ [ ended ] ─▶ done(…)
//! ```
//!
//! One lock guards both sides. It is held for a push or a pop, never while a task runs or somebody is rung.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::serial::in_process;
use super::{Completion, Executor, Job, LaneStart, ModelError};
use crate::fleet::worker::panic_message;
use crate::ids::TaskId;
use crate::probe::clock::{self, Nanos};
use crate::workload::Bench;

/// Tasks that wait for each thread, so that a thread that has finished finds the next one there.
const WAITING_PER_THREAD: usize = 2;

/// The pool.
pub(super) struct Threads {
    job: Job,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Rung for the threads: a task waits, or the pool closes.
    work: Condvar,
    /// Rung for the caller: something has ended.
    news: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    ended: Vec<Completion>,
    ready: Vec<Nanos>,
    closed: bool,
}

#[derive(Clone, Copy)]
struct Waiting {
    task: TaskId,
    submitted: Nanos,
    queued: Nanos,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of a task is caught before it can reach a lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's life. Whoever is rung is rung after the lock is free: a wake-up may take this thread's CPU at once,
    /// and everybody would then wait for a lock whose holder does not run.
    fn serve(&self, lane: usize, bench: &Bench) {
        self.lock().ready.push(clock::now());
        self.news.notify_one();
        let mut free_since = clock::now();
        while let Some(next) = self.next() {
            // Given to this lane once both were there: the task in the queue, and the lane free.
            let assigned = next.queued.max(free_since);
            let started = clock::now();
            let computed = std::panic::catch_unwind(|| bench.run(next.task));
            let answer = computed.unwrap_or_else(|panic| Err(panic_message(&*panic)));
            let finished = clock::now();
            let mut state = self.lock();
            free_since = clock::now();
            let stamps = in_process(next.submitted, assigned, started, finished, free_since);
            state.ended.push(Completion { task: next.task, lane, answer, stamps });
            drop(state);
            self.news.notify_one();
        }
    }

    /// The next task, waiting for one; `None` once the pool is closed.
    fn next(&self) -> Option<Waiting> {
        let mut state = self.lock();
        loop {
            match state.waiting.pop_front() {
                None if !state.closed => state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                next => return next,
            }
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
        let mut asked = Vec::new();
        for lane in 0..self.job.lanes.get() {
            let (shared, bench) = (Arc::clone(&self.shared), Arc::clone(&bench));
            asked.push(clock::now());
            let thread = std::thread::Builder::new()
                .name(format!("lane-{lane}"))
                .spawn(move || shared.serve(lane, &bench))
                .map_err(|cause| ModelError::Start { what: "a thread", cause })?;
            self.threads.push(thread);
        }
        let mut state = self.shared.lock();
        while state.ready.len() < asked.len() {
            state = self.shared.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // Threads come up in about the order they were asked for; which is which does not matter for the spread.
        let starts = asked.iter().zip(&state.ready).map(|(asked, ready)| {
            let took = ready.saturating_sub(*asked);
            LaneStart { to_first_instruction: took, to_ready: took }
        });
        Ok(starts.collect())
    }

    fn run(&mut self, tasks: &[TaskId], done: &mut dyn FnMut(Completion)) -> Result<(), ModelError> {
        let submitted = clock::now();
        let room = self.job.lanes.get() * WAITING_PER_THREAD;
        let (mut rest, mut open) = (tasks.iter(), tasks.len());
        let mut ended = Vec::new();
        while open > 0 {
            let mut state = self.shared.lock();
            let waited = state.waiting.len();
            while state.waiting.len() < room
                && let Some(&task) = rest.next()
            {
                state.waiting.push_back(Waiting { task, submitted, queued: clock::now() });
            }
            // Where tasks waited already, every thread is at work and looks at the queue by itself.
            if waited == 0 && !state.waiting.is_empty() {
                drop(state);
                self.shared.work.notify_all();
                state = self.shared.lock();
            }
            while state.ended.is_empty() {
                state = self.shared.news.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut state.ended, &mut ended);
            drop(state);
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
