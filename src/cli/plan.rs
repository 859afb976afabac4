//! From what was typed to what will be done.

use std::fmt::Display;
use std::str::FromStr;

use super::args::CompareArgs;
use crate::ids::Lanes;
use crate::lab::compare::{CompareSpec, Request, Rounds, Size};
use crate::model::Model;
use crate::seed::Seed;
use crate::sys::limits;
use crate::units::{Bytes, Span};
use crate::workload::{Fault, FaultKind, Kind};

/// A flag with a value that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{flag}: {what}")]
pub(super) struct PlanError {
    flag: &'static str,
    what: String,
}

fn wrong(flag: &'static str, what: impl Display) -> PlanError {
    PlanError { flag, what: what.to_string() }
}

fn read<T: FromStr<Err: Display>>(flag: &'static str, text: &str) -> Result<T, PlanError> {
    text.parse().map_err(|error| wrong(flag, error))
}

/// Each item once, in the order in which it came.
fn read_list<T: FromStr<Err: Display> + PartialEq>(
    flag: &'static str,
    text: &str,
) -> Result<Vec<T>, PlanError> {
    let mut list = Vec::new();
    for item in text.split(',') {
        let item = read(flag, item.trim())?;
        if !list.contains(&item) {
            list.push(item);
        }
    }
    Ok(list)
}

fn read_number(flag: &'static str, text: &str, least: u64, most: u64) -> Result<u64, PlanError> {
    let number = text.trim().parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| wrong(flag, format!("`{text}` is not possible: {least} to {most} allowed")))
}

/// More tasks than this say no more: histograms and medians have long settled.
const MOST_TASKS: u64 = 1_000_000;
/// More rounds than this would take days.
const MOST_ROUNDS: u64 = 1000;
/// For each kind of work.
const USUAL_BUDGET: Span = Span::from_secs(30);
const QUICK_BUDGET: Span = Span::from_secs(5);
/// With a fixed number of rounds the budget only sizes the tasks; nothing is cut short.
const NO_BUDGET: Option<Span> = None;

impl CompareArgs {
    /// What will be done, with every default taken.
    pub(super) fn plan(&self, usable_cpus: usize, argv: Vec<String>) -> Result<CompareSpec, PlanError> {
        let kinds: Vec<Kind> = read_list("--workload", &self.workload)?;
        let rounds = self.rounds()?;
        let mut models: Vec<Model> = match &self.models {
            Some(text) => read_list("--models", text)?,
            None => Model::ALL.to_vec(),
        };
        models.retain(|model| *model != Model::Serial);
        models.insert(0, Model::Serial);
        models.sort_unstable();
        let seed = match &self.seed {
            Some(text) => read("--seed", text)?,
            None => Seed((crate::probe::clock::unix_now() / 1_000_000) as u32),
        };
        Ok(CompareSpec {
            budget: self.budget(kinds.len() as u64)?,
            requests: self.requests(&kinds)?,
            models,
            workers: self.workers(usable_cpus)?,
            rounds,
            margin: read_share("--margin", &self.margin, 0.001, 1.0)?,
            confidence: read_share("--confidence", &self.confidence, 0.5, 0.999)?,
            seed,
            argv,
        })
    }

    fn rounds(&self) -> Result<Rounds, PlanError> {
        Ok(match (&self.rounds, self.quick, self.rigorous) {
            (Some(text), _, _) => Rounds::exactly(read_number("--rounds", text, 1, MOST_ROUNDS)? as usize),
            (None, true, _) => Rounds::QUICK,
            (None, _, true) => Rounds::RIGOROUS,
            _ => Rounds::DEFAULT,
        })
    }

    fn budget(&self, kinds: u64) -> Result<Option<Span>, PlanError> {
        let times = |span: Span| Some(Span(span.nanos() * kinds));
        match &self.budget {
            Some(text) => {
                let budget: Span = read("--budget", text)?;
                let possible = Span::from_secs(1)..=Span::from_secs(7 * 24 * 3600);
                if !possible.contains(&budget) {
                    return Err(wrong("--budget", format!("`{text}` is not possible: 1s to 168h allowed")));
                }
                Ok(Some(budget))
            }
            None if self.rigorous || self.rounds.is_some() => Ok(NO_BUDGET),
            None if self.quick => Ok(times(QUICK_BUDGET)),
            None => Ok(times(USUAL_BUDGET)),
        }
    }

