//! Statistics that assume no distribution: medians, and exact intervals from order statistics.

use serde::{Deserialize, Serialize};

/// An interval that holds a median, with the confidence it really has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The sample's median.
    pub point: f64,
    /// The lower end.
    pub lo: f64,
    /// The upper end.
    pub hi: f64,
    /// The probability with which such an interval holds the true median; below what was asked where there are
    /// too few samples.
    pub confidence: f64,
}

impl Interval {
    /// The same interval on another scale; `by` must not turn the order round.
    #[must_use]
    pub fn map(self, by: impl Fn(f64) -> f64) -> Interval {
        Interval { point: by(self.point), lo: by(self.lo), hi: by(self.hi), confidence: self.confidence }
    }

    /// Half the width.
    pub fn half_width(&self) -> f64 {
        (self.hi - self.lo) / 2.0
    }
}

/// The middle value; the mean of the two middle ones of an even number. `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        even if even.is_multiple_of(2) => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        _ => Some(sorted[middle]),
    }
}

/// The median of whole numbers, rounded down.
pub fn median_u64(values: impl IntoIterator<Item = u64>) -> Option<u64> {
    let values: Vec<f64> = values.into_iter().map(|value| value as f64).collect();
    median(&values).map(|value| value as u64)
}

/// The exact order-statistic interval for the median: from the k-th smallest to the k-th largest value, with the
/// largest k whose coverage, 1 - 2·P(Binomial(n, ½) < k), is `confidence` at least.
///
/// Where even the smallest and the largest value cover less, they are given, and the confidence says so. (Conover,
/// "Practical Nonparametric Statistics", section 3.2.) `None` of nothing.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let point = median(values)?;
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    let mut rank = 1;
    while rank < n.div_ceil(2) && coverage(n, rank + 1) >= confidence {
        rank += 1;
    }
    Some(Interval { point, lo: sorted[rank - 1], hi: sorted[n - rank], confidence: coverage(n, rank) })
}

/// How probably the interval from the `rank`-th smallest to the `rank`-th largest of `n` values holds the median.
pub fn coverage(n: usize, rank: usize) -> f64 {
    let mut term = 0.5f64.powi(n as i32);
    let mut below = 0.0;
    for k in 0..rank {
        below += term;
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    1.0 - 2.0 * below
}

/// Whether the values fall into two groups with nothing between: the widest gap between neighbours, not counting
/// the outer fifths, is over 5 % of the median and more than half of the whole range.
pub fn is_bimodal(values: &[f64]) -> bool {
    let (mut sorted, Some(median)) = (values.to_vec(), median(values)) else { return false };
    if sorted.len() < 6 {
        return false;
    }
    sorted.sort_unstable_by(f64::total_cmp);
    let edge = sorted.len() / 5;
    let widest =
        sorted[edge..sorted.len() - edge].windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    let range = sorted[sorted.len() - 1] - sorted[0];
    widest > 0.05 * median && widest > 0.5 * range
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ranks(n: usize) -> (f64, f64, f64) {
        let values: Vec<f64> = (1..=n).map(|value| value as f64).collect();
        let interval = median_interval(&values, 0.95).unwrap();
        (interval.lo, interval.hi, (interval.confidence * 1000.0).round() / 10.0)
    }

    #[test]
    fn the_ranks_and_coverages_are_the_published_ones() {
        // Tables of the sign-test interval, e.g. Conover; Hahn and Meeker, "Statistical Intervals", table A.16.
        assert_eq!(ranks(5), (1.0, 5.0, 93.8));
        assert_eq!(ranks(6), (1.0, 6.0, 96.9));
        assert_eq!(ranks(7), (1.0, 7.0, 98.4));
        assert_eq!(ranks(15), (4.0, 12.0, 96.5));
        assert_eq!(ranks(20), (6.0, 15.0, 95.9));
        assert_eq!(ranks(30), (10.0, 21.0, 95.7));
        assert!((coverage(15, 3) - 0.993).abs() < 5e-4 && (coverage(15, 2) - 0.999).abs() < 5e-4);
    }

    #[test]
    fn one_value_is_its_own_interval_and_promises_nothing() {
        let interval = median_interval(&[3.0], 0.95).unwrap();
        assert_eq!((interval.point, interval.lo, interval.hi, interval.confidence), (3.0, 3.0, 3.0, 0.0));
        assert_eq!(median_interval(&[], 0.95), None);
    }

    proptest! {
        #[test]
        fn the_interval_holds_its_point(values in proptest::collection::vec(-1e9f64..1e9, 1..60), confidence in 0.5f64..0.999) {
            let interval = median_interval(&values, confidence).unwrap();
            prop_assert!(interval.lo <= interval.point && interval.point <= interval.hi);
            prop_assert!(interval.confidence >= confidence || interval.lo == values.iter().copied().fold(f64::MAX, f64::min));
        }

        #[test]
        fn scaling_the_values_scales_the_median(values in proptest::collection::vec(1f64..1e6, 1..40)) {
            let doubled: Vec<f64> = values.iter().map(|value| value * 2.0).collect();
            prop_assert_eq!(median(&doubled).unwrap(), median(&values).unwrap() * 2.0);
        }
    }

    #[test]
    fn the_interval_covers_as_often_as_it_says() {
        let mut rng = crate::seed::Seed(11).stream(0);
        let mut held = 0;
        for _ in 0..2000 {
            let values: Vec<f64> = (0..15).map(|_| rng.below(1 << 40) as f64).collect();
            let interval = median_interval(&values, 0.95).unwrap();
            let truth = (1u64 << 39) as f64;
            held += usize::from(interval.lo <= truth && truth <= interval.hi);
        }
        // 96.5 % of 2000 is 1930, with a standard deviation of 8.2.
        assert!((1897..=1963).contains(&held), "{held}");
    }

    #[test]
    fn two_groups_are_told_from_one() {
        assert!(is_bimodal(&[1.0, 1.01, 1.02, 1.0, 2.0, 2.01, 2.02, 2.0]));
        assert!(!is_bimodal(&[1.0, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07]));
        assert!(!is_bimodal(&[1.0, 1.01, 1.02, 1.0, 1.01, 1.02, 1.0, 9.0]));
    }
}
