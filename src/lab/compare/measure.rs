//! The rounds of one workload: runs every arm once a round, each in a fresh process, until it is enough.

use std::io;
use std::time::Duration;

use super::arm::Arm;
use super::rounds::{self, EARLIEST, HOPELESS, Stopped};
use super::sizing::{Sized, parallelism};
use super::summary::paired_ratio;
use super::{CompareError, CompareSpec};
use crate::lab::child::{ChildOrder, ChildReport};
use crate::lab::isolate::{ChildError, Isolation};
use crate::lab::trial::{TrialOrder, TrialReport};
use crate::model::{Job, Model};
use crate::probe::clock::{self, Nanos};
use crate::probe::host::Machine;
use crate::probe::noise::{Noise, Reading};
use crate::probe::stats;

/// What happens, told between timed sections.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The machine's speed is measured.
    Calibrating,
    /// Sizes are decided; measuring begins.
    Planned {
        /// What was asked.
        spec: &'a CompareSpec,
        /// Where.
        machine: &'a Machine,
        /// What will be done, a workload each.
        plan: &'a [Sized],
    },
    /// An arm is about to run.
    Arm(Progress),
    /// A round has ended.
    RoundDone(Progress),
    /// An arm failed, and is run no more.
    Failed {
        /// Which.
        arm: Arm,
        /// Why.
        error: &'a str,
    },
    /// An arm is out of the running, and is run no more.
    Retired {
        /// Which.
        arm: Arm,
    },
    /// The workload is measured.
    WorkloadDone,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The work.
    pub workload: crate::workload::Kind,
    /// The round, from 1, warm-ups included.
    pub round: usize,
    /// Rounds at the most, warm-ups included.
    pub rounds: usize,
    /// Whether this round is not counted.
    pub warmup: bool,
    /// The arm, and its position in the round.
    pub arm: Option<(Arm, usize)>,
    /// Arms in a round.
    pub arms: usize,
    /// The widest half-interval so far, as a share.
    pub widest: Option<f64>,
    /// Of the last whole round.
    pub foreign_cpu: f64,
    /// About how long this workload takes from here, in nanoseconds.
    pub left_ns: f64,
}

/// An arm's trials.
#[derive(Clone, Debug)]
pub(super) struct Track {
    pub(super) arm: Arm,
    pub(super) trials: Vec<Trial>,
    pub(super) fate: Fate,
}

/// One trial of an arm.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) round: usize,
    pub(super) position: usize,
    pub(super) report: TrialReport,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It ran in every round.
    Measured,
    /// It was out of the running after so many counted rounds.
    Retired(usize),
    /// It could not be run, or gave no right answer.
    Failed(String),
}

/// A round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) warmup: bool,
    pub(super) noise: Noise,
}

/// Everything that was measured of one workload.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) tracks: Vec<Track>,
    pub(super) rounds: Vec<Round>,
    pub(super) stopped: Stopped,
}

impl Track {
    /// The walls of the counted rounds, each with its round, in nanoseconds.
    pub(super) fn counted<'a>(&'a self, rounds: &'a [Round]) -> impl Iterator<Item = &'a Trial> {
        self.trials.iter().filter(|trial| rounds.get(trial.round).is_some_and(|round| !round.warmup))
    }
}

impl Measured {
    pub(super) fn track(&self, arm: Arm) -> Option<&Track> {
        self.tracks.iter().find(|track| track.arm == arm)
    }

    fn counted(&self) -> usize {
        self.rounds.iter().filter(|round| !round.warmup).count()
    }
}

/// A trial that takes longer than this, and than many times what it should, hangs.
const TRIAL_LEAST: Duration = Duration::from_secs(15);
const TRIAL_FACTOR: f64 = 20.0;

/// The stream of the seed that decides the orders of rounds; each round's tasks have one of their own after it.
const ORDERS: u64 = 100;

