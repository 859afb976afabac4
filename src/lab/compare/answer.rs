//! What follows from the figures, in sentences: which arm, why, at what price, and what would change it. Pure.

use std::collections::BTreeMap;

use super::CompareSpec;
use super::arm::Arm;
use super::arm_report::ArmReport;
use super::measure::Measured;
use super::report::{Answer, AnswerCode, AnswerLine, Comparison, Estimate};
use super::sizing::Sized;
use super::summary::paired_ratio;
use super::verdict::Verdict;
use crate::model::Model;
use crate::probe::host::Machine;
use crate::probe::stats;
use crate::report::human;
use crate::workload::Kind;

pub(super) fn answer(
    spec: &CompareSpec,
    machine: &Machine,
    sized: &Sized,
    measured: &Measured,
    comparison: &Comparison,
) -> Answer {
    Reasoner { spec, machine, sized, measured, comparison }.answer()
}

pub(super) struct Reasoner<'a> {
    pub(super) spec: &'a CompareSpec,
    machine: &'a Machine,
    pub(super) sized: &'a Sized,
    pub(super) measured: &'a Measured,
    pub(super) comparison: &'a Comparison,
}

/// Below this share of its time on a CPU, a task waits; above the other it computes.
const WAITS: f64 = 0.2;
const COMPUTES: f64 = 0.8;

