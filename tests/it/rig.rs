//! What the tests stand on: runs the real program, waits for facts, and looks afterwards whether anything is left.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fleet::ids::Lanes;
use fleet::lab::child::{ChildOrder, ChildReport};
use fleet::lab::isolate::{ChildError, Isolation};
use fleet::lab::trial::{TrialOrder, TrialReport};
use fleet::model::{Job, Model};
use fleet::seed::Seed;
use fleet::sys::process::Program;

/// The program under test.
pub const FLEET: &str = env!("CARGO_BIN_EXE_fleet");

/// A test that reaches this hangs, and fails.
pub const WATCHDOG: Duration = Duration::from_secs(120);

/// What has ended is gone from the kernel's lists within this.
const GONE_WITHIN: Duration = Duration::from_secs(5);

const MARK: &str = "FLEET_TEST_RIG";

/// One test's processes: each carries a mark in its environment, which its children inherit.
pub struct Rig {
    mark: String,
    pub folder: tempfile::TempDir,
}

impl Rig {
    pub fn new() -> Rig {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Rig { mark, folder: tempfile::tempdir().unwrap() }
    }

    /// The program with these words, and nothing in its environment that would change what it says.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.other(FLEET);
        command.args(words);
        command
    }

    /// Another program, under the same watch.
    pub fn other(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env(MARK, &self.mark);
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn fleet(&self, words: &[&str]) -> Ended {
        self.run(self.command(words))
    }

    /// Runs a command to its end, which must come.
    pub fn run(&self, mut command: Command) -> Ended {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        ended(child)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A trial in a lab process.
    pub fn trial(&self, order: TrialOrder, within: Duration) -> Result<TrialReport, String> {
        let program = Program::at(FLEET).with(MARK, &self.mark);
        match Isolation::new(program).run(&ChildOrder::Trial(order), within) {
            Ok(ChildReport::Trial(result)) => result.map(|report| *report),
            Ok(other) => panic!("{other:?}"),
            Err(error @ (ChildError::Died { .. } | ChildError::TimedOut { .. })) => Err(error.to_string()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Processes of this rig that live, with the name the kernel has for each.
    pub fn alive(&self) -> Vec<(i32, String)> {
        let needle = format!("{MARK}={}", self.mark);
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let marked = processes.filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            let ours = environment.split(|byte| *byte == 0).any(|variable| variable == needle.as_bytes());
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            ours.then(|| (pid, name.trim().to_owned()))
        });
        marked.collect()
    }

    /// Waits until a fact is seen.
    pub fn eventually<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            assert!(begun.elapsed() < WATCHDOG, "not within {WATCHDOG:?}: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Nothing of ours lives any more, and soon.
    pub fn nothing_is_left(&self) {
        let begun = Instant::now();
        while !self.alive().is_empty() {
            assert!(begun.elapsed() < GONE_WITHIN, "left behind: {:?}", self.alive());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.nothing_is_left();
        }
        for (pid, _) in self.alive() {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// The result as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

/// Waits for a child whose output is piped; one that hangs is killed, and fails its test.
pub fn ended(mut child: Child) -> Ended {
    let mut readers = Vec::new();
    let pipes: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|pipe| Box::new(pipe) as _),
        child.stderr.take().map(|pipe| Box::new(pipe) as _),
    ];
    for pipe in pipes {
        readers.push(std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.map(|mut pipe| pipe.read_to_end(&mut bytes)).transpose().unwrap();
            String::from_utf8(bytes).unwrap()
        }));
    }
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begun.elapsed() > WATCHDOG => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("it hung for {WATCHDOG:?}");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let mut texts = readers.into_iter().map(|reader| reader.join().unwrap());
    let (stdout, stderr) = (texts.next().unwrap(), texts.next().unwrap());
    let Output { status, .. } = Output { status, stdout: Vec::new(), stderr: Vec::new() };
    Ended { code: status.code(), stdout, stderr }
}

/// A trial of this workload.
pub fn order(model: Model, lanes: usize, workload: &str, tasks: u64) -> TrialOrder {
    let job = Job { workload: workload.parse().unwrap(), seed: Seed(7), lanes: Lanes::new(lanes).unwrap() };
    TrialOrder { model, job, tasks, shuffle: 1 }
}

/// Says that a check could not be made here, and why.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {}", why.trim());
}
