//! How many rounds, in which order, and when it is enough. Pure: no clock, no process.

use super::arm::Arm;
use crate::seed::Rng;

/// How many rounds a comparison takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    /// Rounds that are run and not counted.
    pub warmup: usize,
    /// No fewer than so many are counted.
    pub least: usize,
    /// No more than so many are counted.
    pub most: usize,
    /// It is enough when every interval is narrower than this on each side, as a share.
    pub width: Option<f64>,
}

impl Rounds {
    /// Up to fifteen, fewer where the intervals are narrow before.
    pub const DEFAULT: Rounds = Rounds { warmup: 2, least: 7, most: 15, width: Some(0.025) };
    /// Five: a first impression, too few for a verdict.
    pub const QUICK: Rounds = Rounds { warmup: 1, least: 5, most: 5, width: None };
    /// Thirty, whatever the intervals.
    pub const RIGOROUS: Rounds = Rounds { warmup: 2, least: 30, most: 30, width: None };

    /// So many, neither more nor fewer.
    pub fn exactly(rounds: usize) -> Rounds {
        Rounds { warmup: 2, least: rounds, most: rounds, width: None }
    }

    /// Rounds run at the least, those not counted included, however little time there is.
    pub fn surely(&self) -> usize {
        self.warmup + EARLIEST.min(self.least)
    }

    /// Rounds run at the most, those not counted included.
    pub fn planned(&self) -> usize {
        self.warmup + self.most
    }
}

/// After so many counted rounds an arm may be out of the running, and even a spent budget is overdrawn until then.
pub(super) const EARLIEST: usize = 5;

/// An arm whose every paired ratio to the best says that it is slower than this is out of the running.
pub(super) const HOPELESS: f64 = 0.5;

/// Why no further round was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// As many as asked.
    Rounds,
    /// The intervals are narrow enough.
    Width,
    /// The time is spent.
    Budget,
    /// Somebody asked us to end.
    Interrupted,
}

impl Stopped {
    pub(super) fn name(self) -> &'static str {
        match self {
            Stopped::Rounds => "rounds",
            Stopped::Width => "width",
            Stopped::Budget => "budget",
            Stopped::Interrupted => "interrupted",
        }
    }
}

/// Whether it is enough after `counted` rounds.
///
/// `widest` is the widest half-interval among the arms still measured, `next_fits` whether the time left holds another
/// round. Only widths decide, never what the intervals say: stopping at the first significant look would find
/// differences where there are none.
pub(super) fn enough(
    rounds: &Rounds,
    counted: usize,
    widest: Option<f64>,
    next_fits: bool,
) -> Option<Stopped> {
    if counted >= rounds.most {
        return Some(Stopped::Rounds);
    }
    if !next_fits && counted >= EARLIEST.min(rounds.least) {
        return Some(Stopped::Budget);
    }
    let narrow = rounds.width.zip(widest).is_some_and(|(limit, widest)| widest <= limit);
    (narrow && counted >= rounds.least).then_some(Stopped::Width)
}

/// The order of a round.
pub(super) fn order(rng: &mut Rng, arms: &[Arm]) -> Vec<Arm> {
    let mut order = arms.to_vec();
    rng.shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Rounds = Rounds::DEFAULT;

    #[test]
    fn narrow_intervals_end_it_but_not_before_the_least() {
        assert_eq!(enough(&DEFAULT, 6, Some(0.001), true), None);
        assert_eq!(enough(&DEFAULT, 7, Some(0.001), true), Some(Stopped::Width));
        assert_eq!(enough(&DEFAULT, 7, Some(0.03), true), None);
        assert_eq!(enough(&DEFAULT, 15, Some(0.03), true), Some(Stopped::Rounds));
    }

    #[test]
    fn a_spent_budget_ends_it_but_not_before_five() {
        assert_eq!(enough(&DEFAULT, 4, Some(0.03), false), None);
        assert_eq!(enough(&DEFAULT, 5, Some(0.03), false), Some(Stopped::Budget));
        assert_eq!(enough(&Rounds::exactly(3), 2, None, false), None);
        assert_eq!(enough(&Rounds::exactly(3), 3, None, false), Some(Stopped::Rounds));
    }

    #[test]
    fn a_fixed_number_is_not_cut_short_by_narrow_intervals() {
        assert_eq!(enough(&Rounds::RIGOROUS, 29, Some(0.0), true), None);
        assert_eq!(enough(&Rounds::RIGOROUS, 30, Some(0.0), true), Some(Stopped::Rounds));
    }

    #[test]
    fn every_arm_stands_in_every_round_once_and_the_seed_decides_where() {
        let arms = [Arm::SERIAL, Arm::CONTROL, "threads@2".parse().unwrap(), "fork@2".parse().unwrap()];
        let draw = |seed| {
            let mut rng = crate::seed::Seed(seed).stream(0);
            [order(&mut rng, &arms), order(&mut rng, &arms)]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        for mut round in draw(7) {
            round.sort();
            let mut sorted = arms.to_vec();
            sorted.sort();
            assert_eq!(round, sorted);
        }
    }
}
