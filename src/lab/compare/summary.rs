//! From trials to figures: medians over rounds, paired ratios, and what an arm costs. Pure.

use std::collections::BTreeMap;

use super::answer::answer;
use super::arm::Arm;
use super::arm_report::{
    ArmReport, BreakEven, CostReport, CpuReport, LatencyReport, MemoryReport, PssSplit, Quantiles, Spread,
    StartupReport, SwitchReport, TrialRow,
};
use super::measure::{Fate, Measured, Track, Trial};
use super::report::{Comparison, CulpritReport, NoiseReport, RoundNoise, WorkloadReport};
use super::scaling::scaling;
use super::sizing::{Sized, parallelism};
use super::verdict::{self, Verdict};
use super::{CompareSpec, report};
use crate::lab::trial::{TrialReport, Waterfall};
use crate::model::Model;
use crate::probe::host::Machine;
use crate::probe::noise::{BLOCK_FOREIGN, BLOCK_STEAL};
use crate::probe::stats::{self, Interval};
use crate::units::{Bytes, Span};
use crate::workload::{self, Kind, Workload};

/// The ratio of two arms' walls, paired by round: above 1, `arm` is the faster. The median of the logarithms of the
/// paired ratios, with its exact order-statistic interval, turned back.
pub(super) fn paired_ratio(
    measured: &Measured,
    reference: Arm,
    arm: Arm,
    confidence: f64,
) -> Option<Interval> {
    let logs: Vec<f64> = paired(measured, reference, arm).iter().map(|ratio| ratio.ln()).collect();
    stats::median_interval(&logs, confidence).map(|interval| interval.map(f64::exp))
}

/// The ratios themselves, one for each counted round in which both ran.
fn paired(measured: &Measured, reference: Arm, arm: Arm) -> Vec<f64> {
    let (Some(reference), Some(arm)) = (measured.track(reference), measured.track(arm)) else {
        return Vec::new();
    };
    let of_round = |round| reference.counted(&measured.rounds).find(|trial| trial.round == round);
    let ratios = arm.counted(&measured.rounds).filter_map(|trial| {
        let reference = of_round(trial.round)?;
        Some(reference.report.wall as f64 / trial.report.wall.max(1) as f64)
    });
    ratios.collect()
}

pub(super) fn summarise(
    spec: &CompareSpec,
    machine: &Machine,
    sized: &Sized,
    measured: &Measured,
) -> Comparison {
    let summary = Summary { spec, machine, sized, measured };
    let noise = summary.noise();
    let mut arms: Vec<ArmReport> = Vec::new();
    for track in summary.in_order() {
        arms.push(summary.arm(track, noise.too_noisy));
    }
    summary.marginal_memory(&mut arms);
    let mut comparison = Comparison {
        workload: summary.workload(),
        rounds: measured.rounds.iter().filter(|round| !round.warmup).count(),
        stopped: measured.stopped.name().to_owned(),
        noise,
        arms,
        scaling: summary.scaling(),
        answer: report::Answer {
            code: report::AnswerCode::NoBaseline,
            arm: None,
            headline: String::new(),
            lines: Vec::new(),
            sufficient_workers: BTreeMap::new(),
            alternatives: Vec::new(),
        },
    };
    summary.best_set(&mut comparison);
    comparison.answer = answer(spec, machine, sized, measured, &comparison);
    comparison
}

struct Summary<'a> {
    spec: &'a CompareSpec,
    machine: &'a Machine,
    sized: &'a Sized,
    measured: &'a Measured,
}

