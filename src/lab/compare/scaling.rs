//! How a model's speed grows with its workers: Amdahl's serial share, and Karp and Flatt's test of it. Pure.

use schemars::JsonSchema;
use serde::Serialize;

use super::report::Estimate;
use crate::probe::stats;

/// What the growth of a model's speed says, fitted up to the usable CPUs only: the kink beyond them is capacity.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Scaling {
    /// The share of the work that does not run side by side (Amdahl 1967), from the largest number of workers within
    /// the usable CPUs; `null` where that is 1, or is slower than serial.
    pub amdahl_serial: Option<Estimate>,
    /// Karp and Flatt's experimentally determined serial fraction (1990) for each number of workers above 1: constant
    /// means a serial part, rising means overhead. Numbers that are slower than serial are left out.
    pub karp_flatt: Vec<KarpFlatt>,
    /// The universal scalability law; `null` with fewer than six numbers of workers, from which its parameters would
    /// be noise.
    pub usl: Option<()>,
    /// Why something above is `null`.
    pub note: Option<String>,
}

/// One point of the test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KarpFlatt {
    /// How many.
    pub workers: usize,
    /// (1/S − 1/N) / (1 − 1/N), with the speed-up S on N workers.
    pub serial_fraction: f64,
}

/// From each number of workers, in order, and its speed-ups over serial, a round each.
pub(super) fn scaling(
    points: &[(usize, Vec<f64>)],
    usable: usize,
    computes: bool,
    confidence: f64,
) -> Scaling {
    let within = |workers: usize| workers > 1 && (!computes || workers <= usable);
    let karp_flatt =
        points.iter().filter(|(workers, _)| within(*workers)).filter_map(|(workers, speedups)| {
            let fraction = serial_fraction(*workers, stats::median(speedups)?);
            (fraction <= 1.0).then_some(KarpFlatt { workers: *workers, serial_fraction: fraction })
        });
    let largest = points.iter().rfind(|(workers, _)| within(*workers));
    let amdahl_serial = largest.and_then(|(workers, speedups)| {
        let fractions: Vec<f64> =
            speedups.iter().map(|speedup| serial_fraction(*workers, *speedup)).collect();
        stats::median_interval(&fractions, confidence).map(Estimate::from)
    });
    let is_beaten = amdahl_serial.is_some_and(|serial: Estimate| serial.point > 1.0);
    let amdahl_serial = amdahl_serial.filter(|_| !is_beaten);
    let note = match (largest, points.len() >= 6) {
        _ if is_beaten => Some("slower than serial: no serial share explains that".to_owned()),
        (None, _) => Some("no number of workers above 1 within the usable CPUs was measured".to_owned()),
        (_, false) => Some("the universal scalability law needs six numbers of workers".to_owned()),
        (_, true) => Some("the universal scalability law is not fitted".to_owned()),
    };
    Scaling { amdahl_serial, karp_flatt: karp_flatt.collect(), usl: None, note }
}

fn serial_fraction(workers: usize, speedup: f64) -> f64 {
    let workers = workers as f64;
    (1.0 / speedup - 1.0 / workers) / (1.0 - 1.0 / workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fraction_is_amdahls() {
        for (serial, workers) in [(0.0, 2), (0.1, 4), (0.3, 8), (1.0, 8)] {
            let speedup = 1.0 / (serial + (1.0 - serial) / f64::from(workers));
            assert!((serial_fraction(workers as usize, speedup) - serial).abs() < 1e-12);
        }
    }

    #[test]
    fn work_that_computes_is_fitted_within_the_cpus_and_waiting_beyond() {
        let points = [(1, vec![1.0; 7]), (2, vec![1.9; 7]), (8, vec![1.9; 7])];
        let computing = scaling(&points, 2, true, 0.95);
        assert_eq!(computing.karp_flatt.len(), 1);
        assert!((computing.amdahl_serial.unwrap().point - 0.0526).abs() < 1e-3);
        assert_eq!(scaling(&points, 2, false, 0.95).karp_flatt.len(), 2);
        assert!(scaling(&points[..1], 2, true, 0.95).amdahl_serial.is_none());
    }
}
