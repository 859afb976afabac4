//! The result for people, and as rows.

use super::arm::Arm;
use super::arm_report::ArmReport;
use super::report::{AnswerCode, CompareReport, Comparison};
use super::verdict::Verdict;
use crate::report::human::{self, NO_BREAK};
use crate::report::{Charset, Column, Document, Report, Section, Table};

/// The names of the columns of the rows.
pub const COLUMNS: &[&str] = &[
    "workload",
    "arm",
    "model",
    "workers",
    "state",
    "rounds",
    "wall_p50_ns",
    "wall_min_ns",
    "wall_max_ns",
    "speedup",
    "speedup_lo",
    "speedup_hi",
    "verdict",
    "in_best_set",
    "recommended",
    "throughput_per_s",
    "service_p50_ns",
    "service_p99_ns",
    "cpu_user_ns_per_task",
    "cpu_system_ns_per_task",
    "runqueue_wait_ns_per_task",
    "shipping_ns_per_task",
    "pool_ready_ns",
    "per_worker_ready_ns",
    "teardown_ns",
    "pss_total_bytes",
    "uss_total_bytes",
    "rss_sum_bytes",
    "marginal_per_worker_bytes",
    "peak_hwm_max_bytes",
];

/// More arms than this are not listed unless asked for.
const MOST_ROWS: usize = 12;

impl Report for CompareReport {
    fn document(&self, _charset: Charset) -> Document {
        let mut sections = Vec::new();
        for comparison in &self.comparisons {
            sections.push(Section::Facts(self.head(comparison)));
            sections.push(Section::Facts(answer(comparison)));
            sections.extend(curve(comparison).map(Section::Table));
            sections.push(Section::Table(self.details(comparison)));
        }
        sections.push(Section::Note(self.foot()));
        Document { sections }
    }

    fn rows(&self) -> (&'static [&'static str], Vec<Vec<String>>) {
        let rows = self
            .comparisons
            .iter()
            .flat_map(|comparison| comparison.arms.iter().map(|arm| row(comparison, arm)));
        (COLUMNS, rows.collect())
    }
}

impl CompareReport {
    fn head(&self, comparison: &Comparison) -> Vec<(String, String)> {
        let work = &comparison.workload;
        let each = work
            .task_ns
            .filter(|_| work.name != "sleep")
            .map_or(String::new(), |nanos| format!(" (≈ {} each)", human::span(nanos as f64)));
        let asked = format!("{} · {} tasks × {}{each}", work.name, human::count(work.tasks), work.size);
        let rounds = human::counted(comparison.rounds, "round");
        let quota =
            self.machine.quota_cpus.map_or("no quota".to_owned(), |quota| format!("quota {quota:.1} CPUs"));
        let usable = self.machine.usable_cpus as f64;
        let obtained = self.machine.obtained_cpus.filter(|obtained| *obtained < 0.9 * usable);
        let obtained =
            obtained.map_or(String::new(), |obtained| format!(", {obtained:.1} obtained at the start"));
        let noise = &comparison.noise;
        let aa = noise.aa_ratio.filter(|aa| aa.confidence > 0.0).map_or("not measured".to_owned(), |aa| {
            format!("±{}", human::percent((aa.hi.ln() - aa.lo.ln()) / 2.0))
        });
        vec![
            ("compare".to_owned(), format!("{asked} · seed {} · {rounds}, order shuffled", self.seed)),
            (
                "machine".to_owned(),
                format!(
                    "{} ({} online, {} allowed, {quota}{obtained}) · steal {} · other processes {} · A/A{NO_BREAK}{aa}",
                    human::counted(self.machine.usable_cpus, "usable CPU"),
                    self.machine.online_cpus,
                    self.machine.allowed_cpus.len(),
                    human::percent(noise.steal_p50),
                    human::percent(noise.foreign_cpu_p50)
                ),
            ),
        ]
    }

