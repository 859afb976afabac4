//! Every decision of a fleet, and nothing that performs one: no clock, no process, no descriptor.
//!
//! ```text
//!            submit, cancel, scale, reload, drain
//!                          │
//!     what happened ─▶  Core::step  ─▶ what to do now
//!   Ready Answered …       │            Start Send Terminate Kill Settle …
//!                 next_deadline: when to ask again
//! ```
//!
//! Time comes in as a value. [`Core`] keeps three books: `queue`, the tasks that no worker holds; `life`, what each
//! worker is and which orders it has; and the slots, permanent places of which each has one worker in service, and
//! another one beside it while it is being replaced. `restart` knows how soon, `task` how often.
//!
//! What may be relied on, whatever happens and in whatever order:
//! - every accepted task is settled exactly once;
//! - a task that has begun is not run again unless its retries say so; one that has not begun is, without a charge,
//!   unless workers go on dying while they receive it;
//! - a death costs the task that was running and no other;
//! - a worker that was told to leave gets no more orders, and is killed if it stays.

mod core;
mod intake;
mod leaving;
mod life;
mod queue;
mod restart;
mod rules;
mod slots;
#[cfg(test)]
mod story;
mod task;

pub use self::core::{Action, Core, Counters, Event, Farewell, News, Verdict};
pub use life::Departure;
pub use rules::{Overflow, Recycle, Restart, Retry, Rules};
pub use task::{End, Mishap, Refusal, Ticket};

/// The serial number of a worker: it belongs to one process, and never to another one later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u64);
