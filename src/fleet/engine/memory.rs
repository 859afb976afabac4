//! Whether a worker was ended for want of memory: what the kernel counts, and nothing that is guessed.

use crate::fleet::postmortem::OutOfMemory;
use crate::sys::process::Exit;

/// How many processes the kernel has ended for want of memory, on the whole machine.
#[derive(Debug)]
pub(super) struct Kills(Option<u64>);

impl Kills {
    /// Up to now.
    pub(super) fn now() -> Kills {
        Kills(counted())
    }

    /// What the count says of a worker that has ended like this, and goes on from there.
    ///
    /// Only SIGKILL is the kernel's way, and a count that has not grown proves that it was somebody else.
    pub(super) fn explain(&mut self, exit: Option<Exit>) -> OutOfMemory {
        if !matches!(exit, None | Some(Exit::Signal { number: libc::SIGKILL, .. })) {
            return OutOfMemory::NotRecorded;
        }
        let before = std::mem::replace(&mut self.0, counted());
        match (before, self.0) {
            (Some(before), Some(now)) if before == now => OutOfMemory::NotRecorded,
            _ => OutOfMemory::Unknown,
        }
    }
}

fn counted() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}
