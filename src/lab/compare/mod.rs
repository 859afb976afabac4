//! Threads, async tasks or worker processes, and how many, for *this* work?
//!
//! An *arm* is a model on so many lanes. A *round* runs every arm once, in an order drawn anew; `serial` runs twice, and
//! its second run is the control: two identical arms must come out equal. Arms of one round are compared with each
//! other, so that what drifts on the machine cancels.

mod answer;
mod arm;
mod arm_report;
mod doubt;
mod measure;
mod report;
mod rounds;
mod scaling;
mod sizing;
mod summary;
#[cfg(test)]
mod tests;
mod text;
mod verdict;

use std::io;
use std::time::Duration;

pub use arm::{Arm, ArmError};
pub use arm_report::ArmReport;
pub use measure::{Event, Progress};
pub use report::{CompareReport, Comparison};
pub use rounds::Rounds;
pub use sizing::{Request, Size, SizeError, Sized};
pub use text::COLUMNS;

use super::child::{ChildOrder, ChildReport};
use super::isolate::{ChildError, Isolation};
use crate::ids::Lanes;
use crate::model::Model;
use crate::probe::clock;
use crate::probe::host::Machine;
use crate::seed::Seed;
use crate::units::Span;
use crate::workload::Kind;

/// What is to be compared, and how carefully. Everything is decided here; nothing is asked again.
#[derive(Clone, Debug)]
pub struct CompareSpec {
    /// The kinds of work, each with its size.
    pub requests: Vec<Request>,
    /// The models, the baseline among them.
    pub models: Vec<Model>,
    /// The numbers of workers, in order.
    pub workers: Vec<Lanes>,
    /// How many rounds.
    pub rounds: Rounds,
    /// How long all of it may take; rounds stop when it is spent.
    pub budget: Option<Span>,
    /// A difference below this share is none that matters.
    pub margin: f64,
    /// How sure an interval is to be.
    pub confidence: f64,
    /// Decides inputs and orders.
    pub seed: Seed,
    /// What was typed, for the report.
    pub argv: Vec<String>,
}

/// Why there is no comparison.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A size is not possible.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The lab itself failed.
    #[error(transparent)]
    Lab(#[from] ChildError),
    /// The machine cannot be read.
    #[error("cannot read the machine's counters: {0}")]
    Probe(#[from] io::Error),
}

impl CompareSpec {
    /// The arms, without the control: the baseline, then every other model on every number of workers.
    pub fn arms(&self) -> Vec<Arm> {
        let baseline = Arm { model: Model::Serial, lanes: Lanes::ONE, control: false };
        let others = self.models.iter().filter(|model| **model != Model::Serial);
        let arms = others.flat_map(|model| {
            self.workers.iter().map(|lanes| Arm { model: *model, lanes: *lanes, control: false })
        });
        std::iter::once(baseline).chain(arms).collect()
    }
}

/// Calibration takes a fraction of a second; longer than this and something is wrong.
const CALIBRATION_LIMIT: Duration = Duration::from_secs(60);

/// Runs the comparison. `tell` hears what happens, between timed sections only.
///
/// # Errors
/// If a size is not possible, or the lab itself fails. An arm that fails is part of the result.
pub fn run(
    spec: &CompareSpec,
    lab: &mut Isolation,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<CompareReport, CompareError> {
    let (begun, started_unix_ns) = (clock::now(), clock::unix_now());
    let mut machine = Machine::read();
    let kinds: Vec<Kind> =
        spec.requests.iter().map(|request| request.kind).filter(|kind| kind.computes()).collect();
    let speeds = if kinds.is_empty() {
        super::child::Speeds::default()
    } else {
        tell(&Event::Calibrating);
        match lab.run(&ChildOrder::Calibrate(kinds), CALIBRATION_LIMIT)? {
            ChildReport::Calibrated(speeds) => {
                machine.obtained_cpus = Some(speeds.obtained_cpus);
                speeds
            }
            ChildReport::Trial(_) => {
                return Err(CompareError::Probe(io::Error::other("a trial answered a calibration")));
            }
        }
    };
    let plan = sizing::plan(spec, &speeds, &machine)?;
    tell(&Event::Planned { spec, machine: &machine, plan: &plan });
    let mut comparisons = Vec::new();
    for sized in &plan {
        if lab.wish().is_some() {
            break;
        }
        let measured = measure::run(spec, &machine, sized, lab, begun, tell)?;
        comparisons.push(summary::summarise(spec, &machine, sized, &measured));
    }
    let interrupted = lab.wish().is_some();
    Ok(CompareReport::new(spec, machine, comparisons, interrupted, started_unix_ns, clock::now() - begun))
}
