//! Every way of running tasks, with one face.
//!
//! Each executor runs the same [`Job`] and stamps its tasks with the same clock; what differs is who runs them.

mod collect;
mod processes;
mod serial;
mod tasks;
mod threads;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::fleet::{LaunchError, PostMortem, Start};
use crate::ids::{Digest, Lanes, TaskId};
use crate::probe::clock::Nanos;
use crate::probe::stamps::Stamps;
use crate::probe::usage::Usage;
use crate::seed::Seed;
use crate::sys::process::Pid;
use crate::workload::Workload;
pub use processes::register;

/// A way of running tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// One after the other on the calling thread: what the others are compared with, and the oracle of their answers.
    Serial,
    /// A fixed pool of threads on a bounded queue.
    Threads,
    /// Async tasks on tokio, so many in flight at once. What computes, computes on the runtime's own threads, of which
    /// there is one for each lane, up to the usable CPUs.
    Tasks,
    /// Worker processes forked from the caller.
    Fork,
    /// Worker processes executed afresh.
    Spawn,
    /// Worker processes forked from a clean zygote.
    Forkserver,
}

/// Why a text is no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a model: serial, threads, tasks, fork, spawn or forkserver")]
pub struct UnknownModel(String);

impl Model {
    /// All, the baseline first.
    pub const ALL: [Model; 6] =
        [Model::Serial, Model::Threads, Model::Tasks, Model::Fork, Model::Spawn, Model::Forkserver];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Model::Serial => "serial",
            Model::Threads => "threads",
            Model::Tasks => "tasks",
            Model::Fork => "fork",
            Model::Spawn => "spawn",
            Model::Forkserver => "forkserver",
        }
    }

    /// How its worker processes start; `None` for models without.
    pub fn start(self) -> Option<Start> {
        match self {
            Model::Serial | Model::Threads | Model::Tasks => None,
            Model::Fork => Some(Start::Fork),
            Model::Spawn => Some(Start::Spawn),
            Model::Forkserver => Some(Start::Forkserver),
        }
    }

    /// Whether a task that takes its process down leaves the others alone.
    pub fn isolates_crashes(self) -> bool {
        self.start().is_some()
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Model {
    type Err = UnknownModel;

    fn from_str(text: &str) -> Result<Self, UnknownModel> {
        let text = text.trim();
        Model::ALL.into_iter().find(|model| model.name() == text).ok_or_else(|| UnknownModel(text.to_owned()))
    }
}

/// What an executor is to run, and on how many lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// What is run.
    pub workload: Workload,
    /// Where its inputs come from.
    pub seed: Seed,
    /// Side by side.
    pub lanes: Lanes,
}

/// A task that has ended.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The task.
    pub task: TaskId,
    /// The lane it ran on, from 0.
    pub lane: usize,
    /// Its answer, or what it said when it failed.
    pub answer: Result<Digest, String>,
    /// Its moments.
    pub stamps: Stamps,
}

/// How long a lane took to come up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneStart {
    /// From asking for it to its first instruction, in nanoseconds.
    pub to_first_instruction: Nanos,
    /// From asking for it to knowing that it is ready, in nanoseconds.
    pub to_ready: Nanos,
}

/// Why an executor could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Worker processes could not be had.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A worker process died at a task.
    #[error("{0}")]
    WorkerDied(Arc<PostMortem>),
    /// A thread, or the runtime, could not be had.
    #[error("cannot start {what}: {cause}")]
    Start {
        /// What.
        what: &'static str,
        /// What the kernel says.
        cause: std::io::Error,
    },
    /// A lane ended without being told to.
    #[error("a lane ended by itself: {0}")]
    LaneLost(String),
}

/// Runs batches of tasks under one model.
pub trait Executor {
    /// Brings every lane up and returns when all are ready, so that start-up is measured apart from work.
    ///
    /// # Errors
    /// If a lane cannot be had.
    fn start(&mut self) -> Result<Vec<LaneStart>, ModelError>;

    /// Runs the batch, calling `done` once for each task, in any order, on the calling thread.
    ///
    /// # Errors
    /// If a lane is lost. Tasks that fail by themselves are completions, not errors.
    fn run(&mut self, tasks: &[TaskId], done: &mut dyn FnMut(Completion)) -> Result<(), ModelError>;

    /// What the lanes outside this process have used so far. Call between batches.
    ///
    /// # Errors
    /// If a lane is lost.
    fn usage_elsewhere(&mut self) -> Result<Usage, ModelError> {
        Ok(Usage::default())
    }

    /// The processes of the lanes, besides this one.
    fn processes(&self) -> Vec<Pid> {
        Vec::new()
    }

    /// Leaves nothing behind: no thread, no child, no descriptor.
    ///
    /// # Errors
    /// If a lane did not end in peace.
    fn stop(&mut self) -> Result<(), ModelError>;
}

/// The executor of a model, not started yet.
pub fn build(model: Model, job: Job) -> Box<dyn Executor> {
    match model.start() {
        Some(start) => Box::new(processes::Processes::new(start, job)),
        None if model == Model::Threads => Box::new(threads::Threads::new(job)),
        None if model == Model::Tasks => Box::new(tasks::Tasks::new(job)),
        None => Box::new(serial::Serial::new(job)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_read_back_what_they_print() {
        for model in Model::ALL {
            assert_eq!(model.to_string().parse(), Ok(model));
        }
        assert_eq!(
            "asyncio".parse::<Model>().unwrap_err().to_string(),
            "`asyncio` is not a model: serial, threads, tasks, fork, spawn or forkserver"
        );
    }
}
