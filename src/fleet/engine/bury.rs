//! A worker has ended: its last words are heard, its death is explained, and then the books forget it.

use std::sync::Arc;

use super::Engine;
use super::hear::ONE_TURN;
use super::member::Member;
use crate::fleet::feed::FleetEvent;
use crate::fleet::launch::Process;
use crate::fleet::policy::{Departure, Event, Farewell, Mishap, WorkerId};
use crate::fleet::postmortem::{Cause, OutOfMemory, Peak, PostMortem};
use crate::probe::clock::Nanos;
use crate::sys::process::{Death, Exit, Pid};

/// The most that is read from each output of a dead worker, in bytes: what it left behind may write for ever.
const LAST_WORDS: usize = 16 * ONE_TURN;

/// How long whoever collects a worker may take to say how it ended.
const EXIT_TOLD_WITHIN: Nanos = 1_000_000_000;

/// How long a worker may live on that has closed its link.
const EXIT_AFTER_LINK: Nanos = 100_000_000;

impl Engine {
    /// A worker's process has ended.
    pub(super) fn has_ended(&mut self, worker: WorkerId) {
        let now = self.now();
        let Some(member) = self.members.get_mut(&worker) else { return };
        match &mut member.process {
            Process::Ours(child) => {
                let death = child.reap().ok();
                self.bury(worker, death);
            }
            Process::Zygotes { .. } if member.is_orphaned => self.bury(worker, None),
            Process::Zygotes { pidfd, .. } => {
                self.poll.forget(std::os::fd::AsFd::as_fd(pidfd));
                member.ended_at = Some(now);
            }
            Process::Unborn => {}
        }
    }

    /// Nobody will say how this worker ended.
    pub(super) fn is_orphaned(&mut self, worker: WorkerId) {
        let Some(member) = self.members.get_mut(&worker) else { return };
        member.is_orphaned = true;
        // It ends with its zygote, by the kernel's hand or by ours.
        member.kill();
        if member.ended_at.is_some() {
            self.bury(worker, None);
        }
    }

    /// Deaths that are still not told, and links that ended without one.
    pub(super) fn check_ends(&mut self) {
        let now = self.now();
        let due = self.members.values().filter_map(|member| Some((member.id, self.end_due(member)?)));
        let due: Vec<WorkerId> = due.filter(|(_, at)| *at <= now).map(|(worker, _)| worker).collect();
        for worker in due {
            let Some(member) = self.members.get_mut(&worker) else { continue };
            if member.ended_at.is_some() {
                self.bury(worker, None);
            } else if member.is_ready() {
                self.step(Event::Garbled(worker));
            } else {
                member.kill();
            }
        }
    }

    /// When [`Engine::check_ends`] has something to do.
    pub(super) fn next_end(&self) -> Option<Nanos> {
        self.members.values().filter_map(|member| self.end_due(member)).min()
    }

    fn end_due(&self, member: &Member) -> Option<Nanos> {
        match (member.ended_at, member.link_ended) {
            (Some(at), _) => Some(at.saturating_add(EXIT_TOLD_WITHIN)),
            // One that was told to leave has its time.
            (None, Some(at)) if !member.is_doomed => {
                let is_leaving = self.core.farewell(member.id).is_some_and(|known| known.departure.is_some());
                (!is_leaving).then(|| at.saturating_add(EXIT_AFTER_LINK))
            }
            _ => None,
        }
    }

    /// A worker is gone, and this is how, if anybody knows.
    pub(super) fn bury(&mut self, worker: WorkerId, death: Option<Death>) {
        self.hear_out(worker);
        self.read_outputs(worker, LAST_WORDS);
        if self.feed.is_heard() {
            self.end_outputs(worker);
        }
        let farewell = self.core.farewell(worker);
        let Some(member) = self.strike_off(worker) else { return };
        let Some(farewell) = farewell.filter(|_| !member.is_disowned) else { return };
        let begun = farewell.first.is_some_and(|lease| member.may_have_begun(lease));
        let out_of_memory = self.kills.explain(death.map(|death| death.exit));
        let mortem = Arc::new(self.explain(&member, &farewell, begun, death, out_of_memory));
        self.keep(&member, &farewell, &mortem, begun);
        let out_of_memory = mortem.cause == Cause::Itself && mortem.out_of_memory == OutOfMemory::Proved;
        self.step(Event::Exited { worker, begun, out_of_memory });
    }

    /// Tells those whom a death concerns.
    fn keep(&mut self, member: &Member, farewell: &Farewell, mortem: &Arc<PostMortem>, begun: bool) {
        if let Some(lease) = farewell.first.filter(|_| begun)
            && let Some(job) = self.jobs.get_mut(&lease.task)
        {
            job.deaths.push(Arc::clone(mortem));
        }
        if farewell.is_unready {
            let reason: Arc<str> = match &member.unfit {
                Some(reason) => format!("worker {} cannot be prepared: {reason}", member.slot).into(),
                None => mortem.to_string().into(),
            };
            self.last_failure = Some(Arc::clone(&reason));
            return self.tell(&FleetEvent::StartFailed { slot: member.slot, reason });
        }
        if mortem.cause == Cause::Retired && mortem.exit.is_some_and(Exit::is_success) {
            return self.tell(&FleetEvent::WorkerLeft { slot: member.slot, pid: mortem.pid });
        }
        if mortem.cause == Cause::Itself {
            self.last_death = Some(Arc::clone(mortem));
        }
        self.tell(&FleetEvent::WorkerDied(Arc::clone(mortem)));
    }

    fn explain(
        &mut self,
        member: &Member,
        farewell: &Farewell,
        begun: bool,
        death: Option<Death>,
        out_of_memory: OutOfMemory,
    ) -> PostMortem {
        let now = self.now();
        let lease = farewell.first.filter(|_| begun);
        let peak = death.map(|death| match member.process {
            // What was executed remembers its starter; what was forked from a small zygote was that small itself.
            Process::Ours(_) => Peak::AtMost(death.peak_rss),
            _ => Peak::Exactly(death.peak_rss),
        });
        PostMortem {
            lease,
            slot: member.slot,
            pid: member.process.pid().unwrap_or(Pid(0)),
            cause: self.cause(member, farewell, death),
            exit: death.map(|death| death.exit),
            ran_ns: lease.and(farewell.began).map(|began| now.saturating_sub(began)),
            cpu_ns: death.map(|death| death.cpu_ns),
            peak,
            out_of_memory,
            state: member.stillness.state,
            wait_channel: member.stillness.channel.clone(),
            stderr: member.errors.tail.text(),
        }
    }

    fn cause(&self, member: &Member, farewell: &Farewell, death: Option<Death>) -> Cause {
        let was_killed =
            death.is_none_or(|death| matches!(death.exit, Exit::Signal { number: libc::SIGKILL, .. }));
        match farewell.departure {
            None => Cause::Itself,
            Some(Departure::Unready) => Cause::NotReady,
            Some(Departure::Blamed(Mishap::Timeout)) => Cause::Timeout,
            Some(Departure::Blamed(Mishap::Hang)) => Cause::Hang,
            Some(Departure::Blamed(_)) => match &member.garbled {
                Some(what) => Cause::Garbled(what.clone()),
                // It was on its way out already when its link ended.
                None if !was_killed => Cause::Itself,
                None => Cause::ClosedLink,
            },
            Some(Departure::Blameless) if farewell.first.is_none() => Cause::Retired,
            Some(Departure::Blameless) if self.core.is_stopping() => Cause::Stopped,
            Some(Departure::Blameless) => Cause::Cancelled,
        }
    }
}
