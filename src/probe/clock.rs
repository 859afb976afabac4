//! One clock for everything: CLOCK_MONOTONIC, the same in all processes of a machine.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on the machine's monotonic clock. Only differences mean anything, also between processes.
pub type Nanos = u64;

/// Now.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since 1970, for stamps that people read.
pub fn unix_now() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
