//! The command line: help, faces, streams, and every way to ask wrongly.

use crate::rig::{Ended, Rig};

const TINY: &[&str] = &[
    "compare",
    "-w",
    "cpu",
    "-m",
    "threads,fork",
    "-n",
    "2",
    "--rounds",
    "1",
    "--tasks",
    "8",
    "--task-size",
    "100us",
    "--seed",
    "7",
];

fn tiny(more: &[&str]) -> Ended {
    Rig::new().fleet(&[TINY, more].concat())
}

#[track_caller]
fn refused(words: &[&str], said: &str) {
    let ended = Rig::new().fleet(words).expect(2);
    assert_eq!(
        (ended.stderr.as_str(), ended.stdout.as_str()),
        (format!("error: {said}\n").as_str(), ""),
        "{words:?}"
    );
}

#[test]
fn every_way_to_ask_wrongly_gets_one_line_that_names_the_flag_and_what_is_allowed() {
    let compare =
        |flag: &'static str, value: &'static str, said: &str| refused(&["compare", flag, value], said);
    compare("--workers", "0", "--workers: `0` is not a number of workers: 1 to 1024 allowed");
    compare("--workers", "1,99999", "--workers: `99999` is not a number of workers: 1 to 1024 allowed");
    compare("--workers", "1-", "--workers: `` is not a number of workers: 1 to 1024 allowed");
    compare("--workload", "gpu", "--workload: `gpu` is not a workload: cpu, hash, sleep or fault");
    compare("--workload", "", "--workload: `` is not a workload: cpu, hash, sleep or fault");
    compare(
        "--models",
        "asyncio",
        "--models: `asyncio` is not a model: serial, threads, tasks, fork, spawn or forkserver",
    );
    compare("--tasks", "-1", "--tasks: `-1` is not possible: 1 to 1000000 allowed");
    compare(
        "--tasks",
        "99999999999999999999",
        "--tasks: `99999999999999999999` is not possible: 1 to 1000000 allowed",
    );
    compare("--rounds", "0", "--rounds: `0` is not possible: 1 to 1000 allowed");
    compare("--seed", "-3", "--seed: `-3` is not a seed: 0 to 4294967295 allowed");
    compare("--sleep", "1h", "--sleep: a sleep task of 1h is not possible: 1ns to 1min allowed");
    compare("--sleep", "20", "--sleep: `20` needs a unit: one of ns, us, ms, s, min, h");
    compare(
        "--task-size",
        "99999999TiB",
        "--task-size: `99999999TiB` is not a size: a time (2ms), bytes (64KiB) or iterations (1000000) allowed",
    );
    compare(
        "--task-size",
        "hash=2GiB",
        "--task-size: a hash task of 2GiB is not possible: 1B to 1GiB allowed",
    );
    compare(
        "--task-size",
        "sleep=1s",
        "--task-size: sleep is not sized here: cpu and hash are, sleep has --sleep",
    );
    compare("--margin", "0", "--margin: `0` is not possible: 0.1% to 100% allowed");
    compare("--confidence", "100%", "--confidence: `100%` is not possible: 50% to 99.9% allowed");
    compare("--budget", "0s", "--budget: `0s` is not possible: 1s to 168h allowed");
    compare(
        "--fault",
        "meteor",
        "--fault: `meteor` is not a fault: abort, segv, kill, exit, panic, error, hang or lie",
    );
    compare(
        "--format",
        "xml",
        "invalid value 'xml' for '--format <FORMAT>'; [possible values: table, plain, md, csv, json]",
    );
    compare(
        "--wrokers",
        "2",
        "unexpected argument '--wrokers' found; tip: a similar argument exists: '--workers'",
    );
    refused(
        &["compare", "--workload", "cpu", "--task-size", "64KiB"],
        "--task-size: a cpu task cannot be sized by bytes: give iterations (1000000) or a time (2ms)",
    );
    refused(
        &["compare", "--quick", "--rounds", "3"],
        "the argument '--quick' cannot be used with '--rounds <N>'",
    );
    refused(&["frobnicate"], "unrecognized subcommand 'frobnicate'");
}

#[test]
fn an_output_that_cannot_be_written_is_told_before_anything_is_measured() {
    let ended = tiny(&["-o", "/no/such/folder/result.txt"]).expect(2);
    assert_eq!(
        ended.stderr,
        "error: --output: cannot write `/no/such/folder/result.txt`: No such file or directory (os error 2)\n"
    );
    let ended = tiny(&["-o", "/proc"]).expect(2);
    assert!(ended.stderr.starts_with("error: --output: cannot write `/proc`: "), "{}", ended.stderr);
}

#[test]
fn a_result_goes_to_its_file_and_nowhere_else() {
    let rig = Rig::new();
    let ended = rig.fleet(&[TINY, &["--format", "json", "-o", "result.json"]].concat()).expect(0);
    assert_eq!(ended.stdout, "");
    let text = std::fs::read_to_string(rig.file("result.json")).unwrap();
    assert!(text.contains("fleet.compare/1") && text.ends_with("}\n"));
}

#[test]
fn the_ending_of_the_file_says_its_form_unless_a_format_is_given() {
    let rig = Rig::new();
    let start = |name: &str, more: &[&str]| {
        rig.fleet(&[TINY, &["-o", name], more].concat()).expect(0);
        std::fs::read_to_string(rig.file(name)).unwrap().chars().take(8).collect::<String>()
    };
    assert!(start("a.json", &[]).starts_with('{'));
    assert!(start("a.csv", &[]).starts_with("workload"));
    assert!(start("a.txt", &[]).starts_with("compare"));
    assert!(start("b.json", &["--format", "plain"]).starts_with("compare"));
}