impl Reasoner<'_> {
    fn answer(&self) -> Answer {
        if !self.comparison.workload.checksum_agreed {
            return self.no_answer(AnswerCode::Disagreed, self.disagreement());
        }
        let Some(serial) = self.comparison.arm(Arm::SERIAL).filter(|serial| serial.wall_ns.is_some()) else {
            return self.no_answer(AnswerCode::NoBaseline, self.missing_baseline());
        };
        if self.comparison.noise.too_noisy {
            return self.too_noisy();
        }
        let Some(best) = self.recommended() else {
            return self.no_answer(AnswerCode::NoBaseline, "no arm could be measured".to_owned());
        };
        let code = self.code(best);
        let mut lines = Vec::new();
        let mut say = |label: &str, text: Option<String>| {
            lines.extend(text.map(|text| AnswerLine { label: label.to_owned(), text }));
        };
        say("why", Some(self.why(best)));
        say("price", (best.model != "serial").then(|| price(best)));
        say("more", self.more(best));
        say("alt", self.alternative(best));
        for text in self.avoid(best) {
            say("avoid", Some(text));
        }
        say("change", self.change(best));
        for text in self.doubts() {
            say("doubt", Some(text));
        }
        Answer {
            code,
            arm: Some(best.id.clone()),
            headline: self.headline(code, serial, best),
            lines,
            sufficient_workers: self.sufficient_workers(),
            alternatives: self.best_set().filter(|arm| arm.id != best.id).map(|arm| arm.id.clone()).collect(),
        }
    }

    fn no_answer(&self, code: AnswerCode, headline: String) -> Answer {
        let lines =
            self.doubts().into_iter().map(|text| AnswerLine { label: "doubt".to_owned(), text }).collect();
        Answer {
            code,
            arm: None,
            headline,
            lines,
            sufficient_workers: BTreeMap::new(),
            alternatives: Vec::new(),
        }
    }

    fn best_set(&self) -> impl Iterator<Item = &ArmReport> {
        self.comparison.arms.iter().filter(|arm| arm.in_best_set)
    }

    /// The arm to take: where some are settled to be faster than the baseline, one of those.
    fn recommended(&self) -> Option<&ArmReport> {
        self.preferred(|arm| arm.verdict == Some(Verdict::Faster)).or_else(|| self.preferred(|_| true))
    }

    /// The arm of the best set to take: fewer workers, then less memory, then a shorter start.
    fn preferred(&self, wanted: impl Fn(&ArmReport) -> bool) -> Option<&ArmReport> {
        let cost = |arm: &&ArmReport| {
            let workers = if arm.model == "serial" { 0 } else { arm.workers };
            (workers, arm.memory_bytes.map(|memory| memory.pss_total), arm.startup_ns.pool_ready_p50)
        };
        self.best_set().filter(|arm| wanted(arm)).min_by_key(cost)
    }

    fn code(&self, best: &ArmReport) -> AnswerCode {
        let too_few = stats::coverage(self.comparison.rounds, 1) < self.spec.confidence;
        match best.verdict {
            _ if too_few => AnswerCode::Indicative,
            Some(verdict) if !verdict.is_settled() => AnswerCode::Inconclusive,
            // The baseline is recommended: is it settled that nobody is faster?
            None if self.best_set().any(|arm| arm.verdict == Some(Verdict::Inconclusive)) => {
                AnswerCode::Inconclusive
            }
            _ => AnswerCode::VerdictOk,
        }
    }

    fn headline(&self, code: AnswerCode, serial: &ArmReport, best: &ArmReport) -> String {
        let wall = |arm: &ArmReport| arm.wall_ns.map_or(0.0, |wall| wall.p50 as f64);
        let tasks = human::count(self.sized.tasks);
        let Some(ratio) = best.ratio else {
            let rival =
                self.comparison.arms.iter().filter(|arm| arm.model != "serial" && arm.ratio.is_some());
            let rival = rival.max_by(|a, b| point(a).total_cmp(&point(b)));
            let rival = rival.map_or(String::new(), |arm| {
                format!("; the fastest other, {}, is at {}", arm.id, self.interval(arm.ratio))
            });
            let told = if code == AnswerCode::VerdictOk {
                format!("nothing is faster by more than {}", human::percent(self.spec.margin))
            } else {
                "nothing is surely faster".to_owned()
            };
            return format!(
                "serial — {told}: wall p50 {} for {tasks} tasks{rival}",
                human::span(wall(serial))
            );
        };
        let walls = format!(
            "wall p50 {} against {} for {tasks} tasks",
            human::span(wall(best)),
            human::span(wall(serial))
        );
        if code == AnswerCode::Inconclusive {
            let needed = best.rounds_needed.unwrap_or(2 * best.rounds_counted);
            return format!(
                "{} against serial: {}, {walls}. About {needed} rounds would decide: --rounds {needed}",
                best.id,
                self.interval(best.ratio)
            );
        }
        let faster = if ratio.point >= 1.0 { "faster" } else { "as fast" };
        let workers = human::counted(best.workers, "worker");
        format!("{}, {workers} — {} {faster} than serial, {walls}", best.model, self.interval(best.ratio))
    }

    /// `1.93× (95 % CI 1.89–1.97)`; of a single round there is no interval.
    fn interval(&self, ratio: Option<Estimate>) -> String {
        let Some(ratio) = ratio else { return "unknown".to_owned() };
        if ratio.confidence == 0.0 {
            return format!("{} (one round, no interval)", human::ratio(ratio.point));
        }
        let confidence = ratio.confidence.min(self.spec.confidence);
        format!(
            "{} ({} CI {:.2}–{:.2})",
            human::ratio(ratio.point),
            human::percent(confidence),
            ratio.lo,
            ratio.hi
        )
    }

    fn why(&self, best: &ArmReport) -> String {
        let busy = self.comparison.workload.cpu_bound_ratio.unwrap_or(0.0);
        let usable = self.machine.usable_cpus;
        let cpus = match self.machine.quota_cpus {
            Some(quota) if quota < self.machine.allowed_cpus.len() as f64 => {
                format!("you have {quota:.1} CPUs by quota")
            }
            _ => format!("you have {}", human::counted(usable, "usable CPU")),
        };
        let nature = match busy {
            busy if busy < WAITS => format!(
                "the task waits {} of its time and needs no CPU meanwhile, so workers may outnumber the CPUs",
                human::percent(1.0 - busy)
            ),
            busy if busy > COMPUTES => {
                format!("the task computes {} of its time; {cpus}", human::percent(busy))
            }
            busy => format!(
                "the task computes {} of its time and waits for the rest; {cpus}",
                human::percent(busy)
            ),
        };
        match best.cost_ns_per_task {
            Some(cost) if best.model != "serial" && cost.compute > 0.0 => {
                format!(
                    "{nature}; handing a task over costs {} of running it",
                    human::percent(cost.shipping / cost.compute)
                )
            }
            _ => nature,
        }
    }

    /// What more workers of the same model bring.
    fn more(&self, best: &ArmReport) -> Option<String> {
        let more: Vec<&ArmReport> = self
            .comparison
            .arms
            .iter()
            .filter(|arm| arm.model == best.model && arm.workers > best.workers && arm.ratio.is_some())
            .collect();
        let (same, slower): (Vec<_>, Vec<_>) =
            more.into_iter().partition(|arm| arm.in_best_set && self.standing(best, arm) != Standing::Slower);
        let list = |arms: &[&ArmReport]| {
            arms.iter().map(|arm| arm.workers.to_string()).collect::<Vec<_>>().join(" or ")
        };
        let (equal, open): (Vec<_>, Vec<_>) =
            same.into_iter().partition(|arm| self.standing(best, arm) == Standing::AsFast);
        let margin = human::percent(self.spec.margin);
        let mut parts = Vec::new();
        let mut say = |arms: &[&ArmReport], what: String| {
            if !arms.is_empty() {
                parts.push(format!("{} {what}", list(arms)));
            }
        };
        say(&equal, format!("workers are as fast (±{margin}) and cost memory"));
        say(&open, "workers may be as fast or faster, these rounds do not tell".to_owned());
        say(&slower, "workers are slower".to_owned());
        let above = open.is_empty().then(|| format!(" — nothing to gain above {}", best.workers));
        (!parts.is_empty()).then(|| parts.join("; ") + &above.unwrap_or_default())
    }

    /// How an arm of the best set stands to the recommended one.
    fn standing(&self, best: &ArmReport, arm: &ArmReport) -> Standing {
        let known =
            |id: &str| self.measured.tracks.iter().map(|track| track.arm).find(|a| a.to_string() == id);
        let ratio = known(&best.id)
            .zip(known(&arm.id))
            .and_then(|(best, arm)| paired_ratio(self.measured, best, arm, self.spec.confidence));
        let verdict = ratio.map(|ratio| Verdict::on(&ratio, self.spec.margin, self.spec.confidence, false));
        match verdict {
            Some(Verdict::Equivalent) => Standing::AsFast,
            Some(Verdict::Slower) => Standing::Slower,
            _ => Standing::MayBe,
        }
    }

    /// Somebody as fast who offers what the recommended arm does not.
    fn alternative(&self, best: &ArmReport) -> Option<String> {
        let isolates = |arm: &ArmReport| arm.model.parse::<Model>().is_ok_and(Model::isolates_crashes);
        let wants_isolation = !isolates(best);
        let other = self.preferred(|arm| {
            arm.id != best.id && arm.model != "serial" && isolates(arm) == wants_isolation
        })?;
        let offers = if wants_isolation { "and isolates crashes" } else { "and shares memory" };
        let stands = match self.standing(best, other) {
            Standing::AsFast => "is as fast",
            Standing::MayBe => "may be as fast",
            Standing::Slower => "is slower",
        };
        Some(format!("{} {stands} ({}) {offers}: {}", other.id, human::ratio(point(other)), dues(other)))
    }

    fn avoid(&self, best: &ArmReport) -> Vec<String> {
        let mut texts = Vec::new();
        let gains = |arm: &&ArmReport| arm.model != best.model && arm.verdict == Some(Verdict::Faster);
        let repay = self.comparison.arms.iter().filter(gains);
        let repay = repay.filter_map(|arm| Some((arm, arm.break_even?.tasks_to_repay_startup?)));
        if let Some((arm, tasks)) =
            repay.filter(|(_, tasks)| *tasks > self.sized.tasks).min_by_key(|(_, tasks)| *tasks)
        {
            texts.push(format!(
                "{} for fewer than {} such tasks: its start and tear-down are not earned before",
                arm.id,
                human::count(tasks)
            ));
        }
        let crowd = self.comparison.arms.iter().filter(|arm| arm.verdict == Some(Verdict::Slower));
        let slowest = crowd.min_by(|a, b| point(a).total_cmp(&point(b)));
        texts.extend(
            slowest.map(|arm| format!("{}: slower than serial, {}", arm.id, self.interval(arm.ratio))),
        );
        texts
    }

    fn change(&self, best: &ArmReport) -> Option<String> {
        let mut parts = Vec::new();
        if let Some((arm, task_ns, repay)) = self.boundary() {
            let tasks = human::count(self.sized.tasks);
            parts.push(format!(
                "in a batch of {tasks}, {} breaks even with serial at {} a task",
                arm.id,
                human::span(task_ns)
            ));
            if let Some(repay) = repay {
                parts.push(format!(
                    "it repays its start after {} like these",
                    human::counted(repay as usize, "task")
                ));
            }
        }
        let kind = self.sized.workload.kind();
        let most = self.spec.workers.last().map_or(1, |lanes| lanes.get());
        if kind.computes() && best.workers >= self.machine.usable_cpus && best.model != "serial" {
            parts.push("more CPUs would allow more workers".to_owned());
        }
        if kind == Kind::Sleep && best.workers == most {
            let tasks = (self.sized.tasks < 2 * most as u64).then(|| format!(" --tasks {}", 2 * most));
            let tasks = tasks.unwrap_or_default();
            parts
                .push(format!("more workers than {most} may be faster still: --workers {}{tasks}", 2 * most));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// The arm at which shorter tasks hurt first, worker processes before all: its break-even task, and the tasks that
    /// repay its start.
    fn boundary(&self) -> Option<(&ArmReport, f64, Option<u64>)> {
        let even = |arm: &ArmReport| arm.break_even.filter(|even| even.task_ns.is_some());
        let isolates = |arm: &ArmReport| arm.model.parse::<Model>().is_ok_and(Model::isolates_crashes);
        let arm = self
            .preferred(|arm| even(arm).is_some() && isolates(arm))
            .or_else(|| self.preferred(|arm| even(arm).is_some()))
            .or_else(|| {
                let arms = self.comparison.arms.iter().filter(|arm| even(arm).is_some());
                arms.max_by(|a, b| point(a).total_cmp(&point(b)))
            })?;
        let even = even(arm)?;
        Some((arm, even.task_ns?, even.tasks_to_repay_startup))
    }

    /// For each model the smallest number of workers whose interval reaches that of the model's fastest arm.
    fn sufficient_workers(&self) -> BTreeMap<String, usize> {
        let models = self.spec.models.iter().copied().filter(|model| *model != Model::Serial);
        let sufficient = models.filter_map(|model| {
            let arms: Vec<Arm> =
                self.measured.tracks.iter().map(|track| track.arm).filter(|arm| arm.model == model).collect();
            let measured =
                |arm: &&Arm| self.comparison.arm(**arm).is_some_and(|report| report.ratio.is_some());
            let speed = |arm: &Arm| self.comparison.arm(*arm).map_or(0.0, point);
            let best = *arms.iter().filter(measured).max_by(|a, b| speed(a).total_cmp(&speed(b)))?;
            let each = 1.0 - (1.0 - self.spec.confidence) / arms.len() as f64;
            let reaches = |arm: &&Arm| {
                **arm == best
                    || paired_ratio(self.measured, best, **arm, each)
                        .is_some_and(|ratio| ratio.hi >= 1.0 / (1.0 + self.spec.margin))
            };
            let least = arms.iter().filter(measured).filter(reaches).min_by_key(|arm| arm.lanes)?;
            Some((model.to_string(), least.lanes.get()))
        });
        sufficient.collect()
    }
}

/// How an arm that may be the fastest too stands to the recommended one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Within the margin, surely enough.
    AsFast,
    /// The rounds do not tell.
    MayBe,
    /// Slower by more than the margin, though not where all arms' intervals must hold at once.
    Slower,
}

