//! Words, plans, output and exit codes: the face of `fleet`, and the only layer that knows its command line.
//!
//! Arguments hold what was typed; a plan holds what will be done, with defaults taken and contradictions refused.

mod args;
mod exit;
mod output;
mod plan;
mod progress;
mod run;

pub use exit::Exit;
pub use run::main;
