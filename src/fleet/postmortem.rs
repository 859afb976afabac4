//! What is known of a worker's death: for the log a line, for programs a flat JSON object.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::protocol::Lease;
use crate::ids::TaskId;
use crate::probe::clock::Nanos;
use crate::report::human;
use crate::sys::process::{Exit, Pid};

/// A worker's death, explained as far as it can be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Flat", try_from = "Flat")]
pub struct PostMortem {
    /// The run that it was at, if any.
    pub lease: Option<Lease>,
    /// The place it had.
    pub slot: usize,
    /// Its number, which another process may have by now.
    pub pid: Pid,
    /// Who ended it.
    pub cause: Cause,
    /// How it ended; unknown where whoever had to collect it ended first.
    pub exit: Option<Exit>,
    /// How long that run had lasted, in nanoseconds.
    pub ran_ns: Option<Nanos>,
    /// CPU time of the worker's whole life, in nanoseconds.
    pub cpu_ns: Option<Nanos>,
    /// The largest it was.
    pub peak: Option<Peak>,
    /// Whether it was ended for want of memory.
    pub out_of_memory: OutOfMemory,
    /// Its state in the kernel's letter when it was found standing still: `T` stopped, `D` waiting for a device.
    pub state: Option<char>,
    /// Where in the kernel it waited then.
    pub wait_channel: Option<String>,
    /// The last it wrote to standard error.
    pub stderr: String,
}

/// Who or what ended a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nobody here: itself, the kernel, or somebody from outside.
    Itself,
    /// It was not ready in time.
    NotReady,
    /// Its task's time was up.
    Timeout,
    /// It stood still.
    Hang,
    /// It said something that no worker of ours says.
    Garbled(String),
    /// It closed its link and went on.
    ClosedLink,
    /// Its task was cancelled.
    Cancelled,
    /// The fleet ended.
    Stopped,
    /// It was told to leave in peace, and had a successor or was one too many.
    Retired,
}

/// The largest a worker was, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peak {
    /// This.
    Exactly(u64),
    /// At most this: a process that was executed also remembers how large whoever started it was.
    AtMost(u64),
}

/// Whether a worker was ended for want of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutOfMemory {
    /// The kernel counted it, for this very worker.
    Proved,
    /// The kernel counts such deaths, and counted none.
    NotRecorded,
    /// The kernel counted some, and it cannot be told whose; or it does not count.
    Unknown,
}

impl PostMortem {
    /// The task that it was running.
    pub fn task(&self) -> Option<TaskId> {
        self.lease.map(|lease| lease.task)
    }
}

/// One line: `task 17 (attempt 1): worker 1 (pid 4711) was killed by SIGKILL after 12 ms; no OOM recorded; …`.
impl fmt::Display for PostMortem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(lease) = self.lease {
            write!(f, "{} (attempt {}): ", lease.task, lease.attempt)?;
        }
        write!(f, "worker {} (pid {}) ", self.slot, self.pid)?;
        match self.cause.reason() {
            Some(reason) => write!(f, "{reason}, and ")?,
            None if self.lease.is_none() => write!(f, "had no task, and ")?,
            None => {}
        }
        match self.exit {
            Some(exit) => write!(f, "{exit}")?,
            None => write!(f, "ended, nobody knows how")?,
        }
        if self.cause == Cause::Itself && self.lease.is_some() && matches!(self.exit, Some(Exit::Code(_))) {
            write!(f, " without an answer")?;
        }
        if let Some(ran) = self.ran_ns {
            write!(f, " after {}", plain(&human::span(ran as f64)))?;
        }
        self.details(f)
    }
}

impl PostMortem {
    fn details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.out_of_memory {
            OutOfMemory::Proved => write!(f, "; out of memory, as the kernel counted")?,
            // Only a SIGKILL leaves the question open.
            OutOfMemory::NotRecorded if self.is_unexplained_kill() => write!(f, "; no OOM recorded")?,
            OutOfMemory::Unknown if self.is_unexplained_kill() => write!(f, "; OOM unknown")?,
            _ => {}
        }
        if let Some(cpu) = self.cpu_ns {
            write!(f, "; {} of CPU", plain(&human::span(cpu as f64)))?;
        }
        match self.peak {
            Some(Peak::Exactly(bytes)) => write!(f, "; peak {}", plain(&human::bytes(bytes as f64)))?,
            Some(Peak::AtMost(bytes)) => write!(f, "; peak at most {}", plain(&human::bytes(bytes as f64)))?,
            None => {}
        }
        if let Some(state) = self.state {
            write!(f, "; state {state}")?;
        }
        if let Some(channel) = &self.wait_channel {
            write!(f, ", waiting in {channel}")?;
        }
        match self.stderr.lines().rev().map(str::trim).find(|line| !line.is_empty()) {
            // Whatever a worker writes stays on one line here, and cannot move the reader's cursor.
            Some(line) => write!(f, "; last on stderr: {}", line.escape_debug()),
            None => Ok(()),
        }
    }

    fn is_unexplained_kill(&self) -> bool {
        self.cause == Cause::Itself && matches!(self.exit, Some(Exit::Signal { number: libc::SIGKILL, .. }))
    }
}

