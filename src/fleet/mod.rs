//! A supervisor and its worker processes: a process pool that never hangs and never lies.
//!
//! ```text
//!                      orders ─▶ ┌ link ─▶ worker 0 ┐
//!  submit ─▶ [ queue ] ────────▶ ┤ link ─▶ worker 1 ├─▶ answers ─▶ Handle
//!                                └ link ─▶ worker 2 ┘
//!  spawn: each worker is executed.    fork: forked from the caller.    forkserver: a zygote forks them on request.
//! ```
//!
//! A program registers its functions in [`init`], first thing in `main`, and so is its own worker program. A worker runs
//! one task at a time and holds the next only if it is told to, so a death costs one task and names it. The supervisor
//! shares nothing with a worker but its link and two pipes.
//!
//! Decoding images with a decoder that crashes: the lying one fails, by name, and the others are done.
//!
//! ```standalone_crate
//! use fleet::fleet::{Fleet, FleetSpec, Outcome};
//!
//! /// The brightness of an image. As C libraries do, it believes what the file says of its size.
//! fn brightness(image: Vec<u8>) -> Result<u64, String> {
//!     let [width, height, pixels @ ..] = &image[..] else { return Err("no image".into()) };
//!     let first = pixels.as_ptr();
//!     let count = usize::from(*width) * usize::from(*height);
//!     // SAFETY: none, on purpose. Where the header lies, this reads far beyond the pixels.
//!     let pixel = |at: usize| unsafe { first.wrapping_add(at << 20).read_volatile() };
//!     Ok((0..count).map(|at| u64::from(pixel(at))).sum())
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // First thing: a process that was started to be a worker becomes one here.
//!     let brightness = fleet::fleet::init(|registry| registry.function("brightness", brightness));
//!     let fleet = Fleet::launch(FleetSpec::new(2))?;
//!     let images = [vec![1, 1, 200], vec![255, 255, 200], vec![]];
//!     let mut told = Vec::new();
//!     for ended in fleet.map(brightness, images) {
//!         told.push(match ended?.outcome {
//!             Outcome::Done(brightness) => format!("{brightness}"),
//!             Outcome::Crashed(death) => death.exit.expect("its end was seen").to_string(),
//!             other => other.to_string(),
//!         });
//!     }
//!     told[1] = told[1].replace(" (core dumped)", "");
//!     assert_eq!(told, ["200", "was killed by SIGSEGV", "failed: no image"]);
//!     fleet.shut_down();
//!     Ok(())
//! }
//! ```

mod call;
mod engine;
mod feed;
mod handle;
mod launch;
mod map;
mod nesting;
mod outcome;
pub mod output;
pub mod policy;
mod pool;
pub mod postmortem;
pub mod protocol;
mod registry;
mod spec;
mod stats;
mod submit;
mod worker;
mod zygote;
mod zygotes;

pub use call::{Panic, TaskError, ThisTask, panic_message, this_task};
pub use engine::WorkerStart;
pub use feed::{Events, FleetEvent, OutputLine};
pub use handle::Handle;
pub use map::{Map, Unordered};
pub use nesting::TooDeep;
pub use outcome::{Ended, Never, NoResult, Outcome};
pub use policy::{Mishap, Overflow};
pub use pool::{Fleet, LaunchError, ReloadError};
pub use postmortem::PostMortem;
pub use registry::{Function, Registry, init};
pub use spec::{FleetSpec, Start};
pub use stats::Stats;
pub use submit::{Call, LARGEST_INPUT, SubmitError};
pub use worker::LARGEST_RESULT;