impl Summary<'_> {
    /// The baseline, its control, and the others.
    fn in_order(&self) -> Vec<&Track> {
        let mut tracks: Vec<&Track> = self.measured.tracks.iter().collect();
        tracks.sort_by_key(|track| (track.arm.model != Model::Serial, track.arm.model, track.arm.lanes));
        tracks
    }

    fn counted(&self, arm: Arm) -> Vec<&TrialReport> {
        let track = self.measured.track(arm);
        track
            .into_iter()
            .flat_map(|track| track.counted(&self.measured.rounds))
            .map(|trial| &trial.report)
            .collect()
    }

    fn workload(&self) -> WorkloadReport {
        let serial = self.counted(Arm::SERIAL);
        let service = Quantiles::of(serial.iter().map(|trial| &trial.service));
        let checksums: Vec<_> = self
            .measured
            .tracks
            .iter()
            .flat_map(|track| &track.trials)
            .map(|trial| trial.report.digest)
            .collect();
        let ratio = |trial: &&TrialReport| trial.usage.cpu_ns() as f64 / trial.wall.max(1) as f64;
        let is_hash = self.sized.workload.kind() == Kind::Hash;
        WorkloadReport {
            name: self.sized.workload.kind().name().to_owned(),
            size: self.sized.workload.size(),
            implementation: is_hash.then(|| workload::implementation().to_owned()),
            tasks: self.sized.tasks,
            task_bytes: self.sized.workload.task_bytes().map(Bytes::get),
            // A batch of few tasks has no percentile; its mean is as good for a size.
            task_ns: service.p50.or_else(|| mean_task(&serial)),
            checksum: checksums.first().map(ToString::to_string),
            checksum_agreed: checksums.windows(2).all(|pair| pair[0] == pair[1]),
            cpu_bound_ratio: stats::median(&serial.iter().map(ratio).collect::<Vec<f64>>())
                .map(|ratio| ratio.min(1.0)),
        }
    }

    fn noise(&self) -> NoiseReport {
        let rounds = &self.measured.rounds;
        let counted = || rounds.iter().filter(|round| !round.warmup).map(|round| &round.noise);
        let foreign_cpu_p50 =
            stats::median(&counted().map(|noise| noise.foreign_cpu).collect::<Vec<_>>()).unwrap_or(0.0);
        let steal_p50 = stats::median(&counted().map(|noise| noise.steal).collect::<Vec<_>>()).unwrap_or(0.0);
        let aa = paired_ratio(self.measured, Arm::SERIAL, Arm::CONTROL, self.spec.confidence);
        let sure = |aa: &Interval| aa.confidence >= self.spec.confidence - 1e-9;
        let control_fails = aa.filter(sure).is_some_and(|aa| verdict::control_fails(&aa, self.spec.margin));
        let swapping = counted().any(|noise| noise.swapped_pages.is_some_and(|pages| pages > 0));
        NoiseReport {
            aa_ratio: aa.map(Into::into),
            foreign_cpu_p50,
            steal_p50,
            flagged_rounds: counted().filter(|noise| !noise.flags().is_empty()).count(),
            too_noisy: control_fails
                || foreign_cpu_p50 > BLOCK_FOREIGN
                || steal_p50 > BLOCK_STEAL
                || swapping,
            culprit: self.culprit(),
            rounds: rounds
                .iter()
                .enumerate()
                .map(|(i, round)| RoundNoise::new(i, round.warmup, &round.noise))
                .collect(),
        }
    }

    fn culprit(&self) -> Option<CulpritReport> {
        let mut seen: BTreeMap<(u32, &str), (usize, f64)> = BTreeMap::new();
        for culprit in self.measured.rounds.iter().filter_map(|round| round.noise.culprit.as_ref()) {
            let (rounds, worst) = seen.entry((culprit.pid, &culprit.name)).or_default();
            (*rounds, *worst) = (*rounds + 1, worst.max(culprit.share));
        }
        let ((pid, name), (rounds, worst_share)) = seen.into_iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
        Some(CulpritReport { pid, name: name.to_owned(), rounds, worst_share })
    }

    fn arm(&self, track: &Track, too_noisy: bool) -> ArmReport {
        let trials = self.counted(track.arm);
        let walls: Vec<u64> = trials.iter().map(|trial| trial.wall).collect();
        let wall = Spread::of(&walls);
        let tasks = self.sized.tasks.max(1) as f64;
        let median =
            |of: &dyn Fn(&TrialReport) -> u64| stats::median_u64(trials.iter().map(|trial| of(trial)));
        let per_task = |of: &dyn Fn(&TrialReport) -> u64| median(of).map(|sum| sum as f64 / tasks);
        let is_serial = track.arm == Arm::SERIAL;
        let ratio = if is_serial {
            None
        } else {
            paired_ratio(self.measured, Arm::SERIAL, track.arm, self.spec.confidence)
        };
        let verdict =
            ratio.map(|ratio| Verdict::on(&ratio, self.spec.margin, self.spec.confidence, too_noisy));
        let unsettled = verdict == Some(Verdict::Inconclusive);
        let cost = self.cost(track.arm, &trials);
        ArmReport {
            id: track.arm.to_string(),
            model: track.arm.model.to_string(),
            workers: track.arm.lanes.get(),
            state: match track.fate {
                Fate::Measured => "measured",
                Fate::Retired(_) => "retired",
                Fate::Failed(_) => "failed",
            }
            .to_owned(),
            error: if let Fate::Failed(error) = &track.fate { Some(error.clone()) } else { None },
            rounds_counted: trials.len(),
            wall_ns: wall,
            bimodal: stats::is_bimodal(&walls.iter().map(|wall| *wall as f64).collect::<Vec<_>>()),
            throughput_per_s: wall.map(|wall| tasks / Span(wall.p50.max(1)).secs_f64()),
            cold_ns: median(&|trial| trial.pool_ready + trial.wall + trial.teardown),
            cpu_ns_per_task: per_task(&|trial| trial.usage.cpu_ns()).map(|total| CpuReport {
                user: per_task(&|trial| trial.usage.user_ns).unwrap_or(0.0),
                system: per_task(&|trial| trial.usage.system_ns).unwrap_or(0.0),
                total,
            }),
            switches_per_task: per_task(&|trial| trial.usage.voluntary_switches).map(|voluntary| {
                SwitchReport {
                    voluntary,
                    involuntary: per_task(&|trial| trial.usage.involuntary_switches).unwrap_or(0.0),
                }
            }),
            ratio_vs: Arm::SERIAL.to_string(),
            ratio: ratio.map(Into::into),
            ratio_method: "median of paired log-ratios, exact order-statistic interval".to_owned(),
            verdict,
            rounds_needed: ratio
                .filter(|_| unsettled)
                .map(|ratio| verdict::rounds_needed(&ratio, self.spec.margin, trials.len())),
            in_best_set: false,
            latency: LatencyReport {
                service_ns: Quantiles::of(trials.iter().map(|trial| &trial.service)),
                sojourn_ns: Quantiles::of(trials.iter().map(|trial| &trial.sojourn)),
                send_lag_ns: None,
            },
            break_even: self.break_even(track.arm, &trials, cost.as_ref()),
            cost_ns_per_task: cost,
            startup_ns: startup(&trials),
            memory_bytes: memory(&trials),
            caveats: self.caveats(track, &trials),
            rounds: track.trials.iter().map(|trial| self.row(trial)).collect(),
        }
    }

    fn row(&self, trial: &Trial) -> TrialRow {
        let TrialReport { wall, usage, pool_ready, teardown, memory, .. } = &trial.report;
        TrialRow {
            i: trial.round,
            pos: trial.position,
            warmup: self.measured.rounds.get(trial.round).is_some_and(|round| round.warmup),
            wall_ns: *wall,
            cpu_user_ns: usage.user_ns,
            cpu_system_ns: usage.system_ns,
            runqueue_wait_ns: usage.runqueue_wait_ns,
            voluntary_switches: usage.voluntary_switches,
            involuntary_switches: usage.involuntary_switches,
            major_faults: usage.major_faults,
            pool_ready_ns: *pool_ready,
            teardown_ns: *teardown,
            pss_bytes: memory.pss,
        }
    }

    /// Means over all counted rounds: parts of medians would not sum up.
    fn cost(&self, arm: Arm, trials: &[&TrialReport]) -> Option<CostReport> {
        let sum = trials.iter().fold(Waterfall::default(), |sum, trial| sum.plus(&trial.waterfall));
        let walls: u64 = trials.iter().map(|trial| trial.wall).sum();
        let runqueue_wait: u64 = trials.iter().map(|trial| trial.usage.runqueue_wait_ns).sum();
        let tasks = (self.sized.tasks * trials.len() as u64) as f64;
        let each = |part: u64| part as f64 / tasks;
        (tasks > 0.0).then(|| CostReport {
            encode: each(sum.encode),
            transport: each(sum.transport),
            queue_wait: each(sum.queue_wait),
            compute: each(sum.compute),
            reply: each(sum.reply),
            decode: each(sum.decode + sum.settle),
            shipping: each(sum.shipping()),
            runqueue_wait: each(runqueue_wait),
            accounted: sum.sum() as f64 / (walls as f64 * arm.lanes.get() as f64),
        })
    }

    fn break_even(&self, arm: Arm, trials: &[&TrialReport], cost: Option<&CostReport>) -> Option<BreakEven> {
        let serial = self.counted(Arm::SERIAL);
        if arm.model == Model::Serial || serial.is_empty() {
            return None;
        }
        let tasks = self.sized.tasks as f64;
        let pool = stats::median_u64(trials.iter().map(|trial| trial.pool_ready + trial.teardown))? as f64;
        let wall = |trials: &[&TrialReport]| stats::median_u64(trials.iter().map(|trial| trial.wall));
        let gain = (wall(&serial)? as f64 - wall(trials)? as f64) / tasks;
        let kind = self.sized.workload.kind();
        let lanes = parallelism(kind, &arm, self.machine.usable_cpus, 1_000_000);
        // Where workers take turns on the CPUs, what shipping takes is mostly their waiting for each other.
        let in_turns = kind.computes() && arm.lanes.get() > self.machine.usable_cpus;
        let task_ns = (lanes > 1.0 && !in_turns)
            .then(|| (cost.map_or(0.0, |cost| cost.shipping) + lanes * pool / tasks) / (lanes - 1.0));
        Some(BreakEven { task_ns, tasks_to_repay_startup: (gain > 0.0).then(|| (pool / gain).ceil() as u64) })
    }

    fn caveats(&self, track: &Track, trials: &[&TrialReport]) -> Vec<String> {
        let mut caveats = Vec::new();
        let (kind, usable) = (self.sized.workload.kind(), self.machine.usable_cpus);
        if track.arm.lanes.get() > usable && kind.computes() {
            caveats.push(format!("more workers than the {usable} usable CPUs: they take turns"));
        }
        if track.arm.lanes.get() as u64 > self.sized.tasks {
            caveats.push(format!("more workers than the {} tasks: some have none", self.sized.tasks));
        }
        if let Workload::Sleep { time } = self.sized.workload
            && track.arm.model == Model::Tasks
            && time < Span::from_millis(20)
        {
            caveats.push(
                "tokio's timer counts whole milliseconds: short waits come out up to 1 ms longer".to_owned(),
            );
        }
        if let Fate::Retired(rounds) = track.fate {
            caveats.push(format!("retired after {rounds} rounds: surely slower than half of the best"));
        }
        if trials.iter().any(|trial| trial.usage.major_faults > 0) {
            caveats.push("pages had to be fetched from disk".to_owned());
        }
        let first = track.trials.iter().find(|trial| trial.round == 0).map(|trial| trial.report.wall as f64);
        let median = stats::median_u64(trials.iter().map(|trial| trial.wall)).map(|wall| wall as f64);
        if let (Some(first), Some(median)) = (first, median)
            && (first - median).abs() > 0.2 * median
        {
            caveats.push(format!("its first run, not counted, took {:.1} times the median", first / median));
        }
        caveats
    }

    /// The slope of total memory over the numbers of workers. A single number has none: what it has more than the
    /// baseline is mostly the pool's own.
    fn marginal_memory(&self, arms: &mut [ArmReport]) {
        let total =
            |arm: &ArmReport| arm.memory_bytes.map(|memory| (arm.workers as f64, memory.pss_total as f64));
        for model in Model::ALL.into_iter().filter(|model| *model != Model::Serial) {
            let name = model.to_string();
            let points: Vec<(f64, f64)> =
                arms.iter().filter(|arm| arm.model == name).filter_map(total).collect();
            let slope = slope(&points);
            for memory in
                arms.iter_mut().filter(|arm| arm.model == name).filter_map(|arm| arm.memory_bytes.as_mut())
            {
                memory.marginal_per_worker = slope;
            }
        }
    }

    fn scaling(&self) -> BTreeMap<String, super::scaling::Scaling> {
        let computes = self.sized.workload.kind() != Kind::Sleep;
        let models = self.spec.models.iter().filter(|model| **model != Model::Serial);
        let scalings = models.map(|model| {
            let arms =
                self.in_order().into_iter().filter(|track| track.arm.model == *model).map(|track| track.arm);
            let points: Vec<(usize, Vec<f64>)> = arms
                .map(|arm| (arm.lanes.get(), paired(self.measured, Arm::SERIAL, arm)))
                .filter(|(_, speedups)| !speedups.is_empty())
                .collect();
            (model.to_string(), scaling(&points, self.machine.usable_cpus, computes, self.spec.confidence))
        });
        scalings.collect()
    }

    /// Marks every arm that may be the fastest, or within the margin of it, with all intervals holding at once.
    fn best_set(&self, comparison: &mut Comparison) {
        let alive = |track: &&Track| !matches!(track.fate, Fate::Failed(_)) && !track.arm.control;
        let candidates: Vec<Arm> = self.measured.tracks.iter().filter(alive).map(|track| track.arm).collect();
        let wall = |arm: &Arm| comparison.arm(*arm).and_then(|report| report.wall_ns).map(|wall| wall.p50);
        let Some(best) = candidates.iter().copied().filter(|arm| wall(arm).is_some()).min_by_key(wall) else {
            return;
        };
        // Bonferroni: each interval at 1 − α/m, so that all m hold with 1 − α.
        let each = 1.0 - (1.0 - self.spec.confidence) / candidates.len() as f64;
        // These intervals are wider than the one of a verdict. Where a verdict says that something is faster than the
        // baseline, the baseline is out, or the two would contradict each other.
        let is_beaten = comparison.arms.iter().any(|arm| arm.verdict == Some(Verdict::Faster));
        for arm in candidates {
            let in_set = arm == best
                || !(arm == Arm::SERIAL && is_beaten)
                    && paired_ratio(self.measured, best, arm, each)
                        .is_some_and(|ratio| ratio.hi >= 1.0 / (1.0 + self.spec.margin));
            let id = arm.to_string();
            if let Some(report) = comparison.arms.iter_mut().find(|report| report.id == id) {
                report.in_best_set = in_set && report.state == "measured";
            }
        }
    }
}