fn point(arm: &ArmReport) -> f64 {
    arm.ratio.map_or(0.0, |ratio| ratio.point)
}

/// What a worker of this arm costs.
fn dues(arm: &ArmReport) -> String {
    let memory =
        arm.memory_bytes.and_then(|memory| memory.marginal_per_worker).map_or(0.0, |bytes| bytes.max(0.0));
    let ready = arm.startup_ns.pool_ready_p50.map_or(0.0, |nanos| nanos as f64);
    format!("{} for each worker, {} until the pool is ready", human::bytes(memory), human::span(ready))
}

fn price(arm: &ArmReport) -> String {
    let total = arm.memory_bytes.map_or(0.0, |memory| memory.pss_total as f64);
    let ready = arm.startup_ns.pool_ready_p50.map_or(0.0, |nanos| nanos as f64);
    let ship = arm.cost_ns_per_task.map_or(0.0, |cost| cost.shipping);
    let isolates = arm.model.parse::<Model>().is_ok_and(Model::isolates_crashes);
    let crash = if isolates { "a crash costs one worker" } else { "a crash takes everything down" };
    format!(
        "{} of memory in all, {} until the pool is ready, {} to hand a task over; {crash}",
        human::bytes(total),
        human::span(ready),
        human::span(ship)
    )
}
