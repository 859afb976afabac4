//! The two computing kernels. They are the same machine code in every model.

use std::hint::black_box;

use sha2::{Digest as _, Sha256};

/// Integer arithmetic in registers: each round depends on the one before, so that neither the compiler nor the CPU
/// can skip or overlap them.
///
/// Inputs and the answer pass through `black_box`, since otherwise the whole loop could be computed beforehand, or
/// left out.
pub fn cpu(iterations: u64, input: u64) -> u64 {
    let mut state = black_box(input) | 1;
    for round in 0..black_box(iterations) {
        state = (state ^ (state >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round;
    }
    black_box(state)
}

/// SHA-256 over the input and the buffer; the first eight bytes of it.
pub(super) fn hash(input: u64, buffer: &[u8]) -> u64 {
    let mut hasher = Sha256::new();
    hasher.update(black_box(input).to_le_bytes());
    hasher.update(black_box(buffer));
    let digest = hasher.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    black_box(u64::from_le_bytes(first))
}

/// Which CPU instructions the `hash` workload has here: with them it is several times faster, and so every
/// break-even size in bytes is another.
pub fn implementation() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("sha") {
        return "sha256 with SHA instructions";
    }
    "sha256 in software"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_sha_256() {
        // FIPS 180-4, the example "abc", with our eight input bytes taken from it.
        let mut expected = [0; 8];
        expected.copy_from_slice(&Sha256::digest(b"abcdefghijkl")[..8]);
        assert_eq!(hash(u64::from_le_bytes(*b"abcdefgh"), b"ijkl"), u64::from_le_bytes(expected));
        let abc = Sha256::digest(b"abc");
        assert_eq!(&abc[..4], [0xba, 0x78, 0x16, 0xbf]);
    }

    /// CPU time of this thread for one run, the least of many: other work can only add to it.
    fn cost(run: impl Fn() -> u64) -> f64 {
        let now = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
        };
        let once = || {
            let begun = now();
            black_box(run());
            now() - begun
        };
        (0..25).map(|_| once()).fold(f64::INFINITY, f64::min)
    }

    /// Had the optimiser left the work out, or done it beforehand, twice as much would not take twice as long.
    #[test]
    fn doubling_the_size_doubles_the_time() {
        let rounds = 400_000;
        let (one, two) = (cost(|| cpu(rounds, 5)), cost(|| cpu(2 * rounds, 5)));
        assert!((two / one - 2.0).abs() < 0.3, "{one} {two}");
        assert!(one / rounds as f64 > 0.2, "{} ns a round are too few to be true", one / rounds as f64);
        let buffer = vec![7; 2 << 20];
        let (one, two) = (cost(|| hash(5, &buffer[..1 << 20])), cost(|| hash(5, &buffer)));
        assert!((two / one - 2.0).abs() < 0.3, "{one} {two}");
        assert!(one / f64::from(1 << 20) > 0.05, "{one}");
    }

    #[test]
    fn rounds_are_not_skipped() {
        assert_ne!(cpu(1, 5), cpu(2, 5));
        assert_ne!(cpu(1000, 5), cpu(1000, 7));
    }
}
