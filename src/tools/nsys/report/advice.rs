//! The verdict: rules that apply to a capture, each with its evidence and what to change.

mod extras;
mod rules;

use super::metrics::CaptureMetrics;

pub use self::rules::RULES;

/// One rule.
pub struct Rule {
    /// Name of the rule.
    pub name: &'static str,
    /// Evaluates a capture: the sentence and its evidence; `None` if the rule does not apply.
    pub evaluate: fn(&CaptureMetrics) -> Option<(String, String)>,
    /// Remedy.
    pub advice: &'static str,
    /// Keys of the configuration to change.
    pub keys: &'static [&'static str],
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
    pub keys: &'static [&'static str],
}

/// The findings of all rules in a capture, the most important first.
#[must_use]
pub fn advise(metrics: &CaptureMetrics) -> Vec<Finding> {
    let findings = RULES.iter().filter_map(|rule| {
        let (text, numbers) = (rule.evaluate)(metrics)?;
        Some(Finding {
            rule: rule.name,
            text,
            evidence: numbers,
            advice: rule.advice,
            keys: rule.keys,
        })
    });
    findings.collect()
}

impl Finding {
    /// The finding as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let keys = if self.keys.is_empty() {
            String::new()
        } else {
            format!(" (keys: {})", self.keys.join(", "))
        };
        format!(
            "{}\n    because {}\n    {}{keys}\n",
            self.text, self.evidence, self.advice
        )
    }
}

/// A share, 0 to 1, as text.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests;
