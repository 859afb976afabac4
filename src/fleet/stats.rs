//! A fleet in numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};

use super::engine::Engine;
use super::nesting::Nesting;
use super::policy::End;
use crate::sys::cpu::Cpus;

/// A fleet in numbers, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Workers that are wanted.
    pub workers: usize,
    /// Workers that are ready for tasks or at them.
    pub in_service: usize,
    /// Tasks that wait for a worker.
    pub queued: usize,
    /// Tasks that may wait for one.
    pub queue_capacity: usize,
    /// Tasks that a worker has.
    pub active: usize,
    /// Tasks that were taken in.
    pub accepted: u64,
    /// Tasks that were refused, be it after a wait.
    pub rejected: u64,
    /// Tasks that answered well.
    pub done: u64,
    /// Tasks that ended, by how. The sum of these, `queued` and `active` is `accepted`.
    pub ended: BTreeMap<&'static str, u64>,
    /// Runs that were repeated.
    pub retried: u64,
    /// What tasks had waited for a worker until their first run, on average.
    #[serde(rename = "mean_queue_wait_ns", serialize_with = "nanos")]
    pub mean_queue_wait: Duration,
    /// Workers that were started.
    pub started: u64,
    /// Workers that were not ready in the end.
    pub failed_starts: u64,
    /// Workers that died, or had to be ended, at a task.
    pub busy_deaths: u64,
    /// Workers that died without one.
    pub idle_deaths: u64,
    /// Workers that were replaced in good health.
    pub recycled: u64,
    /// Workers like this process, where it is a worker of a fleet itself; else 1.
    pub outer_workers: usize,
    /// No order is sent until further notice.
    pub is_paused: bool,
}

fn nanos<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl Stats {
    /// Whether there are fewer workers in service than are wanted.
    pub fn is_degraded(&self) -> bool {
        self.in_service < self.workers
    }

    /// Tasks that ended in this way; its name is that of the [`Outcome`](super::Outcome), in small letters.
    pub fn ended_as(&self, name: &str) -> u64 {
        self.ended.get(name).copied().unwrap_or(0)
    }

    /// Whether there may be more workers than CPUs that this process may use, because it is itself a worker of a fleet.
    pub fn is_oversubscribed(&self) -> bool {
        self.outer_workers > 1 && self.outer_workers.saturating_mul(self.workers) > Cpus::read().usable()
    }

    pub(super) fn of(engine: &Engine, nesting: &Nesting) -> Stats {
        let (core, counters) = (engine.core(), engine.core().counters());
        let (queued, active) = core.load();
        let ended = counters.ended.iter().map(|(end, count)| (name(*end), *count)).collect();
        let mean = counters.waited.checked_div(u128::from(counters.first_runs)).unwrap_or(0);
        Stats {
            workers: core.wanted(),
            in_service: core.in_service(),
            queued,
            queue_capacity: core.backlog(),
            active,
            accepted: counters.accepted,
            rejected: counters.refused,
            done: counters.ended.get(&End::Done).copied().unwrap_or(0),
            ended,
            retried: counters.retried,
            mean_queue_wait: Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)),
            started: counters.started,
            failed_starts: counters.failed_starts,
            busy_deaths: counters.busy_deaths,
            idle_deaths: counters.idle_deaths,
            recycled: counters.recycled,
            outer_workers: nesting.outer_workers,
            is_paused: core.is_paused(),
        }
    }
}

fn name(end: End) -> &'static str {
    match end {
        End::Done => "done",
        End::Failed => "failed",
        End::Crashed => "crashed",
        End::OutOfMemory => "out_of_memory",
        End::Hung => "hung",
        End::TimedOut => "timed_out",
        End::Cancelled => "cancelled",
        End::Expired => "expired",
        End::Quarantined => "quarantined",
        End::Interrupted => "interrupted",
        End::Dropped => "dropped",
        End::Abandoned => "abandoned",
    }
}