    /// The arms worth a row: the recommended one, the baseline, each model's fastest, then the others in order.
    fn listed<'a>(&self, comparison: &'a Comparison) -> Vec<&'a ArmReport> {
        let control = Arm::CONTROL.to_string();
        let all: Vec<&ArmReport> = comparison.arms.iter().filter(|arm| arm.id != control).collect();
        if self.all_arms || all.len() <= MOST_ROWS {
            return all;
        }
        let speed = |arm: &ArmReport| arm.ratio.map_or(0.0, |ratio| ratio.point);
        let is_chief = |arm: &ArmReport| {
            let rivals = all.iter().filter(|other| other.model == arm.model);
            rivals.map(|other| speed(other)).fold(0.0, f64::max) <= speed(arm)
        };
        let chosen = comparison.answer.arm.as_deref();
        let rank = |arm: &ArmReport| match arm {
            arm if Some(arm.id.as_str()) == chosen => 0,
            arm if arm.error.is_some() || is_chief(arm) => 1,
            arm if arm.in_best_set => 2,
            arm if arm.state == "measured" => 3,
            _ => 4,
        };
        let mut ranked: Vec<(usize, usize)> =
            all.iter().enumerate().map(|(index, arm)| (rank(arm), index)).collect();
        ranked.sort_unstable();
        let mut kept: Vec<usize> = ranked.into_iter().take(MOST_ROWS).map(|(_, index)| index).collect();
        kept.sort_unstable();
        kept.into_iter().map(|index| all[index]).collect()
    }

    fn details(&self, comparison: &Comparison) -> Table {
        let arms = self.listed(comparison);
        let spans = |of: &dyn Fn(&ArmReport) -> Option<f64>| {
            human::span_column(&arms.iter().map(|arm| of(arm)).collect::<Vec<_>>())
        };
        let sizes = |of: &dyn Fn(&ArmReport) -> Option<f64>| {
            human::byte_column(&arms.iter().map(|arm| of(arm)).collect::<Vec<_>>())
        };
        let text =
            |of: &dyn Fn(&ArmReport) -> String| arms.iter().map(|arm| of(arm)).collect::<Vec<String>>();
        let p99 =
            arms.iter().map(|arm| arm.latency.service_ns.p99.map(|nanos| nanos as f64)).collect::<Vec<_>>();
        let p99 = human::span_column(&p99)
            .into_iter()
            .map(|cell| if cell == "—" { "n/a".to_owned() } else { cell });
        let columns: Vec<(Column, Vec<String>)> = vec![
            (
                Column::words("arm"),
                text(&|arm| format!("{} {}", arm.id, mark(comparison, arm)).trim_end().to_owned()),
            ),
            (Column::numbers("speed-up"), text(&|arm| speedup(comparison, arm))),
            (Column::numbers(&self.interval_head(&arms)), text(&interval)),
            (Column::numbers("wall p50"), spans(&|arm| arm.wall_ns.map(|wall| wall.p50 as f64))),
            (Column::numbers("p99 task").spare(1), p99.collect()),
            (Column::numbers("CPU/task").spare(2), spans(&|arm| arm.cpu_ns_per_task.map(|cpu| cpu.total))),
            (
                Column::numbers("total mem"),
                sizes(&|arm| arm.memory_bytes.map(|memory| memory.pss_total as f64)),
            ),
            (
                Column::numbers("+/worker").spare(3),
                // A slope below nothing is noise.
                sizes(&|arm| {
                    arm.memory_bytes.and_then(|memory| memory.marginal_per_worker.map(|b| b.max(0.0)))
                }),
            ),
            (
                Column::numbers("start-up").spare(4),
                spans(&|arm| arm.startup_ns.per_worker_p50.map(|nanos| nanos as f64)),
            ),
            (
                Column::numbers("ship/task").spare(5),
                spans(&|arm| {
                    arm.cost_ns_per_task.filter(|_| arm.model != "serial").map(|cost| cost.shipping)
                }),
            ),
        ];
        let rows = (0..arms.len())
            .map(|row| columns.iter().map(|(_, cells)| cells[row].clone()).collect())
            .collect();
        let chosen = arms.iter().position(|arm| Some(&arm.id) == comparison.answer.arm.as_ref());
        Table {
            columns: columns.into_iter().map(|(column, _)| column).collect(),
            rows,
            chosen: chosen.into_iter().collect(),
        }
    }

    /// What the intervals reach: less than wanted where the rounds are too few.
    fn interval_head(&self, arms: &[&ArmReport]) -> String {
        let reached = arms.iter().filter(|arm| arm.state == "measured").filter_map(|arm| arm.ratio);
        let least = reached.map(|ratio| ratio.confidence).fold(self.design.confidence, f64::min);
        format!("{} CI", human::percent(if least > 0.0 { least } else { self.design.confidence }))
    }

    /// The words that make this run again; sizes are measured anew unless they are given.
    fn repeat(&self) -> String {
        let seed = format!("--seed {}", self.seed);
        match self.comparisons.as_slice() {
            [only] => {
                let work = &only.workload;
                let size = match work.name.as_str() {
                    "sleep" => format!("--sleep {}", work.size),
                    "fault" => format!("--fault {}", work.size),
                    _ => format!("--task-size {}", work.size.trim_end_matches(" iterations")),
                };
                format!("{seed} --tasks {} {size}", work.tasks)
            }
            _ => format!("{seed}, and --tasks and --task-size, which are measured anew"),
        }
    }

    fn foot(&self) -> String {
        let hidden = self
            .comparisons
            .iter()
            .map(|comparison| comparison.arms.len() - 1 - self.listed(comparison).len())
            .sum();
        let hidden: usize = hidden;
        let more = if hidden > 0 {
            format!("{} not listed: --all · ", human::counted(hidden, "arm"))
        } else {
            String::new()
        };
        let any = |of: &dyn Fn(&ArmReport) -> bool| {
            self.comparisons.iter().any(|comparison| comparison.arms.iter().any(of))
        };
        let retired =
            if any(&|arm| arm.state == "retired") { " · – surely slower, run no more" } else { "" };
        let failed = if any(&|arm| arm.error.is_some()) { " · ✗ failed" } else { "" };
        format!(
            "★ recommended · ≈ may be the fastest too (±{}){retired}{failed} · walls are steady work, start-up apart · \
             {more}everything: --format json · repeat: {}",
            human::percent(self.design.margin),
            self.repeat()
        )
    }
}

