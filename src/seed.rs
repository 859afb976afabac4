//! Repeatable randomness: one number decides the inputs of the tasks and the order of the trials.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The number from which all inputs and orders of a run follow.
///
/// Kept to 32 bits so that it survives every JSON reader and is easy to type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u32);

/// A stream of 64-bit numbers that is the same on every machine and in every version.
///
/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): our runs
/// must be repeatable from their seed for years, which general-purpose generators do not promise.
#[derive(Clone, Debug)]
pub struct Rng(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finisher over two words.
pub fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.wrapping_mul(GOLDEN) ^ b;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Seed {
    /// The stream for one purpose; streams of different purposes do not meet.
    pub fn stream(self, purpose: u64) -> Rng {
        Rng(mix(u64::from(self.0) + 1, purpose))
    }
}

impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.trim()
            .parse()
            .map(Seed)
            .map_err(|_| format!("`{text}` is not a seed: 0 to {} allowed", u32::MAX))
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Rng {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "an endless stream; an Option would only be unwrapped")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(1, self.0)
    }

    /// A number below `limit`, which must not be 0. The bias is below `limit` in 2^64.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// Puts `items` into a random order, each order equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// Fills `buffer` with bytes that no page merger and no compressor can share.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_read_back_what_they_print() {
        for seed in [Seed(0), Seed(7), Seed(u32::MAX)] {
            assert_eq!(seed.to_string().parse(), Ok(seed));
        }
        assert!("-1".parse::<Seed>().is_err() && "4294967296".parse::<Seed>().is_err());
    }

    #[test]
    fn a_seed_decides_its_streams() {
        let draw = |seed, purpose| Seed(seed).stream(purpose).next();
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_reaches_every_order() {
        let mut seen = std::collections::HashSet::new();
        let mut rng = Seed(1).stream(0);
        for _ in 0..500 {
            let mut items = [1, 2, 3, 4];
            rng.shuffle(&mut items);
            let mut sorted = items;
            sorted.sort_unstable();
            assert_eq!(sorted, [1, 2, 3, 4]);
            seen.insert(items);
        }
        assert_eq!(seen.len(), 24);
    }
}
