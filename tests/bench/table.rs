//! Ratios, and how they are shown.

use fleet::probe::noise::{FLAG_FOREIGN, Noise};
use fleet::probe::stats::Interval;
use fleet::report::{Charset, Column, Document, Report, Section, Table, human};
use serde::Serialize;

use crate::passes::Samples;

/// Everything that was measured.
#[derive(Serialize)]
pub(crate) struct Ratios {
    pub(crate) rows: Vec<Row>,
    /// Who else used the machine.
    #[serde(skip)]
    pub(crate) noise: Noise,
}

/// One side of ours by its floor.
#[derive(Serialize)]
pub(crate) struct Row {
    name: &'static str,
    value: f64,
    unit: &'static str,
    /// What the floor is.
    reference: &'static str,
    #[serde(skip)]
    reference_value: f64,
    ratio: f64,
    #[serde(skip)]
    interval: Option<Interval>,
    /// The ratio that is good enough, where that is decided.
    target: Option<f64>,
    met: Option<bool>,
}

impl Row {
    /// The typical sample by the floor's.
    pub(crate) fn typical(
        name: &'static str,
        ours: &Samples,
        reference: &'static str,
        floor: &Samples,
    ) -> Row {
        let interval = ours.ratio(floor);
        Row {
            name,
            value: ours.p50(),
            unit: "ns",
            reference,
            reference_value: floor.p50(),
            ratio: interval.point,
            interval: Some(interval),
            target: None,
            met: None,
        }
    }

    /// The best sample by the floor's best: what is left when nothing disturbs.
    pub(crate) fn best(name: &'static str, ours: &Samples, reference: &'static str, floor: &Samples) -> Row {
        let (value, reference_value) = (ours.least(), floor.least());
        let typical = Row::typical(name, ours, reference, floor);
        Row { value, reference_value, ratio: value / reference_value, interval: None, ..typical }
    }

    /// The same, and the ratio should be `target` at the most.
    #[must_use]
    pub(crate) fn at_most(self, target: f64) -> Row {
        Row { target: Some(target), met: Some(self.ratio <= target), ..self }
    }

    fn cells(&self) -> Vec<String> {
        let ratio = |value: f64| format!("{value:.3}×");
        let range = |interval: Interval| format!("{:.3} – {:.3}", interval.lo, interval.hi);
        let met = self.met.map_or("—", |met| if met { "met" } else { "missed" });
        vec![
            self.name.to_owned(),
            human::span(self.value),
            self.reference.to_owned(),
            human::span(self.reference_value),
            ratio(self.ratio),
            self.interval.map_or_else(|| "—".to_owned(), range),
            self.target.map_or_else(|| "—".to_owned(), |target| format!("≤ {target:.2}")),
            met.to_owned(),
        ]
    }
}

const COLUMNS: &[&str] = &["what", "value", "floor", "its value", "ratio", "95 %", "target", "result"];

impl Report for Ratios {
    fn document(&self, _: Charset) -> Document {
        let columns = COLUMNS.iter().map(|head| match *head {
            "what" | "floor" | "result" => Column::words(head),
            "value" | "its value" => Column::numbers(head).spare(1),
            head => Column::numbers(head),
        });
        let (_, rows) = self.rows();
        let table = Table { columns: columns.collect(), rows, chosen: Vec::new() };
        let sections = [Some(Section::Table(table)), self.doubt().map(Section::Note)];
        Document { sections: sections.into_iter().flatten().collect() }
    }

    fn rows(&self) -> (&'static [&'static str], Vec<Vec<String>>) {
        (COLUMNS, self.rows.iter().map(Row::cells).collect())
    }
}

impl Ratios {
    /// Waiting for a CPU that somebody else has takes both sides equally long, and hides what ours costs.
    fn doubt(&self) -> Option<String> {
        let share = self.noise.foreign_cpu;
        (share > FLAG_FOREIGN).then(|| {
            format!(
                "Others used {} of the CPUs meanwhile, which draws ratios of waiting times towards 1: \
                 run it again on a quiet machine before you believe them.",
                human::percent(share)
            )
        })
    }
}