/// A line of a log is broken by nobody: its blanks are plain ones.
fn plain(text: &str) -> String {
    text.replace(human::NO_BREAK, " ")
}

impl Cause {
    fn reason(&self) -> Option<String> {
        Some(match self {
            Cause::Itself => return None,
            Cause::NotReady => "was not ready in time".to_owned(),
            Cause::Timeout => "was at a task whose time was up".to_owned(),
            Cause::Hang => "stood still".to_owned(),
            Cause::Garbled(what) => format!("said what no worker says ({})", what.escape_debug()),
            Cause::ClosedLink => "closed its link".to_owned(),
            Cause::Cancelled => "was at a task that was cancelled".to_owned(),
            Cause::Stopped => "was still at work when the fleet ended".to_owned(),
            Cause::Retired => "was told to leave".to_owned(),
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Cause::Itself => "itself",
            Cause::NotReady => "not_ready",
            Cause::Timeout => "timeout",
            Cause::Hang => "hang",
            Cause::Garbled(_) => "garbled",
            Cause::ClosedLink => "closed_link",
            Cause::Cancelled => "cancelled",
            Cause::Stopped => "stopped",
            Cause::Retired => "retired",
        }
    }

    fn from_name(name: &str, said: Option<String>) -> Option<Cause> {
        Some(match name {
            "itself" => Cause::Itself,
            "not_ready" => Cause::NotReady,
            "timeout" => Cause::Timeout,
            "hang" => Cause::Hang,
            "garbled" => Cause::Garbled(said.unwrap_or_default()),
            "closed_link" => Cause::ClosedLink,
            "cancelled" => Cause::Cancelled,
            "stopped" => Cause::Stopped,
            "retired" => Cause::Retired,
            _ => return None,
        })
    }
}

/// The form in JSON: one level, units in the names, `null` for what is not known.
#[derive(Serialize, Deserialize)]
struct Flat {
    task: Option<u64>,
    attempt: Option<u8>,
    slot: usize,
    pid: u32,
    cause: String,
    said: Option<String>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    core_dumped: bool,
    ran_ns: Option<u64>,
    cpu_ns: Option<u64>,
    peak_bytes: Option<u64>,
    peak_is_upper_bound: bool,
    out_of_memory: OutOfMemory,
    state: Option<char>,
    wait_channel: Option<String>,
    stderr: String,
}

impl From<PostMortem> for Flat {
    fn from(death: PostMortem) -> Flat {
        let (exit_code, signal, core_dumped) = match death.exit {
            Some(Exit::Code(code)) => (Some(code), None, false),
            Some(Exit::Signal { number, core }) => (None, Some(number), core),
            None => (None, None, false),
        };
        let (peak_bytes, peak_is_upper_bound) = match death.peak {
            Some(Peak::Exactly(bytes)) => (Some(bytes), false),
            Some(Peak::AtMost(bytes)) => (Some(bytes), true),
            None => (None, false),
        };
        Flat {
            task: death.task().map(|task| task.0),
            attempt: death.lease.map(|lease| lease.attempt),
            slot: death.slot,
            pid: death.pid.0,
            cause: death.cause.name().to_owned(),
            said: if let Cause::Garbled(said) = death.cause { Some(said) } else { None },
            exit_code,
            signal,
            core_dumped,
            ran_ns: death.ran_ns,
            cpu_ns: death.cpu_ns,
            peak_bytes,
            peak_is_upper_bound,
            out_of_memory: death.out_of_memory,
            state: death.state,
            wait_channel: death.wait_channel,
            stderr: death.stderr,
        }
    }
}

impl TryFrom<Flat> for PostMortem {
    type Error = String;

