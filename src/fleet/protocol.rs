//! What supervisor, zygote and workers say to each other.
//!
//! A message is a value from here and, after it in the same frame, a payload that this layer does not look into.

use serde::{Deserialize, Serialize};

use super::registry::Registry;
use crate::ids::TaskId;
use crate::probe::clock::Nanos;
use crate::probe::usage::Usage;
use crate::seed::mix;
use crate::sys::limits::Ceilings;
use crate::sys::process::{Death, Pid};
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
    /// The names and types of the functions, hashed.
    pub functions: u64,
}

impl Hello {
    /// This program's.
    pub fn own() -> Hello {
        let version = env!("CARGO_PKG_VERSION").bytes().fold(0, |hash, byte| mix(hash, u64::from(byte)));
        Hello { protocol: 2, codec: codec::ID, version, functions: Registry::own().fingerprint() }
    }
}

/// A call that a worker, or its zygote, makes before its first task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    /// Its number in the registry.
    pub function: u32,
    /// Its encoded input.
    pub input: Vec<u8>,
}

/// Which worker it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its serial number.
    pub worker: u64,
    /// Its place in the fleet, from 0.
    pub slot: usize,
}

/// What a worker is told before its first task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Run once for all workers, where the start method has one process that they come from; else by each.
    pub preload: Vec<Errand>,
    /// Run by each worker.
    pub init: Vec<Errand>,
    /// What each worker may use.
    pub ceilings: Ceilings,
    /// Whether each answer tells the worker's resident memory.
    pub reports_resident: bool,
    /// Where it works; `None` where its starter did.
    pub directory: Option<std::path::PathBuf>,
}

/// To a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Prepare yourself as the [`Setup`] in the payload says. The first message to an executed worker; a forked one
    /// inherits it.
    Prepare(Place),
    /// Run a function on the payload.
    Run {
        /// Which run of which task it is.
        lease: Lease,
        /// Which function.
        function: u32,
    },
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
    /// Everything is prepared, orders may come.
    Ready {
        /// Who speaks.
        hello: Hello,
        /// The worker's first instruction.
        born: Nanos,
    },
    /// The preparation failed; the worker leaves.
    Unfit {
        /// Why.
        reason: String,
    },
    /// The task has ended, and the worker lives on.
    Ended {
        /// Which run of which task.
        lease: Lease,
        /// Whether the payload is its result; else it is its error.
        is_good: bool,
        /// When.
        marks: Marks,
        /// Resident memory after it, in bytes, if that was asked for.
        resident: Option<u64>,
    },
    /// What the worker has used so far.
    Report(Usage),
}

/// To a zygote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ZygoteOrder {
    /// Prepare yourself as the [`Setup`] says that is in the file that comes along.
    Prepare,
    /// Fork a worker, which takes the three descriptors that come along: its link, its output and its errors.
    Fork(Place),
}

/// From a zygote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ZygoteAnswer {
    /// Everything is prepared, or not.
    Prepared(Result<Hello, String>),
    /// A worker was forked; its descriptor comes along. Or it could not be.
    Forked {
        /// Its number.
        worker: u64,
        /// Its process, or why there is none.
        pid: Result<Pid, String>,
    },
    /// A worker has ended.
    Ended {
        /// Its number.
        worker: u64,
        /// How.
        death: Death,
    },
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
        fn messages_come_back_with_their_payload(
            task: u64, attempt: u8, is_good: bool, resident: Option<u64>,
            payload in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let lease = Lease { task: TaskId(task), attempt };
            let marks = Marks { arrived: 1, started: 2, finished: 3 };
            let message = Answer::Ended { lease, is_good, marks, resident };
            let mut frame = Vec::new();
            write(&message, &payload, &mut frame).unwrap();
            prop_assert_eq!(read::<Answer>(&frame).unwrap(), (message, &payload[..]));
        }

        #[test]
        fn garbage_is_an_error_and_nothing_worse(frame in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = read::<Answer>(&frame);
            let _ = read::<Order>(&frame);
            let _ = read::<ZygoteOrder>(&frame);
            let _ = read::<ZygoteAnswer>(&frame);
        }
    }
}
