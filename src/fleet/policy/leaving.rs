//! Workers on their way out: of themselves, asked, or killed, and what becomes of their orders. Pure.

use super::WorkerId;
use super::core::{Action, Core, News, Phase};
use super::life::{Departure, Life, Orders, Worker};
use super::task::{End, Mishap};
use crate::ids::TaskId;
use crate::probe::clock::Nanos;

impl Core {
    /// A worker is gone, whatever it was.
    pub(super) fn exited(
        &mut self,
        now: Nanos,
        id: WorkerId,
        begun: bool,
        out_of_memory: bool,
        out: &mut Vec<Action>,
    ) {
        let Some(mut worker) = self.workers.remove(&id) else { return };
        self.unlist(id, worker.listed);
        self.due(now);
        let held = worker.take_held();
        match worker.life {
            Life::Starting { .. } | Life::Killed { why: Departure::Unready, .. } => {
                self.counters.failed_starts += 1;
                self.start_failed(now, id, worker.slot, true, out);
            }
            Life::Serving { .. } | Life::Retiring { .. } => {
                if held.is_empty() {
                    self.counters.idle_deaths += 1;
                } else {
                    self.counters.busy_deaths += 1;
                }
                let mishap = if out_of_memory { Mishap::OutOfMemory } else { Mishap::Crash };
                self.release(now, held, begun, Some(mishap), out);
                self.died(now, id, &worker, out);
            }
            Life::Leaving { why, .. } | Life::Killed { why, .. } => {
                let mishap = match why {
                    Departure::Blamed(mishap) => Some(mishap),
                    Departure::Blameless | Departure::Unready => None,
                };
                if !held.is_empty() && mishap.is_some() {
                    self.counters.busy_deaths += 1;
                }
                self.release(now, held, begun, mishap, out);
                self.vacate(now, id, worker.slot, false);
            }
        }
    }

    /// What becomes of the orders of a worker that is gone.
    fn release(
        &mut self,
        now: Nanos,
        held: Orders,
        begun: bool,
        mishap: Option<Mishap>,
        out: &mut Vec<Action>,
    ) {
        // A limit only runs out on what has begun.
        let begun = begun || mishap == Some(Mishap::Timeout);
        for (place, lease) in held.into_leases().enumerate() {
            let begun = begun || (place == 0 && mishap.is_some() && self.counts_as_begun(lease.task));
            match mishap {
                Some(mishap) if place == 0 && begun => self.suffered(now, lease.task, mishap, out),
                None if place == 0 && begun => self.settle(lease.task, End::Interrupted, out),
                _ => self.put_back(lease.task, out),
            }
        }
    }

    /// Whether too many workers died while they received the order for this task, one more among them.
    fn counts_as_begun(&mut self, task: TaskId) -> bool {
        let most = self.rules.poison_limit;
        self.tasks.get_mut(&task).is_some_and(|record| record.was_not_received() >= most)
    }

    /// A worker died that was not told to.
    fn died(&mut self, now: Nanos, id: WorkerId, worker: &Worker, out: &mut Vec<Action>) {
        let served = now.saturating_sub(worker.since);
        if served >= self.rules.restart.healthy_after {
            self.slot_progressed(worker.slot);
        }
        self.vacate(now, id, worker.slot, true);
        if self.intensity.died(now, &self.rules.restart) {
            self.fail(now, out);
        }
    }

    /// A worker gets no more orders, and leaves when it has none.
    pub(super) fn retire(&mut self, now: Nanos, id: WorkerId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.is_serving()) else { return };
        let held = worker.take_held();
        let is_idle = held.is_empty();
        worker.life = Life::Retiring { held };
        self.list(id);
        if is_idle {
            self.dismiss(now, id, out);
        }
    }

    pub(super) fn dismiss(&mut self, now: Nanos, id: WorkerId, out: &mut Vec<Action>) {
        let kill_at = now.saturating_add(self.rules.grace);
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let slot = worker.slot;
        worker.life = Life::Leaving { held: Orders::default(), why: Departure::Blameless, kill_at };
        self.list(id);
        self.vacate(now, id, slot, false);
        self.due(kill_at);
        out.push(Action::Dismiss(id));
    }

    /// Asks a worker to end, whatever it does; its slot is free at once.
    pub(super) fn terminate(&mut self, now: Nanos, id: WorkerId, why: Departure, out: &mut Vec<Action>) {
        let kill_at = now.saturating_add(self.rules.grace);
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if !matches!(worker.life, Life::Serving { .. } | Life::Retiring { .. }) {
            return;
        }
        let (held, slot) = (worker.take_held(), worker.slot);
        worker.life = Life::Leaving { held, why, kill_at };
        self.list(id);
        self.vacate(now, id, slot, false);
        self.due(kill_at);
        out.push(Action::Terminate(id));
    }

    /// Ends a worker, whatever it does. What was said of it before still holds.
    pub(super) fn kill(&mut self, now: Nanos, id: WorkerId, why: Departure, out: &mut Vec<Action>) {
        let give_up_at = now.saturating_add(self.rules.give_up);
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if matches!(worker.life, Life::Killed { .. }) {
            return;
        }
        let (held, slot) = (worker.take_held(), worker.slot);
        worker.life = Life::Killed { held, why, give_up_at };
        self.list(id);
        if why != Departure::Unready {
            self.vacate(now, id, slot, false);
        }
        self.due(give_up_at);
        out.push(Action::Kill(id));
    }

    pub(super) fn stalled(&mut self, now: Nanos, id: WorkerId, out: &mut Vec<Action>) {
        if self.workers.get(&id).is_some_and(|worker| worker.held().is_some_and(|held| !held.is_empty())) {
            self.kill(now, id, Departure::Blamed(Mishap::Hang), out);
        }
    }

    /// A worker is not needed any more: it finishes what it holds.
    pub(super) fn see_off(&mut self, now: Nanos, id: WorkerId, out: &mut Vec<Action>) {
        if self.awaits(id) {
            self.kill(now, id, Departure::Blameless, out);
        } else {
            self.retire(now, id, out);
        }
    }

    pub(super) fn dismiss_all(&mut self, now: Nanos, out: &mut Vec<Action>) {
        for id in self.workers.keys().copied().collect::<Vec<_>>() {
            self.see_off(now, id, out);
        }
    }

    /// Gives up: what waits is abandoned, what runs may finish.
    pub(super) fn fail(&mut self, now: Nanos, out: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Failed | Phase::Stopping) {
            return;
        }
        self.phase = Phase::Failed;
        out.push(Action::Announce(News::Failed));
        self.end_waiting(End::Abandoned, out);
        self.dismiss_all(now, out);
    }
}
