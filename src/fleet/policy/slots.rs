//! Places for workers: filled, refilled, more of them or fewer. Pure.

use super::WorkerId;
use super::core::{Action, Core, News, Phase};
use super::life::{Departure, Life, Orders, Worker};
use super::restart::Setbacks;
use crate::probe::clock::Nanos;

/// A permanent place for a worker.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    /// Who is in service here, or is to be.
    incumbent: Option<WorkerId>,
    /// Who starts beside the incumbent, to replace it.
    successor: Option<WorkerId>,
    /// No start here before.
    not_before: Nanos,
    setbacks: Setbacks,
}

impl Core {
    pub(super) fn ready(&mut self, now: Nanos, id: WorkerId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get_mut(&id).filter(|worker| worker.is_starting()) else { return };
        worker.life = Life::Serving { held: Orders::default() };
        worker.since = now;
        let slot = worker.slot;
        self.intensity.served();
        if let Some(place) = self.slots.get_mut(&slot)
            && place.successor == Some(id)
        {
            let before = place.incumbent.replace(id);
            place.successor = None;
            self.counters.recycled += 1;
            if let Some(before) = before {
                self.retire(now, before, out);
            }
        }
        self.list(id);
        self.due(now);
    }

    pub(super) fn not_started(&mut self, now: Nanos, id: WorkerId, for_good: bool, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.remove(&id) else { return };
        self.due(now);
        if !matches!(worker.life, Life::Starting { .. } | Life::Killed { why: Departure::Unready, .. }) {
            // It was not wanted any more.
            return;
        }
        self.counters.failed_starts += 1;
        // A want of room may pass: it counts only for a fleet that has nobody and never had.
        let is_first = !self.intensity.has_served();
        let counts = for_good || (is_first && self.workers.is_empty());
        self.start_failed(now, id, worker.slot, counts, out);
        if for_good && is_first {
            self.fail(now, out);
        }
    }

    /// A start came to nothing: the slot pauses; the fleet may give up, or its reload end.
    pub(super) fn start_failed(
        &mut self,
        now: Nanos,
        id: WorkerId,
        slot: usize,
        counts: bool,
        out: &mut Vec<Action>,
    ) {
        let was_successor = self.vacate(now, id, slot, true);
        if was_successor {
            self.prolong(slot);
        }
        if was_successor && self.is_reloading {
            self.is_reloading = false;
            // Whoever is of an older generation is welcome to stay.
            let generation = self.generation;
            self.workers.values_mut().for_each(|worker| worker.generation = generation);
            out.push(Action::Announce(News::ReloadFailed));
        } else if counts && self.intensity.failed_to_start(now, &self.rules.restart) {
            self.fail(now, out);
        }
    }

    /// A successor does not come: whoever it was to replace serves another term.
    fn prolong(&mut self, slot: usize) {
        let incumbent = self.slots.get(&slot).and_then(|place| place.incumbent);
        let Some(id) = incumbent else { return };
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let term = self.rules.recycle.tasks.map_or(0, |(tasks, _)| tasks.max(1));
        worker.worn_after = worker.worn_after.map(|most| most.max(worker.completed) + term);
        worker.is_worn = false;
        self.list(id);
    }

    /// Takes a worker out of its slot; says whether it was on its way to replace another.
    pub(super) fn vacate(&mut self, now: Nanos, id: WorkerId, slot: usize, is_setback: bool) -> bool {
        let Some(place) = self.slots.get_mut(&slot) else { return false };
        let was_successor = place.successor == Some(id);
        if was_successor {
            place.successor = None;
        } else if place.incumbent == Some(id) {
            place.incumbent = place.successor.take();
        } else {
            return false;
        }
        if is_setback {
            let pause = place.setbacks.add(&self.rules.restart, &mut self.chance);
            place.not_before = now.saturating_add(pause);
        }
        self.due(now);
        was_successor
    }

    pub(super) fn slot_progressed(&mut self, slot: usize) {
        if let Some(place) = self.slots.get_mut(&slot) {
            place.setbacks.forget();
        }
    }

    /// Starts whom slots lack.
    pub(super) fn tend_slots(&mut self, now: Nanos, out: &mut Vec<Action>) {
        let is_needed = match self.phase {
            Phase::Open => true,
            Phase::Draining { .. } => !self.tasks.is_empty(),
            Phase::Stopping | Phase::Failed => false,
        };
        if !is_needed {
            return;
        }
        let wanting: Vec<(usize, Nanos, bool)> = self
            .slots
            .iter()
            .filter(|(_, place)| place.incumbent.is_none())
            .map(|(slot, place)| (*slot, place.not_before, false))
            .chain(self.to_replace())
            .collect();
        for (slot, not_before, beside) in wanting {
            if not_before > now {
                self.due(not_before);
            } else {
                self.start(now, slot, beside, out);
            }
        }
        if self.is_reloading && self.workers.values().all(|worker| worker.generation == self.generation) {
            self.is_reloading = false;
            out.push(Action::Announce(News::Reloaded));
        }
    }

