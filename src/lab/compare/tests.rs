//! From made-up trials to the answer: what is said when, without a process or a clock.

use super::answer::answer;
use super::arm::Arm;
use super::measure::{Fate, Measured, Round, Track, Trial};
use super::report::{AnswerCode, Comparison};
use super::rounds::{Rounds, Stopped};
use super::sizing::{Request, Sized};
use super::summary::{paired_ratio, summarise};
use super::verdict::Verdict;
use super::{CompareReport, CompareSpec};
use crate::ids::{Digest, Lanes};
use crate::lab::trial::{TrialReport, Waterfall};
use crate::model::{LaneStart, Model};
use crate::probe::histogram::Histogram;
use crate::probe::host::Machine;
use crate::probe::memory::Memory;
use crate::probe::noise::Noise;
use crate::probe::usage::Usage;
use crate::report::{Charset, Paint, Report, Width};
use crate::seed::Seed;
use crate::units::Span;
use crate::workload::{Fault, FaultKind, Kind, Workload};

const TASKS: u64 = 100;

fn spec(rounds: usize) -> CompareSpec {
    let fault = Fault { kind: FaultKind::Abort, at: 3 };
    CompareSpec {
        requests: vec![Request { kind: Kind::Cpu, size: None, tasks: None, fault }],
        models: vec![Model::Serial, Model::Threads, Model::Fork],
        workers: [1, 2, 4].into_iter().filter_map(Lanes::new).collect(),
        rounds: Rounds::exactly(rounds),
        budget: None,
        margin: 0.05,
        confidence: 0.95,
        seed: Seed(7),
        argv: vec!["fleet".to_owned()],
    }
}

fn machine() -> Machine {
    let mut machine = Machine::read();
    (machine.usable_cpus, machine.online_cpus, machine.allowed_cpus, machine.quota_cpus) =
        (2, 2, vec![0, 1], None);
    machine
}

fn sized(workload: Workload) -> Sized {
    Sized { workload, tasks: TASKS, task_ns: 1e6, round_ns: 1e9, share_end: 1.0 }
}

fn quiet() -> Noise {
    Noise {
        foreign_cpu: 0.01,
        steal: 0.0,
        throttled_periods: None,
        pressure_us: Some(5),
        procs_running: 1,
        swapped_pages: Some(0),
        culprit: None,
    }
}

fn report(arm: Arm, wall: u64) -> TrialReport {
    let lanes = arm.lanes.get() as u64;
    let is_process = arm.model.isolates_crashes();
    let mut service = Histogram::default();
    (0..TASKS).for_each(|_| service.record(1_000_000));
    let compute = TASKS * 1_000_000;
    let transport = if is_process { TASKS * 10_000 } else { 0 };
    TrialReport {
        wall,
        usage: Usage { user_ns: compute, ..Usage::default() },
        starts: vec![LaneStart { to_first_instruction: 100_000, to_ready: 200_000 }; arm.lanes.get()],
        pool_ready: 300_000 * lanes,
        teardown: 100_000,
        memory: Memory {
            pss: (2 << 20) + if is_process { lanes << 20 } else { 0 },
            rss: 64 << 20,
            ..Memory::default()
        },
        processes: 1,
        service: service.buckets(),
        sojourn: service.buckets(),
        waterfall: Waterfall {
            compute,
            transport,
            queue_wait: (lanes * wall).saturating_sub(compute + transport),
            ..Waterfall::default()
        },
        digest: Digest(99),
        done: TASKS,
        failed: None,
    }
}

/// Rounds in which each arm takes what `wall` says, in milliseconds.
fn measured(rounds: usize, wall: impl Fn(Arm, usize) -> f64) -> Measured {
    let mut arms = spec(rounds).arms();
    arms.push(Arm::CONTROL);
    let tracks = arms.into_iter().map(|arm| {
        let trials = (0..rounds).map(|round| Trial {
            round,
            position: 0,
            report: report(arm, (wall(arm, round) * 1e6) as u64),
        });
        Track { arm, trials: trials.collect(), fate: Fate::Measured }
    });
    let all = vec![Round { warmup: false, noise: quiet() }; rounds];
    Measured { tracks: tracks.collect(), rounds: all, stopped: Stopped::Rounds }
}

