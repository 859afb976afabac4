//! Does what was asked, and says how it ended.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::args::{Cli, Command, CompareArgs, SchemaOf};
use super::exit::Exit;
use super::output::{OutputError, write_stdout};
use super::plan;
use super::progress::Progress;
use crate::lab::compare::{self, CompareError, CompareReport};
use crate::lab::isolate::Isolation;
use crate::sys::cpu::Cpus;
use crate::sys::process::Program;

/// The life of a command; returns its exit code.
pub fn main() -> u8 {
    command(std::env::args_os()).code()
}

fn command(words: impl IntoIterator<Item = OsString>) -> Exit {
    let words: Vec<OsString> = words.into_iter().collect();
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    let argv = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match cli.command {
        Command::Compare(args) => compare(&args, argv),
        Command::Schema { of: SchemaOf::Compare } => {
            let schema = schemars::schema_for!(CompareReport);
            match serde_json::to_string_pretty(&schema) {
                Ok(text) => printed(write_stdout(&(text + "\n"))),
                Err(error) => failed(&error),
            }
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "fleet", &mut script);
            printed(write_stdout(&String::from_utf8_lossy(&script)))
        }
        Command::Man { of } => manual(of.as_deref()),
    }
}

/// The page of the whole program, or of one of its commands.
fn manual(of: Option<&str>) -> Exit {
    let mut whole = Cli::command();
    // So that each command knows its full name.
    whole.build();
    let command = match of {
        None => Some(&whole),
        Some(name) => whole.find_subcommand(name),
    };
    let Some(command) = command else {
        let names: Vec<&str> =
            whole.get_subcommands().map(clap::Command::get_name).filter(|name| *name != "help").collect();
        let name = of.unwrap_or_default();
        return usage(&format!("`{name}` is not a command: {}", names.join(", ")));
    };
    let mut page = Vec::new();
    let source = concat!("fleet ", env!("CARGO_PKG_VERSION"));
    match clap_mangen::Man::new(command.clone()).source(source).render(&mut page) {
        Ok(()) => printed(write_stdout(&String::from_utf8_lossy(&page))),
        Err(error) => failed(&error),
    }
}

/// Help is an answer; everything else that clap has to say becomes one line.
fn explain(error: &clap::Error) -> Exit {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Ok(()) => Exit::Ran,
            Err(cause) => printed(Err(OutputError::Stdout(cause))),
        },
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Exit::Usage
        }
        _ => {
            let text = error.render().to_string();
            let said = text.lines().take_while(|line| !line.starts_with("Usage:"));
            let parts: Vec<&str> = said.map(str::trim).filter(|line| !line.is_empty()).collect();
            let parts = parts.into_iter().filter(|line| !line.starts_with("For more information"));
            complain(&parts.collect::<Vec<_>>().join("; "));
            Exit::Usage
        }
    }
}

fn compare(args: &CompareArgs, argv: Vec<String>) -> Exit {
    if let Err(cause) = std::fs::metadata("/proc/self/stat") {
        return usage(&format!("/proc cannot be read ({cause}): fleet measures through it; mount it first"));
    }
    let planned =
        args.plan(Cpus::read().usable(), argv).and_then(|spec| plan::check_room(&spec).map(|()| spec));
    let spec = match planned {
        Ok(spec) => spec,
        Err(error) => return usage(&error),
    };
    let output = match args.output.plan() {
        Ok(output) => output,
        Err(error) => return usage(&error),
    };
    let mut lab = match Isolation::heeding_wishes(Program::own()) {
        Ok(lab) => lab,
        Err(error) => return failed(&error),
    };
    let mut progress = Progress::new(&args.output);
    let mut report = match compare::run(&spec, &mut lab, &mut |event| progress.tell(event)) {
        Ok(report) => report,
        Err(CompareError::Size(error)) => return usage(&format!("--task-size: {error}")),
        Err(error) => return lab.wish().map_or_else(|| failed(&error), Exit::Interrupted),
    };
    if let Some(wish) = lab.wish()
        && report.comparisons.iter().all(|comparison| comparison.rounds == 0)
    {
        complain("interrupted before the first round was whole: nothing to show, nothing written");
        return Exit::Interrupted(wish);
    }
    report.all_arms = args.all;
    let written = printed(output.write(&report));
    match written {
        Exit::Ran => verdict(&report, args.require_verdict, &mut lab),
        broken => broken,
    }
}

fn verdict(report: &CompareReport, require_verdict: bool, lab: &mut Isolation) -> Exit {
    if let Some(wish) = lab.wish() {
        return Exit::Interrupted(wish);
    }
    let comparisons = &report.comparisons;
    if comparisons.iter().any(|comparison| !comparison.workload.checksum_agreed) {
        return Exit::Disagreed;
    }
    if report.any_failed() {
        return Exit::Failed;
    }
    let unsettled: Vec<&str> = comparisons
        .iter()
        .filter(|comparison| !comparison.answer.code.is_verdict())
        .map(|comparison| comparison.workload.name.as_str())
        .collect();
    if !require_verdict || unsettled.is_empty() {
        return Exit::Ran;
    }
    complain(&format!("no verdict for {}, and --require-verdict asks for one", unsettled.join(", ")));
    Exit::NoVerdict
}

fn printed(result: Result<(), OutputError>) -> Exit {
    match result {
        Ok(()) => Exit::Ran,
        Err(OutputError::Stdout(cause)) if cause.kind() == io::ErrorKind::BrokenPipe => Exit::BrokenPipe,
        Err(error) => failed(&error),
    }
}

fn usage(error: &dyn std::fmt::Display) -> Exit {
    complain(&format!("error: {error}"));
    Exit::Usage
}

fn failed(error: &dyn std::fmt::Display) -> Exit {
    complain(&format!("error: {error}"));
    Exit::Failed
}

fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
