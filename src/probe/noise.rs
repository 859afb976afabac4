//! Who else used the machine while we measured: other processes, the hypervisor, our own quota.
//!
//! Two readings of the kernel's counters, before and after, tell what happened between. The counters of
//! `/proc/stat` count in ticks (10 ms mostly), so a span below a second is judged coarsely.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::clock::{self, Nanos};
use super::usage::Usage;
use crate::sys::cgroup::{self, Throttling};
use crate::sys::process::Pid;

/// The kernel's counters at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    at: Nanos,
    busy_ns: u64,
    steal_ns: u64,
    total_ns: u64,
    own_ns: u64,
    procs_running: u64,
    pressure_us: Option<u64>,
    throttling: Option<Throttling>,
    swapped_pages: Option<u64>,
    others: HashMap<u32, (String, u64)>,
}

/// What disturbed us between two readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// CPU time of other processes, as a share of what the usable CPUs could give.
    pub foreign_cpu: f64,
    /// CPU time that the hypervisor gave to others, as a share of all.
    pub steal: f64,
    /// Quota periods in which our control group was held back; `None` without a quota.
    pub throttled_periods: Option<u64>,
    /// Time in which some task on the machine waited for a CPU, in microseconds; `None` without pressure counters.
    pub pressure_us: Option<u64>,
    /// Tasks that ran or could run at the first reading, ours included.
    pub procs_running: u64,
    /// Pages moved from or to swap; `None` where the kernel does not count them.
    pub swapped_pages: Option<u64>,
    /// Whoever used most of what others used.
    pub culprit: Option<Culprit>,
}

/// Another process that used the CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Culprit {
    /// Its number.
    pub pid: u32,
    /// Its name, as the kernel keeps it.
    pub name: String,
    /// Its CPU time as a share of what the usable CPUs could give.
    pub share: f64,
}

/// Above this share of the usable CPUs in other hands, a round is flagged.
pub const FLAG_FOREIGN: f64 = 0.05;
/// Above this median share over the rounds, wall times are not ranked.
pub const BLOCK_FOREIGN: f64 = 0.15;
/// Above this share of steal, a round is flagged.
pub const FLAG_STEAL: f64 = 0.01;
/// Above this median share of steal over the rounds, wall times are not ranked.
pub const BLOCK_STEAL: f64 = 0.05;

impl Reading {
    /// Reads the counters, of CPU time those of the CPUs that we are `allowed` to run on.
    ///
    /// # Errors
    /// If `/proc/stat` cannot be read. Everything else may be missing, and is then `None`.
    pub fn take(allowed: &[usize]) -> io::Result<Reading> {
        let tick = tick_ns();
        let stat = Stat::parse(&fs::read_to_string("/proc/stat")?, tick, allowed);
        let own = Usage::of_this_process()?.plus(&Usage::of_reaped_children()?);
        Ok(Reading {
            at: clock::now(),
            busy_ns: stat.busy_ns,
            steal_ns: stat.steal_ns,
            total_ns: stat.total_ns,
            own_ns: own.cpu_ns(),
            procs_running: stat.procs_running,
            pressure_us: fs::read_to_string("/proc/pressure/cpu").ok().and_then(|text| pressure(&text)),
            throttling: cgroup::throttling(Path::new("/")),
            swapped_pages: fs::read_to_string("/proc/vmstat").ok().and_then(|text| swapped(&text)),
            others: other_processes(tick),
        })
    }

    /// What happened since an earlier reading, on a machine of which we may use `usable` CPUs.
    ///
    /// Our own share is this process and every child that it has reaped: read only when none is alive.
    pub fn since(&self, earlier: &Reading, usable: usize) -> Noise {
        let capacity = (self.at.saturating_sub(earlier.at)).max(1) as f64 * usable as f64;
        let busy = self.busy_ns.saturating_sub(earlier.busy_ns);
        let own = self.own_ns.saturating_sub(earlier.own_ns);
        let total = self.total_ns.saturating_sub(earlier.total_ns).max(1) as f64;
        let throttled = |reading: &Reading| reading.throttling.map(|seen| seen.throttled_periods);
        let delta = |later: Option<u64>, before: Option<u64>| Some(later?.saturating_sub(before?));
        Noise {
            foreign_cpu: busy.saturating_sub(own) as f64 / capacity,
            steal: self.steal_ns.saturating_sub(earlier.steal_ns) as f64 / total,
            throttled_periods: delta(throttled(self), throttled(earlier)),
            pressure_us: delta(self.pressure_us, earlier.pressure_us),
            procs_running: earlier.procs_running,
            swapped_pages: delta(self.swapped_pages, earlier.swapped_pages),
            culprit: self.culprit_since(earlier, capacity),
        }
    }

    fn culprit_since(&self, earlier: &Reading, capacity: f64) -> Option<Culprit> {
        let used = |pid: &u32, now: u64| {
            now.saturating_sub(earlier.others.get(pid).map_or(0, |(_, before)| *before))
        };
        let (pid, (name, cpu)) = self.others.iter().max_by_key(|(pid, (_, cpu))| used(pid, *cpu))?;
        let share = used(pid, *cpu) as f64 / capacity;
        (share >= 0.01).then(|| Culprit { pid: *pid, name: name.clone(), share })
    }
}

