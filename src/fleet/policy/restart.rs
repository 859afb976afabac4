//! How soon a dead worker is replaced, and when a fleet gives up. Pure.

use std::collections::VecDeque;

use super::rules::Restart;
use crate::probe::clock::Nanos;
use crate::seed::Rng;

/// The pause before the `nth` repetition, from 1: doubling, with jitter between half and all of it.
pub(super) fn pause(first: Nanos, longest: Nanos, nth: u32, chance: &mut Rng) -> Nanos {
    let doubled = first.saturating_mul(1_u64.checked_shl(nth.saturating_sub(1)).unwrap_or(Nanos::MAX));
    let whole = doubled.min(longest);
    whole / 2 + chance.below(whole / 2 + 1)
}

/// Setbacks in a row of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Setbacks(u32);

impl Setbacks {
    /// One more; how long the slot stays empty now. The first is forgiven.
    pub(super) fn add(&mut self, rules: &Restart, chance: &mut Rng) -> Nanos {
        let before = self.0;
        self.0 = self.0.saturating_add(1);
        if before == 0 { 0 } else { pause(rules.pause, rules.longest_pause, before, chance) }
    }

    /// The slot's worker completed a task, or served long enough.
    pub(super) fn forget(&mut self) {
        self.0 = 0;
    }
}

/// The deaths of a fleet since its last completed task: progress is the sign of health.
#[derive(Clone, Debug, Default)]
pub(super) struct Intensity {
    deaths: VecDeque<Nanos>,
    failed_starts: usize,
    has_served: bool,
}

impl Intensity {
    /// A worker is in service.
    pub(super) fn served(&mut self) {
        self.has_served = true;
    }

    /// A task was completed.
    pub(super) fn progressed(&mut self) {
        self.deaths.clear();
    }

    /// A worker died; says whether that is one too many.
    pub(super) fn died(&mut self, now: Nanos, rules: &Restart) -> bool {
        self.deaths.push_back(now);
        while self.deaths.front().is_some_and(|death| now.saturating_sub(*death) > rules.period) {
            self.deaths.pop_front();
        }
        self.deaths.len() > rules.most_deaths
    }

    /// A worker ended before it was ready; says whether that is one too many.
    pub(super) fn failed_to_start(&mut self, now: Nanos, rules: &Restart) -> bool {
        if self.has_served {
            return self.died(now, rules);
        }
        self.failed_starts += 1;
        self.failed_starts >= rules.first_tries
    }

    /// Whether any worker was ever in service.
    pub(super) fn has_served(&self) -> bool {
        self.has_served
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::Rules;
    use super::*;
    use crate::seed::Seed;

    fn chance() -> Rng {
        Seed(1).stream(0)
    }

    #[test]
    fn the_first_setback_is_forgiven_and_the_pauses_double_up_to_the_longest() {
        let (rules, mut chance) = (Rules::of(2).restart, chance());
        let mut setbacks = Setbacks::default();
        let pauses: Vec<Nanos> = (0..14).map(|_| setbacks.add(&rules, &mut chance)).collect();
        assert_eq!(pauses[0], 0);
        for (nth, pause) in pauses.iter().enumerate().skip(1) {
            let whole = (rules.pause << (nth - 1)).min(rules.longest_pause);
            assert!((whole / 2..=whole).contains(pause), "{nth}: {pause}");
        }
        setbacks.forget();
        assert_eq!(setbacks.add(&rules, &mut chance), 0);
    }

    #[test]
    fn a_pause_never_overflows() {
        assert!(pause(u64::MAX / 2, 1000, u32::MAX, &mut chance()) <= 1000);
    }

    #[test]
    fn deaths_count_over_a_period_and_progress_wipes_them_out() {
        let rules = Restart { most_deaths: 2, period: 100, ..Rules::of(1).restart };
        let mut intensity = Intensity::default();
        intensity.served();
        assert!(!intensity.died(0, &rules) && !intensity.died(10, &rules));
        assert!(!intensity.died(105, &rules), "the first is out of the period");
        intensity.progressed();
        assert!(!intensity.died(106, &rules) && !intensity.died(107, &rules));
        assert!(intensity.died(108, &rules));
    }

    #[test]
    fn a_fleet_that_never_served_has_a_few_tries_and_one_that_did_has_all() {
        let rules = Rules::of(8).restart;
        let mut intensity = Intensity::default();
        assert!(!intensity.failed_to_start(0, &rules) && !intensity.failed_to_start(1, &rules));
        assert!(intensity.failed_to_start(2, &rules));
        let mut intensity = Intensity::default();
        intensity.served();
        assert!((0..16).all(|at| !intensity.failed_to_start(at, &rules)));
        assert!(intensity.failed_to_start(16, &rules));
    }
}
