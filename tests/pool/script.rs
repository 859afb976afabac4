//! What workers of these checks know to do: what a list of acts says.

use std::cell::Cell;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fleet::fleet::{Fleet, FleetSpec, Function, Registry, Start, this_task};
use fleet::sys::process;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::deaths::{Fragile, Trap};

/// Something to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Act {
    /// Leaves a file that holds the worker's number.
    Mark(PathBuf),
    /// Waits until there is such a file.
    Await(PathBuf),
    Sleep(u64),
    /// Uses so many milliseconds of CPU time.
    Spin(u64),
    Exit(i32),
    Segv,
    Kill,
    Abort,
    Panic(String),
    Fail(String),
    /// The same, unless this is at least so manieth run of the task.
    FailBefore(u8),
    KillBefore(u8),
    Print(Vec<u8>),
    PrintError(Vec<u8>),
    /// Writes so many bytes to standard output, and as many to standard error.
    Babble(usize),
    /// Reads standard input to its end; the result is what it read.
    ReadInput,
    /// Closes every descriptor but the standard ones.
    CloseLink,
    IgnoreTerm,
    /// Keeps so much more memory for good.
    Leak(usize),
    /// Uses so much more memory for the task.
    Use(usize),
    /// Stops itself, as Ctrl-Z would.
    Stop,
    /// Leaves a process behind that sleeps, in the worker's process group or out of it, and holds the link if told to.
    Orphan {
        seconds: u64,
        in_group: bool,
    },
    /// Writes half of an answer to the link, and dies.
    HalfAnswer,
    /// Runs a fleet in the worker; the result is how deep it got.
    Nest,
    /// The result is the limit of open files.
    OpenFiles,
    /// The result is the value of a variable, if there is one.
    Variable(String),
    /// The result is the current directory.
    Directory,
    /// The result is what was preloaded.
    Preloaded,
    /// The result is so many letters long.
    Say(usize),
    /// Fails if there is such a file.
    FailIf(PathBuf),
    /// Something to carry.
    Take(ByteBuf),
}

/// What a task answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) pid: u32,
    pub(crate) slot: usize,
    pub(crate) attempt: u8,
    /// How many tasks this worker has run, this one included.
    pub(crate) nth: u64,
    pub(crate) text: String,
}

/// The functions of these checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    pub(crate) act: Function<Vec<Act>, Said>,
    pub(crate) echo: Function<ByteBuf, ByteBuf>,
    pub(crate) trap: Function<Trap, Fragile>,
    pub(crate) preload: Function<u64, ()>,
    pub(crate) hold: Function<usize, ()>,
    pub(crate) touch: Function<bool, u64>,
}

static PRELOADED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static NTH: Cell<u64> = const { Cell::new(0) };
}

pub(crate) fn register(registry: &mut Registry) -> Functions {
    let functions = Functions {
        act: registry.function("act", act),
        echo: registry.function("echo", Ok::<ByteBuf, String>),
        trap: registry.function("trap", super::deaths::spring),
        preload: registry.function("preload", |value: u64| {
            if value == 666 {
                return Err("it is evil".to_owned());
            }
            PRELOADED.fetch_add(value, Ordering::SeqCst);
            Ok(())
        }),
        hold: registry.function("hold", |bytes: usize| {
            *HELD.lock().unwrap() = vec![1; bytes];
            Ok::<(), String>(())
        }),
        touch: registry.function("touch", |writes: bool| {
            let mut held = HELD.lock().unwrap();
            if writes {
                held.iter_mut().step_by(4096).for_each(|byte| *byte += 1);
            }
            Ok::<u64, String>(held.iter().step_by(4096).map(|byte| u64::from(*byte)).sum())
        }),
    };
    FUNCTIONS.set(functions).expect("once");
    functions
}

static FUNCTIONS: OnceLock<Functions> = OnceLock::new();

static HELD: std::sync::Mutex<Vec<u8>> = std::sync::Mutex::new(Vec::new());

