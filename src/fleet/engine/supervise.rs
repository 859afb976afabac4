//! The supervisor's thread: starts workers, hears everybody, and sleeps in between.

use std::io;
use std::sync::Arc;

use super::token::{self, Kind};
use super::{Engine, Shared, ToStart};
use crate::fleet::launch::Launcher;
use crate::fleet::policy::{Event, WorkerId};
use crate::fleet::protocol::Place;
use crate::fleet::zygotes::{Said, Waiting};
use crate::probe::clock;
use crate::sys::poll::Ready;

/// What belongs to the supervisor's thread alone.
#[derive(Debug)]
pub(in crate::fleet) struct Supervisor {
    shared: Arc<Shared>,
    launcher: Launcher,
}

impl Supervisor {
    pub(in crate::fleet) fn new(shared: Arc<Shared>, launcher: Launcher) -> Supervisor {
        Supervisor { shared, launcher }
    }

    /// Starts the first workers, where that has to be done by the caller, which has no other thread yet.
    pub(in crate::fleet) fn begin(&mut self) {
        let starts = self.shared.act(|engine| {
            engine.step(Event::Ticked);
            std::mem::take(&mut engine.starts)
        });
        starts.into_iter().for_each(|start| self.start(start));
        if let Err(cause) = self.launcher.leave_caller(&self.shared.poll) {
            // Nobody is replaced then, which is told when somebody would have to be.
            self.shared.act(|engine| engine.last_failure = Some(cause.to_string().into()));
        }
    }

    /// The life of the thread; it ends when nothing is left.
    pub(in crate::fleet) fn run(mut self) {
        let mut ready = Vec::new();
        while self.turn(&mut ready).is_ok_and(|goes_on| goes_on) {}
        // Where the kernel let us down, nobody waits for ever.
        self.shared.act(|engine| {
            engine.members.clear();
            engine.zygotes.clear();
            engine.feed.end();
            engine.is_over = true;
            engine.has_changed = true;
            engine.abandon_all();
        });
    }

    fn turn(&mut self, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let starts = self.shared.act(|engine| {
            engine.time.wake(clock::now());
            engine.check_ends();
            engine.check_stillness();
            engine.step(Event::Ticked);
            std::mem::take(&mut engine.starts)
        });
        for start in starts {
            self.start(start);
        }
        let pids = self.launcher.pids();
        let (is_finished, sleep) = self.shared.act(|engine| {
            engine.zygotes = pids;
            let is_finished = engine.is_finished();
            let deadline = if engine.starts.is_empty() { engine.next_wake() } else { Some(0) };
            (is_finished, engine.time.sleep(clock::now(), deadline))
        });
        // Zygotes leave last: they collect the workers.
        if is_finished && self.launcher.close() {
            return Ok(false);
        }
        self.shared.poll.wait(sleep, ready)?;
        self.shared.act(|engine| {
            engine.time.wake(clock::now());
            for event in &*ready {
                engine.happened(event);
            }
        });
        for event in &*ready {
            match token::read(event.token) {
                Some((Kind::Bell, _)) => self.shared.bell.hush(),
                Some((Kind::Zygote, serial)) => self.hear_zygote(serial),
                _ => {}
            }
        }
        Ok(true)
    }

    fn start(&mut self, start: ToStart) {
        let ToStart { worker, slot, generation } = start;
        if !self.shared.act(|engine| engine.core.awaits(worker)) {
            return self.shared.act(|engine| engine.step(Event::NotStarted { worker, for_good: false }));
        }
        let asked = clock::now();
        let place = Place { worker: worker.0, slot };
        match self.launcher.launch(&self.shared.poll, place, generation) {
            Ok(None) => {}
            Ok(Some(newborn)) => self.shared.act(|engine| engine.started(start, newborn, asked)),
            Err(cause) => self
                .shared
                .act(|engine| engine.not_started(worker, slot, cause.is_for_good(), &cause.to_string())),
        }
    }

    fn hear_zygote(&mut self, serial: u64) {
        let mut said = Vec::new();
        self.launcher.hear(serial, &mut said);
        for word in said {
            match word {
                Said::Turn(Waiting { place, generation }) => {
                    let Place { worker, slot } = place;
                    self.start(ToStart { worker: WorkerId(worker), slot, generation });
                }
                Said::Born { worker, pid, pidfd } => {
                    self.shared.act(|engine| engine.born(worker, pid, pidfd));
                }
                Said::NotBorn { place, for_good, why } => {
                    self.shared.act(|engine| engine.not_born(place, for_good, &why));
                }
                Said::Ended { worker, death } => self.shared.act(|engine| engine.bury(worker, Some(death))),
                Said::Orphaned { worker } => self.shared.act(|engine| engine.is_orphaned(worker)),
            }
        }
    }
}

impl Engine {
    /// When the supervisor has something to do, if nothing happens before.
    fn next_wake(&self) -> Option<u64> {
        [self.core.next_deadline(), self.next_end(), self.next_look()].into_iter().flatten().min()
    }

    /// Something has happened to a worker's descriptor.
    fn happened(&mut self, event: &Ready) {
        let Some((kind, owner)) = token::read(event.token) else { return };
        let worker = WorkerId(owner);
        match kind {
            Kind::Link => {
                if event.writes {
                    self.flush(worker);
                    self.go_on();
                }
                if event.reads {
                    self.hear(worker);
                }
            }
            Kind::Output | Kind::Errors => self.read_outputs(worker, super::hear::ONE_TURN),
            Kind::Process => self.has_ended(worker),
            Kind::Bell | Kind::Zygote => {}
        }
    }

    /// The supervisor ends before its time: every task ends with it.
    fn abandon_all(&mut self) {
        use crate::fleet::policy::End;
        for (task, job) in std::mem::take(&mut self.jobs) {
            self.deliveries.push(job.settle(task, End::Abandoned, 0, self.failure.clone()));
        }
    }
}
