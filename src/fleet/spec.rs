//! What a fleet shall be.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::policy::{Mishap, Overflow, Rules};
use super::protocol::Setup;
use super::registry::Function;
use crate::probe::clock::Nanos;
use crate::seed::Seed;
use crate::sys::limits::Ceilings;
use crate::sys::process::Program;

/// How a worker process comes into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Start {
    /// Forked from the caller, where the preload is run once: inherits the caller's memory, copy-on-write. Refused
    /// where the caller has threads. What replaces a dead worker is forked from a copy of the caller that was made at
    /// the launch.
    Fork,
    /// Executed: starts from nothing, inherits nothing.
    Spawn,
    /// Forked from a zygote that was executed and is clean: the preload is run once and inherited.
    Forkserver,
}

impl Start {
    /// All of them.
    pub const ALL: [Start; 3] = [Start::Fork, Start::Spawn, Start::Forkserver];
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Start::Fork => "fork",
            Start::Spawn => "spawn",
            Start::Forkserver => "forkserver",
        })
    }
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fork" => Ok(Start::Fork),
            "spawn" => Ok(Start::Spawn),
            "forkserver" => Ok(Start::Forkserver),
            _ => Err(format!("`{text}` is not a start method: fork, spawn or forkserver")),
        }
    }
}

/// What a fleet shall be. Made with [`FleetSpec::new`], then changed by its methods, then handed to
/// [`Fleet::launch`](super::Fleet::launch).
///
/// ```no_run
/// use std::time::Duration;
/// use fleet::fleet::{Fleet, FleetSpec, Mishap};
///
/// let spec = FleetSpec::new(4).queue(100).task_limit(Duration::from_secs(2)).retries(Mishap::Crash, 2);
/// let fleet = Fleet::launch(spec)?;
/// # Ok::<(), fleet::fleet::LaunchError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct FleetSpec {
    pub(super) start: Start,
    pub(super) program: Program,
    pub(super) rules: Rules,
    pub(super) setup: Setup,
    pub(super) label: String,
    pub(super) hung_after: Option<Nanos>,
    pub(super) stderr_kept: usize,
    pub(super) drain_within: Duration,
    /// What cannot be, to be told at the launch.
    pub(super) flaw: Option<String>,
}

