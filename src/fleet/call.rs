//! The run of a function in a worker: which task it is, and what its panic says.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{self, AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};

use super::protocol::Lease;
use crate::ids::TaskId;

/// What a task said when it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct TaskError {
    /// Its words.
    pub message: String,
    /// Where it panicked, if it did.
    pub panic: Option<Panic>,
}

/// A panic's place and the way there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Panic {
    /// `file:line:column`.
    pub place: String,
    /// The calls that led there, cut off after 16 KiB.
    pub backtrace: String,
}

/// The longest backtrace that is sent home, in bytes.
const LONGEST_BACKTRACE: usize = 16 << 10;

impl TaskError {
    pub(super) fn said(message: String) -> TaskError {
        TaskError { message, panic: None }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.panic {
            Some(panic) => write!(f, "panicked at {}: {}", panic.place, self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// The task that runs on this thread of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThisTask {
    /// Its number.
    pub task: TaskId,
    /// The how-manieth run of it this is, from 1.
    pub attempt: u8,
    /// The place that this worker has in its fleet, from 0.
    pub slot: usize,
}

thread_local! {
    static RUNNING: Cell<Option<ThisTask>> = const { Cell::new(None) };
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
    static CAUGHT: RefCell<Option<Panic>> = const { RefCell::new(None) };
}

/// The task that this worker runs; `None` outside of one, and on threads that a task has started.
pub fn this_task() -> Option<ThisTask> {
    RUNNING.get()
}

/// Runs `work` as the given task.
pub(super) fn during<T>(lease: Lease, slot: usize, work: impl FnOnce() -> T) -> T {
    RUNNING.set(Some(ThisTask { task: lease.task, attempt: lease.attempt, slot }));
    let result = work();
    RUNNING.set(None);
    result
}

/// Has panics within [`caught`] kept for the task's error instead of printed. For a worker, once.
pub(super) fn keep_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !IS_CATCHING.get() || cfg!(panic = "abort") {
            return usual(info);
        }
        let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
        let mut backtrace = Backtrace::force_capture().to_string();
        if backtrace.len() > LONGEST_BACKTRACE {
            let end = (0..=LONGEST_BACKTRACE).rev().find(|at| backtrace.is_char_boundary(*at));
            backtrace.truncate(end.unwrap_or(0));
        }
        CAUGHT.set(Some(Panic { place, backtrace }));
    }));
}

/// Runs `work`, and turns its panic into an error. The next task meets the program as the panic left it.
pub(super) fn caught(work: impl FnOnce() -> Result<(), TaskError>) -> Result<(), TaskError> {
    IS_CATCHING.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    IS_CATCHING.set(false);
    result.unwrap_or_else(|panic| {
        let place = Panic { place: "an unknown place".to_owned(), backtrace: String::new() };
        let panic_at = CAUGHT.take().unwrap_or(place);
        Err(TaskError { message: panic_message(&*panic), panic: Some(panic_at) })
    })
}

/// What a panic said.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_known_while_it_runs_and_on_its_own_thread_only() {
        let lease = Lease { task: TaskId(7), attempt: 2 };
        let seen = during(lease, 3, || (this_task(), std::thread::spawn(this_task).join().unwrap()));
        assert_eq!(seen, (Some(ThisTask { task: TaskId(7), attempt: 2, slot: 3 }), None));
        assert_eq!(this_task(), None);
    }

    #[test]
    fn an_error_is_its_words_and_a_panic_names_its_place() {
        assert_eq!(TaskError::said("no such file".into()).to_string(), "no such file");
        let panic = Some(Panic { place: "src/x.rs:1:2".into(), backtrace: String::new() });
        let error = TaskError { message: "index out of bounds".into(), panic };
        assert_eq!(error.to_string(), "panicked at src/x.rs:1:2: index out of bounds");
    }
}
