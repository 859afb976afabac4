//! Ending early, politely or not: what was measured in whole rounds is told, and nothing is left.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::rig::{Rig, ended};

/// Long enough that it would not end by itself within a test.
const LONG: &[&str] = &[
    "compare",
    "-w",
    "sleep",
    "-m",
    "threads,fork,spawn,forkserver",
    "-n",
    "2",
    "--rounds",
    "500",
    "--tasks",
    "8",
    "--sleep",
    "20ms",
    "--progress",
    "json",
    "--format",
    "json",
];

/// Starts it, and waits until `event` has come `times` times on standard error, the rest of which nobody reads.
fn started(rig: &Rig, event: &str, times: usize) -> Child {
    told(rig.command(LONG), event, times)
}

fn told(mut command: Command, event: &str, times: usize) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let needle = format!("\"event\":\"{event}\"");
    for _ in 0..times {
        lines.find(|line| line.as_ref().unwrap().contains(&needle)).unwrap().unwrap();
    }
    std::thread::spawn(move || lines.for_each(drop));
    child
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id() as i32), signal).unwrap();
}

#[test]
fn the_first_wish_ends_it_with_a_result_of_whole_rounds() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let rig = Rig::new();
        let child = started(&rig, "round_done", 4);
        send(&child, signal);
        let report = ended(child).expect(code).json();
        rig.nothing_is_left();
        assert_eq!(report["interrupted"], true);
        let comparison = &report["comparisons"][0];
        assert_eq!(comparison["stopped"], "interrupted");
        let rounds = comparison["rounds"].as_u64().unwrap();
        assert!((2..500).contains(&rounds), "{rounds}");
        for arm in comparison["arms"].as_array().unwrap() {
            assert_eq!(
                arm["rounds"].as_array().unwrap().len() as u64,
                rounds + 2,
                "whole rounds only: {}",
                arm["id"]
            );
        }
    }
}

#[test]
fn a_wish_before_the_first_round_is_whole_shows_nothing_and_spares_an_older_result() {
    let rig = Rig::new();
    let file = rig.file("result.json");
    std::fs::write(&file, "from yesterday").unwrap();
    let mut command = rig.command(LONG);
    command.arg("-o").arg(&file);
    let child = told(command, "arm", 2);
    send(&child, Signal::SIGINT);
    assert_eq!(ended(child).expect(130).stdout, "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "from yesterday");
}

#[test]
fn the_second_wish_does_not_wait_for_the_arm_that_runs() {
    let rig = Rig::new();
    let mut command = rig.command(LONG);
    command.args(["--sleep", "30s", "--tasks", "2"]);
    let words: Vec<&str> =
        LONG.iter().copied().filter(|word| !["--sleep", "20ms", "--tasks", "8"].contains(word)).collect();
    let mut command = rig.command(&words);
    command.args(["--sleep", "30s", "--tasks", "2"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("\"event\":\"arm\"")).unwrap().unwrap();
    rig.eventually("an arm runs", || rig.alive().iter().any(|(_, name)| name == "fleet-lab").then_some(()));
    let begun = Instant::now();
    send(&child, Signal::SIGINT);
    // Two signals of one kind that are not taken yet are one: the second comes when the first has been.
    std::thread::sleep(Duration::from_millis(200));
    send(&child, Signal::SIGINT);
    ended(child).expect(130);
    assert!(begun.elapsed() < Duration::from_secs(10));
    rig.nothing_is_left();
}

/// The command reads its signals instead of obeying them; what it starts must obey, or nobody could end it politely.
#[test]
fn what_the_command_starts_has_no_signal_blocked() {
    let rig = Rig::new();
    let mut child = started(&rig, "round_done", 1);
    let seen = rig.eventually("a worker runs", || {
        let alive = rig.alive();
        let ours: Vec<_> = alive.into_iter().filter(|(_, name)| name.starts_with("fleet-")).collect();
        ours.iter().any(|(_, name)| name == "fleet-worker").then_some(ours)
    });
    for (pid, name) in seen {
        // Everything is blocked for an instant while a process is started, and it may have ended meanwhile.
        rig.eventually(&format!("{name} has no signal blocked"), || {
            let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return Some(()) };
            let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim();
            (blocked == "0000000000000000").then_some(())
        });
    }
    send(&child, Signal::SIGKILL);
    child.wait().unwrap();
}

#[test]
fn a_killed_command_leaves_no_process_behind() {
    for times in [1, 5, 9, 14] {
        let rig = Rig::new();
        let mut child = started(&rig, "arm", times);
        send(&child, Signal::SIGKILL);
        child.wait().unwrap();
        let begun = Instant::now();
        rig.nothing_is_left();
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
}