fn nanos(time: Duration) -> Nanos {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl FleetSpec {
    /// So many workers of this program, forked from a zygote; a queue of twice as many tasks; no time limit, no
    /// retries, no recycling.
    pub fn new(workers: usize) -> FleetSpec {
        let rules = Rules::of(workers);
        FleetSpec {
            start: Start::Forkserver,
            program: Program::own(),
            setup: Setup::default(),
            label: "fleet".to_owned(),
            hung_after: Some(30_000_000_000),
            stderr_kept: 16 << 10,
            drain_within: Duration::from_secs(30),
            flaw: (workers == 0).then(|| "a fleet has one worker at least".to_owned()),
            rules,
        }
    }

    /// How workers start. [`Start::Forkserver`] unless told otherwise.
    pub fn start(mut self, start: Start) -> FleetSpec {
        self.start = start;
        self
    }

    /// What workers and zygotes execute: a program that calls [`init`](super::init) first thing, and registers the
    /// same functions. This one unless told otherwise.
    pub fn program(mut self, program: Program) -> FleetSpec {
        self.program = program;
        self
    }

    /// The name that stands before what the fleet tells of itself.
    pub fn label(mut self, label: &str) -> FleetSpec {
        label.clone_into(&mut self.label);
        self
    }

    /// How many tasks may wait for a worker; those that a worker holds do not count.
    pub fn queue(mut self, tasks: usize) -> FleetSpec {
        self.rules.backlog = tasks;
        self
    }

    /// What is done with a task for which there is no room: it is refused, or waited with, as the submitter likes; or the
    /// one that has waited longest gives way, and ends as [`Outcome::Dropped`](super::Outcome::Dropped).
    pub fn overflow(mut self, overflow: Overflow) -> FleetSpec {
        self.rules.overflow = overflow;
        self
    }

    /// How many tasks are sent to one worker at a time. It runs one; more than 1 hides the way of the next one, and
    /// helps tasks of less than a millisecond. A death costs the task that ran and no other all the same.
    pub fn prefetch(mut self, orders: usize) -> FleetSpec {
        self.rules.window = orders.max(1);
        self
    }

    /// How long a task may run, from its start, unless it brings a limit of its own.
    pub fn task_limit(mut self, limit: Duration) -> FleetSpec {
        self.rules.task_limit = Some(nanos(limit));
        self
    }

    /// How often a task is run again after such a mishap: not at all unless told otherwise. A task that has begun may
    /// have had effects; one that has not begun is always sent again. Crashes and hangs are counted together.
    pub fn retries(mut self, after: Mishap, times: u8) -> FleetSpec {
        let retry = &mut self.rules.retry;
        *match after {
            Mishap::Error => &mut retry.error,
            Mishap::Crash | Mishap::Hang => &mut retry.crash,
            Mishap::Timeout => &mut retry.timeout,
            Mishap::OutOfMemory => &mut retry.out_of_memory,
        } = times;
        self
    }

    /// The pause before the first retry, which doubles with each (by chance, it is between half and all of that), and
    /// the longest one. 100 ms and 30 s unless told otherwise.
    pub fn retry_pause(mut self, first: Duration, longest: Duration) -> FleetSpec {
        (self.rules.retry.pause, self.rules.retry.longest_pause) = (nanos(first), nanos(longest));
        self
    }

    /// How many deaths of its workers make a task poison, which is run no more. 3 unless told otherwise.
    pub fn poison_limit(mut self, deaths: u8) -> FleetSpec {
        self.rules.poison_limit = deaths.max(1);
        self
    }

    /// A task of one priority lower than another starts at most this much later than one that came with it. Without
    /// it, tasks of a low priority wait for as long as there are higher ones.
    pub fn ageing(mut self, step: Duration) -> FleetSpec {
        self.rules.ageing = Some(nanos(step));
        self
    }

    /// Replaces a worker after so many tasks, more or less by `jitter`, so that not all go at once. Its successor is
    /// ready first.
    pub fn recycle_after(mut self, tasks: u64, jitter: u64) -> FleetSpec {
        self.rules.recycle.tasks = Some((tasks, jitter.min(tasks.saturating_sub(1))));
        self
    }

    /// Replaces a worker after the task that left it with more resident memory than this, in bytes.
    pub fn recycle_above(mut self, resident: u64) -> FleetSpec {
        self.rules.recycle.resident = Some(resident);
        self.setup.reports_resident = true;
        self
    }

    /// Replaces a worker at this age.
    pub fn recycle_at(mut self, age: Duration) -> FleetSpec {
        self.rules.recycle.age = Some(nanos(age));
        self
    }

    /// The pause before a worker is replaced that died, from the second death in a row, which doubles with each, and
    /// the longest one. 100 ms and 30 s unless told otherwise. A completed task starts the count anew.
    pub fn restart_pause(mut self, first: Duration, longest: Duration) -> FleetSpec {
        (self.rules.restart.pause, self.rules.restart.longest_pause) = (nanos(first), nanos(longest));
        self
    }

    /// The fleet gives up after more deaths than this in `period` with no task completed between. Twice the workers (5
    /// at least) in 30 s unless told otherwise.
    pub fn most_deaths(mut self, deaths: usize, period: Duration) -> FleetSpec {
        (self.rules.restart.most_deaths, self.rules.restart.period) = (deaths, nanos(period));
        self
    }

    /// How long a worker may take to be ready. 30 s unless told otherwise.
    pub fn ready_within(mut self, time: Duration) -> FleetSpec {
        self.rules.restart.ready_within = nanos(time);
        self
    }

    /// How long a worker has from being asked to end (SIGTERM) to being killed. 5 s unless told otherwise.
    pub fn grace(mut self, time: Duration) -> FleetSpec {
        self.rules.grace = nanos(time);
        self
    }

    /// How long the tasks that are there have when the last [`Fleet`](super::Fleet) is dropped, or by
    /// [`Fleet::shut_down`](super::Fleet::shut_down). 30 s unless told otherwise.
    pub fn drain_within(mut self, time: Duration) -> FleetSpec {
        self.drain_within = time;
        self
    }

    /// After how long a worker at a task counts as hung that stands still: stopped, or waiting for a device, without
    /// using any CPU. `None` for never; 30 s unless told otherwise. Whoever computes or sleeps does not stand still.
    pub fn hung_after(mut self, time: Option<Duration>) -> FleetSpec {
        self.hung_after = time.map(nanos);
        self
    }

    /// What each worker may use.
    pub fn limits(mut self, ceilings: Ceilings) -> FleetSpec {
        self.setup.ceilings = ceilings;
        self
    }

    /// Which variables of our environment workers see. All of them unless told otherwise.
    pub fn environment(mut self, names: &[&str]) -> FleetSpec {
        self.program = self.program.keeping(names);
        self
    }

    /// Where workers work. Where we do unless told otherwise.
    pub fn working_directory(mut self, directory: impl Into<PathBuf>) -> FleetSpec {
        self.setup.directory = Some(directory.into());
        self
    }

    /// Has `function` called once before there are workers, in the process that they are forked from, so that they all
    /// inherit what it leaves in memory. Each spawned worker calls it itself.
    pub fn preload<In: Serialize, Out>(mut self, function: Function<In, Out>, input: &In) -> FleetSpec {
        match function.errand(input) {
            Ok(errand) => self.setup.preload.push(errand),
            Err(cause) => self.flaw = Some(format!("the input of its preload: {cause}")),
        }
        self
    }

    /// Has `function` called by each worker before its first task.
    pub fn init<In: Serialize, Out>(mut self, function: Function<In, Out>, input: &In) -> FleetSpec {
        match function.errand(input) {
            Ok(errand) => self.setup.init.push(errand),
            Err(cause) => self.flaw = Some(format!("the input of its init: {cause}")),
        }
        self
    }

    /// How much of what a worker writes to standard error is kept for its post-mortem, in bytes. 16 KiB unless told
    /// otherwise.
    pub fn stderr_kept(mut self, bytes: usize) -> FleetSpec {
        self.stderr_kept = bytes;
        self
    }

    /// What pauses and jitter are drawn from.
    pub fn seed(mut self, seed: Seed) -> FleetSpec {
        self.rules.seed = seed.0;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_methods_read_back_what_they_print() {
        for start in Start::ALL {
            assert_eq!(start.to_string().parse(), Ok(start));
        }
        assert!("vfork".parse::<Start>().is_err());
    }

    #[test]
    fn jitter_never_makes_a_worker_leave_before_its_first_task() {
        assert_eq!(FleetSpec::new(1).recycle_after(10, 99).rules.recycle.tasks, Some((10, 9)));
        assert_eq!(FleetSpec::new(1).recycle_after(0, 3).rules.recycle.tasks, Some((0, 0)));
    }
}
