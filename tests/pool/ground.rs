//! Where a check happens: a process of its own, watched from outside.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use fleet::fleet::{Ended, Fleet, FleetSpec, Handle, LaunchError, Start, Stats};
use fleet::sys::process::Pid;
use fleet::sys::{fds, process};

use super::script::{Act, Functions, Said};

/// The word that makes this program run one check.
pub(crate) const SCENARIO: &str = "pool:check";

/// A check that reaches this hangs, and fails.
const WATCHDOG: Duration = Duration::from_secs(60);

/// What has ended is gone from the kernel's lists within this.
const GONE_WITHIN: Duration = Duration::from_secs(5);

const MARK: &str = "FLEET_POOL_CHECK";

/// One thing that must be so.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Ground),
    /// The start method makes no difference.
    pub(crate) once: bool,
    /// What is written to standard error, if anything is to be: these words.
    pub(crate) stderr: &'static [&'static str],
    /// Why it cannot be made here.
    pub(crate) skipped: fn() -> Option<String>,
}

impl Check {
    pub(crate) const fn new(name: &'static str, run: fn(&Ground)) -> Check {
        Check { name, run, once: false, stderr: &[], skipped: || None }
    }

    pub(crate) const fn once(name: &'static str, run: fn(&Ground)) -> Check {
        Check { once: true, ..Check::new(name, run) }
    }
}

/// What a check stands on.
pub(crate) struct Ground {
    pub(crate) start: Start,
    pub(crate) functions: Functions,
    folder: Mutex<Option<tempfile::TempDir>>,
    path: PathBuf,
    descriptors: usize,
}

impl Ground {
    pub(crate) fn new(start: Start, functions: Functions) -> Ground {
        let descriptors = fds::open_count().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        Ground { start, functions, folder: Mutex::new(Some(folder)), path, descriptors }
    }

    /// A fleet of two.
    pub(crate) fn spec(&self) -> FleetSpec {
        FleetSpec::new(2).start(self.start).queue(100)
    }

    pub(crate) fn fleet(&self) -> Fleet {
        self.launch(self.spec())
    }

    pub(crate) fn launch(&self, spec: FleetSpec) -> Fleet {
        Fleet::launch(spec.start(self.start)).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_launch(&self, spec: FleetSpec) -> Result<Fleet, LaunchError> {
        Fleet::launch(spec.start(self.start))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn submit(&self, fleet: &Fleet, acts: &[Act]) -> Handle<Said> {
        fleet.submit(self.functions.act, &acts.to_vec()).unwrap()
    }

    /// Submits a task, and waits until a worker runs it, which is then handed back.
    pub(crate) fn running(&self, fleet: &Fleet, name: &str, acts: &[Act]) -> (Handle<Said>, Pid) {
        let mark = self.file(name);
        let mut all = vec![Act::Mark(mark.clone())];
        all.extend_from_slice(acts);
        let handle = self.submit(fleet, &all);
        let pid = eventually("it runs", || std::fs::read_to_string(&mark).ok()?.parse().ok());
        (handle, Pid(pid))
    }

    /// Ends the fleet, and checks that its numbers add up.
    pub(crate) fn end(&self, fleet: Fleet) -> Stats {
        let stats = fleet.shut_down();
        let ended: u64 = stats.ended.values().sum();
        assert_eq!(stats.accepted, ended, "{stats:?}");
        assert_eq!((stats.queued, stats.active, stats.in_service), (0, 0, 0), "{stats:?}");
        drop(fleet);
        stats
    }

    /// Nothing is left in this process of what the check did.
    pub(crate) fn nothing_is_left(&self) {
        drop(self.folder.lock().unwrap().take());
        eventually("no child is left", || (process::own_children().unwrap() == 0).then_some(()));
        eventually("no descriptor is left", || {
            (fds::open_count().unwrap() <= self.descriptors).then_some(())
        });
    }
}

/// Waits until a fact is seen.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "it did not come to pass: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The result, which there must be.
#[track_caller]
pub(crate) fn done<T: std::fmt::Debug>(ended: Ended<T>) -> T {
    ended.into_result().unwrap_or_else(|error| panic!("{error}"))
}

/// Sends a signal to a process that this check has started.
pub(crate) fn signal(pid: Pid, signal: nix::sys::signal::Signal) {
    let raw = nix::unistd::Pid::from_raw(pid.0 as i32);
    nix::sys::signal::kill(raw, signal).unwrap();
}

/// Runs a check in a process of its own, and looks afterwards whether anything is left.
pub(crate) fn run(check: &Check, start: Start) -> Result<(), String> {
    let mark = format!("{}-{}-{start}", std::process::id(), check.name);
    let scratch = tempfile::tempdir().map_err(|cause| cause.to_string())?;
    let mut child = Command::new(std::env::current_exe().map_err(|cause| cause.to_string())?)
        .args([SCENARIO, check.name, &start.to_string()])
        .env(MARK, &mark)
        .env("TMPDIR", scratch.path())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|cause| cause.to_string())?;
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let stdout = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let stderr = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|cause| cause.to_string())? {
            Some(status) => break Some(status),
            None if begun.elapsed() > WATCHDOG => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let left = left_behind(&mark);
    let words = format!("{}{}", stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    let files: Vec<_> = std::fs::read_dir(scratch.path())
        .map(|entries| entries.flatten().map(|entry| entry.file_name()).collect())
        .unwrap_or_default();
    match status {
        None => Err(format!("it hung for {WATCHDOG:?}\n{words}")),
        Some(status) if !status.success() => Err(format!("{status}\n{words}")),
        Some(_) if !left.is_empty() => Err(format!("left behind: {left:?}\n{words}")),
        Some(_) if !files.is_empty() => Err(format!("files left behind: {files:?}\n{words}")),
        Some(_) => match words
            .lines()
            .find(|line| !line.is_empty() && !check.stderr.iter().any(|word| line.contains(word)))
        {
            Some(line) => Err(format!("it wrote: {line}")),
            None => Ok(()),
        },
    }
}

/// Marked processes that do not end by themselves; they are ended then.
fn left_behind(mark: &str) -> Vec<(i32, String)> {
    let begun = Instant::now();
    loop {
        let alive = alive(mark);
        if alive.is_empty() || begun.elapsed() > GONE_WITHIN {
            for (pid, _) in &alive {
                let pid = nix::unistd::Pid::from_raw(*pid);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
            return alive;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn alive(mark: &str) -> Vec<(i32, String)> {
    let needle = format!("{MARK}={mark}");
    let carries_mark = |path: &Path| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == needle.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let marked = processes.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        carries_mark(&entry.path()).then(|| (pid, name.trim().to_owned()))
    });
    marked.collect()
}
