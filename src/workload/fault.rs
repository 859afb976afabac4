//! Going wrong on purpose: what a pool must survive.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{WorkloadError, compute};
use crate::ids::TaskId;
use crate::sys::process;

/// The way to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultKind {
    /// `abort()`: SIGABRT.
    Abort,
    /// A read through a null pointer: SIGSEGV.
    Segv,
    /// SIGKILL, as the kernel sends when memory runs out.
    Kill,
    /// The process exits with code 7 and no answer.
    Exit,
    /// A panic.
    Panic,
    /// The task returns an error, and nothing breaks.
    Error,
    /// The task never ends.
    Hang,
    /// The task answers with something only its own process would say, so that models disagree.
    Lie,
}

/// A way to go wrong, and the task that does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What happens.
    pub kind: FaultKind,
    /// The task at which it happens.
    pub at: u64,
}

/// Rounds of the integer kernel in the tasks that go well.
const HONEST_ITERATIONS: u64 = 100_000;

const NAMES: [(FaultKind, &str); 8] = [
    (FaultKind::Abort, "abort"),
    (FaultKind::Segv, "segv"),
    (FaultKind::Kill, "kill"),
    (FaultKind::Exit, "exit"),
    (FaultKind::Panic, "panic"),
    (FaultKind::Error, "error"),
    (FaultKind::Hang, "hang"),
    (FaultKind::Lie, "lie"),
];

impl Fault {
    /// The task that goes wrong if none is named: late enough that every lane is at work.
    const DEFAULT_AT: u64 = 3;

    pub(super) fn run(self, task: TaskId, input: u64) -> Result<u64, String> {
        let honest = compute::cpu(HONEST_ITERATIONS, input);
        if task.0 != self.at {
            return Ok(honest);
        }
        match self.kind {
            FaultKind::Abort => std::process::abort(),
            FaultKind::Segv => process::crash_by_segv(),
            FaultKind::Kill => process::crash_by_kill(),
            FaultKind::Exit => process::exit_now(7),
            FaultKind::Panic => panic!("{task} panics on purpose"),
            FaultKind::Error => return Err(format!("{task} fails on purpose")),
            FaultKind::Hang => loop {
                std::thread::park();
            },
            FaultKind::Lie => return Ok(honest ^ u64::from(process::Pid::own().0)),
        }
        Ok(honest)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(kind, _)| *kind == self.kind).map_or("", |(_, name)| name);
        write!(f, "{name}@{}", self.at)
    }
}

impl FromStr for Fault {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let unknown = || WorkloadError::UnknownFault(text.to_owned());
        let (name, at) = match text.split_once('@') {
            Some((name, at)) => (name, at.parse().map_err(|_| unknown())?),
            None => (text, Fault::DEFAULT_AT),
        };
        let (kind, _) = NAMES.iter().find(|(_, known)| *known == name).ok_or_else(unknown)?;
        Ok(Fault { kind: *kind, at })
    }
}

#[cfg(test)]
pub(super) fn any_fault() -> impl proptest::strategy::Strategy<Value = Fault> {
    use proptest::prelude::*;
    (0..NAMES.len(), any::<u64>()).prop_map(|(kind, at)| Fault { kind: NAMES[kind].0, at })
}
