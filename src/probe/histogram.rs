//! Latencies as a distribution that can be merged: percentiles are read from the sum, never averaged.

use serde::{Deserialize, Serialize};

/// Nanoseconds, counted in buckets of three significant digits, from 1 ns to an hour.
#[derive(Clone, Debug)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

/// A histogram on its way between processes: each bucket's value in nanoseconds, and its count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buckets(pub Vec<(u64, u64)>);

const LONGEST: u64 = 3_600_000_000_000;

impl Default for Histogram {
    fn default() -> Histogram {
        let inner = hdrhistogram::Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are in order");
        Histogram(inner)
    }
}

impl Histogram {
    /// Counts one latency.
    pub fn record(&mut self, nanos: u64) {
        self.0.saturating_record(nanos.clamp(1, LONGEST));
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that a share `quantile` of all did not exceed, in nanoseconds; `None` where fewer than ten
    /// samples lie beyond it, since the answer would then be luck.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        (self.count() >= Histogram::needed(quantile)).then(|| self.0.value_at_quantile(quantile))
    }

    /// The longest latency, in nanoseconds.
    pub fn max(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.0.max())
    }

    /// How many samples a quantile takes: 10 / (1 - q), so p50 takes 20, p90 100, p99 1000.
    pub fn needed(quantile: f64) -> u64 {
        (10.0 / (1.0 - quantile) - 1e-6).ceil() as u64
    }

    /// What was counted, ready to travel.
    pub fn buckets(&self) -> Buckets {
        Buckets(
            self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect(),
        )
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Buckets) {
        for &(value, count) in &other.0 {
            self.0.saturating_record_n(value.clamp(1, LONGEST), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_that_are_merged_equal_the_whole(values in proptest::collection::vec(1u64..10_000_000_000, 1..300), cut: usize) {
            let mut whole = Histogram::default();
            values.iter().for_each(|value| whole.record(*value));
            let (left, right) = values.split_at(cut % values.len());
            let mut merged = Histogram::default();
            for part in [left, right] {
                let mut histogram = Histogram::default();
                part.iter().for_each(|value| histogram.record(*value));
                merged.add(&histogram.buckets());
            }
            prop_assert_eq!(merged.buckets(), whole.buckets());
            prop_assert_eq!(merged.quantile(0.5), whole.quantile(0.5));
        }
    }

    #[test]
    fn a_quantile_with_too_few_samples_is_refused() {
        let mut histogram = Histogram::default();
        for value in 1..1000 {
            histogram.record(value);
        }
        assert!(histogram.quantile(0.5).is_some() && histogram.quantile(0.9).is_some());
        assert_eq!(histogram.quantile(0.99), None);
        histogram.record(1000);
        assert_eq!(histogram.quantile(0.99), Some(990));
        assert_eq!(histogram.max(), Some(1000));
        assert_eq!([0.5, 0.9, 0.99, 0.999].map(Histogram::needed), [20, 100, 1000, 10_000]);
    }

    #[test]
    fn nothing_counted_has_no_maximum() {
        assert_eq!(Histogram::default().max(), None);
    }
}
