//! How many descriptors and processes we may still have.

use std::io;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::cgroup;

/// A limit that a request would break.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Too few descriptors.
    #[error("{needed} descriptors are needed, {allowed} allowed; raise the limit with `ulimit -n {needed}`")]
    Descriptors {
        /// How many the request takes.
        needed: u64,
        /// The soft limit.
        allowed: u64,
    },
    /// Too few processes or threads.
    #[error("{needed} more processes or threads are needed, {room} allowed by {whose}; {remedy}")]
    Processes {
        /// How many the request takes.
        needed: u64,
        /// How many may still be made.
        room: u64,
        /// Which limit it is.
        whose: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
}

/// What a process may use, as far as the kernel limits a single process (`setrlimit`). Each limit is inherited by what
/// the process starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Address space, in bytes: more cannot be mapped, and an allocation that needs it fails.
    pub address_space: Option<u64>,
    /// CPU time, in seconds: SIGXCPU at it, and SIGKILL a second later.
    pub cpu_seconds: Option<u64>,
    /// Descriptors.
    pub open_files: Option<u64>,
    /// The largest core file, in bytes; 0 for none.
    pub core: Option<u64>,
}

impl Ceilings {
    /// Sets them for this process.
    ///
    /// # Errors
    /// If one is above what this process may still have.
    pub fn apply(&self) -> io::Result<()> {
        let set = |resource, soft: Option<u64>, above: u64| -> io::Result<()> {
            soft.map_or(Ok(()), |soft| Ok(setrlimit(resource, soft, soft.saturating_add(above))?))
        };
        set(Resource::RLIMIT_AS, self.address_space, 0)?;
        set(Resource::RLIMIT_CPU, self.cpu_seconds, 1)?;
        set(Resource::RLIMIT_NOFILE, self.open_files, 0)?;
        set(Resource::RLIMIT_CORE, self.core, 0)
    }
}

/// Memory that can be had without swapping, as the kernel estimates it (MemAvailable), in bytes.
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Checks that `descriptors` in one process and `processes` new processes or threads are allowed.
///
/// # Errors
/// The first limit that is too low. A limit that cannot be read is not in the way.
pub fn check(descriptors: u64, processes: u64) -> Result<(), LimitError> {
    if let Ok((allowed, _)) = getrlimit(Resource::RLIMIT_NOFILE)
        && allowed < descriptors
    {
        return Err(LimitError::Descriptors { needed: descriptors, allowed });
    }
    let narrow = |room: Option<u64>, whose, remedy| match room {
        Some(room) if room < processes => {
            Err(LimitError::Processes { needed: processes, room, whose, remedy })
        }
        _ => Ok(()),
    };
    narrow(user_room(), "the limit of this user", "raise it with `ulimit -u`, or ask for fewer workers")?;
    narrow(
        cgroup::pids_room(Path::new("/")),
        "pids.max of this control group",
        "raise it, or ask for fewer workers",
    )?;
    narrow(system_room().ok(), "kernel.threads-max", "raise it with `sysctl`, or ask for fewer workers")
}

/// What RLIMIT_NPROC leaves; `None` for root, whom the kernel does not count.
fn user_room() -> Option<u64> {
    let user = nix::unistd::getuid();
    if user.is_root() {
        return None;
    }
    let (allowed, _) = getrlimit(Resource::RLIMIT_NPROC).ok()?;
    Some(allowed.saturating_sub(threads_of(user.as_raw()).ok()?))
}

fn threads_of(user: u32) -> io::Result<u64> {
    let mut threads = 0;
    for entry in std::fs::read_dir("/proc")? {
        let Ok(status) = std::fs::read_to_string(entry?.path().join("status")) else { continue };
        let field = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse().ok()
        };
        if field("Uid:") == Some(u64::from(user)) {
            threads += field("Threads:").unwrap_or(1);
        }
    }
    Ok(threads)
}

fn system_room() -> io::Result<u64> {
    let max: u64 = read_number("/proc/sys/kernel/threads-max")?;
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let threads = load.split(['/', ' ']).nth(4).and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok(max.saturating_sub(threads))
}

fn read_number(path: &str) -> io::Result<u64> {
    std::fs::read_to_string(path)?.trim().parse().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_known() {
        assert!(available_memory() > Some(1 << 20));
    }

    #[test]
    fn a_modest_request_is_allowed_and_an_absurd_one_is_not() {
        assert_eq!(check(32, 8), Ok(()));
        let refused = check(u64::MAX, 8).unwrap_err();
        assert!(refused.to_string().contains("raise the limit with `ulimit -n"), "{refused}");
        assert!(matches!(check(32, u64::MAX / 2), Err(LimitError::Processes { .. })));
    }
}
