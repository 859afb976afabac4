//! Processes: starting, forking, ending, and what the kernel says when one has ended.

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid as NixPid;
use serde::{Deserialize, Serialize};

use super::pidfd::PidFd;

pub use super::exit::{Death, Exit};
pub use super::program::Program;
use crate::role::Role;

/// The number of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pid(pub u32);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Pid {
    /// This process.
    pub fn own() -> Pid {
        Pid(std::process::id())
    }

    /// The process that this one answers to now: its parent, or whoever adopted it.
    pub fn of_parent() -> Pid {
        Pid(std::os::unix::process::parent_id())
    }

    fn raw(self) -> libc::pid_t {
        self.0 as libc::pid_t
    }
}

/// A child of this process. Dropping it kills and reaps it: nothing outlives its owner.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: PidFd,
    death: Option<Death>,
    group: bool,
}

/// What a new process is given.
#[derive(Debug)]
pub struct Birth<'a> {
    /// The program to execute.
    pub program: &'a Program,
    /// What it shall be.
    pub role: Role,
    /// Its end of the road to us; arrives as descriptor 0, see [`super::fds::take_link`].
    pub link: OwnedFd,
    /// Where its standard output goes; nowhere, if none.
    pub output: Option<OwnedFd>,
    /// Where its standard error goes; ours, if none.
    pub errors: Option<OwnedFd>,
    /// Whether it leads a process group of its own, out of reach of the terminal's Ctrl-C.
    pub own_group: bool,
}

