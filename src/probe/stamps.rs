//! The moments of a task's way, the same in every model, on one clock.
//!
//! ```text
//! lane is free ─▶ assigned ─▶ encoded ─▶ arrived ─▶ started ─▶ finished ─▶ received ─▶ settled ─▶ lane is free
//!        queue wait     encode    transport    decode     compute     reply      taken in
//! ```
//!
//! On one lane each moment follows the one before, so the parts of all its tasks fill its time without gap or overlap.

use serde::{Deserialize, Serialize};

use super::clock::Nanos;

/// The moments of one task. A model in which two moments are one stamps both alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps {
    /// The task was handed in.
    pub submitted: Nanos,
    /// It was given to this lane.
    pub assigned: Nanos,
    /// Its order was encoded.
    pub encoded: Nanos,
    /// The lane held the order.
    pub arrived: Nanos,
    /// The work began.
    pub started: Nanos,
    /// The work was done.
    pub finished: Nanos,
    /// The answer was back.
    pub received: Nanos,
    /// The answer was taken in, and the lane free again.
    pub settled: Nanos,
}
