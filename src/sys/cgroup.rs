//! Control groups, both versions: quota, throttling, and room for processes.
//!
//! Every function takes the root of the file system, `/` in life and a folder of fixtures in tests.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How this machine mounts control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// None mounted.
    None,
    /// Version 1: one tree a controller.
    V1,
    /// Version 2: one tree.
    V2,
    /// Version 1 for the controllers, and an empty version 2 tree beside it.
    Hybrid,
}

impl Version {
    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Version::None => "none",
            Version::V1 => "v1",
            Version::V2 => "v2",
            Version::Hybrid => "hybrid",
        }
    }
}

/// How often a quota has held us back, since the groups were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttling {
    /// Periods in which a group of ours had something to run.
    pub periods: u64,
    /// Periods in which it ran out of quota.
    pub throttled_periods: u64,
    /// Time spent held back, in nanoseconds.
    pub throttled_ns: u64,
}

/// The folders of one controller's tree, from our own group up to the mount.
struct Tree {
    v2: bool,
    folders: Vec<PathBuf>,
}

/// Which versions are mounted.
pub fn version(root: &Path) -> Version {
    let mounts = mounts(root);
    match (mounts.iter().any(|mount| !mount.v2), mounts.iter().any(|mount| mount.v2)) {
        (false, false) => Version::None,
        (true, false) => Version::V1,
        (false, true) => Version::V2,
        (true, true) => Version::Hybrid,
    }
}

/// Our group's path in the tree that holds the CPU controller.
pub fn own_path(root: &Path) -> Option<String> {
    let v2 = tree(root, "cpu")?.v2;
    membership(root, "cpu", v2)
}

/// CPUs' worth of time granted by the tightest group above us; `None` if nothing limits it.
pub fn cpu_quota(root: &Path) -> Option<f64> {
    let tree = tree(root, "cpu")?;
    tree.folders.iter().filter_map(|folder| quota_of(folder, tree.v2)).min_by(f64::total_cmp)
}

fn quota_of(folder: &Path, v2: bool) -> Option<f64> {
    let (quota, period) = if v2 {
        let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
        let mut words = text.split_ascii_whitespace();
        // The word `max` is no number, and means that nothing limits this group.
        (words.next()?.parse::<f64>().ok()?, words.next()?.parse::<f64>().ok()?)
    } else {
        (number(&folder.join("cpu.cfs_quota_us"))?, number(&folder.join("cpu.cfs_period_us"))?)
    };
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// How often the groups above us have been throttled; `None` where no quota exists that could.
pub fn throttling(root: &Path) -> Option<Throttling> {
    let tree = tree(root, "cpu")?;
    let mut sum = None;
    for folder in tree.folders.iter().filter(|folder| quota_of(folder, tree.v2).is_some()) {
        let Ok(text) = fs::read_to_string(folder.join("cpu.stat")) else { continue };
        let field = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        let sum = sum.get_or_insert_with(Throttling::default);
        sum.periods += field("nr_periods");
        sum.throttled_periods += field("nr_throttled");
        sum.throttled_ns += if tree.v2 { field("throttled_usec") * 1000 } else { field("throttled_time") };
    }
    sum
}

/// How many processes and threads the tightest group above us still has room for; `None` if nothing limits it.
pub fn pids_room(root: &Path) -> Option<u64> {
    let tree = tree(root, "pids")?;
    let room = |folder: &PathBuf| {
        let max = number(&folder.join("pids.max"))? as u64;
        Some(max.saturating_sub(number(&folder.join("pids.current")).unwrap_or(0.0) as u64))
    };
    tree.folders.iter().filter_map(room).min()
}

fn number(path: &Path) -> Option<f64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

struct Mount {
    v2: bool,
    controllers: Vec<String>,
    /// Which part of the tree is mounted.
    part: String,
    point: PathBuf,
}

/// The control-group mounts of `proc/self/mountinfo`; proc(5) tells the fields.
fn mounts(root: &Path) -> Vec<Mount> {
    let text = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    let parse = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let left: Vec<&str> = left.split(' ').collect();
        let mut right = right.split(' ');
        let kind = right.next()?;
        let options = right.nth(1).unwrap_or("");
        let v2 = match kind {
            "cgroup2" => true,
            "cgroup" => false,
            _ => return None,
        };
        Some(Mount {
            v2,
            controllers: options.split(',').map(str::to_owned).collect(),
            part: (*left.get(3)?).to_owned(),
            point: root.join(left.get(4)?.trim_start_matches('/')),
        })
    };
    text.lines().filter_map(parse).collect()
}

