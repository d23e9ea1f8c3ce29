// SPDX-License-Identifier: Apache-2.0
//! Errors of applying and restoring the machine's settings.

use super::super::PlatformError;
use super::{Setting, Step, StepState};

/// What failed, and the resulting state of the machine.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages explain the variants.
pub enum TuneError {
    #[error(
        "nothing was changed, because not all settings can be made:\n{}",
        refusals(steps)
    )]
    Refused { steps: Vec<Step> },
    #[error("{}: {cause}\n{}", setting.name(), after_undo(not_undone))]
    Failed {
        setting: Setting,
        cause: PlatformError,
        not_undone: Vec<String>,
    },
    #[error(
        "not all settings could be restored:\n{}\nrun `jetwatch tune restore` again when this is fixed",
        lines(failures)
    )]
    NotRestored { failures: Vec<String> },
    #[error("nothing was changed: {0}")]
    Record(#[from] PlatformError),
}

fn lines(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("  {text}")).collect();
    texts.join("\n")
}

fn refusals(steps: &[Step]) -> String {
    let refused = steps.iter().filter_map(|step| match &step.state {
        StepState::Refused(reason) => Some(format!("{}: {reason}", step.setting.name())),
        _ => None,
    });
    lines(&refused.collect::<Vec<_>>())
}

fn after_undo(not_undone: &[String]) -> String {
    if not_undone.is_empty() {
        return "earlier changes were undone".to_owned();
    }
    format!(
        "and not all earlier changes could be undone:\n{}",
        lines(not_undone)
    )
}
