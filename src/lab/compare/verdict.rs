//! What an interval means. Pure.

use schemars::JsonSchema;
use serde::Serialize;

use crate::probe::stats::Interval;

/// What an arm's interval says of it, against what it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Faster, by more than the margin.
    Faster,
    /// Faster, by less than the margin at its lower end.
    SlightlyFaster,
    /// Within the margin on both sides: as fast, for all that matters.
    Equivalent,
    /// Slower, by less than the margin at its upper end.
    SlightlySlower,
    /// Slower, by more than the margin.
    Slower,
    /// More rounds would tell.
    Inconclusive,
    /// Too few rounds for the confidence that was asked: a first impression.
    Indicative,
    /// Something disturbed the machine too much for wall times to mean anything.
    TooNoisy,
}

impl Verdict {
    /// The verdict on a ratio, above 1 being faster, with the margin `delta`.
    pub(super) fn on(ratio: &Interval, delta: f64, confidence: f64, too_noisy: bool) -> Verdict {
        let (upper, lower) = (1.0 + delta, 1.0 / (1.0 + delta));
        if too_noisy {
            Verdict::TooNoisy
        } else if ratio.confidence < confidence - 1e-9 {
            Verdict::Indicative
        } else if ratio.lo > upper {
            Verdict::Faster
        } else if ratio.hi < lower {
            Verdict::Slower
        } else if ratio.lo >= lower && ratio.hi <= upper {
            Verdict::Equivalent
        } else if ratio.lo > 1.0 {
            Verdict::SlightlyFaster
        } else if ratio.hi < 1.0 {
            Verdict::SlightlySlower
        } else {
            Verdict::Inconclusive
        }
    }

    /// Whether it settles the matter.
    pub fn is_settled(self) -> bool {
        !matches!(self, Verdict::Inconclusive | Verdict::Indicative | Verdict::TooNoisy)
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::SlightlyFaster => "slightly faster",
            Verdict::Equivalent => "equivalent",
            Verdict::SlightlySlower => "slightly slower",
            Verdict::Slower => "slower",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Indicative => "indicative",
            Verdict::TooNoisy => "too noisy",
        }
    }
}

/// How many rounds would about settle it: an interval's width shrinks with the root of their number.
pub(super) fn rounds_needed(ratio: &Interval, delta: f64, rounds: usize) -> usize {
    let width = ratio.hi.ln() - ratio.lo.ln();
    let needed = rounds as f64 * (width / (2.0 * delta)).powi(2);
    ((needed - 1e-9).ceil() as usize).clamp(rounds + 1, 10_000)
}

/// Whether two identical arms differ so much that no other difference can be believed.
pub(super) fn control_fails(control: &Interval, delta: f64) -> bool {
    control.hi > 1.0 + delta || control.lo < 1.0 / (1.0 + delta)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(lo: f64, hi: f64) -> Verdict {
        Verdict::on(&Interval { point: f64::midpoint(lo, hi), lo, hi, confidence: 0.965 }, 0.05, 0.95, false)
    }

    #[test]
    fn the_rules_are_kept_at_their_borders() {
        assert_eq!(on(1.06, 1.2), Verdict::Faster);
        assert_eq!(on(1.04, 1.2), Verdict::SlightlyFaster);
        assert_eq!(on(1.01, 1.04), Verdict::Equivalent);
        assert_eq!(on(0.96, 1.05), Verdict::Equivalent);
        assert_eq!(on(0.9, 0.99), Verdict::SlightlySlower);
        assert_eq!(on(0.8, 0.94), Verdict::Slower);
        assert_eq!(on(0.9, 1.1), Verdict::Inconclusive);
        assert_eq!(on(0.99, 1.06), Verdict::Inconclusive);
    }

    #[test]
    fn too_few_rounds_or_too_much_noise_settle_nothing() {
        let few = Interval { point: 2.0, lo: 1.9, hi: 2.1, confidence: 0.9375 };
        assert_eq!(Verdict::on(&few, 0.05, 0.95, false), Verdict::Indicative);
        assert_eq!(Verdict::on(&few, 0.05, 0.90, false), Verdict::Faster);
        assert_eq!(Verdict::on(&few, 0.05, 0.90, true), Verdict::TooNoisy);
        assert!(!Verdict::TooNoisy.is_settled() && Verdict::Equivalent.is_settled());
    }

    #[test]
    fn twice_the_width_takes_four_times_the_rounds() {
        let ratio = |width: f64| Interval {
            point: 1.0,
            lo: (-width / 2.0).exp(),
            hi: (width / 2.0).exp(),
            confidence: 0.96,
        };
        assert_eq!(rounds_needed(&ratio(0.2), 0.05, 15), 60);
        assert_eq!(rounds_needed(&ratio(0.4), 0.05, 15), 240);
        assert_eq!(rounds_needed(&ratio(0.01), 0.05, 15), 16);
    }

    #[test]
    fn a_control_that_differs_from_itself_is_no_control() {
        let interval = |lo, hi| Interval { point: 1.0, lo, hi, confidence: 0.96 };
        assert!(!control_fails(&interval(0.98, 1.03), 0.05));
        assert!(control_fails(&interval(0.98, 1.06), 0.05) && control_fails(&interval(0.9, 1.01), 0.05));
    }

    /// The same cost with noise, measured over and over: a difference must be found in fewer than one run of twenty.
    #[test]
    fn identical_arms_come_out_equal_in_nineteen_runs_of_twenty() {
        let mut rng = crate::seed::Seed(3).stream(0);
        let mut noise = |scale: f64| {
            // Drift-free noise with a heavy tail: one run of six is up to 40 % slow.
            let spike = if rng.below(6) == 0 { 0.4 * rng.below(1000) as f64 / 1000.0 } else { 0.0 };
            scale * (rng.below(2001) as f64 / 1000.0 - 1.0) + spike
        };
        let mut wrong = 0;
        for _ in 0..400 {
            let ratios: Vec<f64> = (0..15).map(|_| noise(0.03) - noise(0.03)).collect();
            let ratio = crate::probe::stats::median_interval(&ratios, 0.95).unwrap().map(f64::exp);
            let verdict = Verdict::on(&ratio, 0.05, 0.95, control_fails(&ratio, 0.05));
            wrong += usize::from(!matches!(verdict, Verdict::Equivalent | Verdict::TooNoisy));
        }
        assert!(wrong <= 20, "{wrong} of 400");
    }
}