impl Child {
    /// Executes a program of ours in a new process.
    ///
    /// The standard library takes `posix_spawn` for this, whose cost does not grow with our memory. The link
    /// travels as standard input because that needs no code of ours between fork and exec.
    ///
    /// # Errors
    /// What the kernel says: no such program, or no room for another process.
    pub fn spawn(birth: Birth<'_>) -> io::Result<Child> {
        let mut command = Command::new(birth.program.path());
        command.arg0("fleet").args(birth.role.arguments());
        if let Some(kept) = &birth.program.kept {
            command.env_clear();
            command.envs(kept.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        }
        command.envs(birth.program.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::from(birth.link)).stdout(birth.output.map_or_else(Stdio::null, Stdio::from));
        if let Some(errors) = birth.errors {
            command.stderr(Stdio::from(errors));
        }
        if birth.own_group {
            command.process_group(0);
        }
        let pid = Pid(command.spawn()?.id());
        Child::adopt(pid, birth.own_group)
    }

    fn adopt(pid: Pid, group: bool) -> io::Result<Child> {
        // We have not reaped it, so the number is still its own.
        let pidfd = PidFd::open(pid)?;
        Ok(Child { pid, pidfd, death: None, group })
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Its descriptor: readable once it has ended.
    pub fn pidfd(&self) -> &PidFd {
        &self.pidfd
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// What `wait4` says, which for a child of ours is nothing.
    pub fn wait(&mut self) -> io::Result<Exit> {
        Ok(self.reap()?.exit)
    }

    /// The same, and tells what it had used. What is left of its group, if it led one, is ended first: while nobody has
    /// collected it, the group's number is still its own.
    ///
    /// # Errors
    /// As for [`Child::wait`].
    pub fn reap(&mut self) -> io::Result<Death> {
        if let Some(death) = self.death {
            return Ok(death);
        }
        if self.group && super::fds::wait_readable(&[self.pidfd.as_fd()], None)?[0] {
            self.kill_group();
        }
        let death = reap(self.pid)?;
        self.death = Some(death);
        Ok(death)
    }

    /// Ends it (and its group, if it leads one) at once.
    pub fn kill(&mut self) {
        if self.death.is_some() {
            return;
        }
        if self.group {
            self.kill_group();
        }
        let _ = self.pidfd.kill();
    }

    fn kill_group(&self) {
        let _ = signal::killpg(NixPid::from_raw(self.pid.raw()), Signal::SIGKILL);
    }

    /// Lets go of a child that does not end though it was killed, as one can that the kernel keeps waiting. Nobody
    /// collects it before we end ourselves.
    pub fn abandon(mut self) {
        self.death = Some(Death { exit: Exit::Code(0), cpu_ns: 0, peak_rss: 0 });
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        let _ = self.wait();
    }
}

/// Collects a child, once it has ended.
fn reap(pid: Pid) -> io::Result<Death> {
    loop {
        let mut status = 0;
        // SAFETY: a `rusage` is numbers only, and all zeros are numbers.
        let mut used: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `status` and `used` outlive the call; the kernel writes them only.
        let rc = unsafe { libc::wait4(pid.raw(), &raw mut status, 0, &raw mut used) };
        if rc != -1 {
            return Ok(Death::from_kernel(status, &used));
        }
        let cause = io::Error::last_os_error();
        if cause.kind() != io::ErrorKind::Interrupted {
            return Err(cause);
        }
    }
}

/// Why no fork was made.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// A forked copy of a process with threads has their locks and not their threads.
    #[error("cannot fork while {threads} threads run; use spawn or forkserver")]
    Threaded {
        /// How many threads run, this one included.
        threads: usize,
    },
    /// The kernel refused.
    #[error("cannot fork: {0}")]
    Kernel(#[from] io::Error),
}

/// Forks this process, and runs `life` in the child, which ends with it. With `own_group`, the child leads a process
/// group of its own, out of reach of the terminal's Ctrl-C, and what it leaves behind in there ends with it.
///
/// # Errors
/// [`ForkError::Threaded`] if another thread runs; [`ForkError::Kernel`] if the kernel refuses.
pub fn fork(own_group: bool, life: impl FnOnce() -> i32) -> Result<Child, ForkError> {
    let threads = own_threads()?;
    if threads > 1 {
        return Err(ForkError::Threaded { threads });
    }
    // SAFETY:
    // - No other thread runs, so no lock of libc's or of ours is held in the copy, and any code may run there.
    // - The child never returns into our caller's frames: it leaves through `exit_now`.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error().into()),
        0 => {
            if own_group {
                let _ = nix::unistd::setpgid(NixPid::from_raw(0), NixPid::from_raw(0));
            }
            // A panic must not unwind into frames that belong to the parent's life.
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(life)).unwrap_or(101);
            exit_now(code)
        }
        pid => {
            // The child does the same first thing: whoever is first, neither of the two acts before it is so.
            if own_group {
                let _ = nix::unistd::setpgid(NixPid::from_raw(pid), NixPid::from_raw(pid));
            }
            Ok(Child::adopt(Pid(pid as u32), own_group)?)
        }
    }
}

/// Ends this process without running anything that was registered for its end.
///
/// A forked copy must not flush the buffers it inherited, or they would be written twice.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Asks the kernel to kill this process when the thread that started it ends, and says whether it lives still.
///
/// The check comes after the request, so that no moment is left in which a death goes unnoticed.
pub fn die_with(parent: Pid) -> bool {
    let asked = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    asked.is_ok() && Pid::of_parent() == parent
}

/// How many threads this process has.
///
/// The folder of threads counts one link for each, besides its own two: a glance instead of a listing.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn own_threads() -> io::Result<usize> {
    Ok(std::fs::metadata("/proc/self/task")?.nlink().saturating_sub(2) as usize)
}

/// The number of the calling thread.
pub fn own_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Waits until a thread that was joined is gone from the kernel's books too, which is a little later: only then may a
/// process fork that has no other.
pub fn wait_for_thread_to_vanish(thread: u32) {
    let path = format!("/proc/self/task/{thread}");
    let begun = std::time::Instant::now();
    while Path::new(&path).exists() && begun.elapsed() < std::time::Duration::from_millis(100) {
        std::thread::yield_now();
    }
}

