//! What supervisor, zygote and workers say to each other.
//!
//! A message is a value from here and, after it in the same frame, a payload that this layer does not look into.

use serde::{Deserialize, Serialize};

use crate::ids::TaskId;
use crate::probe::clock::Nanos;
use crate::probe::usage::Usage;
use crate::seed::mix;
use crate::sys::process::{Exit, Pid};
use crate::transport::{CodecError, codec};

/// The right of one worker to run one task once. An answer settles its own lease and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The task.
    pub task: TaskId,
    /// The how-manieth lease of this task, from 1.
    pub attempt: u8,
}

/// Who is there: the two sides must be of one build, or they part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of these messages.
    pub protocol: u32,
    /// [`codec::ID`].
    pub codec: u32,
    /// The version of the package, hashed.
    pub version: u64,
}

impl Hello {
    /// This build's.
    pub fn own() -> Hello {
        let version = env!("CARGO_PKG_VERSION").bytes().fold(0, |hash, byte| mix(hash, u64::from(byte)));
        Hello { protocol: 1, codec: codec::ID, version }
    }
}

/// To a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Make your handler from the payload. The first message to an executed worker; a forked one has it already.
    Configure,
    /// Run the payload.
    Run(Lease),
    /// Tell what you have used.
    Report,
}

/// When things happened in the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// The order was here.
    pub arrived: Nanos,
    /// The work began.
    pub started: Nanos,
    /// The work was done.
    pub finished: Nanos,
}

/// From a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The handler is made, orders may come.
    Ready {
        /// Who speaks.
        hello: Hello,
        /// The worker's first instruction.
        born: Nanos,
    },
    /// No handler could be made; the worker leaves.
    Unfit {
        /// Why.
        reason: String,
    },
    /// The task is done; its result is the payload.
    Done(Lease, Marks),
    /// The task has failed, and the worker lives on; the message is the payload.
    Failed(Lease, Marks),
    /// What the worker has used so far.
    Report(Usage),
}

/// To a zygote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ZygoteOrder {
    /// Make the handler that the workers will inherit, from the payload.
    Configure,
    /// Fork a worker, which takes the link that comes with this message.
    Fork,
}

/// From a zygote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ZygoteAnswer {
    /// The handler is made, or not.
    Configured(Result<(), String>),
    /// A worker was forked; its descriptor comes with this message. Or it could not be.
    Forked(Result<Pid, String>),
    /// A worker has ended.
    Ended(Pid, Exit),
}

/// Appends a message to `buffer`.
///
/// # Errors
/// None for the messages of this file.
pub fn write<T: Serialize>(message: &T, payload: &[u8], buffer: &mut Vec<u8>) -> Result<(), CodecError> {
    codec::encode(message, buffer)?;
    buffer.extend_from_slice(payload);
    Ok(())
}

/// A message and its payload.
///
/// # Errors
/// If the frame does not begin with a message.
pub fn read<'a, T: Deserialize<'a>>(frame: &'a [u8]) -> Result<(T, &'a [u8]), CodecError> {
    codec::decode_front(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_come_back_with_their_payload(task: u64, attempt: u8, payload in proptest::collection::vec(any::<u8>(), 0..100)) {
            let message = Answer::Done(Lease { task: TaskId(task), attempt }, Marks { arrived: 1, started: 2, finished: 3 });
            let mut frame = Vec::new();
            write(&message, &payload, &mut frame).unwrap();
            prop_assert_eq!(read::<Answer>(&frame).unwrap(), (message, &payload[..]));
        }

        #[test]
        fn garbage_is_an_error_and_nothing_worse(frame in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = read::<Answer>(&frame);
            let _ = read::<Order>(&frame);
            let _ = read::<ZygoteAnswer>(&frame);
        }
    }
}
