//! Roads for bytes between two processes. A road knows frames, and no task.
//!
//! ```text
//!  one process                                              another
//!  value ─ codec ─▶ frame ─ Link::send ─▶ ~~~ kernel ~~~ ─▶ Link::receive ─▶ frame ─ codec ─▶ value
//! ```

pub mod codec;
pub mod frame;
mod outgoing;
mod stream;

use std::io;
use std::os::fd::AsFd;

pub use codec::CodecError;
pub use frame::{FrameError, Frames};
pub use outgoing::Outgoing;
pub use stream::Stream;

/// A two-way road for frames between two processes.
///
/// Frames arrive whole, once, and in order, or not at all: a side that dies in the middle of one leaves an error
/// ([`FrameError::Torn`]), never half a frame. Both sides may be killed at any instant. A link never grows without
/// bound: a frame over [`frame::LARGEST`] is refused on both sides.
pub trait Link: AsFd {
    /// Sends one frame, waiting for room where there is none.
    ///
    /// # Errors
    /// [`LinkError::Closed`] if the other side is gone.
    fn send(&mut self, frame: &[u8]) -> Result<(), LinkError>;

    /// Sends as much of a frame as there is room for, without waiting; says whether all of it is sent.
    ///
    /// # Errors
    /// As for [`Link::send`].
    fn try_send(&mut self, outgoing: &mut Outgoing) -> Result<bool, LinkError>;

    /// The next frame, waiting for it; `None` once the other side has closed the road after a whole frame.
    ///
    /// # Errors
    /// A torn or oversized frame, or what the kernel says.
    fn receive(&mut self) -> Result<Option<&[u8]>, LinkError>;

    /// The next frame if it is here.
    ///
    /// # Errors
    /// As for [`Link::receive`].
    fn try_receive(&mut self) -> Result<Arrival<'_>, LinkError>;
}

/// What a look at the road shows.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// A whole frame.
    Frame(&'a [u8]),
    /// Nothing whole yet.
    Nothing,
    /// The other side is gone, and everything it sent has been received.
    Closed,
}

/// Why a road cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The other side is gone.
    #[error("the other side has closed the link")]
    Closed,
    /// What came is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// What came is no value.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// What the kernel says.
    #[error("the link failed: {0}")]
    Io(#[from] io::Error),
}
