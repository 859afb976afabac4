//! What is run: a kind of work and its size, with inputs that follow from a seed.
//!
//! A [`Workload`] says what one task is, a [`Bench`] is a workload made ready to run: its inputs exist, its code
//! has been touched. Every task yields a [`Digest`] that must be equal under every model.

mod compute;
mod fault;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{Digest, TaskId};
use crate::seed::Seed;
use crate::units::{Bytes, Span, UnitError};
pub use compute::{cpu, implementation};
pub use fault::{Fault, FaultKind};

/// A kind of work, without its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Integer arithmetic in registers: computes, touches no memory.
    Cpu,
    /// SHA-256 over a buffer: computes, reads memory.
    Hash,
    /// Waits and needs no CPU: the ideal of waiting for something else.
    Sleep,
    /// Goes wrong on purpose at one task, and computes a little at the others.
    Fault,
}

/// A kind of work and the size of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// So many rounds of the integer kernel.
    Cpu {
        /// Rounds of the kernel; each takes about a nanosecond.
        iterations: u64,
    },
    /// SHA-256 over so many bytes.
    Hash {
        /// The size of the buffer, one a process or shared by its threads.
        size: Bytes,
    },
    /// A wait.
    Sleep {
        /// How long.
        time: Span,
    },
    /// A fault.
    Fault(Fault),
}

/// Why a text is no workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// No such kind.
    #[error("`{0}` is not a workload: cpu, hash, sleep or fault")]
    UnknownKind(String),
    /// No such fault.
    #[error("`{0}` is not a fault: abort, segv, kill, exit, panic, error, hang or lie")]
    UnknownFault(String),
    /// The size cannot be read.
    #[error(transparent)]
    Size(#[from] UnitError),
    /// The size is not one this kind can have.
    #[error("a {kind} task of {size} is not possible: {allowed} allowed")]
    OutOfRange {
        /// The kind of work.
        kind: Kind,
        /// What was asked.
        size: String,
        /// What is possible.
        allowed: String,
    },
}

/// The longest a single task may be meant to take: a slip of the finger must not cost a day.
pub const LONGEST_TASK: Span = Span::from_secs(60);

/// The largest buffer to hash: every worker process may hold one of its own.
pub const LARGEST_BUFFER: Bytes = Bytes(1 << 30);

/// The most rounds of the integer kernel in one task: about the longest task at a nanosecond each.
pub const MOST_ITERATIONS: u64 = LONGEST_TASK.nanos();

impl Kind {
    /// The kinds that answer a question; a fault answers none.
    pub const MEASURED: [Kind; 3] = [Kind::Cpu, Kind::Hash, Kind::Sleep];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Hash => "hash",
            Kind::Sleep => "sleep",
            Kind::Fault => "fault",
        }
    }

    /// Whether its tasks occupy a CPU all the time.
    pub fn computes(self) -> bool {
        matches!(self, Kind::Cpu | Kind::Hash)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        match text.trim() {
            "cpu" => Ok(Kind::Cpu),
            "hash" => Ok(Kind::Hash),
            "sleep" => Ok(Kind::Sleep),
            "fault" => Ok(Kind::Fault),
            _ => Err(WorkloadError::UnknownKind(text.to_owned())),
        }
    }
}

impl Workload {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Workload::Cpu { .. } => Kind::Cpu,
            Workload::Hash { .. } => Kind::Hash,
            Workload::Sleep { .. } => Kind::Sleep,
            Workload::Fault(_) => Kind::Fault,
        }
    }

    /// The size of one task, in words.
    pub fn size(&self) -> String {
        match self {
            Workload::Cpu { iterations } => format!("{iterations} iterations"),
            Workload::Hash { size } => size.to_string(),
            Workload::Sleep { time } => time.to_string(),
            Workload::Fault(fault) => fault.to_string(),
        }
    }

    /// Bytes that one task reads, where that is its size.
    pub fn task_bytes(&self) -> Option<Bytes> {
        match self {
            Workload::Hash { size } => Some(*size),
            _ => None,
        }
    }

    /// The same workload, if a task of its size is possible.
    ///
    /// # Errors
    /// [`WorkloadError::OutOfRange`], naming what is possible.
    pub fn checked(self) -> Result<Workload, WorkloadError> {
        let (possible, allowed) = match self {
            Workload::Cpu { iterations } => {
                ((1..=MOST_ITERATIONS).contains(&iterations), format!("1 to {MOST_ITERATIONS} iterations"))
            }
            Workload::Hash { size } => {
                (size.0 >= 1 && size <= LARGEST_BUFFER, format!("1B to {LARGEST_BUFFER}"))
            }
            Workload::Sleep { time } => {
                (time.0 >= 1 && time <= LONGEST_TASK, format!("1ns to {LONGEST_TASK}"))
            }
            Workload::Fault(_) => (true, String::new()),
        };
        if possible {
            Ok(self)
        } else {
            Err(WorkloadError::OutOfRange { kind: self.kind(), size: self.size(), allowed })
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Cpu { iterations } => write!(f, "cpu:{iterations}"),
            Workload::Hash { size } => write!(f, "hash:{size}"),
            Workload::Sleep { time } => write!(f, "sleep:{time}"),
            Workload::Fault(fault) => write!(f, "fault:{fault}"),
        }
    }
}

