//! Why an answer is not to be believed, or not to be had, and what to do about it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::Reasoner;
use super::arm::Arm;
use super::report::{Answer, AnswerCode, AnswerLine, Estimate};
use crate::report::human;

impl Reasoner<'_> {
    pub(super) fn doubts(&self) -> Vec<String> {
        let mut texts = Vec::new();
        let failed = self.comparison.arms.iter().filter_map(|arm| Some((arm, arm.error.as_ref()?)));
        texts.extend(failed.map(|(arm, error)| format!("{} failed: {error}", arm.id)));
        let rounds = self.comparison.rounds;
        match self.comparison.stopped.as_str() {
            "budget" if rounds < self.spec.rounds.least => {
                texts.push(format!(
                    "the time was spent after {} of {} rounds",
                    rounds, self.spec.rounds.least
                ));
            }
            "rounds" | "budget" => texts.extend(self.wide()),
            "interrupted" => {
                texts.push(format!("interrupted after {}", human::counted(rounds, "whole round")));
            }
            _ => {}
        }
        let bimodal: Vec<&str> =
            self.comparison.arms.iter().filter(|arm| arm.bimodal).map(|arm| arm.id.as_str()).collect();
        if !bimodal.is_empty() {
            texts.push(format!(
                "the walls of {} fall into two groups: the machine had two states",
                bimodal.join(", ")
            ));
        }
        texts.extend(self.idle_workers());
        let flagged = self.comparison.noise.flagged_rounds;
        if flagged > 0 && !self.comparison.noise.too_noisy {
            let reasons: BTreeSet<&str> = self
                .measured
                .rounds
                .iter()
                .filter(|round| !round.warmup)
                .flat_map(|round| round.noise.flags())
                .collect();
            let reasons: Vec<&str> = reasons.into_iter().collect();
            texts.push(format!(
                "{flagged} of {} had {}; {}",
                human::counted(rounds, "round"),
                reasons.join(" or "),
                self.disturbance()
            ));
        }
        texts
    }

    /// That the rounds ended before the intervals were as narrow as wanted.
    fn wide(&self) -> Option<String> {
        let wanted = self.spec.rounds.width?;
        let half = |ratio: Estimate| (ratio.hi.ln() - ratio.lo.ln()) / 2.0;
        let measured = self.comparison.arms.iter().filter(|arm| arm.state == "measured");
        let widest = measured.filter_map(|arm| arm.ratio.map(half)).fold(0.0, f64::max);
        (widest > wanted).then(|| {
            format!(
                "the widest interval is still ±{}, not ±{}: a quieter machine, or --rigorous, narrows it",
                human::percent(widest),
                human::percent(wanted)
            )
        })
    }

    /// That some workers cannot have had anything to do.
    fn idle_workers(&self) -> Option<String> {
        let tasks = self.sized.tasks;
        let most = self.spec.workers.last().map_or(1, |lanes| lanes.get() as u64);
        (tasks < most).then(|| {
            format!(
                "{} keep no more workers busy than that: --tasks {} asks about {most}",
                human::counted(tasks as usize, "task"),
                2 * most
            )
        })
    }

    fn disturbance(&self) -> String {
        let noise = &self.comparison.noise;
        let worst = noise.rounds.iter().map(|round| round.foreign_cpu).fold(0.0, f64::max);
        let culprit = noise.culprit.as_ref();
        let culprit =
            culprit.map_or(String::new(), |it| format!(", most of it {} (pid {})", it.name, it.pid));
        format!("other processes used up to {} of your CPUs{culprit}", human::percent(worst))
    }

    pub(super) fn too_noisy(&self) -> Answer {
        let noise = &self.comparison.noise;
        let rounds = self.comparison.rounds;
        let headline = if noise.flagged_rounds > 0 {
            format!(
                "the machine is too noisy: {} in {} of {rounds} rounds",
                self.disturbance(),
                noise.flagged_rounds
            )
        } else {
            "the machine is too noisy: two identical serial runs differ".to_owned()
        };
        let mut lines = Vec::new();
        let mut say = |label: &str, text: String| lines.push(AnswerLine { label: label.to_owned(), text });
        if let Some(aa) = noise.aa_ratio {
            let off = aa.hi.max(1.0 / aa.lo) - 1.0;
            say(
                "why",
                format!(
                    "two identical serial runs differed by up to {}; walls are shown, not ranked",
                    human::percent(off)
                ),
            );
        }
        let cpu: Vec<String> = self
            .comparison
            .arms
            .iter()
            .filter(|arm| arm.id != Arm::CONTROL.to_string())
            .filter_map(|arm| Some(format!("{} {}", arm.id, human::span(arm.cpu_ns_per_task?.total))))
            .take(6)
            .collect();
        say("still ok", format!("CPU time of a task: {}", cpu.join(" · ")));
        say("do", "let the machine come to rest and run again".to_owned());
        Answer {
            code: AnswerCode::TooNoisy,
            arm: None,
            headline,
            lines,
            sufficient_workers: BTreeMap::new(),
            alternatives: Vec::new(),
        }
    }

    pub(super) fn disagreement(&self) -> String {
        let digests = self.measured.tracks.iter().filter_map(|track| {
            let digest = track.trials.first()?.report.digest;
            Some(format!("{} {digest}", track.arm))
        });
        let digests: Vec<String> = digests.take(6).collect();
        format!(
            "the arms disagree on the checksum, so none of their times mean anything: {}",
            digests.join(", ")
        )
    }

    pub(super) fn missing_baseline(&self) -> String {
        let serial = self.comparison.arms.iter().find(|arm| arm.id == Arm::SERIAL.to_string());
        match serial.and_then(|serial| serial.error.as_ref()) {
            Some(error) => format!("serial failed, so there is nothing to compare with: {error}"),
            None => "no round was whole, so there is nothing to compare".to_owned(),
        }
    }
}