fn answer(comparison: &Comparison) -> Vec<(String, String)> {
    let label = match comparison.answer.code {
        AnswerCode::VerdictOk => "ANSWER",
        AnswerCode::Indicative => "INDICATIVE",
        AnswerCode::Inconclusive => "INCONCLUSIVE",
        AnswerCode::TooNoisy | AnswerCode::NoBaseline => "NO VERDICT",
        AnswerCode::Disagreed => "DISAGREED",
    };
    let head = (label.to_owned(), format!("{}: {}", comparison.workload.name, comparison.answer.headline));
    let lines = comparison.answer.lines.iter().map(|line| (format!(" {}", line.label), line.text.clone()));
    std::iter::once(head).chain(lines).collect()
}

/// Speed-ups, a model a row and a number of workers a column: the knee is to be seen.
fn curve(comparison: &Comparison) -> Option<Table> {
    let mut workers: Vec<usize> =
        comparison.arms.iter().filter(|arm| arm.model != "serial").map(|arm| arm.workers).collect();
    workers.sort_unstable();
    workers.dedup();
    let mut models: Vec<&str> = comparison.arms.iter().map(|arm| arm.model.as_str()).collect();
    models.dedup();
    let rows = models.iter().filter(|model| **model != "serial").map(|model| {
        let cells = workers.iter().map(|workers| {
            let arm = comparison.arms.iter().find(|arm| arm.model == *model && arm.workers == *workers);
            arm.map_or("—".to_owned(), |arm| {
                format!("{} {}", speedup(comparison, arm), one_column(mark(comparison, arm)))
            })
        });
        std::iter::once((*model).to_owned()).chain(cells).collect()
    });
    let head = format!("{} speed-up", comparison.workload.name);
    let columns =
        workers.iter().map(|workers| Column::numbers(&format!("{}  ", human::counted(*workers, "worker"))));
    (!workers.is_empty()).then(|| Table {
        rows: rows.collect(),
        columns: std::iter::once(Column::words(&head)).chain(columns).collect(),
        chosen: Vec::new(),
    })
}

