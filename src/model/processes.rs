//! Worker processes: the very pool that programs use, fed with tasks of a bench that every worker holds.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::{Completion, Executor, Job, LaneStart, ModelError};
use crate::fleet::protocol::Lease;
use crate::fleet::{Ended, Fleet, FleetSpec, Function, Outcome, PostMortem, Registry, Start, TaskError};
use crate::ids::{Digest, TaskId};
use crate::probe::usage::Usage;
use crate::seed::Seed;
use crate::sys::process::Pid;
use crate::workload::{Bench, Workload};

/// Tasks that may wait for each worker. The caller is woken when half of it has been worked off.
const ROOM_PER_WORKER: usize = 64;

/// What workers of this program know to do.
#[derive(Clone, Copy, Debug)]
struct Functions {
    prepare: Function<(Workload, Seed), ()>,
    run: Function<TaskId, Digest>,
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

/// What this process, or the one that it was forked from, was prepared for.
static BENCH: RwLock<Option<Arc<Bench>>> = RwLock::new(None);

/// Registers the functions of the models that run worker processes; for [`init`](crate::fleet::init).
pub fn register(registry: &mut Registry) {
    let prepare = registry.function("bench: prepare", |(workload, seed)| {
        *BENCH.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(Bench::new(workload, seed)));
        Ok::<(), String>(())
    });
    let run = registry.function("bench: run", |task: TaskId| {
        let bench = BENCH.read().unwrap_or_else(PoisonError::into_inner).clone();
        bench.ok_or_else(|| "this worker was not prepared".to_owned())?.run(task)
    });
    // A program that registers them in two registries has the same ones in both.
    let _ = FUNCTIONS.set(Functions { prepare, run });
}

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

    fn fleet(&self) -> Result<&Fleet, ModelError> {
        self.fleet.as_ref().ok_or_else(|| ModelError::LaneLost("it was not started".into()))
    }
}

fn functions() -> Result<Functions, ModelError> {
    let missing = || ModelError::LaneLost("this program has not registered the models' functions".into());
    FUNCTIONS.get().copied().ok_or_else(missing)
}

/// What a fleet of these many lanes is, for these tasks.
fn spec(start: Start, job: Job) -> Result<FleetSpec, ModelError> {
    let lanes = job.lanes.get();
    let spec = FleetSpec::new(lanes).start(start).queue(lanes * ROOM_PER_WORKER);
    Ok(spec.preload(functions()?.prepare, &(job.workload, job.seed)))
}

impl Executor for Processes {
    fn start(&mut self) -> Result<Vec<LaneStart>, ModelError> {
        let fleet = Fleet::launch(spec(self.start, self.job)?)?;
        let starts = fleet.starts().into_iter().map(|start| LaneStart {
            to_first_instruction: start.born.saturating_sub(start.asked),
            to_ready: start.ready.saturating_sub(start.asked),
        });
        let starts: Vec<LaneStart> = starts.collect();
        let stats = fleet.stats();
        if stats.is_degraded() {
            let why = fleet.last_failed_start().unwrap_or_default();
            let lanes = format!("{} of {} workers started: {why}", stats.in_service, stats.workers);
            return Err(ModelError::LaneLost(lanes));
        }
        self.fleet = Some(fleet);
        Ok(starts)
    }

    fn run(&mut self, tasks: &[TaskId], done: &mut dyn FnMut(Completion)) -> Result<(), ModelError> {
        let fleet = self.fleet()?;
        let room = self.job.lanes.get() * ROOM_PER_WORKER;
        let inputs = tasks.iter().copied();
        let ends = fleet.map_unordered(functions()?.run, inputs).look_ahead(room).patience(room / 2);
        for (index, ended) in ends {
            let ended = ended.map_err(|cause| ModelError::LaneLost(cause.to_string()))?;
            done(completion(tasks[index as usize], ended)?);
        }
        lost(fleet)
    }

    fn usage_elsewhere(&mut self) -> Result<Usage, ModelError> {
        let fleet = self.fleet()?;
        let usage = fleet.usage();
        lost(fleet)?;
        Ok(usage)
    }

    fn processes(&self) -> Vec<Pid> {
        self.fleet.as_ref().map(Fleet::pids).unwrap_or_default()
    }

    fn stop(&mut self) -> Result<(), ModelError> {
        let Some(fleet) = self.fleet.take() else { return Ok(()) };
        fleet.shut_down();
        lost(&fleet)
    }
}

/// A worker that died, be it without a task, was replaced; what was measured with it is not what was to be measured.
fn lost(fleet: &Fleet) -> Result<(), ModelError> {
    fleet.last_death().map_or(Ok(()), |death| Err(ModelError::WorkerDied(death)))
}

/// A task's own failure is an answer; the death of its worker is the end of the measurement.
fn completion(task: TaskId, ended: Ended<Digest>) -> Result<Completion, ModelError> {
    let (lane, stamps) = (ended.slot.unwrap_or(0), ended.stamps);
    let answer = match ended.outcome {
        Outcome::Done(digest) => Ok(digest),
        Outcome::Failed(TaskError { message, panic: Some(_) }) => Err(format!("panicked: {message}")),
        Outcome::Failed(error) => Err(error.message),
        Outcome::Crashed(death) | Outcome::OutOfMemory(death) | Outcome::Hung(death) => {
            // The fleet numbers tasks as they come; the bench knows this one by its own number.
            let lease = death.lease.map(|lease| Lease { task, ..lease });
            return Err(ModelError::WorkerDied(PostMortem { lease, ..PostMortem::clone(&death) }.into()));
        }
        other => return Err(ModelError::LaneLost(format!("{task} {other}"))),
    };
    Ok(Completion { task, lane, answer, stamps })
}