impl Noise {
    /// Why this round is doubtful, in the words of the report; empty if it is not.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = Vec::new();
        if self.foreign_cpu > FLAG_FOREIGN {
            flags.push("foreign_cpu");
        }
        if self.steal > FLAG_STEAL {
            flags.push("steal");
        }
        if self.throttled_periods.is_some_and(|periods| periods > 0) {
            flags.push("throttled");
        }
        if self.swapped_pages.is_some_and(|pages| pages > 0) {
            flags.push("swapping");
        }
        flags
    }
}

struct Stat {
    busy_ns: u64,
    steal_ns: u64,
    total_ns: u64,
    procs_running: u64,
}

impl Stat {
    /// proc(5), `/proc/stat`: user nice system idle iowait irq softirq steal (guest time is within user).
    fn parse(text: &str, tick: u64, allowed: &[usize]) -> Stat {
        let mut ticks = [0u64; 8];
        for line in text.lines() {
            let Some((cpu, counts)) = line.strip_prefix("cpu").and_then(|rest| rest.split_once(' ')) else {
                continue;
            };
            // The line without a number sums up all CPUs, ours and others.
            if cpu.parse().is_ok_and(|cpu| allowed.contains(&cpu)) {
                let counts = counts.split_ascii_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
                ticks.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        }
        let at = |index: usize| ticks[index] * tick;
        let running = text.lines().find_map(|line| line.strip_prefix("procs_running "));
        let busy_ns = at(0) + at(1) + at(2) + at(5) + at(6);
        Stat {
            busy_ns,
            steal_ns: at(7),
            total_ns: busy_ns + at(3) + at(4) + at(7),
            procs_running: running.and_then(|count| count.trim().parse().ok()).unwrap_or(0),
        }
    }
}

fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// The `some` total of a pressure file, in microseconds.
fn pressure(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_once("total=")?.1.trim().parse().ok()
}

fn swapped(vmstat: &str) -> Option<u64> {
    let field = |name: &str| -> Option<u64> {
        vmstat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some(field("pswpin ")? + field("pswpout ")?)
}

/// CPU time so far of every process but this one, with what its reaped children used.
fn other_processes(tick: u64) -> HashMap<u32, (String, u64)> {
    let Ok(folder) = fs::read_dir("/proc") else { return HashMap::new() };
    folder
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != Pid::own().0)
        .filter_map(|pid| {
            let (name, ticks) = process_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
            Some((pid, (name, ticks * tick)))
        })
        .collect()
}

/// Name, and utime + stime + cutime + cstime, of a `stat` file: fields 2 and 14 to 17 of proc(5).
fn process_ticks(stat: &str) -> Option<(String, u64)> {
    let (left, right) = stat.rsplit_once(')')?;
    let name = left.split_once('(')?.1.to_owned();
    let ticks =
        right.split_ascii_whitespace().skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum();
    Some((name, ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_kernel_are_understood() {
        let stat = Stat::parse(
            "cpu  900 90 90 9000 9 9 9 9 0 0\ncpu0 60 10 50 600 5 2 3 7 0 0\ncpu1 40 0 0 400 0 0 0 0\ncpu2 800 80\n\
             procs_running 4\n",
            10_000_000,
            &[0, 1],
        );
        assert_eq!(stat.busy_ns, 165 * 10_000_000);
        assert_eq!(stat.steal_ns, 7 * 10_000_000);
        assert_eq!((stat.total_ns / 10_000_000, stat.procs_running), (1177, 4));
        assert_eq!(pressure("some avg10=0.00 avg60=0.1 avg300=0.2 total=987\nfull total=1\n"), Some(987));
        assert_eq!(swapped("pgpgin 5\npswpin 3\npswpout 4\n"), Some(7));
        let odd = "42 (a) b) S 1 1 1 0 -1 4 1 2 3 4 10 20 30 40 20 0 1";
        assert_eq!(process_ticks(odd), Some(("a) b".to_owned(), 100)));
    }

    fn reading(at_ms: u64, busy_ms: u64, own_ms: u64) -> Reading {
        let ms = 1_000_000;
        Reading {
            at: at_ms * ms,
            busy_ns: busy_ms * ms,
            steal_ns: 0,
            total_ns: at_ms * 2 * ms,
            own_ns: own_ms * ms,
            procs_running: 1,
            pressure_us: None,
            throttling: None,
            swapped_pages: None,
            others: HashMap::from([
                (7, ("rustc".to_owned(), (busy_ms - own_ms) * ms)),
                (8, ("sh".to_owned(), 0)),
            ]),
        }
    }

    #[test]
    fn what_is_not_ours_is_foreign_and_has_a_name() {
        let noise = reading(3000, 2500, 1000).since(&reading(1000, 500, 500), 2);
        assert!((noise.foreign_cpu - 0.375).abs() < 1e-9, "{noise:?}");
        assert_eq!(
            noise.culprit.as_ref().map(|culprit| (culprit.pid, culprit.name.as_str())),
            Some((7, "rustc"))
        );
        assert_eq!(noise.flags(), ["foreign_cpu"]);
        assert_eq!(noise.throttled_periods, None);
    }

    #[test]
    fn a_quiet_machine_raises_no_flag() {
        let noise = reading(3000, 1000, 990).since(&reading(1000, 500, 495), 2);
        assert!(noise.flags().is_empty() && noise.culprit.is_none(), "{noise:?}");
    }

    #[test]
    fn this_machine_can_be_read() {
        let first = Reading::take(&[0]).unwrap();
        let noise = Reading::take(&[0]).unwrap().since(&first, 1);
        assert!(noise.procs_running >= 1 && noise.foreign_cpu >= 0.0);
    }
}
