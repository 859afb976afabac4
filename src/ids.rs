//! Names of single things: a task, a lane, a digest.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The number of a task within its batch, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.0)
    }
}

/// A task's answer, equal under every model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(pub u64);

impl Digest {
    /// Joins the answers of a batch, in whatever order they come.
    ///
    /// Each answer is mixed with its task's number first, so that two tasks that swap answers show.
    #[must_use]
    pub fn with(self, task: TaskId, answer: Digest) -> Digest {
        Digest(self.0.wrapping_add(crate::seed::mix(task.0, answer.0)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// How many lanes work side by side: threads, tasks in flight, or worker processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lanes(u16);

/// Why a text is no number of workers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a number of workers: 1 to {max} allowed", max = Lanes::MAX)]
pub struct LanesError {
    text: String,
}

impl Lanes {
    /// One lane.
    pub const ONE: Lanes = Lanes(1);

    /// More than this is never the answer on one machine, and is most likely a slip of the finger.
    pub const MAX: u16 = 1024;

    /// `count` lanes, where that is between 1 and [`Lanes::MAX`].
    pub fn new(count: usize) -> Option<Lanes> {
        u16::try_from(count).ok().filter(|count| (1..=Lanes::MAX).contains(count)).map(Lanes)
    }

    /// The number.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl FromStr for Lanes {
    type Err = LanesError;

    fn from_str(text: &str) -> Result<Self, LanesError> {
        text.trim().parse().ok().and_then(Lanes::new).ok_or_else(|| LanesError { text: text.to_owned() })
    }
}

impl fmt::Display for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lanes_read_back_what_they_print(count in 1usize..=1024) {
            let lanes = Lanes::new(count).unwrap();
            prop_assert_eq!(lanes.to_string().parse(), Ok(lanes));
        }

        #[test]
        fn a_joined_digest_knows_no_order_but_knows_whose_answer_is_whose(a: u64, b: u64) {
            let (first, second) = (TaskId(0), TaskId(1));
            let forth = Digest::default().with(first, Digest(a)).with(second, Digest(b));
            let back = Digest::default().with(second, Digest(b)).with(first, Digest(a));
            let swapped = Digest::default().with(first, Digest(b)).with(second, Digest(a));
            prop_assert_eq!(forth, back);
            prop_assert_eq!(forth == swapped, a == b);
        }
    }

    #[test]
    fn no_lanes_or_absurdly_many_are_refused() {
        for text in ["0", "-1", "1025", "70000", "two", ""] {
            assert!(text.parse::<Lanes>().is_err(), "{text}");
        }
        assert_eq!(
            "0".parse::<Lanes>().unwrap_err().to_string(),
            "`0` is not a number of workers: 1 to 1024 allowed"
        );
    }
}