    fn workers(&self, usable_cpus: usize) -> Result<Vec<Lanes>, PlanError> {
        const FLAG: &str = "--workers";
        let Some(text) = &self.workers else { return Ok(usual_workers(usable_cpus)) };
        let mut workers: Vec<Lanes> = Vec::new();
        for item in text.split(',') {
            match item.trim().split_once('-') {
                Some((from, to)) => {
                    let (from, to): (Lanes, Lanes) = (read(FLAG, from)?, read(FLAG, to)?);
                    if from > to {
                        return Err(wrong(FLAG, format!("`{item}` runs backwards: write {to}-{from}")));
                    }
                    workers.extend((from.get()..=to.get()).filter_map(Lanes::new));
                }
                None => workers.push(read(FLAG, item)?),
            }
        }
        workers.sort_unstable();
        workers.dedup();
        if workers.len() > MOST_WORKER_COUNTS {
            let what =
                format!("{} numbers of workers are too many: {MOST_WORKER_COUNTS} at most", workers.len());
            return Err(wrong(FLAG, what));
        }
        Ok(workers)
    }

    fn requests(&self, kinds: &[Kind]) -> Result<Vec<Request>, PlanError> {
        let tasks =
            self.tasks.as_ref().map(|text| read_number("--tasks", text, 1, MOST_TASKS)).transpose()?;
        let fault = match &self.fault {
            Some(text) => read("--fault", text)?,
            None => Fault { kind: FaultKind::Abort, at: 3 },
        };
        let sleep = self.sleep.as_ref().map(|text| read("--sleep", text).map(Size::Time)).transpose()?;
        let sizes = self.task_size.as_deref().map_or(Ok(Vec::new()), read_sizes)?;
        for (kind, _) in sizes.iter().filter_map(|(kind, size)| Some(((*kind)?, size))) {
            if !kinds.contains(&kind) {
                return Err(wrong("--task-size", format!("{kind} is not among the workloads")));
            }
        }
        let idle = |kind: Kind| format!("has no effect without --workload {kind}");
        if self.fault.is_some() && !kinds.contains(&Kind::Fault) {
            return Err(wrong("--fault", idle(Kind::Fault)));
        }
        if sleep.is_some() && !kinds.contains(&Kind::Sleep) {
            return Err(wrong("--sleep", idle(Kind::Sleep)));
        }
        if !sizes.is_empty() && !kinds.iter().any(|kind| kind.computes()) {
            return Err(wrong("--task-size", "has no effect on work that only waits; sleep has --sleep"));
        }
        let size_of = |kind: Kind| match kind {
            Kind::Sleep => sleep,
            Kind::Fault => None,
            kind => {
                let named = sizes.iter().find(|(name, _)| *name == Some(kind));
                named.or_else(|| sizes.iter().find(|(name, _)| name.is_none())).map(|(_, size)| *size)
            }
        };
        let request = |&kind: &Kind| {
            let flag = if kind == Kind::Sleep { "--sleep" } else { "--task-size" };
            let request = Request { kind, size: size_of(kind), tasks, fault };
            request.checked().map_err(|error| wrong(flag, error))
        };
        kinds.iter().map(request).collect()
    }
}

const MOST_WORKER_COUNTS: usize = 32;

/// 1, 2, 4 … up to twice the usable CPUs, and these themselves.
fn usual_workers(usable_cpus: usize) -> Vec<Lanes> {
    let doubling =
        std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|count| *count <= 2 * usable_cpus);
    let mut workers: Vec<Lanes> = doubling.chain([usable_cpus]).filter_map(Lanes::new).collect();
    workers.sort_unstable();
    workers.dedup();
    workers
}

/// `2ms`, `64KiB`, `1000000`, or `cpu=2ms,hash=64KiB`.
fn read_sizes(text: &str) -> Result<Vec<(Option<Kind>, Size)>, PlanError> {
    const FLAG: &str = "--task-size";
    let one = |item: &str| match item.split_once('=') {
        Some((kind, size)) => match read(FLAG, kind)? {
            kind @ (Kind::Cpu | Kind::Hash) => Ok((Some(kind), read_size(FLAG, size)?)),
            kind => {
                Err(wrong(FLAG, format!("{kind} is not sized here: cpu and hash are, sleep has --sleep")))
            }
        },
        None => Ok((None, read_size(FLAG, item)?)),
    };
    text.split(',').map(one).collect()
}

