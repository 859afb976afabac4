//! Fleets in workers of fleets: how deep, and how many workers there may be in all.

use crate::sys::process::Program;

/// So many fleets may be within each other.
const DEEPEST: usize = 4;

const DEPTH: &str = "FLEET_DEPTH";
const WORKERS: &str = "FLEET_OUTER_WORKERS";

/// A fleet within a fleet within a fleet …
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this would be a fleet within {DEEPEST} others: does a worker launch the fleet that it is of?")]
pub struct TooDeep;

/// Which fleets this process is a worker of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nesting {
    depth: usize,
    /// How many processes like this one there may be: the workers of the fleets around, multiplied.
    pub(super) outer_workers: usize,
}

impl Nesting {
    pub(super) fn of_this_process() -> Nesting {
        let number = |name| std::env::var(name).ok()?.parse::<usize>().ok();
        Nesting { depth: number(DEPTH).unwrap_or(0), outer_workers: number(WORKERS).unwrap_or(1).max(1) }
    }

    /// The program of a fleet of so many workers, launched by this process.
    pub(super) fn enter(self, program: Program, workers: usize) -> Result<Program, TooDeep> {
        if self.depth >= DEEPEST {
            return Err(TooDeep);
        }
        let all = self.outer_workers.saturating_mul(workers);
        Ok(program.with(DEPTH, &(self.depth + 1).to_string()).with(WORKERS, &all.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_may_be_in_a_fleet_and_not_without_end() {
        let mut nesting = Nesting { depth: 0, outer_workers: 1 };
        for _ in 0..DEEPEST {
            assert!(nesting.enter(Program::own(), 2).is_ok());
            nesting.depth += 1;
        }
        assert_eq!(nesting.enter(Program::own(), 2), Err(TooDeep));
    }
}
