//! Every example in the README works.

use crate::rig::{FLEET, Rig};

/// The lines after `$ ` in the README's `console` blocks.
fn examples() -> Vec<String> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let blocks = text.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines = blocks.flat_map(|block| block.lines().filter_map(|line| line.strip_prefix("$ ")));
    lines.map(str::to_owned).collect()
}

/// What a line of the README means here: the program under test, and comparisons cut to one short round.
fn here(line: &str) -> String {
    let line = line.replace("cargo run --release -- ", "fleet ").replace("fleet ", &format!("{FLEET} "));
    // In front, so that what the line says itself comes later and counts.
    let sleeps = line.contains("sleep") || !line.contains("--workload");
    let short = format!(" --rounds 1 --budget 1s {} ", if sleeps { "--sleep 2ms" } else { "" });
    match line.split_once(&format!("{FLEET} compare")) {
        None => line,
        Some((program, rest)) => {
            let rest = rest.replace("--quick", "").replace("--rigorous", "").replace("--rounds 3", "");
            format!("{program} {FLEET} compare{short}{rest}")
        }
    }
}

#[test]
fn every_example_of_the_readme_runs() {
    let examples = examples();
    let ours: Vec<&String> =
        examples.iter().filter(|line| line.contains("fleet") || line.contains("-- ")).collect();
    assert!(ours.len() >= 5, "{examples:?}");
    for line in ours {
        let rig = Rig::new();
        let mut command = rig.other("sh");
        command.args(["-c", &here(line)]);
        let ended = rig.run(command);
        assert_eq!(ended.code, Some(0), "{line}: {ended:?}");
    }
}

#[test]
fn the_two_commands_of_the_promise_are_there() {
    let examples = examples();
    for command in
        ["cargo run --release -- compare --workload cpu,hash,sleep --workers 1,2,4,8", "scripts/test"]
    {
        assert!(examples.iter().any(|line| line == command), "{command}: {examples:?}");
    }
}

#[test]
fn the_readme_names_every_exit_code() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    for code in ["| 0 |", "| 1 |", "| 2 |", "| 4 |", "| 5 |", "| 130 |", "| 143 |", "| 141 |"] {
        assert!(text.contains(code), "{code}");
    }
}

#[test]
fn every_promise_of_the_readme_names_its_test() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    let files = std::fs::read_dir(root.join("tests/pool")).unwrap().flatten();
    let tests: String = files.map(|file| std::fs::read_to_string(file.path()).unwrap()).collect();
    let table = readme.split("### What happens when…").nth(1).unwrap().split("\n## ").next().unwrap();
    let named: Vec<&str> = table.split('`').filter(|word| word.len() == 3 && word.starts_with('c')).collect();
    assert!(named.len() > 30, "{named:?}");
    for name in named {
        assert!(
            tests.contains(&format!("fn {name}_")),
            "the README names `{name}`, and there is no such test"
        );
    }
}
