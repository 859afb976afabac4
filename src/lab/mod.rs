//! Questions, and experiments that answer them.
//!
//! ```text
//!  command ─ compare ─▶ one lab child for each (arm, round): start ▸ timed batch ▸ weigh ▸ stop ─▶ TrialReport
//!                    └▶ summary (paired ratios) ▸ verdict ▸ answer ─▶ CompareReport
//! ```
//!
//! A trial is a process: none inherits another's heap, threads or peak memory. This layer knows no terminal.

pub mod child;
pub mod compare;
pub mod isolate;
pub mod trial;
