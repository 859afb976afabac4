//! `fleet compare` from end to end: what it finds, and the document it makes.

use serde_json::Value;

use crate::rig::{Ended, Rig};

/// All models, small sizes: a whole comparison in a few seconds.
const SMALL: &[&str] = &["compare", "--workers", "1,2", "--rounds", "3", "--tasks", "16", "--seed", "7"];

/// With the sizes that the kinds of work take.
fn small(more: &[&str]) -> Ended {
    let asked = more.iter().position(|word| *word == "--workload").map(|at| more[at + 1]);
    let asks = |kinds: &[&str]| asked.is_none_or(|asked| asked.split(',').any(|kind| kinds.contains(&kind)));
    let size: &[&str] = if asks(&["cpu", "hash"]) { &["--task-size", "200us"] } else { &[] };
    let sleep: &[&str] = if asks(&["sleep"]) { &["--sleep", "2ms"] } else { &[] };
    Rig::new().fleet(&[SMALL, size, sleep, more].concat())
}

fn schema() -> Value {
    Rig::new().fleet(&["schema", "compare"]).expect(0).json()
}

#[track_caller]
fn is_valid(document: &Value) {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

#[test]
fn the_document_is_valid_and_whole() {
    let report = small(&["--format", "json"]).expect(0).json();
    is_valid(&report);
    assert_eq!(report["schema"], "fleet.compare/1");
    assert_eq!((&report["seed"], &report["interrupted"]), (&Value::from(7), &Value::from(false)));
    assert_eq!(report["design"]["rounds"], 3);
    let comparisons = report["comparisons"].as_array().unwrap();
    let names: Vec<&str> = comparisons.iter().map(|it| it["workload"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["cpu", "hash", "sleep"]);
    for comparison in comparisons {
        assert_eq!(
            (&comparison["workload"]["tasks"], &comparison["rounds"]),
            (&Value::from(16), &Value::from(3))
        );
        assert_eq!(comparison["workload"]["checksum_agreed"], true);
        let arms = comparison["arms"].as_array().unwrap();
        let ids: Vec<&str> = arms.iter().map(|arm| arm["id"].as_str().unwrap()).collect();
        let models = ["threads", "tasks", "fork", "spawn", "forkserver"];
        let named = models.iter().flat_map(|model| [format!("{model}@1"), format!("{model}@2")]);
        let expected: Vec<String> =
            ["serial".to_owned(), "serial#2".to_owned()].into_iter().chain(named).collect();
        assert_eq!(ids, expected);
        for arm in arms {
            is_measured(arm);
        }
    }
    // Positions within a round are all taken, each once, and not in the same order every time.
    let orders: Vec<Vec<u64>> = (0..5).map(|round| positions(&comparisons[0], round)).collect();
    for order in &orders {
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..12).collect::<Vec<u64>>());
    }
    assert!(orders.windows(2).any(|pair| pair[0] != pair[1]));
    assert!(report["metrics"]["sleep.threads@2.speedup"].is_f64(), "{}", report["metrics"]);
}

fn positions(comparison: &Value, round: usize) -> Vec<u64> {
    let arms = comparison["arms"].as_array().unwrap();
    arms.iter().map(|arm| arm["rounds"][round]["pos"].as_u64().unwrap()).collect()
}

fn is_measured(arm: &Value) {
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} in {arm}"));
    let rounds = arm["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 5, "two rounds of warm-up and three counted");
    assert_eq!(rounds.iter().filter(|round| round["warmup"] == true).count(), 2);
    assert!(number(&arm["wall_ns"]["min"]) <= number(&arm["wall_ns"]["p50"]));
    assert!(number(&arm["wall_ns"]["p50"]) <= number(&arm["wall_ns"]["max"]));
    assert!(number(&arm["cpu_ns_per_task"]["total"]) > 0.0);
    assert!(number(&arm["memory_bytes"]["pss_total"]) <= number(&arm["memory_bytes"]["rss_sum"]));
    assert!(number(&arm["memory_bytes"]["uss_total"]) <= number(&arm["memory_bytes"]["pss_total"]));
    let accounted = number(&arm["cost_ns_per_task"]["accounted"]);
    assert!((accounted - 1.0).abs() < 0.02, "{accounted} {arm}");
    let cost = &arm["cost_ns_per_task"];
    let parts =
        ["encode", "transport", "queue_wait", "compute", "reply", "decode"].map(|part| number(&cost[part]));
    let lanes_time: f64 =
        rounds.iter().filter(|round| round["warmup"] == false).map(|round| number(&round["wall_ns"])).sum();
    let lanes_time = lanes_time / 3.0 * number(&arm["workers"]) / 16.0;
    assert!((parts.iter().sum::<f64>() / lanes_time - 1.0).abs() < 0.02, "{parts:?} {lanes_time}");
    // 48 samples: half of them say something, one in a hundred does not.
    assert!(arm["latency"]["service_ns"]["p50"].is_u64() && arm["latency"]["service_ns"]["p99"].is_null());
    assert_eq!(arm["latency"]["service_ns"]["count"], 48);
}

#[test]
fn waiting_scales_with_workers_and_sleep_is_not_held_up_by_cpus() {
    let words =
        ["--workload", "sleep", "--sleep", "60ms", "--tasks", "8", "--workers", "8", "--format", "json"];
    let report = small(&words).expect(0).json();
    for model in ["threads", "tasks", "fork", "spawn", "forkserver"] {
        let speedup = report["metrics"][format!("sleep.{model}@8.speedup")].as_f64().unwrap();
        assert!(speedup > 2.5 && speedup < 8.5, "{model}: {speedup}");
    }
    assert!(report["comparisons"][0]["workload"]["cpu_bound_ratio"].as_f64().unwrap() < 0.2);
}

