//! Samples of several sides, taken in turns, so that whatever disturbs one side disturbs the others.

use fleet::probe::stats::{self, Interval};

use crate::Failure;

/// Takes one sample, in nanoseconds.
pub(crate) type Side<'a> = &'a mut dyn FnMut() -> Result<f64, Failure>;

/// The samples of one side, by pass.
#[derive(Default)]
pub(crate) struct Samples(Vec<Vec<f64>>);

/// How sure the intervals are.
const CONFIDENCE: f64 = 0.95;

/// Takes `samples` of every side in each of `passes`. The sides go forth and back, so that none is always the first,
/// or always comes after the same other one.
pub(crate) fn interleaved<const N: usize>(
    passes: usize,
    samples: usize,
    mut sides: [Side<'_>; N],
) -> Result<[Samples; N], Failure> {
    // What is slow only once, such as reading a program from a disk, is no part of anything.
    for side in &mut sides {
        side()?;
    }
    let mut taken = [const { Samples(Vec::new()) }; N];
    for pass in 0..passes {
        taken.iter_mut().for_each(|side| side.0.push(Vec::with_capacity(samples)));
        for sample in 0..samples {
            for turn in 0..N {
                let index = if (pass + sample).is_multiple_of(2) { turn } else { N - 1 - turn };
                taken[index].0[pass].push(sides[index]()?);
            }
        }
    }
    Ok(taken)
}

impl Samples {
    /// Adds a pass that has one sample only.
    pub(crate) fn push_pass(&mut self, sample: f64) {
        self.0.push(vec![sample]);
    }

    /// The median of all.
    pub(crate) fn p50(&self) -> f64 {
        median(&self.all())
    }

    /// The smallest of all.
    pub(crate) fn least(&self) -> f64 {
        self.all().into_iter().fold(f64::INFINITY, f64::min)
    }

    /// The median over the passes of this side's median by the other's.
    pub(crate) fn ratio(&self, floor: &Samples) -> Interval {
        let ratios: Vec<f64> =
            self.0.iter().zip(&floor.0).map(|(ours, floor)| median(ours) / median(floor)).collect();
        stats::median_interval(&ratios, CONFIDENCE).expect("there is a pass at least")
    }

    fn all(&self) -> Vec<f64> {
        self.0.concat()
    }
}

fn median(values: &[f64]) -> f64 {
    stats::median(values).expect("there is a sample at least")
}
