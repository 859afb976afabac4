//! Scratch.
pub mod ids;
pub mod probe;
pub mod role;
pub mod seed;
pub mod sys;
pub mod transport;
pub mod units;
pub mod workload;
pub mod fleet;
pub mod model;
pub mod lab;
pub mod report;
pub mod cli;