    fn try_from(flat: Flat) -> Result<PostMortem, String> {
        let cause = Cause::from_name(&flat.cause, flat.said);
        let peak = if flat.peak_is_upper_bound { Peak::AtMost } else { Peak::Exactly };
        Ok(PostMortem {
            lease: flat.task.zip(flat.attempt).map(|(task, attempt)| Lease { task: TaskId(task), attempt }),
            slot: flat.slot,
            pid: Pid(flat.pid),
            cause: cause.ok_or_else(|| format!("`{}` is not a cause of death", flat.cause))?,
            exit: match (flat.exit_code, flat.signal) {
                (Some(code), _) => Some(Exit::Code(code)),
                (None, Some(number)) => Some(Exit::Signal { number, core: flat.core_dumped }),
                (None, None) => None,
            },
            ran_ns: flat.ran_ns,
            cpu_ns: flat.cpu_ns,
            peak: flat.peak_bytes.map(peak),
            out_of_memory: flat.out_of_memory,
            state: flat.state,
            wait_channel: flat.wait_channel,
            stderr: flat.stderr,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn death() -> PostMortem {
        PostMortem {
            lease: Some(Lease { task: TaskId(17), attempt: 2 }),
            slot: 1,
            pid: Pid(4711),
            cause: Cause::Itself,
            exit: Some(Exit::Signal { number: libc::SIGKILL, core: false }),
            ran_ns: Some(12_000_000),
            cpu_ns: Some(9_000_000),
            peak: Some(Peak::Exactly(34 << 20)),
            out_of_memory: OutOfMemory::NotRecorded,
            state: None,
            wait_channel: None,
            stderr: "one\nthe last\n\n".to_owned(),
        }
    }

    #[test]
    fn a_death_is_told_in_one_line() {
        assert_eq!(
            death().to_string(),
            "task 17 (attempt 2): worker 1 (pid 4711) was killed by SIGKILL after 12.0 ms; no OOM recorded; \
             9.00 ms of CPU; peak 34.0 MiB; last on stderr: the last"
        );
        let quiet = PostMortem {
            lease: None,
            ran_ns: None,
            cpu_ns: None,
            peak: None,
            stderr: String::new(),
            ..death()
        };
        let exited = PostMortem { exit: Some(Exit::Code(0)), ..quiet.clone() };
        assert_eq!(exited.to_string(), "worker 1 (pid 4711) had no task, and exited with code 0");
        let silent = PostMortem { lease: death().lease, ..exited };
        assert_eq!(
            silent.to_string(),
            "task 17 (attempt 2): worker 1 (pid 4711) exited with code 0 without an answer"
        );
        let unknown = PostMortem { exit: None, peak: Some(Peak::AtMost(1 << 20)), ..quiet };
        assert_eq!(
            unknown.to_string(),
            "worker 1 (pid 4711) had no task, and ended, nobody knows how; peak at most 1.00 MiB"
        );
    }

    #[test]
    fn a_hang_names_where_it_hung_and_nobody_asks_whether_memory_ran_out() {
        let hung = PostMortem {
            cause: Cause::Hang,
            state: Some('T'),
            wait_channel: Some("do_signal_stop".to_owned()),
            ..death()
        };
        assert_eq!(
            hung.to_string(),
            "task 17 (attempt 2): worker 1 (pid 4711) stood still, and was killed by SIGKILL after 12.0 ms; \
             9.00 ms of CPU; peak 34.0 MiB; state T, waiting in do_signal_stop; last on stderr: the last"
        );
    }

    #[test]
    fn whatever_a_worker_writes_stays_on_the_line() {
        let nasty = PostMortem {
            stderr: "a\u{1b}[2Jb\rc".to_owned(),
            cause: Cause::Garbled("x\ny".into()),
            ..death()
        };
        let line = nasty.to_string();
        assert!(!line.contains(['\n', '\r', '\u{1b}']), "{line}");
    }

    #[test]
    fn json_is_flat_and_has_null_for_what_is_not_known() {
        let json = serde_json::to_value(PostMortem { exit: None, peak: None, ..death() }).unwrap();
        let object = json.as_object().unwrap();
        assert!(object.values().all(|value| !value.is_object() && !value.is_array()));
        assert_eq!(
            (object["task"].as_u64(), object["out_of_memory"].as_str()),
            (Some(17), Some("not_recorded"))
        );
        assert!(["exit_code", "signal", "peak_bytes", "said"].iter().all(|name| object[*name].is_null()));
        let unknown = json.to_string().replace("itself", "magic");
        let refused = serde_json::from_str::<PostMortem>(&unknown).unwrap_err();
        assert!(refused.to_string().contains("`magic` is not a cause of death"), "{refused}");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_was_written_as_json_reads_back(cause in 0usize..9, exit in 0usize..3, number in 0i32..64, core: bool, peak in 0usize..3, bytes: u64, said: String) {
            let causes = [
                Cause::Itself, Cause::NotReady, Cause::Timeout, Cause::Hang, Cause::Garbled(said.clone()),
                Cause::ClosedLink, Cause::Cancelled, Cause::Stopped, Cause::Retired,
            ];
            let written = PostMortem {
                cause: causes[cause].clone(),
                exit: [None, Some(Exit::Code(number)), Some(Exit::Signal { number, core })][exit],
                peak: [None, Some(Peak::Exactly(bytes)), Some(Peak::AtMost(bytes))][peak],
                stderr: said,
                ..death()
            };
            let json = serde_json::to_string(&written).unwrap();
            prop_assert_eq!(serde_json::from_str::<PostMortem>(&json).unwrap(), written);
        }
    }
}
