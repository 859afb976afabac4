//! What is measured: clocks, memory, CPU, latency, the host, and whoever disturbs us.

pub mod clock;
pub mod histogram;
pub mod host;
pub mod memory;
pub mod noise;
pub mod stamps;
pub mod stats;
pub mod usage;
