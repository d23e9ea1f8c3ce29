//! What the numbers mean: rules that speak when a capture gives them cause, each with its evidence and what to change.

mod beside;
mod rules;

use super::metrics::CaptureMetrics;

pub use self::rules::RULES;

/// One rule.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// What it says about a capture: the sentence and its evidence; `None` where it has nothing to say.
    pub evaluate: fn(&CaptureMetrics) -> Option<(String, String)>,
    /// What to do.
    pub advice: &'static str,
    /// Keys of the configuration to change.
    pub keys: &'static [&'static str],
}

/// What one rule found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The rule.
    pub rule: &'static str,
    /// What is the case.
    pub text: String,
    /// The numbers behind it.
    pub evidence: String,
    /// What to do.
    pub advice: &'static str,
    /// Keys of the configuration to change.
    pub keys: &'static [&'static str],
}

/// What all rules say about a capture, the most telling first.
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
    /// In sentences.
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

/// A share, 0 to 1, in words.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests;
