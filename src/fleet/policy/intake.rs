//! Tasks: taken in, handed out, answered, and ended once. Pure.

use super::super::protocol::Lease;
use super::WorkerId;
use super::core::{Action, Core, Phase, Verdict};
use super::life::{Departure, Life, Orders};
use super::queue::Rank;
use super::restart::pause;
use super::rules::Overflow;
use super::task::{End, Fate, Mishap, Place, Refusal, Task, Ticket};
use crate::ids::TaskId;
use crate::probe::clock::Nanos;

impl Core {
    /// Takes a task in, or says why not.
    ///
    /// # Errors
    /// A full queue, and an end of intake.
    pub fn submit(&mut self, now: Nanos, ticket: Ticket, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let admitted = self.admit(out);
        if admitted.is_err() {
            self.counters.refused += 1;
            return admitted;
        }
        self.counters.accepted += 1;
        self.arrivals += 1;
        let rank = Rank::new(ticket.priority, self.arrivals, now, self.rules.ageing);
        self.queue.put(ticket.task, rank, ticket.expires);
        self.tasks.insert(ticket.task, Task::new(ticket, rank, now));
        self.step(now, super::Event::Ticked, out);
        Ok(())
    }

    /// Whether one more task may wait, or need not.
    pub(super) fn has_room(&self) -> bool {
        let can_start_at_once = !self.is_paused && !self.with_room.is_empty();
        self.queue.len() < self.rules.backlog || can_start_at_once
    }

    /// Makes room for a task, if there may be one more.
    fn admit(&mut self, out: &mut Vec<Action>) -> Result<(), Refusal> {
        match self.phase {
            Phase::Open => {}
            Phase::Draining { .. } | Phase::Stopping => return Err(Refusal::Closed),
            Phase::Failed => return Err(Refusal::Failed),
        }
        if self.has_room() {
            return Ok(());
        }
        let oldest = self.queue.oldest().filter(|_| self.rules.overflow == Overflow::DropOldest);
        let oldest = oldest.ok_or(Refusal::Full)?;
        self.withdraw(oldest);
        self.settle(oldest, End::Dropped, out);
        Ok(())
    }

    /// Gives waiting tasks to workers with room.
    pub(super) fn hand_out(&mut self, now: Nanos, out: &mut Vec<Action>) {
        while !self.is_paused
            && let Some((_, id)) = self.with_room.first().copied()
            && let Some(task) = self.queue.take_next()
        {
            let Some(record) = self.tasks.get_mut(&task) else { continue };
            record.place = Place::Held(id);
            self.counters.sent += 1;
            if record.attempt() == 1 {
                self.counters.first_runs += 1;
                self.counters.waited += u128::from(now.saturating_sub(record.submitted));
            }
            let lease = Lease { task, attempt: record.attempt() };
            let expires = record.ticket.expires;
            self.queue.keep(task, expires);
            if let Some(worker) = self.workers.get_mut(&id)
                && let Some(held) = worker.held_mut()
            {
                held.add(lease);
            }
            self.list(id);
            out.push(Action::Send { worker: id, lease });
        }
    }

    pub(super) fn delivered(&mut self, now: Nanos, id: WorkerId) {
        let Some(held) = self.workers.get_mut(&id).and_then(|worker| worker.held_mut()) else { return };
        held.deliver(now);
        self.watch(id);
    }

    /// Has the limit of a worker's first order looked at in time.
    fn watch(&mut self, id: WorkerId) {
        let held = self.workers.get(&id).and_then(|worker| worker.held());
        if let Some(limit) = held.and_then(|held| self.time_up(held)) {
            self.due(limit);
        }
    }

    /// When the first of these orders has had its time.
    pub(super) fn time_up(&self, held: &Orders) -> Option<Nanos> {
        let began = held.began()?;
        let own = self.tasks.get(&held.first()?.task).and_then(|task| task.ticket.limit);
        Some(began.saturating_add(own.or(self.rules.task_limit)?))
    }

