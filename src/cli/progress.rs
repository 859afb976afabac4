//! How far it is, on standard error. Told between timed sections only, so that drawing disturbs none.

use std::io::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::{OutputArgs, ProgressHow};
use crate::lab::compare::{CompareSpec, Event, Progress as Step, Sized};
use crate::report::human;
use crate::sys::terminal;

/// Tells of progress.
pub(super) enum Progress {
    Silent,
    /// A line that moves.
    Bar(ProgressBar, Option<Instant>),
    /// A line a round.
    Lines,
    /// A JSON object a line.
    Json,
}

/// A line that moves is drawn ten times a second at the most.
const REDRAW: Duration = Duration::from_millis(100);

impl Progress {
    pub(super) fn new(args: &OutputArgs) -> Progress {
        match args.progress {
            _ if args.quiet => Progress::Silent,
            ProgressHow::None => Progress::Silent,
            ProgressHow::Json => Progress::Json,
            ProgressHow::Plain => Progress::Lines,
            ProgressHow::Auto if terminal::errors_are_seen() => {
                let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(10));
                let style = ProgressStyle::with_template("{prefix} ▕{bar:18}▏ {wide_msg}");
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("█▌ "));
                Progress::Bar(bar, None)
            }
            ProgressHow::Auto => Progress::Lines,
        }
    }

    pub(super) fn tell(&mut self, event: &Event<'_>) {
        match self {
            Progress::Silent => {}
            Progress::Json => say(&json(event)),
            Progress::Lines => lines(event).iter().for_each(|line| say(line)),
            Progress::Bar(bar, drawn) => draw(bar, drawn, event),
        }
    }
}

fn say(line: &str) {
    if !line.is_empty() {
        // Nobody may be listening; that is no reason to stop measuring.
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}

fn draw(bar: &ProgressBar, drawn: &mut Option<Instant>, event: &Event<'_>) {
    match event {
        Event::Arm(step) => {
            if drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
                return;
            }
            *drawn = Some(Instant::now());
            let done = step.arm.map_or(0, |(_, position)| position - 1);
            bar.set_length((step.rounds * step.arms) as u64);
            bar.set_prefix(format!("{} round {:>2}/{}", step.workload, step.round, step.rounds));
            bar.set_message(moving(step));
            bar.set_position(((step.round - 1) * step.arms + done) as u64);
        }
        Event::WorkloadDone => bar.finish_and_clear(),
        Event::RoundDone(_) => {}
        other => bar.suspend(|| lines(other).iter().for_each(|line| say(line))),
    }
}

fn moving(step: &Step) -> String {
    let arm =
        step.arm.map_or(String::new(), |(arm, position)| format!("{arm} (arm {position}/{})", step.arms));
    let width = step.widest.map_or(String::new(), |widest| format!(" · ±{}", human::percent(widest)));
    format!(
        "{arm}{width} · other CPU {} · ≤ {} left",
        human::percent(step.foreign_cpu),
        human::span(step.left_ns)
    )
}

fn lines(event: &Event<'_>) -> Vec<String> {
    match event {
        Event::Calibrating => vec!["measuring this machine's speed …".to_owned()],
        Event::Planned { spec, plan, .. } => plan_lines(spec, plan),
        Event::RoundDone(step) => {
            let kind = if step.warmup { " (warm-up)" } else { "" };
            let width = step.widest.map_or(String::new(), |widest| format!(" · ±{}", human::percent(widest)));
            let left = if step.left_ns > 0.0 {
                format!(" · ≤ {} left", human::span(step.left_ns))
            } else {
                String::new()
            };
            let other = human::percent(step.foreign_cpu);
            vec![format!(
                "{} round {}/{}{kind}{width} · other CPU {other}{left}",
                step.workload, step.round, step.rounds
            )]
        }
        Event::Failed { arm, error } => vec![format!("{arm} failed: {error}")],
        _ => Vec::new(),
    }
}

/// What will be done, and how long it takes at the most.
fn plan_lines(spec: &CompareSpec, plan: &[Sized]) -> Vec<String> {
    let arms = spec.arms().len() + 1;
    let all = |rounds: usize| plan.iter().map(|sized| sized.round_ns * rounds as f64).sum::<f64>();
    let limit = spec.budget.map_or(f64::INFINITY, |budget| budget.nanos() as f64);
    let longest = all(spec.rounds.planned()).min(limit).max(all(spec.rounds.surely()));
    let counted = if spec.rounds.least == spec.rounds.most {
        spec.rounds.most.to_string()
    } else {
        format!("{} to {}", spec.rounds.least, spec.rounds.most)
    };
    let works: Vec<String> = plan
        .iter()
        .map(|sized| {
            format!(
                "{} {} tasks × {}",
                sized.workload.kind(),
                human::count(sized.tasks),
                sized.workload.size()
            )
        })
        .collect();
    vec![format!(
        "plan: {} · {arms} arms × ({} warm-up + {counted} rounds) · about {} at the most",
        works.join(", "),
        spec.rounds.warmup,
        human::span(longest)
    )]
}

fn json(event: &Event<'_>) -> String {
    let step = |name: &str, step: &Step| {
        serde_json::json!({
            "event": name, "workload": step.workload, "round": step.round, "rounds": step.rounds,
            "warmup": step.warmup, "arm": step.arm.map(|(arm, _)| arm.to_string()),
            "half_width": step.widest, "foreign_cpu": step.foreign_cpu, "left_ns": step.left_ns as u64,
        })
    };
    let value = match event {
        Event::Calibrating => serde_json::json!({"event": "calibrating"}),
        Event::Planned { spec, plan, .. } => serde_json::json!({
            "event": "planned", "arms": spec.arms().len() + 1, "rounds": spec.rounds.planned(),
            "workloads": plan.iter().map(|sized| serde_json::json!({
                "workload": sized.workload.kind(), "tasks": sized.tasks, "size": sized.workload.size(),
                "round_ns": sized.round_ns as u64,
            })).collect::<Vec<_>>(),
        }),
        Event::Arm(at) => step("arm", at),
        Event::RoundDone(at) => step("round_done", at),
        Event::Failed { arm, error } => {
            serde_json::json!({"event": "failed", "arm": arm.to_string(), "error": error})
        }
        Event::Retired { arm } => serde_json::json!({"event": "retired", "arm": arm.to_string()}),
        Event::WorkloadDone => serde_json::json!({"event": "workload_done"}),
    };
    value.to_string()
}