fn one_column(mark: &str) -> &str {
    match mark {
        "" => " ",
        "retired" => "–",
        "failed" => "✗",
        mark => mark,
    }
}

fn mark(comparison: &Comparison, arm: &ArmReport) -> &'static str {
    match arm {
        arm if arm.error.is_some() => "failed",
        arm if Some(&arm.id) == comparison.answer.arm.as_ref() => "★",
        arm if arm.state == "retired" => "retired",
        arm if arm.in_best_set && comparison.answer.arm.is_some() => "≈",
        _ => "",
    }
}

fn speedup(comparison: &Comparison, arm: &ArmReport) -> String {
    match (arm.ratio, arm.id.as_str()) {
        (Some(ratio), _) => human::ratio(ratio.point),
        (None, "serial") if comparison.rounds > 0 && arm.error.is_none() => human::ratio(1.0),
        _ => "—".to_owned(),
    }
}

fn interval(arm: &ArmReport) -> String {
    let sure = arm.ratio.filter(|ratio| ratio.confidence > 0.0);
    sure.map_or("—".to_owned(), |ratio| format!("{:.2}–{:.2}", ratio.lo, ratio.hi))
}

fn row(comparison: &Comparison, arm: &ArmReport) -> Vec<String> {
    fn opt<T: ToString>(value: Option<T>) -> String {
        value.map_or(String::new(), |value| value.to_string())
    }
    let (wall, memory, cost, cpu) =
        (arm.wall_ns, arm.memory_bytes, arm.cost_ns_per_task, arm.cpu_ns_per_task);
    vec![
        comparison.workload.name.clone(),
        arm.id.clone(),
        arm.model.clone(),
        arm.workers.to_string(),
        arm.state.clone(),
        arm.rounds_counted.to_string(),
        opt(wall.map(|wall| wall.p50)),
        opt(wall.map(|wall| wall.min)),
        opt(wall.map(|wall| wall.max)),
        opt(arm.ratio.map(|ratio| ratio.point)),
        opt(arm.ratio.map(|ratio| ratio.lo)),
        opt(arm.ratio.map(|ratio| ratio.hi)),
        opt(arm.verdict.map(Verdict::name)),
        arm.in_best_set.to_string(),
        (Some(&arm.id) == comparison.answer.arm.as_ref()).to_string(),
        opt(arm.throughput_per_s),
        opt(arm.latency.service_ns.p50),
        opt(arm.latency.service_ns.p99),
        opt(cpu.map(|cpu| cpu.user)),
        opt(cpu.map(|cpu| cpu.system)),
        opt(cost.map(|cost| cost.runqueue_wait)),
        opt(cost.map(|cost| cost.shipping)),
        opt(arm.startup_ns.pool_ready_p50),
        opt(arm.startup_ns.per_worker_p50),
        opt(arm.startup_ns.teardown_p50),
        opt(memory.map(|memory| memory.pss_total)),
        opt(memory.map(|memory| memory.uss_total)),
        opt(memory.map(|memory| memory.rss_sum)),
        opt(memory.and_then(|memory| memory.marginal_per_worker)),
        opt(memory.map(|memory| memory.peak_hwm_max)),
    ]
}