fn read_size(flag: &'static str, text: &str) -> Result<Size, PlanError> {
    if let Ok(iterations) = text.replace('_', "").parse() {
        return Ok(Size::Iterations(iterations));
    }
    if let Ok(time) = text.parse() {
        return Ok(Size::Time(time));
    }
    text.parse().map(Size::Bytes).map_err(|_| {
        wrong(
            flag,
            format!("`{text}` is not a size: a time (2ms), bytes (64KiB) or iterations (1000000) allowed"),
        )
    })
}

/// `5%` or `0.05`.
fn read_share(flag: &'static str, text: &str, least: f64, most: f64) -> Result<f64, PlanError> {
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.trim().parse(),
    };
    let possible = share.ok().filter(|share| (least..=most).contains(share));
    possible.ok_or_else(|| {
        let meant = text.trim().parse::<f64>().is_ok_and(|number| number > most);
        let meant = if meant { format!("; did you mean {}%?", text.trim()) } else { String::new() };
        let (least, most) = (least * 100.0, most * 100.0);
        wrong(flag, format!("`{text}` is not possible: {least}% to {most}% allowed{meant}"))
    })
}

/// Whether this machine has room for the largest arm.
pub(super) fn check_room(spec: &CompareSpec) -> Result<(), PlanError> {
    let most = spec.workers.iter().map(|lanes| lanes.get() as u64).max().unwrap_or(1);
    let uses_processes = spec.models.iter().any(|model| model.start().is_some());
    // A worker takes a link and a pidfd in the supervisor, and a pidfd in the zygote; the rest is ours.
    let descriptors = 24 + if uses_processes { 4 * most } else { 0 };
    // The lab process, a zygote, and a runtime's threads.
    limits::check(descriptors, most + 4)
        .map_err(|error| wrong("--workers", format!("{most} workers: {error}")))?;
    check_memory(spec, most, limits::available_memory())
}

