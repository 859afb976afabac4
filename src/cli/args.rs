//! What may be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::exit;

/// Threads, async tasks or worker processes, and how many? Measures the answer on this machine.
#[derive(Debug, Parser)]
#[command(name = "fleet", version, max_term_width = 100, after_help = exit::TABLE, subcommand_required = true)]
#[command(arg_required_else_help = true, propagate_version = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Compare serial, threads, async tasks and worker processes on one kind of work
    #[command(after_long_help = EXAMPLES, args_override_self = true, allow_negative_numbers = true)]
    Compare(Box<CompareArgs>),
    /// Print the JSON schema of a result
    Schema {
        /// Of which command
        #[arg(default_value = "compare")]
        of: SchemaOf,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print a manual page, of fleet or of one of its commands
    Man {
        /// The command
        of: Option<String>,
    },
}

const EXAMPLES: &str = "\
Examples:
  fleet compare                                   cpu, hash and sleep on 1, 2, 4 … workers
  fleet compare --workload cpu --workers 1,2,4,8  one kind of work, these numbers of workers
  fleet compare --workload hash --task-size 64KiB smaller tasks: is shipping them worth it?
  fleet compare --workload sleep --sleep 20ms     tasks that wait
  fleet compare --rounds 3 --tasks 16             16 identical tasks, the median of 3 rounds
  fleet compare --quick                           a first impression, some 5 s for each kind of work
  fleet compare --format json -o result.json      everything, raw rounds included

How it measures: every arm (model × workers) runs once in each round, in a fresh process and in a
random order; serial runs twice, and its second run shows the machine's noise. Speed-ups are medians
of paired ratios with exact intervals. Two rounds are run before and not counted. A round counts as
disturbed above 5 % of the CPUs in other hands, above 1 % steal, or when a quota held it back.

Models:
  serial      one task after the other: the baseline
  threads     a fixed pool of threads on a bounded queue
  tasks       async tasks on tokio, N in flight; what computes, computes on the runtime's own
              threads, of which there are N, or as many as usable CPUs where those are fewer
  fork        worker processes forked from the caller
  spawn       worker processes executed afresh
  forkserver  worker processes forked from a clean, prepared zygote

Columns: speed-up over serial and its interval; wall p50, the median time of the whole batch with
the pool already up; p99 task, of the work itself (n/a below 1000 samples); CPU/task, user and
kernel, of all processes; total mem, PSS of all processes with their parent; +/worker, memory of one
more worker; start-up, until a worker is ready; ship/task, encoding, transport, reply and decoding.
Where more workers compute than there are CPUs they take turns, and p99 and ship/task contain the
turns of others.

Exit codes:
    0 ran · 1 failed · 2 usage · 4 no verdict (with --require-verdict) · 5 models disagreed
  130 interrupted · 143 terminated · 141 the reader of the output went away";

#[derive(Args, Debug)]
pub(super) struct CompareArgs {
    /// Kinds of work, by comma: cpu (integers in registers), hash (SHA-256 over a buffer), sleep
    /// (waits), fault (goes wrong on purpose)
    #[arg(short = 'w', long, value_name = "KIND,…", default_value = "cpu,hash,sleep")]
    pub(super) workload: String,

    /// Numbers of workers, by comma or as a range: 1,2,4 or 1-4 [default: 1, 2, 4 … up to twice the
    /// usable CPUs]
    #[arg(short = 'n', long, value_name = "N,…")]
    pub(super) workers: Option<String>,

    /// Models besides serial, by comma [default: all]
    #[arg(short = 'm', long, visible_alias = "model", value_name = "MODEL,…")]
    pub(super) models: Option<String>,

    /// Tasks in a batch [default: as many as the time allows]
    #[arg(long, value_name = "N")]
    pub(super) tasks: Option<String>,

    /// Size of a task: a time on one CPU (2ms), bytes to hash (64KiB) or iterations (1000000); for
    /// several kinds cpu=2ms,hash=64KiB [default: 1ms]
    #[arg(long, value_name = "SIZE")]
    pub(super) task_size: Option<String>,

    /// How long a sleep task waits [default: 50ms]
    #[arg(long, value_name = "TIME")]
    pub(super) sleep: Option<String>,

    /// What the fault workload does, and at which task: abort, segv, kill, exit, panic, error, hang
    /// or lie [default: abort@3]
    #[arg(long, value_name = "FAULT[@TASK]")]
    pub(super) fault: Option<String>,

    /// Count exactly so many rounds [default: 7 to 15, until the intervals are narrow]
    #[arg(short, long, value_name = "N", conflicts_with_all = ["quick", "rigorous"])]
    pub(super) rounds: Option<String>,

    /// Five short rounds: an indication, too few for a verdict
    #[arg(long, conflicts_with = "rigorous")]
    pub(super) quick: bool,

    /// Thirty rounds, long enough for the fastest arm, however long it takes
    #[arg(long)]
    pub(super) rigorous: bool,

    /// Time for everything; sizes are chosen to fit, and rounds stop when it is spent. A few rounds
    /// of every workload are run however little it is, and waits are not shortened [default: 30s for
    /// each kind of work, 5s with --quick, none with --rigorous or --rounds]
    #[arg(long, value_name = "TIME")]
    pub(super) budget: Option<String>,

    /// A difference below this does not matter: 5% or 0.05
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    pub(super) margin: String,

    /// How sure intervals are: 95% or 0.95
    #[arg(long, value_name = "PERCENT", default_value = "95%")]
    pub(super) confidence: String,

    /// Decides inputs and orders; printed, so that a run can be repeated [default: random]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<String>,

    /// Exit with 4 unless every workload got a verdict
    #[arg(long)]
    pub(super) require_verdict: bool,

    /// List every arm
    #[arg(long)]
    pub(super) all: bool,

    #[command(flatten)]
    pub(super) output: OutputArgs,
}

#[derive(Args, Debug)]
pub(super) struct OutputArgs {
    /// Form of the result; plain is the table without colour, 100 columns wide [default: by the
    /// ending of --output's FILE (.json, .csv, .md), else table]
    #[arg(short, long, value_name = "FORMAT", help_heading = "Output")]
    pub(super) format: Option<Format>,

    /// Where the result goes; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-", help_heading = "Output")]
    pub(super) output: PathBuf,

    /// How progress is told, on standard error
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = "Output")]
    pub(super) progress: ProgressHow,

    /// Tell no progress
    #[arg(short, long, conflicts_with = "progress", help_heading = "Output")]
    pub(super) quiet: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub(super) color: When,

    /// Use only ASCII signs
    #[arg(long, help_heading = "Output")]
    pub(super) ascii: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Fitted to the terminal
    Table,
    /// The table without colour, 100 columns wide
    Plain,
    /// Markdown
    Md,
    /// One row an arm
    Csv,
    /// Everything
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ProgressHow {
    /// A line that moves on a terminal, else a line a round
    Auto,
    /// A line a round
    Plain,
    /// A JSON object a line
    Json,
    /// Nothing
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    /// On a terminal, unless NO_COLOR says otherwise
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum SchemaOf {
    /// fleet compare --format json
    Compare,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }
}
