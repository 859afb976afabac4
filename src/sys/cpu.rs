//! CPUs: online, allowed, and how much of them our control groups let us have.

use std::path::Path;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::{Pid, SysconfVar, sysconf};

use super::cgroup;

/// The three numbers that are all called "the number of CPUs".
#[derive(Clone, Debug, PartialEq)]
pub struct Cpus {
    /// CPUs that the machine runs.
    pub online: usize,
    /// The numbers of the CPUs that this process may run on.
    pub allowed: Vec<usize>,
    /// How many CPUs' worth of time our control groups grant, if they limit it: 1.5 is one and a half.
    pub quota: Option<f64>,
}

impl Cpus {
    /// Asks the kernel.
    pub fn read() -> Cpus {
        let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten().map_or(1, |n| n.max(1) as usize);
        let allowed = sched_getaffinity(Pid::from_raw(0))
            .map(|set| (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect())
            .unwrap_or_else(|_| (0..online).collect());
        Cpus { online, allowed, quota: cgroup::cpu_quota(Path::new("/")) }
    }

    /// How many lanes can compute side by side: allowed CPUs, or fewer where a quota is below that; 1 at least.
    ///
    /// A quota's fraction is dropped, as `std::thread::available_parallelism` does.
    pub fn usable(&self) -> usize {
        let granted = self.quota.map_or(usize::MAX, |quota| quota.floor() as usize);
        self.allowed.len().min(granted).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_of_affinity_and_quota_counts_and_never_is_it_none() {
        let with = |quota| Cpus { online: 8, allowed: vec![0, 1, 2, 3], quota }.usable();
        assert_eq!(with(None), 4);
        assert_eq!(with(Some(2.5)), 2);
        assert_eq!(with(Some(0.5)), 1);
        assert_eq!(with(Some(64.0)), 4);
    }

    #[test]
    fn we_count_as_the_standard_library_does() {
        assert_eq!(Cpus::read().usable(), std::thread::available_parallelism().unwrap().get());
    }
}
