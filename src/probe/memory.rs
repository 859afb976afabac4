//! What a process weighs: PSS and its kin from `smaps_rollup`, the true peak from `status`.
//!
//! Reading costs about 0.1 ms for a small process and a millisecond for each 64 MiB of small pages, and holds the
//! target's memory lock meanwhile: read at barriers, never while something is timed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use crate::sys::process::Pid;

/// The memory of one process, or of several together, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident pages, shared ones counted in full. A sum of this over processes counts shared pages often.
    pub rss: u64,
    /// Resident pages, each shared one divided by the number of its sharers. Adds up.
    pub pss: u64,
    /// The anonymous part of `pss`: heaps, stacks, written copies.
    pub pss_anon: u64,
    /// The file part of `pss`: programs and libraries.
    pub pss_file: u64,
    /// The shared-memory part of `pss`.
    pub pss_shmem: u64,
    /// Pages nobody else has: what would be freed if the process ended.
    pub uss: u64,
    /// Page tables, which are in none of the above.
    pub page_tables: u64,
    /// Kernel stacks of the threads, which are in none of the above.
    pub kernel_stacks: u64,
    /// The largest `rss` so far: VmHWM. (`ru_maxrss` would also remember the parent's size from before the exec.)
    pub peak_rss: u64,
}

/// The resident memory of this process, cheap enough to be read after every task: the file stays open.
#[derive(Debug)]
pub struct Resident {
    statm: File,
    page: u64,
}

impl Resident {
    /// Makes ready to read.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn open() -> io::Result<Resident> {
        Ok(Resident { statm: File::open("/proc/self/statm")?, page: rustix::param::page_size() as u64 })
    }

    /// Resident bytes now.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn read(&mut self) -> io::Result<u64> {
        let mut text = [0; 128];
        let length = self.statm.read_at(&mut text, 0)?;
        let text = String::from_utf8_lossy(&text[..length]);
        let pages: Option<u64> = text.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok());
        Ok(pages.ok_or(io::ErrorKind::InvalidData)? * self.page)
    }
}

/// Bytes of kernel stack a thread has on x86-64 and on arm64 (THREAD_SIZE in the kernel's sources).
const KERNEL_STACK: u64 = 16 * 1024;

impl Memory {
    /// Weighs a process.
    ///
    /// # Errors
    /// If it has ended, or is somebody else's.
    pub fn of(pid: Pid) -> io::Result<Memory> {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        Ok(Memory::parse(&rollup, &status))
    }

    fn parse(rollup: &str, status: &str) -> Memory {
        let mapped = |name| kib(rollup, name).unwrap_or(0);
        let threads = status
            .lines()
            .find_map(|line| line.strip_prefix("Threads:"))
            .and_then(|count| count.trim().parse::<u64>().ok())
            .unwrap_or(0);
        Memory {
            rss: mapped("Rss:"),
            pss: mapped("Pss:"),
            pss_anon: mapped("Pss_Anon:"),
            pss_file: mapped("Pss_File:"),
            pss_shmem: mapped("Pss_Shmem:"),
            uss: mapped("Private_Clean:") + mapped("Private_Dirty:") + mapped("Private_Hugetlb:"),
            page_tables: kib(status, "VmPTE:").unwrap_or(0),
            kernel_stacks: threads * KERNEL_STACK,
            peak_rss: kib(status, "VmHWM:").unwrap_or(0),
        }
    }

    /// Two processes together; of the peaks, the higher one, since peaks of different moments do not add up.
    #[must_use]
    pub fn plus(&self, other: &Memory) -> Memory {
        Memory {
            rss: self.rss + other.rss,
            pss: self.pss + other.pss,
            pss_anon: self.pss_anon + other.pss_anon,
            pss_file: self.pss_file + other.pss_file,
            pss_shmem: self.pss_shmem + other.pss_shmem,
            uss: self.uss + other.uss,
            page_tables: self.page_tables + other.page_tables,
            kernel_stacks: self.kernel_stacks + other.kernel_stacks,
            peak_rss: self.peak_rss.max(other.peak_rss),
        }
    }
}

/// The value of `name` in a file of lines like `Pss:    123 kB`, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_kernel_are_understood() {
        let rollup = "55d0-7ffd ---p 00000000 00:00 0 [rollup]\nRss: 100 kB\nPss: 60 kB\nPss_Dirty: 7 kB\nPss_Anon: 30 kB\n\
            Pss_File: 20 kB\nPss_Shmem: 10 kB\nPrivate_Clean: 4 kB\nPrivate_Dirty: 36 kB\nPrivate_Hugetlb: 0 kB\n";
        let status = "Name:\tx\nVmHWM:\t 140 kB\nVmPTE:\t 48 kB\nThreads:\t3\n";
        let memory = Memory::parse(rollup, status);
        let expected = Memory {
            rss: 100 << 10,
            pss: 60 << 10,
            pss_anon: 30 << 10,
            pss_file: 20 << 10,
            pss_shmem: 10 << 10,
            uss: 40 << 10,
            page_tables: 48 << 10,
            kernel_stacks: 3 * KERNEL_STACK,
            peak_rss: 140 << 10,
        };
        assert_eq!(memory, expected);
    }

    #[test]
    fn an_ended_process_has_no_weight_to_read() {
        assert!(Memory::of(Pid(u32::MAX)).is_err());
    }

    #[test]
    fn another_reader_of_the_same_file_agrees() {
        let theirs = procfs::process::Process::myself().unwrap().smaps_rollup().unwrap();
        let ours = Memory::of(Pid::own()).unwrap();
        let theirs = theirs.memory_map_rollup.0[0].extension.map["Pss"];
        // Other tests of this program run beside this one and allocate between the two readings.
        let gap = ours.pss.abs_diff(theirs);
        assert!(gap < ours.pss / 4, "ours {} theirs {theirs}", ours.pss);
    }
}
