//! What fleet costs, as ratios against floors that are measured in the same run.
//!
//! The machine is shared, and its speed changes from second to second. So nothing is judged by itself: each pass takes
//! samples of a side of ours and of its floor, one after the other, and only their ratio is told, the median over the
//! passes. A floor is the same thing done barely: the loop without the pool, the fork without the fleet.
//!
//! | module | knows |
//! |---|---|
//! | `args` | what was typed |
//! | `passes` | how samples of several sides are taken in turns |
//! | `table` | what a ratio is, and its faces |
//! | `floors` | processes made barely |
//! | `starts`, `trip`, `command`, `harness` | what is measured, and by what |

mod args;
mod command;
mod floors;
mod harness;
mod passes;
mod starts;
mod table;
mod trip;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use fleet::fleet::Function;
use fleet::probe::noise::Reading;
use fleet::report::{self, Charset, Face, Paint, Width};
use fleet::sys::cpu::Cpus;
use fleet::sys::terminal;

use args::Args;
use table::Ratios;

/// Why there are no ratios.
type Failure = Box<dyn Error>;

fn main() -> ExitCode {
    // The fleets measured here have this program's own workers, which live and end in here.
    let echo = fleet::fleet::init(|registry| registry.function("echo", Ok::<u64, String>));
    let Some(args) = Args::read(std::env::args().skip(1)).transpose() else {
        // `cargo test --all-targets` passes by here; it asks whether the file builds, not how fast we are.
        say("nothing is measured without --bench: run scripts/bench");
        return ExitCode::SUCCESS;
    };
    match args.and_then(|args| run(&args, echo)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            say(&format!("error: {cause}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args, echo: Function<u64, u64>) -> Result<(), Failure> {
    let passes = args.passes;
    let cpus = Cpus::read();
    let before = Reading::take(&cpus.allowed)?;
    // What forks this process comes first, and what gives it threads last.
    let forks = starts::forked(passes)?;
    let spawns = starts::spawned(passes, &args.tiny)?;
    let trip = trip::rows(passes, echo)?;
    let help = command::help(passes)?;
    let compare = command::compare(passes)?;
    let harness = harness::rows(passes)?;
    let rows = [harness, compare, help, spawns, forks, trip].into_iter().flatten().collect();
    let noise = Reading::take(&cpus.allowed)?.since(&before, cpus.usable());
    let ratios = Ratios { rows, noise };

    let paint = Paint { charset: Charset::Unicode, colour: false };
    let page = report::render(&ratios, Face::Plain { width: Width::for_terminal(terminal::width()), paint })?;
    std::io::stdout().lock().write_all(page.as_bytes())?;
    if let Some(path) = &args.json {
        std::fs::write(path, report::render(&ratios, Face::Json)?)
            .map_err(|cause| format!("--json: cannot write `{}`: {cause}", path.display()))?;
    }
    Ok(())
}

/// Tells of progress, on standard error. Nobody may be listening; that is no reason to stop measuring.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