impl FromStr for Workload {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let (kind, size) = text.split_once(':').unwrap_or((text, ""));
        let workload = match kind.parse()? {
            Kind::Cpu => Workload::Cpu {
                iterations: size
                    .parse()
                    .map_err(|_| UnitError::NoNumber { text: size.to_owned(), example: "1000000" })?,
            },
            Kind::Hash => Workload::Hash { size: size.parse()? },
            Kind::Sleep => Workload::Sleep { time: size.parse()? },
            Kind::Fault => Workload::Fault(size.parse()?),
        };
        workload.checked()
    }
}

/// A workload made ready to run in one process.
#[derive(Debug)]
pub struct Bench {
    workload: Workload,
    seed: Seed,
    buffer: Vec<u8>,
}

/// What a task needs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A CPU, all the time.
    Cpu,
    /// To wait so long, and then a CPU for an instant. Every model waits in its own way.
    Wait(Duration),
}

/// Streams of the seed; each purpose has its own.
const INPUTS: u64 = 1;
const BUFFER: u64 = 2;

impl Bench {
    /// Makes the inputs, and runs the kernel once at a small size, so that its code and data are in memory.
    pub fn new(workload: Workload, seed: Seed) -> Bench {
        let mut buffer = Vec::new();
        match workload {
            Workload::Cpu { .. } => {
                std::hint::black_box(cpu(1000, 1));
            }
            Workload::Hash { size } => {
                buffer = vec![0; size.0 as usize];
                seed.stream(BUFFER).fill(&mut buffer);
                std::hint::black_box(compute::hash(1, &buffer[..buffer.len().min(4096)]));
            }
            Workload::Sleep { .. } | Workload::Fault(_) => {}
        }
        Bench { workload, seed, buffer }
    }

    /// What the tasks need first.
    pub fn need(&self) -> Need {
        match self.workload {
            Workload::Sleep { time } => Need::Wait(time.into()),
            _ => Need::Cpu,
        }
    }

    /// Runs a task from beginning to end on the calling thread.
    ///
    /// # Errors
    /// What a task says that fails on purpose.
    pub fn run(&self, task: TaskId) -> Result<Digest, String> {
        if let Need::Wait(time) = self.need() {
            std::thread::sleep(time);
        }
        self.compute(task)
    }

    /// The part of a task that needs a CPU: all of it, but for what [`Bench::need`] says comes first.
    ///
    /// # Errors
    /// What a task says that fails on purpose.
    pub fn compute(&self, task: TaskId) -> Result<Digest, String> {
        let input = crate::seed::mix(self.seed.stream(INPUTS).next(), task.0);
        match self.workload {
            Workload::Cpu { iterations } => Ok(Digest(cpu(iterations, input))),
            Workload::Hash { .. } => Ok(Digest(compute::hash(input, &self.buffer))),
            Workload::Sleep { .. } => Ok(Digest(input)),
            Workload::Fault(fault) => fault.run(task, input).map(Digest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_workload() -> impl Strategy<Value = Workload> {
        prop_oneof![
            (1..=MOST_ITERATIONS).prop_map(|iterations| Workload::Cpu { iterations }),
            (1..=LARGEST_BUFFER.0).prop_map(|size| Workload::Hash { size: Bytes(size) }),
            (1..=LONGEST_TASK.0).prop_map(|time| Workload::Sleep { time: Span(time) }),
            fault::any_fault().prop_map(Workload::Fault),
        ]
    }

    proptest! {
        #[test]
        fn workloads_read_back_what_they_print(workload in any_workload()) {
            prop_assert_eq!(workload.to_string().parse(), Ok(workload));
        }

        #[test]
        fn no_text_makes_parsing_panic(text in ".{0,24}") {
            let _ = text.parse::<Workload>();
        }
    }

    #[test]
    fn kinds_read_back_what_they_print() {
        for kind in [Kind::Cpu, Kind::Hash, Kind::Sleep, Kind::Fault] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!(
            "gpu".parse::<Kind>().unwrap_err().to_string(),
            "`gpu` is not a workload: cpu, hash, sleep or fault"
        );
    }

    #[test]
    fn impossible_sizes_are_refused_with_what_is_possible() {
        let told = |text: &str| text.parse::<Workload>().unwrap_err().to_string();
        assert_eq!(told("hash:2GiB"), "a hash task of 2GiB is not possible: 1B to 1GiB allowed");
        assert_eq!(
            told("cpu:0"),
            "a cpu task of 0 iterations is not possible: 1 to 60000000000 iterations allowed"
        );
        assert_eq!(told("sleep:2h"), "a sleep task of 2h is not possible: 1ns to 1min allowed");
    }

    #[test]
    fn answers_depend_on_the_task_and_on_the_seed_and_on_nothing_else() {
        for text in ["cpu:100", "hash:4KiB", "sleep:1us", "fault:abort@9"] {
            let workload: Workload = text.parse().unwrap();
            let answer = |seed, task| Bench::new(workload, Seed(seed)).run(TaskId(task)).unwrap();
            assert_eq!(answer(7, 1), answer(7, 1), "{text}");
            assert_ne!(answer(7, 1), answer(7, 2), "{text}");
            assert_ne!(answer(7, 1), answer(8, 1), "{text}");
        }
    }
}
