//! What the kernel says of a process that has ended.

use std::fmt;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// It said so itself, with this code.
    Code(i32),
    /// A signal ended it.
    Signal {
        /// The signal's number.
        number: i32,
        /// The kernel wrote a core file, or meant to.
        core: bool,
    },
}

impl Exit {
    /// Whether it ended of itself and in peace.
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }

    fn from_wait_status(status: libc::c_int) -> Exit {
        if libc::WIFSIGNALED(status) {
            Exit::Signal { number: libc::WTERMSIG(status), core: libc::WCOREDUMP(status) }
        } else {
            Exit::Code(libc::WEXITSTATUS(status))
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Exit::Code(code) => write!(f, "exited with code {code}"),
            Exit::Signal { number, core } => {
                match Signal::try_from(number) {
                    Ok(signal) => write!(f, "was killed by {}", signal.as_str())?,
                    Err(_) => write!(f, "was killed by signal {number}")?,
                }
                if core { write!(f, " (core dumped)") } else { Ok(()) }
            }
        }
    }
}

/// How a child ended, and what it had used by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Death {
    /// How it ended.
    pub exit: Exit,
    /// CPU time of its whole life, in nanoseconds.
    pub cpu_ns: u64,
    /// The largest it was, in bytes (`ru_maxrss`). A child that executed a program also remembers here how large
    /// whoever started it was.
    pub peak_rss: u64,
}

impl Death {
    pub(super) fn from_kernel(status: libc::c_int, used: &libc::rusage) -> Death {
        let nanos = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
        Death {
            exit: Exit::from_wait_status(status),
            cpu_ns: nanos(used.ru_utime) + nanos(used.ru_stime),
            peak_rss: used.ru_maxrss as u64 * 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_are_told_in_words() {
        assert_eq!(Exit::Code(7).to_string(), "exited with code 7");
        assert_eq!(Exit::Signal { number: 11, core: false }.to_string(), "was killed by SIGSEGV");
        assert_eq!(Exit::Signal { number: 6, core: true }.to_string(), "was killed by SIGABRT (core dumped)");
        assert_eq!(Exit::Signal { number: 63, core: false }.to_string(), "was killed by signal 63");
    }
}