/// Each executed worker holds the whole buffer of a `hash` task.
fn check_memory(spec: &CompareSpec, most: u64, available: Option<u64>) -> Result<(), PlanError> {
    let copies = if spec.models.contains(&Model::Spawn) { most } else { 1 };
    let buffers = spec.requests.iter().filter_map(|request| match request.size {
        Some(Size::Bytes(size)) if request.kind == Kind::Hash => Some(size.get()),
        _ => None,
    });
    let needed = Bytes(buffers.max().unwrap_or(0).saturating_mul(copies));
    match available {
        Some(available) if needed.get() > available => {
            let available = Bytes(available & !((1 << 20) - 1));
            let what = format!("{copies} copies take {needed} of memory, and {available} are available");
            Err(wrong("--task-size", what))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn plan(words: &str) -> Result<CompareSpec, PlanError> {
        let words = ["fleet", "compare"].into_iter().chain(words.split_ascii_whitespace());
        match super::super::args::Cli::try_parse_from(words).unwrap().command {
            super::super::args::Command::Compare(args) => args.plan(2, Vec::new()),
            other => panic!("{other:?}"),
        }
    }

    fn told(words: &str) -> String {
        plan(words).unwrap_err().to_string()
    }

    fn workers(words: &str) -> Vec<usize> {
        plan(words).unwrap().workers.into_iter().map(Lanes::get).collect()
    }

    #[test]
    fn nothing_said_means_all_kinds_all_models_and_up_to_twice_the_cpus() {
        let spec = plan("").unwrap();
        assert_eq!(spec.requests.iter().map(|request| request.kind).collect::<Vec<_>>(), Kind::MEASURED);
        assert_eq!(spec.models, Model::ALL);
        assert_eq!(workers(""), [1, 2, 4]);
        assert_eq!(usual_workers(6).into_iter().map(Lanes::get).collect::<Vec<_>>(), [1, 2, 4, 6, 8]);
        assert_eq!((spec.budget, spec.rounds), (Some(Span::from_secs(90)), Rounds::DEFAULT));
        assert_eq!((spec.margin, spec.confidence), (0.05, 0.95));
    }

    #[test]
    fn lists_and_ranges_of_workers_are_sorted_and_each_number_is_there_once() {
        assert_eq!(workers("--workers 8,1,2,2"), [1, 2, 8]);
        assert_eq!(workers("--workers 1-4,8"), [1, 2, 3, 4, 8]);
    }

    #[test]
    fn the_baseline_is_always_among_the_models() {
        assert_eq!(
            plan("--models fork,threads").unwrap().models,
            [Model::Serial, Model::Threads, Model::Fork]
        );
        assert_eq!(plan("--models serial").unwrap().models, [Model::Serial]);
    }

    #[test]
    fn sizes_go_to_the_kinds_they_name() {
        let sizes = |words: &str| {
            plan(words).unwrap().requests.iter().map(|request| request.size).collect::<Vec<_>>()
        };
        let time = |millis| Some(Size::Time(Span::from_millis(millis)));
        assert_eq!(sizes("--task-size 2ms --sleep 20ms"), [time(2), time(2), time(20)]);
        assert_eq!(sizes("--workload cpu,hash --task-size cpu=2ms,hash=3ms"), [time(2), time(3)]);
        assert_eq!(sizes("--workload cpu --task-size 5_000"), [Some(Size::Iterations(5000))]);
    }

    #[test]
    fn buffers_that_memory_cannot_hold_are_refused() {
        let spec = plan("--workload hash --task-size 1GiB --workers 8").unwrap();
        assert_eq!(check_memory(&spec, 8, Some(16 << 30)), Ok(()));
        assert_eq!(check_memory(&spec, 8, None), Ok(()));
        assert_eq!(
            check_memory(&spec, 8, Some(4 << 30)).unwrap_err().to_string(),
            "--task-size: 8 copies take 8GiB of memory, and 4GiB are available"
        );
        let threads = plan("--workload hash --task-size 1GiB --workers 8 --models threads").unwrap();
        assert_eq!(check_memory(&threads, 8, Some(4 << 30)), Ok(()));
    }

    #[test]
    fn a_fixed_number_of_rounds_has_no_budget_unless_one_is_given() {
        assert_eq!(plan("--rounds 3").unwrap().budget, None);
        assert_eq!(plan("--rounds 3 --budget 10s").unwrap().budget, Some(Span::from_secs(10)));
        assert_eq!(plan("--quick --workload cpu").unwrap().budget, Some(QUICK_BUDGET));
    }

    #[test]
    fn what_cannot_be_is_refused_by_flag_with_what_is_allowed() {
        assert_eq!(told("--workers 0"), "--workers: `0` is not a number of workers: 1 to 1024 allowed");
        assert_eq!(
            told("--workers 1,9999"),
            "--workers: `9999` is not a number of workers: 1 to 1024 allowed"
        );
        assert_eq!(told("--workers 4-2"), "--workers: `4-2` runs backwards: write 2-4");
        assert_eq!(told("--workers 1-99"), "--workers: 99 numbers of workers are too many: 32 at most");
        assert_eq!(told("--workload gpu"), "--workload: `gpu` is not a workload: cpu, hash, sleep or fault");
        assert!(told("--models asyncio").starts_with("--models: `asyncio` is not a model: serial, threads"));
        assert_eq!(told("--tasks 0"), "--tasks: `0` is not possible: 1 to 1000000 allowed");
        assert_eq!(told("--rounds 0"), "--rounds: `0` is not possible: 1 to 1000 allowed");
        assert!(told("--sleep 5").starts_with("--sleep: `5` needs a unit: one of ns"));
        assert!(told("--task-size huge").starts_with("--task-size: `huge` is not a size: a time (2ms)"));
        assert_eq!(
            told("--workload cpu --task-size hash=2ms"),
            "--task-size: hash is not among the workloads"
        );
        assert!(told("--task-size sleep=2ms").contains("sleep has --sleep"));
        assert_eq!(told("--margin 200%"), "--margin: `200%` is not possible: 0.1% to 100% allowed");
        assert!(told("--margin 5").ends_with("0.1% to 100% allowed; did you mean 5%?"));
        assert_eq!(told("--budget 1ms"), "--budget: `1ms` is not possible: 1s to 168h allowed");
        assert_eq!(told("--seed x"), "--seed: `x` is not a seed: 0 to 4294967295 allowed");
        assert!(told("--fault rust").starts_with("--fault: `rust` is not a fault: abort, segv"));
    }

    #[test]
    fn an_option_that_would_do_nothing_is_refused() {
        assert_eq!(told("--workload cpu --fault segv"), "--fault: has no effect without --workload fault");
        assert_eq!(told("--workload cpu --sleep 20ms"), "--sleep: has no effect without --workload sleep");
        assert!(
            told("--workload sleep --task-size 2ms")
                .starts_with("--task-size: has no effect on work that only waits")
        );
    }
}
