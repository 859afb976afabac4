//! What the policy decided, done at once. Nothing here waits.

use std::sync::Arc;

use super::member::{Letter, Member};
use super::{Engine, Survey, ToStart};
use crate::fleet::feed::FleetEvent;
use crate::fleet::launch::{Newborn, Process};
use crate::fleet::policy::{Action, Event, News, WorkerId};
use crate::fleet::protocol::{self, Lease, Order, Place};
use crate::ids::TaskId;
use crate::probe::clock::{self, Nanos};
use crate::probe::usage::Usage;
use crate::sys::pidfd::PidFd;
use crate::sys::process::Pid;
use crate::transport::Outgoing;

impl Engine {
    pub(super) fn perform(&mut self, actions: &mut Vec<Action>) {
        for action in actions.drain(..) {
            match action {
                Action::Start { worker, slot, generation } => {
                    self.starts.push(ToStart { worker, slot, generation });
                }
                Action::Send { worker, lease } => self.send(worker, lease),
                Action::Dismiss(worker) => {
                    if let Some(member) = self.members.get(&worker) {
                        member.link.close_sending();
                    }
                }
                Action::Terminate(worker) => {
                    let pidfd = self.members.get(&worker).and_then(|member| member.process.pidfd());
                    let _ = pidfd.map(PidFd::terminate);
                }
                Action::Kill(worker) => {
                    if let Some(member) = self.members.get_mut(&worker) {
                        member.kill();
                    }
                }
                Action::LetGo(worker) => {
                    if let Some(Member { process: Process::Ours(child), .. }) = self.strike_off(worker) {
                        child.abandon();
                    }
                }
                Action::Settle { task, end, attempts } => {
                    if let Some(job) = self.jobs.remove(&task) {
                        self.deliveries.push(job.settle(task, end, attempts, self.failure.clone()));
                    }
                }
                Action::Announce(news) => self.announce(news),
            }
        }
    }

    fn announce(&mut self, news: News) {
        let unknown = || Arc::from("nobody knows why");
        let event = match news {
            News::Reloaded => {
                self.reloaded = Some(Ok(()));
                FleetEvent::Reloaded
            }
            News::ReloadFailed => {
                let reason = self.last_failure.clone().unwrap_or_else(unknown);
                self.reloaded = Some(Err(Arc::clone(&reason)));
                FleetEvent::ReloadFailed { reason }
            }
            News::Failed => {
                let reason = match (&self.last_failure, &self.last_death) {
                    (Some(failure), _) if self.core.counters().failed_starts > 0 => Arc::clone(failure),
                    (_, Some(death)) => {
                        format!("too many workers died, and no task was done between; the last one: {death}")
                            .into()
                    }
                    _ => unknown(),
                };
                self.failure = Some(Arc::clone(&reason));
                FleetEvent::Failed { reason }
            }
        };
        self.tell(&event);
    }

    fn send(&mut self, worker: WorkerId, lease: Lease) {
        let Some(job) = self.jobs.get_mut(&lease.task) else { return };
        let Some(member) = self.members.get_mut(&worker) else { return };
        let assigned = clock::now();
        let mut head = Vec::with_capacity(32);
        let order = Order::Run { lease, function: job.function };
        protocol::write(&order, &[], &mut head).expect("an order has a form on the wire");
        let outgoing =
            Outgoing::new(&head, Arc::clone(&job.input)).expect("inputs were measured when they came");
        job.assign(member.slot, assigned, clock::now());
        member.post(Letter { outgoing, lease: Some(lease) });
        self.flush(worker);
    }

    /// Sends a worker what there is room for.
    pub(super) fn flush(&mut self, worker: WorkerId) {
        let Some(member) = self.members.get_mut(&worker) else { return };
        let delivered = member.flush(&self.poll);
        self.pending.extend((0..delivered).map(|_| Event::Delivered(worker)));
    }

    /// A start was made.
    pub(super) fn started(&mut self, start: ToStart, newborn: Newborn, asked: Nanos) {
        let ToStart { worker, slot, .. } = start;
        let mut member = Member::new(worker, slot, newborn, asked, self.stderr_kept);
        if let Err(cause) = member.watch(&self.poll) {
            member.kill();
            return self.not_started(worker, slot, false, &format!("cannot watch a new worker: {cause}"));
        }
        // It may have become too many while it was made.
        if !self.core.awaits(worker) {
            member.kill();
        }
        self.members.insert(worker, member);
        self.flush(worker);
        self.go_on();
    }

    /// A start came to nothing.
    pub(super) fn not_started(&mut self, worker: WorkerId, slot: usize, for_good: bool, why: &str) {
        let reason: Arc<str> = why.into();
        self.last_failure = Some(Arc::clone(&reason));
        self.tell(&FleetEvent::StartFailed { slot, reason });
        self.step(Event::NotStarted { worker, for_good });
    }

    /// A zygote has forked a worker.
    pub(super) fn born(&mut self, worker: WorkerId, pid: Pid, pidfd: PidFd) {
        let Some(member) = self.members.get_mut(&worker) else {
            // It was given up meanwhile.
            let _ = pidfd.kill();
            return;
        };
        member.process = Process::Zygotes { pid, pidfd };
        if member.is_doomed {
            member.process.kill();
        }
        if member.watch(&self.poll).is_err() {
            // It cannot be heard: it is ended, and its zygote tells of that.
            member.kill();
        }
        self.has_changed = true;
    }

    /// A zygote has not forked a worker.
    pub(super) fn not_born(&mut self, place: Place, for_good: bool, why: &str) {
        let worker = WorkerId(place.worker);
        self.strike_off(worker);
        self.not_started(worker, place.slot, for_good, why);
    }

    /// Asks every worker what it has used.
    pub(in crate::fleet) fn begin_survey(&mut self) {
        self.survey = Survey::default();
        let ready: Vec<WorkerId> =
            self.members.values().filter(|member| member.is_ready()).map(|member| member.id).collect();
        let mut head = Vec::new();
        protocol::write(&Order::Report, &[], &mut head).expect("an order has a form on the wire");
        for worker in ready {
            let outgoing = Outgoing::new(&head, Arc::from([])).expect("it is small");
            if let Some(member) = self.members.get_mut(&worker) {
                member.post(Letter { outgoing, lease: None });
                self.survey.missing.insert(worker);
                self.flush(worker);
            }
        }
        self.go_on();
    }

    /// What they have used together, once all have said so.
    pub(in crate::fleet) fn end_survey(&mut self) -> Option<Usage> {
        (self.survey.missing.is_empty() || self.is_over).then_some(self.survey.sum)
    }

    /// The number of the task that a worker is at, as far as can be seen from here.
    pub(super) fn task_of(&self, worker: WorkerId) -> Option<TaskId> {
        let farewell = self.core.farewell(worker)?;
        farewell.first.filter(|_| farewell.began.is_some()).map(|lease| lease.task)
    }
}
