//! A supervisor and its worker processes.
//!
//! ```text
//!              orders ─▶ ┌ link ─▶ worker 0 ┐
//!  Fleet::run ─────────▶ ┤ link ─▶ worker 1 ├─▶ answers ─▶ done(…)
//!                        └ link ─▶ worker 2 ┘
//!  spawn: each worker is executed.    fork: forked from here.    forkserver: a zygote forks them on request.
//! ```
//!
//! A worker runs one task at a time and holds no other, so a death costs one task and names it. The end of its link is
//! the notice of its death. The supervisor shares nothing with a worker but the link.

mod launch;
pub mod output;
pub mod policy;
pub mod postmortem;
pub mod protocol;
mod spec;
mod supervisor;
pub mod worker;
pub mod zygote;

pub use postmortem::PostMortem;
pub use spec::{FleetSpec, Start};
pub use supervisor::{Fleet, FleetError, Settled, WorkerStart};