fn mean_task(trials: &[&TrialReport]) -> Option<u64> {
    let (sum, count) = trials.iter().fold((0, 0), |(sum, count), trial| {
        (sum + trial.waterfall.compute, count + trial.service.0.iter().map(|b| b.1).sum::<u64>())
    });
    (count > 0).then(|| sum / count)
}

/// The least-squares slope; `None` where the points do not spread.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let (mean_x, mean_y) =
        (points.iter().map(|(x, _)| x).sum::<f64>() / n, points.iter().map(|(_, y)| y).sum::<f64>() / n);
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let joint: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (spread > 0.0).then(|| joint / spread)
}

fn startup(trials: &[&TrialReport]) -> StartupReport {
    let lanes = || trials.iter().flat_map(|trial| &trial.starts);
    StartupReport {
        per_worker_p50: stats::median_u64(lanes().map(|lane| lane.to_ready)),
        to_first_instruction_p50: stats::median_u64(lanes().map(|lane| lane.to_first_instruction)),
        pool_ready_p50: stats::median_u64(trials.iter().map(|trial| trial.pool_ready)),
        teardown_p50: stats::median_u64(trials.iter().map(|trial| trial.teardown)),
    }
}

fn memory(trials: &[&TrialReport]) -> Option<MemoryReport> {
    let median = |of: &dyn Fn(&TrialReport) -> u64| stats::median_u64(trials.iter().map(|trial| of(trial)));
    Some(MemoryReport {
        pss_total: median(&|trial| trial.memory.pss)?,
        uss_total: median(&|trial| trial.memory.uss)?,
        rss_sum: median(&|trial| trial.memory.rss)?,
        marginal_per_worker: None,
        pss_split: PssSplit {
            anon: median(&|trial| trial.memory.pss_anon)?,
            file: median(&|trial| trial.memory.pss_file)?,
            shmem: median(&|trial| trial.memory.pss_shmem)?,
        },
        kernel_stacks: median(&|trial| trial.memory.kernel_stacks)?,
        page_tables: median(&|trial| trial.memory.page_tables)?,
        peak_hwm_max: trials.iter().map(|trial| trial.memory.peak_rss).max()?,
        processes: trials.iter().map(|trial| trial.processes).max()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_what_one_more_costs() {
        assert_eq!(slope(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]), Some(2.0));
        assert_eq!(slope(&[(2.0, 3.0), (2.0, 5.0)]), None);
    }
}
