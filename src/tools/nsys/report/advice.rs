// SPDX-License-Identifier: Apache-2.0
//! The verdict: rules that apply to a capture, each with its evidence and what to change.

mod conditions;
mod detector_shares;
mod limits;
mod losses;
mod rules;

use jetwatch_telemetry::Stage;

use super::metrics::CaptureMetrics;
use super::table::Table;

use self::conditions::CONDITIONS;
pub(super) use self::limits::BOTTLENECK;
use self::limits::{LIMITS, StageLimit};
use self::losses::{LOSSES, OutputLoss};

/// One rule.
pub(crate) struct Rule {
    /// Name of the rule.
    pub name: &'static str,
    /// What it looks for.
    cause: Cause,
    /// Remedy.
    pub advice: &'static str,
    /// Remedy where an encoder in hardware is used already, if it is another one.
    encoded_in_hardware: Option<&'static str>,
    /// Keys of the configuration to change, with blanks between them.
    pub keys: &'static str,
    /// Stages that it explains where one of them limits the pipeline; empty: it is about something else.
    pub stages: &'static [Stage],
}

/// What a rule looks for.
enum Cause {
    /// An output that loses something, or falls behind.
    Lost(OutputLoss),
    /// A stage at its limit.
    Limit(StageLimit),
    /// A finding, and its evidence where it applies.
    Found(&'static str, fn(&CaptureMetrics) -> Option<String>),
    /// The same, where the finding depends on the capture.
    Varies(fn(&CaptureMetrics) -> Option<(String, String)>),
}

impl Rule {
    /// The same with another remedy where an encoder in hardware is used already.
    const fn in_hardware(self, advice: &'static str) -> Self {
        Self {
            encoded_in_hardware: Some(advice),
            ..self
        }
    }

    /// The finding and its evidence where it applies.
    fn evaluate(&self, metrics: &CaptureMetrics) -> Option<(String, String)> {
        match &self.cause {
            Cause::Lost(output) => output.evaluate(metrics),
            Cause::Limit(stage) => stage.evaluate(metrics),
            Cause::Found(text, evidence) => Some(((*text).to_owned(), evidence(metrics)?)),
            Cause::Varies(evaluate) => evaluate(metrics),
        }
    }

    /// Whether it explains that the stage limits the pipeline.
    fn explains(&self, stage: Stage) -> bool {
        match &self.cause {
            Cause::Limit(limit) => limit.stage == stage,
            _ => self.stages.contains(&stage),
        }
    }
}

/// A rule: its name, the stages that it explains, its remedy, keys, and what it looks for.
const fn rule(
    name: &'static str,
    stages: &'static [Stage],
    advice: &'static str,
    keys: &'static str,
    cause: Cause,
) -> Rule {
    Rule {
        encoded_in_hardware: None,
        name,
        stages,
        advice,
        keys,
        cause,
    }
}

/// All rules, the most important first.
pub(crate) fn rules() -> impl Iterator<Item = &'static Rule> {
    let of_stages = rules::FIRST.iter().chain(LIMITS).chain(rules::OTHERS);
    LOSSES.iter().chain(CONDITIONS).chain(of_stages)
}

/// Result of one rule.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The rule.
    pub rule: &'static str,
    /// The finding in one sentence.
    pub text: String,
    /// The numbers behind it.
    pub evidence: String,
    /// Remedy.
    pub advice: &'static str,
    /// Keys of the configuration to change.
    pub keys: Vec<&'static str>,
    /// The stage that limits the pipeline, if the finding is about it.
    pub stage: Option<&'static str>,
}

/// The findings of all rules in a capture or a benchmark, the most important first: what is lost, whether the machine was this
/// program's own, then those about the stage that limits the pipeline, then others. Where no rule explains that stage, one says that it
/// is nearest to its limit. Where the shares of the detectors' time are known, but no path through the stages, the largest comes last.
pub(crate) fn advise(metrics: &CaptureMetrics) -> Vec<Finding> {
    let limit = metrics.limit.map(|limit| limit.stage);
    let in_hardware = metrics.run.encodes_in_hardware();
    let findings = rules().filter_map(|rule| {
        let (text, numbers) = rule.evaluate(metrics)?;
        Some(Finding {
            rule: rule.name,
            text,
            evidence: numbers,
            advice: (rule.encoded_in_hardware.filter(|_| in_hardware)).unwrap_or(rule.advice),
            keys: split(rule.keys),
            stage: limit.filter(|limit| rule.explains(*limit)).map(Stage::name),
        })
    });
    let mut findings: Vec<Finding> = findings.collect();
    // A cause that is known better comes first under the same name.
    findings.dedup_by_key(|finding| finding.rule);
    if !losses::limits(metrics) && findings.iter().all(|finding| finding.stage.is_none()) {
        findings.extend(limits::nearest(metrics));
    }
    findings.extend(detector_shares::finding(metrics));
    findings.sort_by_key(|finding| match finding {
        lost if lost.is_of(LOSSES) => 0,
        condition if condition.is_of(CONDITIONS) => 1,
        Finding { stage: Some(_), .. } => 2,
        _ => 3,
    });
    findings
}

impl Finding {
    fn is_of(&self, rules: &[Rule]) -> bool {
        rules.iter().any(|rule| rule.name == self.rule)
    }

    /// How well it says why a run does not keep up, best first; `None`: it says something else.
    pub(crate) fn limit_rank(&self) -> Option<u8> {
        match self.rule {
            "nearest_limit" => Some(3),
            "crops_dropped" if self.stage.is_none() => Some(2),
            "frames_late" => Some(1),
            // The pace of cameras limits nothing.
            "waits_for_sources" => None,
            _ if self.stage.is_some() || self.is_of(CONDITIONS) => Some(0),
            _ => None,
        }
    }

    /// The finding as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let keys = match self.keys.as_slice() {
            [] => String::new(),
            keys => format!(" (keys: {})", keys.join(", ")),
        };
        format!(
            "{}\n    because {}\n    {}{keys}\n",
            self.text, self.evidence, self.advice
        )
    }
}

/// A share, 0 to 1, as text.
fn split(keys: &'static str) -> Vec<&'static str> {
    keys.split_whitespace().collect()
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The name of the table of findings.
pub const VERDICT: &str = "verdict";

/// The findings as a table.
pub(crate) fn table(findings: &[Finding]) -> Table {
    Table::of(VERDICT, "Verdict", findings)
        .plain("Rule", |finding| finding.rule)
        .plain("Limiting Stage", |finding| finding.stage)
        .plain("Finding", |finding| finding.text.as_str())
        .plain("Evidence", |finding| finding.evidence.as_str())
        .plain("Advice", |finding| finding.advice)
        .plain("Keys", |finding| finding.keys.join(" "))
        .build()
}

#[cfg(test)]
mod tests;
