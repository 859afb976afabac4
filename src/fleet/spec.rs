//! What a fleet shall be.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::worker::MakeHandler;
use crate::ids::Lanes;
use crate::sys::process::Program;

/// How a worker process comes into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Start {
    /// Forked from the caller, where the preparation is done once: inherits the caller's memory, copy-on-write. Refused
    /// where the caller has threads.
    Fork,
    /// Executed: starts from nothing, inherits nothing.
    Spawn,
    /// Forked from a zygote that was executed and is clean: the preparation is done once and inherited.
    Forkserver,
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Start::Fork => "fork",
            Start::Spawn => "spawn",
            Start::Forkserver => "forkserver",
        })
    }
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fork" => Ok(Start::Fork),
            "spawn" => Ok(Start::Spawn),
            "forkserver" => Ok(Start::Forkserver),
            _ => Err(format!("`{text}` is not a start method: fork, spawn or forkserver")),
        }
    }
}

/// What a fleet shall be.
#[derive(Clone, Debug)]
pub struct FleetSpec {
    /// How workers start.
    pub start: Start,
    /// How many there are.
    pub workers: Lanes,
    /// What they execute, where they do.
    pub program: Program,
    /// What makes a worker's handler from `config`. The program executed must know the same one.
    pub make: MakeHandler,
    /// What the handler is made from.
    pub config: Vec<u8>,
    /// How long a worker may take to be ready.
    pub ready_within: Duration,
    /// How long a worker may take to leave once its link is closed, before it is killed.
    pub leave_within: Duration,
}

impl FleetSpec {
    /// A fleet of this program's own workers.
    pub fn new(start: Start, workers: Lanes, make: MakeHandler, config: Vec<u8>) -> FleetSpec {
        FleetSpec {
            start,
            workers,
            program: Program::own(),
            make,
            config,
            ready_within: Duration::from_secs(30),
            leave_within: Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_methods_read_back_what_they_print() {
        for start in [Start::Fork, Start::Spawn, Start::Forkserver] {
            assert_eq!(start.to_string().parse(), Ok(start));
        }
        assert!("vfork".parse::<Start>().is_err());
    }
}
