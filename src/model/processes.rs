//! Worker processes: the fleet itself, fed with tasks of a bench that every worker holds.

use super::{Completion, Executor, Job, LaneStart, ModelError};
use crate::fleet::worker::{Call, Handler};
use crate::fleet::{Fleet, FleetSpec, Settled, Start};
use crate::ids::{Digest, TaskId};
use crate::probe::clock;
use crate::probe::usage::Usage;
use crate::seed::Seed;
use crate::sys::process::Pid;
use crate::transport::codec;
use crate::workload::{Bench, Workload};

/// A fleet of workers.
pub(super) struct Processes {
    start: Start,
    job: Job,
    fleet: Option<Fleet>,
}

impl Processes {
    pub(super) fn new(start: Start, job: Job) -> Processes {
        Processes { start, job, fleet: None }
    }
}

fn not_started() -> ModelError {
    ModelError::LaneLost("it was not started".into())
}

impl Executor for Processes {
    fn start(&mut self) -> Result<Vec<LaneStart>, ModelError> {
        let mut config = Vec::new();
        codec::encode(&(self.job.workload, self.job.seed), &mut config)
            .map_err(|cause| ModelError::LaneLost(cause.to_string()))?;
        let fleet = Fleet::launch(FleetSpec::new(self.start, self.job.lanes, make_handler, config))?;
        let starts = fleet.starts().into_iter().map(|start| LaneStart {
            to_first_instruction: start.born.saturating_sub(start.asked),
            to_ready: start.ready.saturating_sub(start.asked),
        });
        let starts = starts.collect();
        self.fleet = Some(fleet);
        Ok(starts)
    }

    fn run(&mut self, tasks: &[TaskId], done: &mut dyn FnMut(Completion)) -> Result<(), ModelError> {
        let fleet = self.fleet.as_mut().ok_or_else(not_started)?;
        let mut input = |task: TaskId, buffer: &mut Vec<u8>| {
            codec::encode(&task, buffer).expect("a number has a form on the wire");
        };
        fleet.run(tasks, &mut input, &mut |settled: Settled<'_>| {
            let answer = settled
                .result
                .and_then(|bytes| codec::decode::<Digest>(bytes).map_err(|cause| cause.to_string()));
            let mut stamps = settled.stamps;
            stamps.settled = clock::now();
            done(Completion { task: settled.task, lane: settled.slot, answer, stamps });
        })?;
        Ok(())
    }

    fn usage_elsewhere(&mut self) -> Result<Usage, ModelError> {
        Ok(self.fleet.as_mut().ok_or_else(not_started)?.usage()?)
    }

    fn processes(&self) -> Vec<Pid> {
        self.fleet.as_ref().map(Fleet::pids).unwrap_or_default()
    }

    fn stop(&mut self) -> Result<(), ModelError> {
        self.fleet.take().map_or(Ok(()), Fleet::stop)?;
        Ok(())
    }
}

/// What this program's workers do: run the tasks of the bench that their configuration describes.
///
/// # Errors
/// If the configuration is none.
pub fn make_handler(config: &[u8]) -> Result<Box<dyn Handler>, String> {
    let (workload, seed): (Workload, Seed) = codec::decode(config).map_err(|cause| cause.to_string())?;
    Ok(Box::new(Bench::new(workload, seed)))
}

impl Handler for Bench {
    fn handle(&mut self, input: &[u8], call: &mut Call) -> Result<(), String> {
        let task: TaskId = codec::decode(input).map_err(|cause| cause.to_string())?;
        let digest = call.work(|| self.run(task))?;
        codec::encode(&digest, call.output()).map_err(|cause| cause.to_string())
    }
}