    pub(super) fn answered(
        &mut self,
        now: Nanos,
        id: WorkerId,
        lease: Lease,
        verdict: Verdict,
        resident: Option<u64>,
        out: &mut Vec<Action>,
    ) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Some(held) = worker.held_mut().filter(|held| held.is_first(lease)) else {
            return self.kill(now, id, Departure::Blamed(Mishap::Crash), out);
        };
        held.take_first(now);
        match &mut worker.life {
            // The answer came too late to count, and whatever it began since is not to go on, nor to be blamed.
            Life::Leaving { why, .. } | Life::Killed { why, .. } if let Departure::Blamed(mishap) = *why => {
                *why = Departure::Blameless;
                self.suffered(now, lease.task, mishap, out);
                self.kill(now, id, Departure::Blameless, out);
            }
            _ => {
                worker.completed += 1;
                let slot = worker.slot;
                self.intensity.progressed();
                self.slot_progressed(slot);
                match verdict {
                    Verdict::Good => self.settle(lease.task, End::Done, out),
                    Verdict::Bad => self.suffered(now, lease.task, Mishap::Error, out),
                }
                self.worn(now, id, resident, out);
                self.list(id);
                self.watch(id);
            }
        }
    }

    /// A run of a task that had begun has ended badly: it is repeated, or it is the end.
    pub(super) fn suffered(&mut self, now: Nanos, task: TaskId, mishap: Mishap, out: &mut Vec<Action>) {
        let may_repeat = matches!(self.phase, Phase::Open | Phase::Draining { .. });
        let Some(record) = self.tasks.get_mut(&task) else { return };
        match record.suffer(mishap, &self.rules.retry, self.rules.poison_limit) {
            Fate::Again { nth } if may_repeat => {
                let retry = &self.rules.retry;
                let at = now.saturating_add(pause(retry.pause, retry.longest_pause, nth, &mut self.chance));
                record.place = Place::Pausing(at);
                self.queue.put_later(task, at);
                self.counters.retried += 1;
            }
            Fate::Again { .. } => self.settle_at(task, mishap.end(), 1, out),
            Fate::Ends(end) => self.settle_at(task, end, 1, out),
        }
    }

    /// A task that a worker held was not begun: it goes back to where it was, and nothing is charged.
    pub(super) fn put_back(&mut self, task: TaskId, out: &mut Vec<Action>) {
        let Some(record) = self.tasks.get_mut(&task) else { return };
        record.place = Place::Waiting;
        match self.phase {
            Phase::Open | Phase::Draining { .. } => {
                let (rank, expires) = (record.rank, record.ticket.expires);
                self.queue.put(task, rank, expires);
            }
            Phase::Stopping => self.settle(task, End::Interrupted, out),
            Phase::Failed => self.settle(task, End::Abandoned, out),
        }
    }

    pub(super) fn cancel(&mut self, now: Nanos, task: TaskId, out: &mut Vec<Action>) {
        let Some(record) = self.tasks.get(&task) else { return };
        let place = record.place;
        self.withdraw(task);
        self.settle(task, End::Cancelled, out);
        // Only a task that a worker may be running costs that worker; what is behind it is dropped when it answers.
        if let Place::Held(id) = place
            && let Some(held) = self.workers.get(&id).and_then(|worker| worker.held())
            && held.first().is_some_and(|lease| lease.task == task)
        {
            self.terminate(now, id, Departure::Blameless, out);
        }
    }

    /// Takes a task out of the queue, if it is there.
    pub(super) fn withdraw(&mut self, task: TaskId) {
        let Some(Task { place, rank, ticket, .. }) = self.tasks.get(&task) else { return };
        match *place {
            Place::Waiting => self.queue.remove(task, *rank, ticket.expires),
            Place::Pausing(until) => self.queue.remove_pausing(task, until),
            Place::Held(_) => {}
        }
    }

    /// The end of a task; the run under way counts, if a worker holds it.
    pub(super) fn settle(&mut self, task: TaskId, end: End, out: &mut Vec<Action>) {
        self.settle_at(task, end, 0, out);
    }

    /// The end of a task of whose runs the last so many are in its books already.
    fn settle_at(&mut self, task: TaskId, end: End, counted: u8, out: &mut Vec<Action>) {
        let Some(record) = self.tasks.remove(&task) else { return };
        let holds = matches!(record.place, Place::Held(_));
        let attempts = if holds { record.attempt() - counted } else { record.attempt() - 1 };
        *self.counters.ended.entry(end).or_default() += 1;
        out.push(Action::Settle { task, end, attempts });
    }

    /// Ends what has expired, and lets in what has rested.
    pub(super) fn tend_queue(&mut self, now: Nanos, out: &mut Vec<Action>) {
        while let Some(task) = self.queue.expired(now) {
            self.withdraw(task);
            self.settle(task, End::Expired, out);
        }
        while let Some(task) = self.queue.take_rested(now) {
            let Some(record) = self.tasks.get_mut(&task) else { continue };
            record.place = Place::Waiting;
            self.queue.put(task, record.rank, None);
        }
    }

    pub(super) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    pub(super) fn drain(&mut self, now: Nanos, until: Nanos) {
        self.phase = match self.phase {
            Phase::Open => Phase::Draining { until },
            Phase::Draining { until: before } => Phase::Draining { until: before.min(until) },
            over => over,
        };
        self.is_paused = false;
        self.due(until.max(now));
    }

    /// Patience has ended: what waits is interrupted now, and what runs when its worker has gone.
    pub(super) fn interrupt(&mut self, now: Nanos, out: &mut Vec<Action>) {
        self.phase = Phase::Stopping;
        self.end_waiting(End::Interrupted, out);
        self.end_running(now, out);
    }

    /// Ends every task that no worker holds.
    pub(super) fn end_waiting(&mut self, end: End, out: &mut Vec<Action>) {
        for task in self.queue.everybody() {
            self.withdraw(task);
            self.settle(task, end, out);
        }
    }

    /// Has every worker leave that holds something.
    fn end_running(&mut self, now: Nanos, out: &mut Vec<Action>) {
        let busy =
            self.workers.iter().filter(|(_, worker)| worker.held().is_some_and(|held| !held.is_empty()));
        for id in busy.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.terminate(now, id, Departure::Blameless, out);
        }
    }
}
