//! One after the other on the calling thread.

use super::{Completion, Executor, Job, LaneStart, ModelError};
use crate::ids::TaskId;
use crate::probe::clock;
use crate::probe::stamps::Stamps;
use crate::workload::Bench;

/// The baseline, and the oracle of everybody's answers.
pub(super) struct Serial {
    job: Job,
    bench: Option<Bench>,
}

impl Serial {
    pub(super) fn new(job: Job) -> Serial {
        Serial { job, bench: None }
    }
}

impl Executor for Serial {
    fn start(&mut self) -> Result<Vec<LaneStart>, ModelError> {
        self.bench = Some(Bench::new(self.job.workload, self.job.seed));
        // Nothing is started: the caller is the lane.
        Ok(Vec::new())
    }

    fn run(&mut self, tasks: &[TaskId], done: &mut dyn FnMut(Completion)) -> Result<(), ModelError> {
        let bench = self.bench.as_ref().ok_or_else(|| ModelError::LaneLost("it was not started".into()))?;
        let submitted = clock::now();
        for &task in tasks {
            let started = clock::now();
            let answer = bench.run(task);
            let finished = clock::now();
            done(Completion {
                task,
                lane: 0,
                answer,
                stamps: in_process(submitted, started, started, finished, finished),
            });
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<(), ModelError> {
        self.bench = None;
        Ok(())
    }
}

/// The stamps of a task that never left this process: nothing is encoded, and handing over is all the transport.
pub(super) fn in_process(
    submitted: u64,
    assigned: u64,
    started: u64,
    finished: u64,
    received: u64,
) -> Stamps {
    Stamps {
        submitted,
        assigned,
        encoded: assigned,
        arrived: started,
        started,
        finished,
        received,
        settled: received,
    }
}
