//! What one holds of a task that was taken in.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use super::engine::{Settled, Shared, Sink};
use super::outcome::Ended;
use super::policy::Event;
use crate::ids::TaskId;

/// A task that was taken in. It can be waited for on any thread, or awaited in any async runtime; dropping it lets the
/// task go on unwatched.
#[must_use = "the task runs all the same, but nobody learns what came of it"]
pub struct Handle<T> {
    task: TaskId,
    cell: Arc<Cell>,
    shared: Arc<Shared>,
    result: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.task).finish()
    }
}

/// Where the end of one task is put.
#[derive(Default)]
pub(super) struct Cell {
    state: Mutex<State>,
    has_ended: Condvar,
}

#[derive(Default)]
struct State {
    settled: Option<Box<Settled>>,
    waker: Option<Waker>,
}

impl Cell {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that could panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Cell {
    fn settle(&self, _: u64, settled: Settled) {
        let mut state = self.lock();
        state.settled = Some(Box::new(settled));
        let waker = state.waker.take();
        drop(state);
        self.has_ended.notify_all();
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Handle<T> {
    pub(super) fn new(task: TaskId, cell: Arc<Cell>, shared: Arc<Shared>) -> Handle<T> {
        Handle { task, cell, shared, result: PhantomData }
    }

    /// The task's number.
    pub fn task(&self) -> TaskId {
        self.task
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.cell.lock().settled.is_some()
    }

    /// Asks for it no more. It ends as cancelled at once, if it has not ended yet; a worker that runs it is ended.
    pub fn cancel(&self) {
        self.shared.act(|engine| engine.step(Event::Cancelled(self.task)));
    }
}

impl<T: DeserializeOwned> Handle<T> {
    /// Waits for its end.
    pub fn wait(self) -> Ended<T> {
        let mut state = self.cell.lock();
        let settled = loop {
            match state.settled.take() {
                Some(settled) => break settled,
                None => state = self.cell.has_ended.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(state);
        Ended::of(*settled)
    }

    /// Waits for its end for so long, and hands itself back if it has not come.
    ///
    /// # Errors
    /// Itself, if the task has not ended.
    pub fn wait_within(self, time: Duration) -> Result<Ended<T>, Handle<T>> {
        let until = Instant::now().checked_add(time);
        let mut state = self.cell.lock();
        while state.settled.is_none() {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                drop(state);
                return Err(self);
            }
            // The condition's own clock cannot hold every duration.
            let left = left.min(Duration::from_secs(3600));
            state = self.cell.has_ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        Ok(self.wait())
    }
}

impl<T: DeserializeOwned> Future for Handle<T> {
    type Output = Ended<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ended<T>> {
        let mut state = self.cell.lock();
        match state.settled.take() {
            Some(settled) => {
                drop(state);
                Poll::Ready(Ended::of(*settled))
            }
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