/// A machine with two CPUs: threads share perfectly, forked workers nearly.
fn two_cpus(arm: Arm, round: usize) -> f64 {
    let drift = 1.0 + 0.02 * (round % 5) as f64;
    let lanes = arm.lanes.get().min(2) as f64;
    drift
        * match arm.model {
            Model::Serial => 100.0,
            Model::Fork => 103.0 / lanes,
            _ => 100.5 / lanes,
        }
}

const CPU: Workload = Workload::Cpu { iterations: 450_000 };

fn compared(measured: &Measured, workload: Workload) -> Comparison {
    let rounds = measured.rounds.len();
    summarise(&spec(rounds), &machine(), &sized(workload), measured)
}

fn page(measured: &Measured) -> String {
    let spec = spec(measured.rounds.len());
    let comparison = summarise(&spec, &machine(), &sized(CPU), measured);
    let report = CompareReport::new(&spec, machine(), vec![comparison], false, 0, 1);
    let paint = Paint { charset: Charset::Unicode, colour: false };
    report.document(Charset::Unicode).plain(Width::WIDEST, paint)
}

#[test]
fn the_fewest_workers_that_suffice_are_recommended() {
    let comparison = compared(&measured(15, two_cpus), CPU);
    let answer = &comparison.answer;
    assert_eq!((answer.code, answer.arm.as_deref()), (AnswerCode::VerdictOk, Some("threads@2")));
    assert_eq!(answer.sufficient_workers.get("threads"), Some(&2));
    assert_eq!(answer.sufficient_workers.get("fork"), Some(&2));
    assert_eq!(answer.alternatives, ["threads@4", "fork@2", "fork@4"]);
    let verdicts: Vec<_> = comparison.arms.iter().map(|arm| (arm.id.as_str(), arm.verdict)).collect();
    assert_eq!(verdicts[0], ("serial", None));
    assert_eq!(verdicts[1], ("serial#2", Some(Verdict::Equivalent)));
    assert_eq!(verdicts[2], ("threads@1", Some(Verdict::Equivalent)));
    assert_eq!(verdicts[3], ("threads@2", Some(Verdict::Faster)));
}