/// Our path in the tree of `controller`, from `proc/self/cgroup`; cgroups(7) tells the fields.
fn membership(root: &Path, controller: &str, v2: bool) -> Option<String> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let ours =
            if v2 { controllers.is_empty() } else { controllers.split(',').any(|name| name == controller) };
        ours.then(|| path.to_owned())
    })
}

fn tree(root: &Path, controller: &str) -> Option<Tree> {
    let mounts = mounts(root);
    // Where both versions are mounted, a controller belongs to the version 1 tree that names it.
    let mount = mounts
        .iter()
        .find(|mount| !mount.v2 && mount.controllers.iter().any(|name| name == controller))
        .or_else(|| mounts.iter().find(|mount| mount.v2))?;
    let path = membership(root, controller, mount.v2)?;
    // Inside a container the mount may show only our part of the tree.
    let below = path.strip_prefix(mount.part.trim_end_matches('/')).unwrap_or("");
    let mut folder = mount.point.join(below.trim_start_matches('/'));
    let mut folders = vec![folder.clone()];
    while folder != mount.point && folder.pop() {
        folders.push(folder.clone());
    }
    Some(Tree { v2: mount.v2, folders })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const V2_MOUNT: &str = "29 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1_MOUNT: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
        40 31 0:37 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n";

    #[test]
    fn version_2_takes_the_tightest_group_and_keeps_the_fraction() {
        let root = root(&[
            ("proc/self/mountinfo", V2_MOUNT),
            ("proc/self/cgroup", "0::/user.slice/job.scope\n"),
            ("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n"),
            (
                "sys/fs/cgroup/user.slice/cpu.stat",
                "usage_usec 5\nnr_periods 40\nnr_throttled 7\nthrottled_usec 90\n",
            ),
            ("sys/fs/cgroup/user.slice/job.scope/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/user.slice/job.scope/pids.max", "max\n"),
            ("sys/fs/cgroup/user.slice/pids.max", "100\n"),
            ("sys/fs/cgroup/user.slice/pids.current", "60\n"),
        ]);
        assert_eq!(version(root.path()), Version::V2);
        assert_eq!(own_path(root.path()).as_deref(), Some("/user.slice/job.scope"));
        assert_eq!(cpu_quota(root.path()), Some(1.5));
        assert_eq!(
            throttling(root.path()),
            Some(Throttling { periods: 40, throttled_periods: 7, throttled_ns: 90_000 })
        );
        assert_eq!(pids_room(root.path()), Some(40));
    }

    #[test]
    fn version_1_reads_quota_and_period_apart() {
        let root = root(&[
            ("proc/self/mountinfo", V1_MOUNT),
            ("proc/self/cgroup", "9:pids:/a\n4:cpu,cpuacct:/a/b\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n"),
            (
                "sys/fs/cgroup/cpu,cpuacct/a/b/cpu.stat",
                "nr_periods 10\nnr_throttled 3\nthrottled_time 12345\n",
            ),
        ]);
        assert_eq!(version(root.path()), Version::V1);
        assert_eq!(cpu_quota(root.path()), Some(0.5));
        assert_eq!(
            throttling(root.path()),
            Some(Throttling { periods: 10, throttled_periods: 3, throttled_ns: 12_345 })
        );
        assert_eq!(pids_room(root.path()), None);
    }

    #[test]
    fn a_container_that_sees_only_its_part_of_the_tree_still_finds_its_quota() {
        let root = root(&[
            ("proc/self/mountinfo", "29 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
            ("proc/self/cgroup", "0::/docker/abc\n"),
            ("sys/fs/cgroup/cpu.max", "200000 100000\n"),
        ]);
        assert_eq!(cpu_quota(root.path()), Some(2.0));
    }

    #[test]
    fn without_limits_or_groups_there_is_no_quota() {
        let unlimited = root(&[
            ("proc/self/mountinfo", V2_MOUNT),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 5\n"),
        ]);
        assert_eq!((cpu_quota(unlimited.path()), throttling(unlimited.path())), (None, None));
        let bare = root(&[]);
        assert_eq!((version(bare.path()), cpu_quota(bare.path())), (Version::None, None));
    }

    #[test]
    fn hybrid_takes_the_tree_that_names_the_controller() {
        let root = root(&[
            (
                "proc/self/mountinfo",
                &format!("{V1_MOUNT}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"),
            ),
            ("proc/self/cgroup", "4:cpu,cpuacct:/\n0::/\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(version(root.path()), Version::Hybrid);
        assert_eq!(cpu_quota(root.path()), Some(1.5));
    }
}