pub(super) fn run(
    spec: &CompareSpec,
    machine: &Machine,
    sized: &Sized,
    lab: &mut Isolation,
    begun: Nanos,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<Measured, CompareError> {
    let mut arms = spec.arms();
    arms.push(Arm::CONTROL);
    let tracks = arms.into_iter().map(|arm| Track { arm, trials: Vec::new(), fate: Fate::Measured });
    let measured = Measured { tracks: tracks.collect(), rounds: Vec::new(), stopped: Stopped::Rounds };
    let mut run = Run { spec, machine, sized, begun, measured, round_ns: Vec::new() };
    run.rounds(lab, tell)?;
    tell(&Event::WorkloadDone);
    Ok(run.measured)
}

struct Run<'a> {
    spec: &'a CompareSpec,
    machine: &'a Machine,
    sized: &'a Sized,
    begun: Nanos,
    measured: Measured,
    round_ns: Vec<f64>,
}

impl Run<'_> {
    fn rounds(&mut self, lab: &mut Isolation, tell: &mut dyn FnMut(&Event<'_>)) -> Result<(), CompareError> {
        let mut orders = self.spec.seed.stream(ORDERS);
        loop {
            let running: Vec<Arm> = self.running().collect();
            if running.iter().all(|arm| arm.model == Model::Serial) && self.measured.tracks.len() > 2 {
                return Ok(());
            }
            let order = rounds::order(&mut orders, &running);
            if let Some(stopped) = self.round(&order, lab, tell)? {
                self.measured.stopped = stopped;
                return Ok(());
            }
            self.retire(tell);
            let widest = self.widest();
            tell(&Event::RoundDone(self.progress(None, order.len(), widest)));
            let counted = self.measured.counted();
            if lab.wish().is_some() {
                self.measured.stopped = Stopped::Interrupted;
                return Ok(());
            }
            if counted > 0
                && let Some(stopped) = rounds::enough(&self.spec.rounds, counted, widest, self.next_fits())
            {
                self.measured.stopped = stopped;
                return Ok(());
            }
        }
    }

    fn running(&self) -> impl Iterator<Item = Arm> {
        self.measured.tracks.iter().filter(|track| track.fate == Fate::Measured).map(|track| track.arm)
    }

    /// Runs each arm once. A round that is broken off counts for nothing: its trials are thrown away.
    fn round(
        &mut self,
        order: &[Arm],
        lab: &mut Isolation,
        tell: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Option<Stopped>, CompareError> {
        let index = self.measured.rounds.len();
        let (before, begun) = (Reading::take(&self.machine.allowed_cpus)?, clock::now());
        for (position, &arm) in order.iter().enumerate() {
            tell(&Event::Arm(self.progress(Some((arm, position + 1)), order.len(), None)));
            match self.trial(arm, index, lab) {
                Ok(report) => {
                    if let Some(track) = self.measured.tracks.iter_mut().find(|track| track.arm == arm) {
                        track.trials.push(Trial { round: index, position, report });
                    }
                }
                Err(Failure::Arm(error)) => self.fail(arm, error, tell),
                Err(Failure::Lab(ChildError::Interrupted)) => {
                    self.forget(index);
                    return Ok(Some(Stopped::Interrupted));
                }
                Err(Failure::Lab(error)) => return Err(error.into()),
            }
            if lab.wish().is_some() && position + 1 < order.len() {
                self.forget(index);
                return Ok(Some(Stopped::Interrupted));
            }
        }
        let noise = Reading::take(&self.machine.allowed_cpus)?.since(&before, self.machine.usable_cpus);
        self.round_ns.push((clock::now() - begun) as f64);
        self.measured.rounds.push(Round { warmup: index < self.spec.rounds.warmup, noise });
        Ok(None)
    }

    fn forget(&mut self, round: usize) {
        for track in &mut self.measured.tracks {
            track.trials.retain(|trial| trial.round != round);
        }
    }

    fn trial(&self, arm: Arm, round: usize, lab: &mut Isolation) -> Result<TrialReport, Failure> {
        let Sized { workload, tasks, task_ns, .. } = *self.sized;
        let job = Job { workload, seed: self.spec.seed, lanes: arm.lanes };
        let shuffle = ORDERS + 1 + round as u64;
        let order = ChildOrder::Trial(TrialOrder { model: arm.model, job, tasks, shuffle });
        let expected =
            tasks as f64 * task_ns / parallelism(workload.kind(), &arm, self.machine.usable_cpus, tasks);
        let within = TRIAL_LEAST + Duration::from_nanos((expected * TRIAL_FACTOR) as u64);
        let report = match lab.run(&order, within) {
            Ok(ChildReport::Trial(Ok(report))) => *report,
            Ok(ChildReport::Trial(Err(error))) => return Err(Failure::Arm(error)),
            Ok(ChildReport::Calibrated(_)) => {
                return Err(Failure::Lab(ChildError::Wait(io::Error::other(
                    "a calibration answered a trial",
                ))));
            }
            Err(error @ (ChildError::Died { .. } | ChildError::TimedOut { .. })) => {
                return Err(Failure::Arm(error.to_string()));
            }
            Err(error) => return Err(Failure::Lab(error)),
        };
        match &report.failed {
            None => Ok(report),
            Some((count, words)) => Err(Failure::Arm(format!("{count} of {tasks} tasks failed: {words}"))),
        }
    }

    fn fail(&mut self, arm: Arm, error: String, tell: &mut dyn FnMut(&Event<'_>)) {
        tell(&Event::Failed { arm, error: &error });
        if let Some(track) = self.measured.tracks.iter_mut().find(|track| track.arm == arm) {
            track.fate = Fate::Failed(error);
        }
    }

    /// Takes arms out of the running that are surely slower than half of the best. The baseline and its control stay.
    fn retire(&mut self, tell: &mut dyn FnMut(&Event<'_>)) {
        let counted = self.measured.counted();
        if counted < EARLIEST || counted >= self.spec.rounds.most {
            return;
        }
        let median = |track: &Track| {
            stats::median_u64(track.counted(&self.measured.rounds).map(|trial| trial.report.wall))
                .unwrap_or(u64::MAX)
        };
        let Some(best) = self.measured.tracks.iter().min_by_key(|track| median(track)).map(|track| track.arm)
        else {
            return;
        };
        let hopeless: Vec<Arm> = self
            .running()
            .filter(|arm| arm.model != Model::Serial && *arm != best)
            .filter(|arm| {
                paired_ratio(&self.measured, best, *arm, self.spec.confidence)
                    .is_some_and(|ratio| ratio.hi < HOPELESS)
            })
            .collect();
        for arm in hopeless {
            tell(&Event::Retired { arm });
            if let Some(track) = self.measured.tracks.iter_mut().find(|track| track.arm == arm) {
                track.fate = Fate::Retired(counted);
            }
        }
    }

    /// The widest half-interval of the arms still measured, as a share of the ratio.
    fn widest(&self) -> Option<f64> {
        let running: Vec<Arm> = self.running().filter(|arm| *arm != Arm::SERIAL).collect();
        let widths = running.iter().filter_map(|arm| {
            let ratio = paired_ratio(&self.measured, Arm::SERIAL, *arm, self.spec.confidence)?;
            Some((ratio.hi.ln() - ratio.lo.ln()) / 2.0)
        });
        let widths: Vec<f64> = widths.collect();
        (widths.len() == running.len()).then(|| widths.into_iter().fold(0.0, f64::max))
    }

    fn usual_round(&self) -> f64 {
        // The last few: arms that were retired make rounds shorter.
        let recent = &self.round_ns[self.round_ns.len().saturating_sub(3)..];
        stats::median(recent).unwrap_or(self.sized.round_ns)
    }

    /// Whether the time given to the workloads up to this one holds another round.
    fn next_fits(&self) -> bool {
        let Some(budget) = self.spec.budget else { return true };
        let spent = (clock::now() - self.begun) as f64;
        spent + self.usual_round() <= budget.nanos() as f64 * self.sized.share_end
    }

    fn progress(&self, arm: Option<(Arm, usize)>, arms: usize, widest: Option<f64>) -> Progress {
        let finished = self.measured.rounds.len();
        let (round, rounds) = (finished + usize::from(arm.is_some()), self.spec.rounds.planned());
        Progress {
            workload: self.sized.workload.kind(),
            round,
            rounds,
            warmup: round <= self.spec.rounds.warmup,
            arm,
            arms,
            widest,
            foreign_cpu: self.measured.rounds.last().map_or(0.0, |round| round.noise.foreign_cpu),
            left_ns: (rounds - finished.min(rounds)) as f64 * self.usual_round(),
        }
    }
}

enum Failure {
    /// This arm cannot be run; the others can.
    Arm(String),
    /// Nothing can.
    Lab(ChildError),
}
