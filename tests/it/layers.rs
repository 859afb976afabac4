//! The shape of the source: a module imports downwards only, and a few things live in one place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// From the bottom up. Modules of one line do not know each other.
const LAYERS: [&[&str]; 9] = [
    &["seed", "units", "role"],
    &["ids"],
    &["sys"],
    &["workload", "probe"],
    &["transport", "report"],
    &["fleet"],
    &["model"],
    &["lab"],
    &["cli"],
];

/// Files that decide and never look at a clock: time comes in as a value.
const PURE: [&str; 18] = [
    "fleet/engine/time.rs",
    "fleet/engine/token.rs",
    "fleet/output.rs",
    "fleet/policy/core.rs",
    "fleet/policy/intake.rs",
    "fleet/policy/leaving.rs",
    "fleet/policy/life.rs",
    "fleet/policy/queue.rs",
    "fleet/policy/restart.rs",
    "fleet/policy/slots.rs",
    "fleet/policy/task.rs",
    "lab/compare/answer.rs",
    "lab/compare/rounds.rs",
    "lab/compare/scaling.rs",
    "lab/compare/sizing.rs",
    "lab/compare/summary.rs",
    "lab/compare/verdict.rs",
    "probe/stats.rs",
];

/// A file longer than this is more than one thing.
const LONGEST: usize = 450;

fn sources() -> BTreeMap<String, String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                walk(&entry.path(), found);
            } else if entry.path().extension().is_some_and(|ext| ext == "rs") {
                found.push(entry.path());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&root, &mut found);
    let relative = |path: &PathBuf| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
    found.iter().map(|path| (relative(path), fs::read_to_string(path).unwrap())).collect()
}

/// What is compiled into the product: without tests and without comments.
fn code(text: &str) -> String {
    let product = text.split("#[cfg(test)]").next().unwrap_or("");
    product.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

fn rank(module: &str) -> usize {
    let rank = LAYERS.iter().position(|layer| layer.contains(&module));
    rank.unwrap_or_else(|| panic!("`{module}` is in no layer: give it one here and in ARCHITECTURE.md"))
}

#[test]
fn modules_import_downwards_only() {
    for (path, text) in sources() {
        let own = path.split(['/', '.']).next().unwrap().to_owned();
        if own == "lib" {
            continue;
        }
        for used in code(&text).split("crate::").skip(1) {
            let used: String =
                used.chars().take_while(|sign| sign.is_alphanumeric() || *sign == '_').collect();
            assert!(
                used == own || rank(&used) < rank(&own),
                "src/{path}: `{own}` imports `{used}`, which is not below it"
            );
        }
    }
}

#[test]
fn what_lives_in_one_place_lives_there_only() {
    let places = [
        ("clap::", "cli/"),
        ("bincode::", "transport/codec.rs"),
        ("tokio::", "model/tasks.rs"),
        ("unsafe {", "sys/"),
    ];
    for (path, text) in sources() {
        for (word, place) in places {
            let used = code(&text).lines().any(|line| line.contains(word) && !line.contains('"'));
            assert!(!used || path.starts_with(place), "src/{path} uses {word}, which belongs in src/{place}");
        }
    }
}

#[test]
fn policy_reads_no_clock() {
    let sources = sources();
    for path in PURE {
        let code = code(&sources[path]);
        // The type of a time is no look at a clock.
        let code = code.replace("clock::Nanos", "");
        for word in ["clock::", "Instant", "SystemTime", "std::process", "std::fs"] {
            assert!(!code.contains(word), "src/{path} uses {word}");
        }
    }
}

/// Somebody who sets the machine's clock makes no timer of a fleet fire early or late: none goes by that clock.
#[test]
fn c35_no_timer_goes_by_the_wall_clock() {
    for (path, text) in sources() {
        let runs_tasks =
            ["fleet/", "transport/", "sys/", "model/"].iter().any(|layer| path.starts_with(layer));
        for word in ["SystemTime", "unix_now", "ClockId::Realtime", "CLOCK_REALTIME"] {
            assert!(!runs_tasks || !code(&text).contains(word), "src/{path} uses {word}");
        }
    }
}

#[test]
fn no_file_is_longer_than_one_thing() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= LONGEST, "src/{path} has {lines} lines: is it one thing?");
    }
}

#[test]
fn the_users_card_is_kept_to() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["Cargo.toml", "src", "bin", "tests", "scripts", "README.md"] {
        assert!(root.join(name).exists(), "{name}");
    }
}