#[test]
fn the_answer_names_its_work_workers_interval_and_walls() {
    let page = page(&measured(15, two_cpus)).replace("\n         ", " ");
    let page = page
        .split('\n')
        .map(|line| line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "));
    let page = page.collect::<Vec<_>>().join("\n");
    assert!(
        page.contains(
            "ANSWER cpu: threads, 2 workers — 1.99× (95 % CI 1.99–1.99) faster than serial, wall p50 52.3 ms against 104 ms for 100 tasks"
        ),
        "{page}"
    );
    for words in [
        "why the task computes ",
        "you have 2 usable CPUs; handing a task over costs 0 % of running it",
        "more 4 workers are as fast (±5 %) and cost memory — nothing to gain above 2",
        "alt fork@2 is as fast (1.94×) and isolates crashes: 1.00 MiB for each worker, 600 µs until the pool is ready",
        "fork@2 breaks even with serial at 24.0 µs a task; it repays its start after 2 tasks like these",
        "a crash takes everything down",
        "threads@2 ★",
        "fork@2 ≈",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
}

#[test]
fn as_fast_is_said_only_of_what_the_rounds_show_to_be() {
    // Forked workers are sometimes 8 % slower than threads, sometimes 8 % faster.
    let swinging = |arm: Arm, round: usize| match arm.model {
        Model::Fork => two_cpus(arm, round) * if round.is_multiple_of(2) { 1.05 } else { 0.9 },
        _ => two_cpus(arm, round),
    };
    let page = page(&measured(15, swinging));
    assert!(page.contains("may be as fast (") && !page.contains("fork@2 is as fast"), "{page}");
}

#[test]
fn where_workers_take_turns_no_break_even_is_told() {
    let comparison = compared(&measured(15, two_cpus), CPU);
    let even = |id: &str| {
        let arm = comparison.arms.iter().find(|arm| arm.id == id).unwrap();
        arm.break_even.unwrap().task_ns
    };
    assert!(even("fork@2").is_some() && even("fork@4").is_none());
}

#[test]
fn fewer_tasks_than_workers_are_pointed_out() {
    let sized = Sized { tasks: 3, ..sized(CPU) };
    let comparison = summarise(&spec(15), &machine(), &sized, &measured(15, two_cpus));
    let doubts = comparison.answer.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("; ");
    assert!(doubts.contains("keep no more workers busy than that: --tasks 8 asks about 4"), "{doubts}");
}

#[test]
fn a_drift_that_all_arms_share_leaves_their_ratio_alone() {
    let drifting = measured(15, |arm, round| two_cpus(arm, round) * (1.0 + round as f64));
    let ratio = paired_ratio(&drifting, Arm::SERIAL, "threads@2".parse().unwrap(), 0.95).unwrap();
    assert!((ratio.lo - 1.99).abs() < 0.01 && (ratio.hi - 1.99).abs() < 0.01, "{ratio:?}");
}

#[test]
fn five_rounds_are_a_first_impression() {
    let comparison = compared(&measured(5, two_cpus), CPU);
    assert_eq!(comparison.answer.code, AnswerCode::Indicative);
    assert_eq!(comparison.answer.arm.as_deref(), Some("threads@2"));
}

#[test]
fn where_nothing_is_faster_serial_is_the_answer() {
    let comparison =
        compared(&measured(15, |arm, _| if arm.model == Model::Serial { 100.0 } else { 140.0 }), CPU);
    let answer = &comparison.answer;
    assert_eq!((answer.code, answer.arm.as_deref()), (AnswerCode::VerdictOk, Some("serial")));
    assert!(
        answer.headline.starts_with("serial — nothing is faster by more than 5\u{a0}%: wall p50"),
        "{}",
        answer.headline
    );
    assert!(
        comparison
            .arms
            .iter()
            .filter(|arm| arm.model != "serial")
            .all(|arm| arm.verdict == Some(Verdict::Slower))
    );
}

/// All intervals at once are wider than one alone: they may reach the baseline where its own verdict does not.
#[test]
fn the_baseline_is_not_recommended_where_something_is_settled_to_be_faster() {
    let mostly = |arm: Arm, round: usize| match arm.model {
        Model::Serial => 150.0,
        _ if round < 3 => 150.0,
        _ => 100.0,
    };
    let comparison = compared(&measured(15, mostly), CPU);
    assert!(
        comparison
            .arms
            .iter()
            .filter(|arm| arm.model != "serial")
            .all(|arm| arm.verdict == Some(Verdict::Faster))
    );
    assert_eq!(
        (comparison.answer.code, comparison.answer.arm.as_deref()),
        (AnswerCode::VerdictOk, Some("threads@1"))
    );
}

#[test]
fn an_advantage_within_its_own_noise_is_inconclusive_and_says_what_would_decide() {
    let shaky = |arm: Arm, round: usize| match (arm.model, round % 4) {
        (Model::Serial, _) => 100.0,
        (_, 0) => 80.0,
        (_, 1) => 112.0,
        (_, 2) => 90.0,
        _ => 105.0,
    };
    let comparison = compared(&measured(15, shaky), CPU);
    let answer = &comparison.answer;
    // Serial is within reach of the best, and takes no workers; but that nobody is faster is not settled.
    assert_eq!((answer.code, answer.arm.as_deref()), (AnswerCode::Inconclusive, Some("serial")));
    let needed: Vec<_> = comparison.arms.iter().filter_map(|arm| arm.rounds_needed).collect();
    assert!(!needed.is_empty() && needed.iter().all(|rounds| *rounds > 15), "{needed:?}");
}

#[test]
fn a_disturbed_machine_ranks_nothing_and_still_tells_cpu_time() {
    let mut noisy = measured(15, two_cpus);
    for round in &mut noisy.rounds {
        round.noise.foreign_cpu = 0.6;
        round.noise.culprit =
            Some(crate::probe::noise::Culprit { pid: 16408, name: "rustc".to_owned(), share: 0.6 });
    }
    let comparison = compared(&noisy, CPU);
    let answer = &comparison.answer;
    assert_eq!((answer.code, &answer.arm), (AnswerCode::TooNoisy, &None));
    assert!(answer.headline.contains("rustc (pid 16408) in 15 of 15 rounds"), "{}", answer.headline);
    let still_ok = answer.lines.iter().find(|line| line.label == "still ok").unwrap();
    assert!(still_ok.text.starts_with("CPU time of a task: serial"), "{still_ok:?}");
    assert!(comparison.arms.iter().skip(1).all(|arm| arm.verdict == Some(Verdict::TooNoisy)));
}

#[test]
fn a_control_that_differs_from_its_twin_ranks_nothing() {
    let uneven = |arm: Arm, round: usize| {
        if arm.control { 100.0 + 15.0 * (round % 3) as f64 } else { two_cpus(arm, 0) }
    };
    assert_eq!(compared(&measured(15, uneven), CPU).answer.code, AnswerCode::TooNoisy);
}

#[test]
fn arms_that_disagree_are_not_compared() {
    let mut lying = measured(15, two_cpus);
    lying.tracks[3].trials[4].report.digest = Digest(1);
    let answer = compared(&lying, CPU).answer;
    assert_eq!((answer.code, answer.arm), (AnswerCode::Disagreed, None));
}

#[test]
fn a_failed_arm_is_named_and_the_others_are_judged() {
    let mut failing = measured(15, two_cpus);
    let index = failing.tracks.iter().position(|track| track.arm.to_string() == "threads@2").unwrap();
    failing.tracks[index].fate =
        Fate::Failed("worker 0 (pid 1) was killed by SIGSEGV while running task 3".to_owned());
    failing.tracks[index].trials.truncate(3);
    let answer = compared(&failing, CPU).answer;
    assert_eq!(answer.arm.as_deref(), Some("fork@2"));
    assert!(
        answer
            .lines
            .iter()
            .any(|line| line.label == "doubt" && line.text.starts_with("threads@2 failed: worker 0"))
    );
}

#[test]
fn without_a_baseline_there_is_nothing_to_say() {
    let mut failing = measured(15, two_cpus);
    failing.tracks[0].trials.clear();
    failing.tracks[0].fate = Fate::Failed("its process was killed by SIGABRT".to_owned());
    let answer = compared(&failing, CPU).answer;
    assert_eq!(answer.code, AnswerCode::NoBaseline);
    assert!(answer.headline.contains("serial failed"), "{}", answer.headline);
}

#[test]
fn work_that_waits_may_have_more_workers_than_cpus() {
    let waiting = |arm: Arm, _: usize| 100.0 / arm.lanes.get() as f64;
    let mut measured = measured(15, waiting);
    for trial in measured.tracks.iter_mut().flat_map(|track| &mut track.trials) {
        trial.report.usage.user_ns = 1000;
    }
    let comparison = compared(&measured, Workload::Sleep { time: Span::from_millis(1) });
    assert_eq!(comparison.answer.arm.as_deref(), Some("threads@4"));
    let why = &comparison.answer.lines[0].text;
    assert!(why.starts_with("the task waits 100") && why.contains("workers may outnumber the CPUs"), "{why}");
    assert!(
        comparison.arms.iter().all(|arm| !arm.caveats.iter().any(|caveat| caveat.contains("usable CPUs")))
    );
}

#[test]
fn more_workers_than_cpus_carry_a_caveat_where_work_computes() {
    let comparison = compared(&measured(15, two_cpus), CPU);
    let caveats = |id: &str| comparison.arms.iter().find(|arm| arm.id == id).unwrap().caveats.clone();
    assert_eq!(caveats("threads@2"), Vec::<String>::new());
    assert_eq!(caveats("threads@4"), ["more workers than the 2 usable CPUs: they take turns"]);
}

#[test]
fn memory_of_one_more_worker_is_the_slope_and_parts_of_a_task_sum_up() {
    let comparison = compared(&measured(15, two_cpus), CPU);
    for arm in &comparison.arms {
        let accounted = arm.cost_ns_per_task.unwrap().accounted;
        assert!((accounted - 1.0).abs() < 0.02, "{} {accounted}", arm.id);
        if arm.model == "fork" {
            let marginal = arm.memory_bytes.unwrap().marginal_per_worker.unwrap();
            assert!((marginal - f64::from(1 << 20)).abs() < 1.0, "{marginal}");
        }
    }
    let again = answer(&spec(15), &machine(), &sized(CPU), &measured(15, two_cpus), &comparison);
    assert_eq!(again.headline, comparison.answer.headline);
}