    /// The slots whose worker is to be replaced now: worn ones, and in a reload one of an older generation at a time.
    fn to_replace(&self) -> Vec<(usize, Nanos, bool)> {
        let under_way = self.slots.values().filter(|place| place.successor.is_some()).count();
        let at_a_time = (self.slots.len() / 10).max(1);
        let is_due = |worker: &Worker| {
            worker.is_serving()
                && (worker.is_worn || (self.is_reloading && worker.generation < self.generation))
        };
        let wanting = self.slots.iter().filter(|(_, place)| {
            place.successor.is_none()
                && place.incumbent.and_then(|id| self.workers.get(&id)).is_some_and(is_due)
        });
        let wanting = wanting.map(|(slot, place)| (*slot, place.not_before, true));
        wanting.take(at_a_time.saturating_sub(under_way)).collect()
    }

    fn start(&mut self, now: Nanos, slot: usize, beside: bool, out: &mut Vec<Action>) {
        let id = WorkerId(self.next_worker);
        self.next_worker += 1;
        let until = now.saturating_add(self.rules.restart.ready_within);
        let worn_after = self.rules.recycle.tasks.map(|(tasks, jitter)| {
            let spread = self.chance.below(2 * jitter + 1);
            (tasks + spread).saturating_sub(jitter).max(1)
        });
        let worker = Worker {
            slot,
            generation: self.generation,
            life: Life::Starting { until },
            since: now,
            completed: 0,
            worn_after,
            is_worn: false,
            listed: None,
        };
        self.workers.insert(id, worker);
        self.counters.started += 1;
        if let Some(place) = self.slots.get_mut(&slot) {
            if beside { place.successor = Some(id) } else { place.incumbent = Some(id) }
        }
        self.due(until);
        out.push(Action::Start { worker: id, slot, generation: self.generation });
    }

    /// Whether a worker has done enough, after another task.
    pub(super) fn worn(&mut self, now: Nanos, id: WorkerId, resident: Option<u64>, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        if let Life::Retiring { held } = &worker.life {
            if held.is_empty() {
                self.dismiss(now, id, out);
            }
            return;
        }
        // One task before the last, so that the successor is ready when it is done.
        let is_old = worker.worn_after.is_some_and(|most| worker.completed + 1 >= most);
        let is_large =
            self.rules.recycle.resident.is_some_and(|most| resident.is_some_and(|size| size > most));
        if (is_old || is_large) && !worker.is_worn {
            worker.is_worn = true;
            self.due(now);
        }
    }

    pub(super) fn check_age(&mut self, now: Nanos, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let age = now.saturating_sub(worker.since);
        if self.rules.recycle.age.is_some_and(|most| age >= most) {
            worker.is_worn = true;
        }
    }

    pub(super) fn reload(&mut self) {
        if self.phase == Phase::Open {
            self.generation += 1;
            self.is_reloading = true;
            self.due(0);
        }
    }

    pub(super) fn scale(&mut self, now: Nanos, wanted: usize, out: &mut Vec<Action>) {
        let free = (0..).filter(|slot| !self.slots.contains_key(slot));
        let missing = wanted.saturating_sub(self.slots.len());
        let new: Vec<usize> = free.take(missing).collect();
        self.slots.extend(new.into_iter().map(|slot| (slot, Slot::default())));
        // Empty slots go first, then those of idle workers, then the rest.
        let load = |place: &Slot| {
            let worker = place.incumbent.and_then(|id| self.workers.get(&id));
            worker.map_or(0, |worker| worker.held().map_or(1, |held| 1 + held.len()))
        };
        let mut order: Vec<(usize, usize)> =
            self.slots.iter().map(|(slot, place)| (load(place), *slot)).collect();
        order.sort_unstable();
        for (_, slot) in order.into_iter().take(self.slots.len().saturating_sub(wanted)) {
            self.close_slot(now, slot, out);
        }
        self.rules.restart.most_deaths = self.rules.restart.most_deaths.max(2 * wanted);
        self.due(now);
    }

    fn close_slot(&mut self, now: Nanos, slot: usize, out: &mut Vec<Action>) {
        let Some(place) = self.slots.remove(&slot) else { return };
        for id in [place.incumbent, place.successor].into_iter().flatten() {
            self.see_off(now, id, out);
        }
    }

    /// Lists a worker under its load if it has room, and strikes it off if it has none.
    pub(super) fn list(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else { return };
        // One that has had its number of tasks waits for its successor.
        let had = worker.completed + worker.held().map_or(0, Orders::len) as u64;
        let is_held_back = worker.worn_after.is_some_and(|most| had >= most);
        let load = match &worker.life {
            Life::Serving { held } if held.len() < self.rules.window && !is_held_back => Some(held.len()),
            _ => None,
        };
        self.unlist(id, worker.listed);
        self.with_room.extend(load.map(|load| (load, id)));
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.listed = load;
        }
    }

    pub(super) fn unlist(&mut self, id: WorkerId, load: Option<usize>) {
        if let Some(load) = load {
            self.with_room.remove(&(load, id));
        }
    }
}
