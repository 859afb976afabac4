//! What a process has used so far. Differences of two readings tell what a piece of work took.

use std::io;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

/// Resources used, counted from the start of a process, or between two readings of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in our own code, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel on our behalf, in nanoseconds.
    pub system_ns: u64,
    /// Time in which a thread could run and had no CPU, in nanoseconds.
    pub runqueue_wait_ns: u64,
    /// Times a thread gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// Times a thread was taken off its CPU.
    pub involuntary_switches: u64,
    /// Page faults answered from memory.
    pub minor_faults: u64,
    /// Page faults that had to wait for a disk.
    pub major_faults: u64,
}

impl Usage {
    /// What this process, all its threads, has used so far.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn of_this_process() -> io::Result<Usage> {
        Ok(Usage { runqueue_wait_ns: runqueue_wait()?, ..Usage::of(UsageWho::RUSAGE_SELF)? })
    }

    /// What the children that this process has reaped, and those that they had reaped, used in their lives.
    /// Their waits for a CPU are not known any more, and stand as 0.
    ///
    /// # Errors
    /// What the kernel says, which is nothing.
    pub fn of_reaped_children() -> io::Result<Usage> {
        Usage::of(UsageWho::RUSAGE_CHILDREN)
    }

    fn of(whom: UsageWho) -> io::Result<Usage> {
        let used = getrusage(whom)?;
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        Ok(Usage {
            user_ns: count(used.user_time().num_nanoseconds()),
            system_ns: count(used.system_time().num_nanoseconds()),
            runqueue_wait_ns: 0,
            voluntary_switches: count(used.voluntary_context_switches()),
            involuntary_switches: count(used.involuntary_context_switches()),
            minor_faults: count(used.minor_page_faults()),
            major_faults: count(used.major_page_faults()),
        })
    }

    /// CPU time of both kinds, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// What was used between an earlier reading and this one.
    #[must_use]
    pub fn since(&self, earlier: &Usage) -> Usage {
        self.combine(earlier, u64::saturating_sub)
    }

    /// What two processes used together.
    #[must_use]
    pub fn plus(&self, other: &Usage) -> Usage {
        self.combine(other, u64::saturating_add)
    }

    fn combine(&self, other: &Usage, by: impl Fn(u64, u64) -> u64) -> Usage {
        Usage {
            user_ns: by(self.user_ns, other.user_ns),
            system_ns: by(self.system_ns, other.system_ns),
            runqueue_wait_ns: by(self.runqueue_wait_ns, other.runqueue_wait_ns),
            voluntary_switches: by(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: by(self.involuntary_switches, other.involuntary_switches),
            minor_faults: by(self.minor_faults, other.minor_faults),
            major_faults: by(self.major_faults, other.major_faults),
        }
    }
}

/// The sum over the threads that live now: the second number of each one's `schedstat`. The process's own file
/// covers its first thread only. 0 where the kernel does not keep it.
fn runqueue_wait() -> io::Result<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let Ok(text) = std::fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        sum += text.split_ascii_whitespace().nth(1).and_then(|wait| wait.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_as_cpu_time_and_waiting_as_a_switch() {
        let before = Usage::of_this_process().unwrap();
        std::hint::black_box(crate::workload::cpu(20_000_000, 1));
        std::thread::sleep(std::time::Duration::from_millis(1));
        let used = Usage::of_this_process().unwrap().since(&before);
        assert!(used.cpu_ns() > 1_000_000, "{used:?}");
        assert!(used.voluntary_switches >= 1, "{used:?}");
    }

    #[test]
    fn differences_and_sums_cancel() {
        let one = Usage { user_ns: 5, system_ns: 1, minor_faults: 9, ..Usage::default() };
        let two = Usage { user_ns: 2, voluntary_switches: 3, ..Usage::default() };
        assert_eq!(one.plus(&two).since(&two), one);
    }
}
