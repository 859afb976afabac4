//! What the command costs besides what it measures.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use fleet::probe::clock;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::passes::{Samples, Side, interleaved};
use crate::table::Row;
use crate::{Failure, say};

const FLEET: &str = env!("CARGO_BIN_EXE_fleet");

/// Commands of each kind in a pass.
const COMMANDS: usize = 30;

/// A command that has nothing to do, by a program that does nothing.
pub(crate) fn help(passes: usize) -> Result<Vec<Row>, Failure> {
    say("asking for help …");
    let sides: [Side<'_>; 2] = [&mut || wall(FLEET, &["--help"]), &mut || wall("/bin/true", &[])];
    let [help, nothing] = interleaved(passes, COMMANDS, sides)?;
    Ok(vec![
        Row::typical("--help", &help, "/bin/true", &nothing).at_most(2.0),
        Row::best("--help, best", &help, "/bin/true", &nothing),
    ])
}

/// A comparison that takes some seconds, of which the command itself should sleep nearly all.
const COMPARE: &str = "compare --workload cpu --models threads --workers 1,2 --rounds 5 --tasks 100 --task-size 2ms \
                       --quiet --format json --output /dev/null";

/// CPU time of the process of `fleet compare`, without its children, by its wall time.
pub(crate) fn compare(passes: usize) -> Result<Vec<Row>, Failure> {
    let words: Vec<&str> = COMPARE.split(' ').collect();
    let (mut own, mut walls) = (Samples::default(), Samples::default());
    for pass in 1..=passes {
        say(&format!("comparing, {pass}/{passes} …"));
        let begun = clock::now();
        let mut child = start(Path::new(FLEET), &words)?;
        let used = cpu_of_ended(&child)?;
        own.push_pass(used as f64);
        walls.push_pass((clock::now() - begun) as f64);
        expect_success(&mut child)?;
    }
    Ok(vec![Row::typical("compare: own CPU", &own, "wall time", &walls).at_most(0.02)])
}

fn start(program: &Path, words: &[&str]) -> Result<Child, Failure> {
    Ok(Command::new(program).args(words).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?)
}

fn wall(program: &str, words: &[&str]) -> Result<f64, Failure> {
    let begun = clock::now();
    let mut child = start(Path::new(program), words)?;
    expect_success(&mut child)?;
    Ok((clock::now() - begun) as f64)
}

fn expect_success(child: &mut Child) -> Result<(), Failure> {
    let status = child.wait()?;
    if status.success() { Ok(()) } else { Err(format!("a command failed: {status}").into()) }
}

/// CPU time in nanoseconds of a child with one thread, once it has ended. Its accounts stand until it is reaped; what
/// `wait4` would say counts its children too.
fn cpu_of_ended(child: &Child) -> Result<u64, Failure> {
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)?;
    let accounts = std::fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    let used = accounts.split_ascii_whitespace().next().ok_or("this kernel keeps no schedstat")?;
    Ok(used.parse()?)
}
