//! What a process pool must do, a check at a time, each under every start method where that makes a difference.
//!
//! This program is its own worker program, and each check runs in a process of its own: it may crash, run out of
//! descriptors or be stopped without harm to the others, and a fork needs a process without threads. What is common to
//! all checks is asserted for each: every accepted task has ended, no process, descriptor or file is left, and nothing
//! unexpected was written to standard error.

mod data;
mod deaths;
mod ground;
mod queue;
mod retries;
mod script;
mod times;

use std::io::Write;
use std::process::ExitCode;

use fleet::fleet::Start;
use libtest_mimic::{Arguments, Trial};

use ground::{Check, Ground};

const GROUPS: [&[Check]; 5] = [deaths::CHECKS, retries::CHECKS, queue::CHECKS, times::CHECKS, data::CHECKS];

fn main() -> ExitCode {
    let functions = fleet::fleet::init(script::register);
    let words: Vec<String> = std::env::args().collect();
    if let [_, word, name, start] = &words[..]
        && word == ground::SCENARIO
    {
        let check = checks().find(|check| check.name == name).expect("a check of this name");
        let ground = Ground::new(start.parse().expect("a start method"), functions);
        (check.run)(&ground);
        ground.nothing_is_left();
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // Each check has some processes of its own, and some of them look at the clock.
    arguments.test_threads.get_or_insert(2);
    libtest_mimic::run(&arguments, checks().flat_map(trials).collect()).exit_code()
}

fn checks() -> impl Iterator<Item = &'static Check> {
    GROUPS.into_iter().flatten()
}

/// The check under each start method.
fn trials(check: &'static Check) -> Vec<Trial> {
    let skipped = (check.skipped)();
    if let Some(why) = &skipped {
        let _ = writeln!(std::io::stderr(), "skipped: {}: {why}", check.name);
    }
    let starts = if check.once { &Start::ALL[2..] } else { &Start::ALL[..] };
    let trial = |start: &Start| {
        let start = *start;
        Trial::test(format!("{}::{start}", check.name), move || Ok(ground::run(check, start)?))
            .with_ignored_flag(skipped.is_some())
    };
    starts.iter().map(trial).collect()
}