/// The children of this process's threads that have not been reaped.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn own_children() -> io::Result<usize> {
    let mut children = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        // A thread may end while we look; its children then have another parent thread, seen elsewhere.
        if let Ok(list) = std::fs::read_to_string(thread?.path().join("children")) {
            children += list.split_ascii_whitespace().count();
        }
    }
    Ok(children)
}

/// Reads through a null pointer: dies of SIGSEGV the way broken C code does.
pub fn crash_by_segv() {
    // SAFETY: not sound on purpose. Page 0 is never mapped, so the read ends this process at this instruction,
    // which is what the caller asked for. `read_volatile` keeps the compiler from reasoning about it.
    let byte = unsafe { std::ptr::read_volatile(std::hint::black_box(std::ptr::null::<u8>())) };
    std::hint::black_box(byte);
}

/// Sends this process a signal that it cannot refuse.
pub fn crash_by_kill() {
    let _ = signal::raise(Signal::SIGKILL);
}

/// Sets the name that `ps` and `top` show for this thread (15 bytes at most).
pub fn set_name(name: &CStr) {
    let _ = rustix::thread::set_name(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted() {
        let listed = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || stopped.recv());
        // Other tests start threads beside this one: wait for a moment in which both readings agree.
        while own_threads().unwrap() != listed() {}
        assert!(own_threads().unwrap() >= 2);
        drop(stop);
        let _ = thread.join().unwrap();
    }

    #[test]
    fn a_process_with_threads_is_not_forked() {
        // The test runner's own main thread is the second one.
        let refused = fork(false, || 0).unwrap_err();
        assert!(matches!(refused, ForkError::Threaded { threads: 2.. }), "{refused}");
        assert!(refused.to_string().contains("use spawn or forkserver"));
    }

    /// A child of this test that executes a shell line. The pipe to it ends with it.
    fn shell(line: &str) -> Child {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("line");
        std::fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let (ours, theirs) = super::super::fds::stream_pair().unwrap();
        let program = Program::at(&path);
        let birth = Birth {
            program: &program,
            role: Role::Command,
            link: theirs,
            output: None,
            errors: None,
            own_group: true,
        };
        let child = loop {
            // Another test's fork may hold the file open for writing for a moment.
            match Child::spawn(Birth {
                link: birth.link.try_clone().unwrap(),
                output: None,
                errors: None,
                ..birth
            }) {
                Err(cause) if cause.kind() == io::ErrorKind::ExecutableFileBusy => {}
                other => break other.unwrap(),
            }
        };
        drop(birth);
        // The line says that it is there.
        let mut said = [0; 1];
        io::Read::read_exact(&mut std::fs::File::from(ours), &mut said).unwrap();
        child
    }

    #[test]
    fn a_death_tells_what_the_child_had_used() {
        let mut child = shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; printf . >&0; exit 7");
        let death = child.reap().unwrap();
        assert_eq!(death.exit, Exit::Code(7));
        assert!(death.cpu_ns > 1_000_000 && death.peak_rss > 100_000, "{death:?}");
        assert_eq!(child.reap().unwrap(), death, "it is told again");
    }

    #[test]
    fn a_stopped_child_can_still_be_asked_to_end() {
        let mut child =
            shell("trap 'exit 3' TERM; printf . >&0; kill -STOP $$; while :; do sleep 0.01; done");
        let stat = format!("/proc/{}/stat", child.pid());
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {}
        child.pidfd().terminate().unwrap();
        assert_eq!(child.wait().unwrap(), Exit::Code(3));
        assert!(child.pidfd().terminate().is_err(), "nobody is there any more");
    }

    #[test]
    fn what_a_group_leader_leaves_behind_ends_when_it_is_collected() {
        let mut child = shell("sleep 1000 & printf . >&0");
        let group = NixPid::from_raw(child.pid().raw());
        child.wait().unwrap();
        let begun = std::time::Instant::now();
        // A killed process is in its group until somebody has collected it, and that is not us.
        while signal::killpg(group, None).is_ok() {
            assert!(begun.elapsed() < std::time::Duration::from_secs(10), "the group lives on");
        }
    }
}