fn act(acts: Vec<Act>) -> Result<Said, String> {
    // None where this prepares a worker.
    let this = this_task();
    let (slot, attempt) = this.map_or((0, 0), |this| (this.slot, this.attempt));
    let nth = NTH.get() + 1;
    NTH.set(nth);
    let mut text = String::new();
    let mut used: Vec<Vec<u8>> = Vec::new();
    for act in acts {
        match act {
            Act::Mark(path) => mark(&path)?,
            Act::Await(path) => {
                while !path.exists() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Act::Sleep(millis) => std::thread::sleep(Duration::from_millis(millis)),
            Act::Spin(millis) => {
                let used = || {
                    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
                };
                let before = used();
                while used() - before < Duration::from_millis(millis) {}
            }
            Act::Exit(code) => std::process::exit(code),
            Act::Segv => process::crash_by_segv(),
            Act::Kill => process::crash_by_kill(),
            Act::Abort => std::process::abort(),
            Act::Panic(words) => panic!("{words}"),
            Act::Fail(words) => return Err(words),
            Act::FailBefore(first) if attempt < first => return Err("not yet".to_owned()),
            Act::KillBefore(first) if attempt < first => process::crash_by_kill(),
            Act::FailBefore(_) | Act::KillBefore(_) => {}
            Act::Print(bytes) => std::io::stdout().write_all(&bytes).map_err(|cause| cause.to_string())?,
            Act::PrintError(bytes) => {
                std::io::stderr().write_all(&bytes).map_err(|cause| cause.to_string())?;
            }
            Act::Babble(bytes) => babble(bytes)?,
            Act::ReadInput => {
                text = std::io::read_to_string(std::io::stdin()).map_err(|cause| cause.to_string())?;
            }
            Act::CloseLink => fleet::sys::fds::close_all_except(&[]),
            Act::IgnoreTerm => ignore_term(),
            Act::Leak(bytes) => std::mem::forget(vec![1_u8; bytes]),
            Act::Use(bytes) => used.push(vec![1; bytes]),
            Act::Stop => {
                nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP).map_err(|e| e.to_string())?;
            }
            Act::Orphan { seconds, in_group } => orphan(seconds, in_group)?,
            Act::HalfAnswer => half_answer(),
            Act::Nest => text = nest(),
            Act::OpenFiles => {
                let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
                text = limit.map_err(|cause| cause.to_string())?.0.to_string();
            }
            Act::Variable(name) => text = std::env::var(name).unwrap_or_else(|_| "none".to_owned()),
            Act::Directory => text = std::env::current_dir().unwrap().display().to_string(),
            Act::Say(length) => text = "x".repeat(length),
            Act::FailIf(path) if path.exists() => return Err("there is a file".to_owned()),
            Act::FailIf(_) | Act::Take(_) => {}
            Act::Preloaded => text = PRELOADED.load(Ordering::SeqCst).to_string(),
        }
    }
    Ok(Said { pid: std::process::id(), slot, attempt, nth, text })
}

/// Renamed into place, so that whoever sees it sees all of it.
fn mark(path: &std::path::Path) -> Result<(), String> {
    let half = path.with_extension("half");
    std::fs::write(&half, std::process::id().to_string()).map_err(|cause| cause.to_string())?;
    std::fs::rename(half, path).map_err(|cause| cause.to_string())
}

fn babble(bytes: usize) -> Result<(), String> {
    // The second line is a whole message of ours, as far as bytes can be.
    let lines = b"a line of text\n\x05\x00\x00\x00\x02\x00\x01\x01\x00\n{\"task\":1}\n";
    for _ in 0..bytes.div_ceil(lines.len()) {
        std::io::stdout().write_all(lines).map_err(|cause| cause.to_string())?;
        std::io::stderr().write_all(lines).map_err(|cause| cause.to_string())?;
    }
    Ok(())
}

fn ignore_term() {
    let mut mask = nix::sys::signal::SigSet::empty();
    mask.add(nix::sys::signal::Signal::SIGTERM);
    mask.thread_block().unwrap();
}

/// A process that outlives its parent for a while.
fn orphan(seconds: u64, in_group: bool) -> Result<(), String> {
    use std::os::unix::process::CommandExt;
    let mut command = std::process::Command::new("sleep");
    command.arg(seconds.to_string()).stdin(std::process::Stdio::null());
    if !in_group {
        command.process_group(0);
    }
    command.spawn().map(drop).map_err(|cause| cause.to_string())
}

/// The link is the one socket that a worker has. A frame of a thousand bytes is announced on it, of which three come.
fn half_answer() {
    let own =
        rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty()).unwrap();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let is_socket =
            std::fs::read_link(entry.path()).is_ok_and(|to| to.to_str().unwrap().starts_with("socket:"));
        if is_socket {
            let number = entry.file_name().to_str().unwrap().parse().unwrap();
            let link = rustix::process::pidfd_getfd(&own, number, rustix::process::PidfdGetfdFlags::empty());
            UnixStream::from(link.unwrap()).write_all(&[0xe8, 3, 0, 0, 2, 7, 7]).unwrap();
        }
    }
    process::crash_by_kill();
}

/// A fleet in a worker, whose task is the same again: how deep it got, and why no deeper.
fn nest() -> String {
    let functions = FUNCTIONS.get().expect("they are registered");
    let fleet = match Fleet::launch(FleetSpec::new(1).start(Start::Spawn)) {
        Ok(fleet) => fleet,
        Err(error) => return error.to_string(),
    };
    let is_crowded = fleet.stats().is_oversubscribed();
    let said = fleet.submit(functions.act, &vec![Act::Nest]).unwrap().wait().into_result().unwrap();
    fleet.shut_down();
    format!("{}{}", if is_crowded { "crowded " } else { "deeper " }, said.text)
}