#[test]
fn serial_against_itself_is_neither_faster_nor_slower() {
    let mut wrong = 0;
    for seed in ["1", "2", "3", "4", "5"] {
        let words = [
            "compare",
            "-m",
            "serial",
            "-w",
            "cpu",
            "--rounds",
            "7",
            "--tasks",
            "20",
            "--task-size",
            "500us",
        ];
        let report =
            Rig::new().fleet(&[&words[..], &["--seed", seed, "--format", "json"]].concat()).expect(0).json();
        let control = &report["comparisons"][0]["arms"][1];
        assert_eq!(control["id"], "serial#2");
        wrong += usize::from(control["verdict"] == "faster" || control["verdict"] == "slower");
    }
    assert!(wrong <= 1, "{wrong} of 5");
}

#[test]
fn the_same_seed_is_the_same_work_and_the_same_order() {
    let run = |seed| {
        small(&["--workload", "cpu", "-m", "threads", "--format", "json", "--seed", seed]).expect(0).json()
    };
    let facts = |report: Value| {
        let comparison = report["comparisons"][0].clone();
        // The size follows from a measured speed; the order does not.
        (0..5).map(|round| positions(&comparison, round)).collect::<Vec<_>>()
    };
    let (one, again, other) = (facts(run("3")), facts(run("3")), facts(run("4")));
    assert_eq!(one, again);
    assert_ne!(one, other);
}

#[test]
fn more_workers_than_cpus_carry_a_caveat_and_sixty_four_work() {
    let words =
        ["--workload", "cpu", "--workers", "64", "--tasks", "128", "--rounds", "1", "--format", "json"];
    let report = small(&words).expect(0).json();
    for arm in report["comparisons"][0]["arms"].as_array().unwrap().iter().filter(|arm| arm["workers"] == 64)
    {
        assert_eq!(arm["state"], "measured", "{arm}");
        let caveats = arm["caveats"].to_string();
        assert!(caveats.contains("more workers than the") && caveats.contains("usable CPUs"), "{caveats}");
    }
}

#[test]
fn failed_arms_are_named_and_the_exit_code_tells() {
    let ended = small(&["--workload", "fault", "--fault", "abort@5", "--format", "json"]).expect(1);
    let report = ended.json();
    is_valid(&report);
    assert_eq!(report["comparisons"][0]["answer"]["code"], "NO_BASELINE");
    for arm in report["comparisons"][0]["arms"].as_array().unwrap() {
        assert_eq!(arm["state"], "failed");
        assert!(arm["error"].as_str().unwrap().contains("was killed by SIGABRT"), "{arm}");
    }
    assert!(ended.stderr.contains("fork@2 failed: task 5 (attempt 1): worker "), "{}", ended.stderr);
}

#[test]
fn arms_that_disagree_end_in_no_answer_and_their_own_code() {
    let ended = small(&["--workload", "fault", "--fault", "lie", "--format", "json"]).expect(5);
    let comparison = &ended.json()["comparisons"][0];
    assert_eq!(comparison["workload"]["checksum_agreed"], false);
    assert_eq!(
        (&comparison["answer"]["code"], &comparison["answer"]["arm"]),
        (&Value::from("DISAGREED"), &Value::Null)
    );
    let page = small(&["--workload", "fault", "--fault", "lie", "--format", "plain"]).expect(5).stdout;
    assert!(page.contains("DISAGREED  fault: the arms disagree on the checksum"), "{page}");
}

#[test]
fn without_a_verdict_the_code_tells_only_when_asked() {
    let words = ["--workload", "cpu", "-m", "threads", "--format", "json"];
    let report = small(&words).expect(0).json();
    is_valid(&report);
    // What else runs on the machine decides which of the two it is.
    let code = report["comparisons"][0]["answer"]["code"].as_str().unwrap().to_owned();
    assert!(code == "INDICATIVE" || code == "TOO_NOISY", "{code}");
    let ended = small(&[&words[..], &["--require-verdict"]].concat()).expect(4);
    assert_eq!(ended.json()["schema"], "fleet.compare/1", "the document is whole all the same");
}

#[test]
fn a_disturbed_machine_is_told_and_its_disturber_named() {
    let rig = Rig::new();
    let cpus = std::thread::available_parallelism().unwrap().get();
    let mut hogs: Vec<std::process::Child> =
        (0..2 * cpus).map(|_| rig.other("sh").args(["-c", "while :; do :; done"]).spawn().unwrap()).collect();
    let words = [
        "compare", "-w", "cpu", "-m", "threads", "-n", "2", "--rounds", "7", "--tasks", "60", "--format",
        "json",
    ];
    let ended = rig.fleet(&words);
    for hog in &mut hogs {
        hog.kill().unwrap();
        hog.wait().unwrap();
    }
    let report = ended.expect(0).json();
    is_valid(&report);
    let comparison = &report["comparisons"][0];
    assert_eq!(comparison["answer"]["code"], "TOO_NOISY", "{}", comparison["noise"]);
    assert!(comparison["noise"]["culprit"]["name"].is_string(), "{}", comparison["noise"]);
    assert!(comparison["noise"]["foreign_cpu_p50"].as_f64().unwrap() > 0.15);
    let lines = comparison["answer"]["lines"].to_string();
    assert!(lines.contains("CPU time of a task: serial "), "{lines}");
}