#[test]
fn a_manual_page_exists_for_each_command() {
    let page = |words: &[&str]| Rig::new().fleet(words).expect(0).stdout;
    assert!(page(&["man"]).contains("fleet\\-compare"));
    assert!(page(&["man", "compare"]).contains("\\-\\-workload"));
    refused(&["man", "frob"], "`frob` is not a command: compare, schema, completions, man");
}

#[test]
fn a_disk_that_fills_up_loses_nothing() {
    let ended = tiny(&["--format", "json", "-o", "/dev/full"]).expect(1);
    assert_eq!(ended.json()["schema"], "fleet.compare/1", "what did not fit is on standard output");
    let last = ended.stderr.lines().last().unwrap();
    assert_eq!(last, "error: --output: cannot write `/dev/full`: No space left on device (os error 28)");
}

#[test]
fn a_reader_that_goes_away_is_no_failure_and_no_backtrace() {
    let rig = Rig::new();
    let mut command = rig.command(&[TINY, &["--quiet"]].concat());
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = crate::rig::ended(child).expect(141);
    assert_eq!(ended.stderr, "");
}

#[test]
fn the_faces_agree_and_each_is_what_it_says() {
    let csv = tiny(&["--format", "csv"]).expect(0).stdout;
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 5, "a head, serial twice and two arms: {csv}");
    assert_eq!(rows[0], fleet::lab::compare::COLUMNS);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
    assert_eq!(
        rows.iter().map(|row| row[1]).collect::<Vec<_>>(),
        ["arm", "serial", "serial#2", "threads@2", "fork@2"]
    );
    let markdown = tiny(&["--format", "md"]).expect(0).stdout;
    assert!(markdown.contains("- **compare** cpu") && markdown.contains("| arm | speed-up |"), "{markdown}");
}

#[test]
fn no_line_is_wider_than_a_hundred_columns() {
    let page = tiny(&["--format", "plain", "--all"]).expect(0).stdout;
    for line in page.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert!(page.contains("ship/task") || page.contains("start-up"), "{page}");
}

const ESCAPE: char = '\u{1b}';

#[test]
fn colour_is_for_those_who_see_it() {
    assert!(!tiny(&[]).expect(0).stdout.contains(ESCAPE), "not into a pipe");
    assert!(tiny(&["--color", "always"]).expect(0).stdout.contains(ESCAPE));
    let with = |name: &str, value: &str| {
        let rig = Rig::new();
        let mut command = rig.command(TINY);
        command.env(name, value);
        rig.run(command).expect(0)
    };
    let forced = with("CLICOLOR_FORCE", "1");
    assert!(forced.stdout.contains(ESCAPE) && !forced.stderr.contains(ESCAPE));
    let plain = with("NO_COLOR", "1");
    assert!(!plain.stdout.contains(ESCAPE) && !plain.stderr.contains(ESCAPE));
}

#[test]
fn ascii_means_ascii() {
    let page = tiny(&["--ascii"]).expect(0).stdout;
    assert!(page.is_ascii() && page.contains("speed-up") && !page.contains('?'), "{page}");
    let rig = Rig::new();
    let mut command = rig.command(TINY);
    command.env("TERM", "dumb");
    assert!(rig.run(command).expect(0).stdout.is_ascii());
}

#[test]
fn progress_goes_to_standard_error_in_the_form_asked_for() {
    let lines = tiny(&["--progress", "plain"]).expect(0).stderr;
    assert!(lines.contains("plan: cpu 8 tasks × ") && lines.contains("cpu round 3/3 · "), "{lines}");
    let events = tiny(&["--progress", "json"]).expect(0).stderr;
    let events: Vec<serde_json::Value> =
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["event"], "calibrating");
    assert_eq!(events.iter().filter(|event| event["event"] == "round_done").count(), 3);
    assert_eq!(events.iter().filter(|event| event["event"] == "arm").count(), 12);
    assert_eq!(tiny(&["--quiet"]).expect(0).stderr, "");
}

#[test]
fn help_has_examples_and_the_exit_codes_and_asking_nothing_is_asking_for_help() {
    let rig = Rig::new();
    let help = rig.fleet(&["--help"]).expect(0).stdout;
    assert!(help.contains("Exit codes:") && help.contains("compare"), "{help}");
    let compare = rig.fleet(&["compare", "--help"]).expect(0).stdout;
    for words in [
        "Examples:",
        "fleet compare --rounds 3 --tasks 16",
        "Exit codes:",
        "--workers <N,…>",
        "[default: 50ms]",
    ] {
        assert!(compare.contains(words), "{words}: {compare}");
    }
    let nothing = rig.fleet(&[]).expect(2);
    assert!(nothing.stdout.is_empty() && nothing.stderr.contains("Usage: fleet"));
    assert_eq!(rig.fleet(&["--version"]).expect(0).stdout, format!("fleet {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn shells_and_man_are_served() {
    let rig = Rig::new();
    assert!(rig.fleet(&["completions", "bash"]).expect(0).stdout.contains("complete -F"));
    assert!(rig.fleet(&["man"]).expect(0).stdout.contains(".TH fleet 1"));
}
