//! What a fleet is told to do in every case: the numbers behind its decisions.

use crate::probe::clock::Nanos;

const MILLISECOND: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MILLISECOND;

/// Everything the policy goes by. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Slots, each of which has one worker in service.
    pub workers: usize,
    /// Tasks that may wait; those which a worker holds do not count.
    pub backlog: usize,
    /// What is done with a task for which there is no room.
    pub overflow: Overflow,
    /// Orders on their way to one worker: one that runs, and the others right behind it.
    pub window: usize,
    /// From start to end of a task, unless it brings a limit of its own.
    pub task_limit: Option<Nanos>,
    /// From asking a worker to leave to killing it.
    pub grace: Nanos,
    /// From killing a worker to giving up waiting for its end.
    pub give_up: Nanos,
    /// How often a task is run again, and when.
    pub retry: Retry,
    /// Deaths of workers under one task after which it is run no more. So many that died while they received its order
    /// count as one such death, and each further one as another: an order may be too large to be received at all.
    pub poison_limit: u8,
    /// A task of one priority lower starts at most this much later than one that came with it; `None` means that it
    /// waits as long as there are higher ones.
    pub ageing: Option<Nanos>,
    /// When a healthy worker is replaced.
    pub recycle: Recycle,
    /// How dead workers are replaced.
    pub restart: Restart,
    /// What jitter is drawn from.
    pub seed: u32,
}

/// What is done with a task for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// It is refused; whoever brought it may wait for room.
    Refuse,
    /// The task that has waited longest gives way.
    DropOldest,
}

/// How often a task is run again, by what ended its last run. Runs that never began do not count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// After an error that the task reported.
    pub error: u8,
    /// After the death of its worker.
    pub crash: u8,
    /// After its time was up.
    pub timeout: u8,
    /// After its worker was ended for want of memory.
    pub out_of_memory: u8,
    /// The pause before the first retry; it doubles.
    pub pause: Nanos,
    /// The longest pause.
    pub longest_pause: Nanos,
}

/// When a healthy worker is replaced; its successor is ready first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recycle {
    /// After so many tasks, and by how many that differs from worker to worker.
    pub tasks: Option<(u64, u64)>,
    /// Above so much resident memory, in bytes.
    pub resident: Option<u64>,
    /// At this age.
    pub age: Option<Nanos>,
}

/// How dead workers are replaced: at once after a first death, then after a pause that doubles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Restart {
    /// The pause after a second death in a row.
    pub pause: Nanos,
    /// The longest pause.
    pub longest_pause: Nanos,
    /// A worker that served so long starts the count anew, as does one that completed a task.
    pub healthy_after: Nanos,
    /// Deaths in [`Restart::period`], with no task completed between, above which the fleet gives up.
    pub most_deaths: usize,
    /// Over which those deaths are counted.
    pub period: Nanos,
    /// Failed starts, over all slots, after which a fleet that never had a worker gives up.
    pub first_tries: usize,
    /// From starting a worker to its word that it is ready.
    pub ready_within: Nanos,
}

impl Rules {
    /// The rules of a fleet of so many workers that was told nothing else.
    pub fn of(workers: usize) -> Rules {
        Rules {
            workers,
            backlog: 2 * workers,
            overflow: Overflow::Refuse,
            window: 1,
            task_limit: None,
            grace: 5 * SECOND,
            give_up: 2 * SECOND,
            retry: Retry {
                error: 0,
                crash: 0,
                timeout: 0,
                out_of_memory: 0,
                pause: 100 * MILLISECOND,
                longest_pause: 30 * SECOND,
            },
            poison_limit: 3,
            ageing: None,
            recycle: Recycle::default(),
            restart: Restart {
                pause: 100 * MILLISECOND,
                longest_pause: 30 * SECOND,
                healthy_after: 10 * SECOND,
                most_deaths: (2 * workers).max(5),
                period: 30 * SECOND,
                first_tries: 3,
                ready_within: 30 * SECOND,
            },
            seed: 0,
        }
    }
}
