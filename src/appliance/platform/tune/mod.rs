// SPDX-License-Identifier: Apache-2.0
//! The machine settings of a detection appliance: power mode, clocks, fan, and profiling permission.
//!
//! [`plan`] compares and returns the [`Step`]s; [`apply`] executes them, [`restore`] undoes them. Applying twice changes
//! nothing the second time. When one setting is refused, none is applied; each is read back afterwards; on a failure, the
//! settings applied before it are undone. The original values are saved in a record that only root can write. Settings
//! that are not in the configuration are not touched. The machine is never rebooted.

mod clock_boost;
mod clocks;
mod error;
mod fan;
mod lock;
mod saved_state;
mod setting;

use serde::Serialize;

pub use clock_boost::{ClockBoost, restore_after_crash};
pub use error::TuneError;
pub use setting::Setting;

use self::lock::Lock;
use self::saved_state::SavedState;
use super::{PlatformError, SysRoot};

/// The requested settings. `None`: leave unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DesiredSettings {
    /// `kernel.perf_event_paranoid`, -1 to 4: which users may profile.
    pub perf_event_paranoid: Option<i32>,
    /// A power mode by number or name.
    pub power_mode: Option<String>,
    /// Whether the clocks are held at the maximum of the power mode.
    pub clocks: Option<Clocks>,
    /// A fan profile by name.
    pub fan_profile: Option<String>,
}

/// Requested state of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clocks {
    /// Held at the maximum of the power mode.
    Max,
}

impl DesiredSettings {
    /// The requested settings, in the order of application: a power mode changes the clocks' limits.
    fn settings(&self) -> Vec<(Setting, String)> {
        let clocks = self.clocks.map(|Clocks::Max| clocks::MAX.to_owned());
        let paranoid = self.perf_event_paranoid.map(|value| value.to_string());
        let all = [
            (Setting::PowerMode, self.power_mode.clone()),
            (Setting::Clocks, clocks),
            (Setting::Fan, self.fan_profile.clone()),
            (Setting::PerfEventParanoid, paranoid),
        ];
        all.into_iter()
            .filter_map(|(setting, value)| Some((setting, value?)))
            .collect()
    }
}

/// One setting: requested value, current value, and action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The setting.
    pub setting: Setting,
    /// The requested value, as text.
    pub wanted: String,
    /// The current value, as text; `None` where it cannot be read.
    pub real: Option<String>,
    /// The action.
    #[serde(flatten)]
    pub state: StepState,
}

/// Action for a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum StepState {
    /// None: it has the requested value.
    Right,
    /// To be applied.
    Differs,
    /// It cannot be applied, for this reason.
    Refused(String),
}

/// Compares the machine below `root` with the request. Changes nothing.
pub fn plan(root: &SysRoot, desired: &DesiredSettings) -> Vec<Step> {
    let step = |(setting, value): (Setting, String)| {
        let current = setting.current(root);
        let target = setting.resolve(root, &value);
        let describe = |value: &String| setting.describe(root, value);
        let state = match (&target, &current) {
            (Err(error), _) | (Ok(_), Err(error)) => StepState::Refused(error.to_string()),
            (Ok(target), Ok(current)) if target == current => StepState::Right,
            (Ok(_), Ok(_)) => match setting.check_tools(root) {
                Ok(()) => StepState::Differs,
                Err(error) => StepState::Refused(error.to_string()),
            },
        };
        Step {
            setting,
            wanted: target.as_ref().map_or(value, describe),
            real: current.as_ref().ok().map(describe),
            state,
        }
    };
    desired.settings().into_iter().map(step).collect()
}

/// Applies the request, and returns a step for each setting, with the earlier value as `real`, and
/// [`StepState::Right`] where nothing had to be done. Blocks while another process applies settings, and up to 60 s per tool.
///
/// # Errors
/// A setting is refused, and nothing was changed; or one failed, and those before it were undone.
pub fn apply(root: &SysRoot, desired: &DesiredSettings) -> Result<Vec<Step>, TuneError> {
    let planned = plan(root, desired);
    if planned
        .iter()
        .any(|step| matches!(step.state, StepState::Refused(_)))
    {
        return Err(TuneError::Refused { steps: planned });
    }
    if planned.iter().all(|step| step.state == StepState::Right) {
        return Ok(planned);
    }
    // Without write permission here the other steps fail too: report that before any change.
    let _lock = Lock::acquire(root)?;
    let mut record = SavedState::load(root)?;
    record.load_for_boot(root)?;
    let mut done = Vec::new();
    let mut steps = Vec::new();
    for (setting, value) in desired.settings() {
        match apply_step(root, setting, &value, &mut record, &mut done) {
            Ok(step) => steps.push(step),
            Err(cause) => {
                let not_undone = undo(root, &mut record, done);
                return Err(TuneError::Failed {
                    setting,
                    cause,
                    not_undone,
                });
            }
        }
    }
    Ok(steps)
}

/// Holds the clocks again where [`apply`] has held them and another program has freed them since, such as a change of the
/// power mode. Returns the step; `None` when [`apply`] does not hold the clocks.
///
/// # Errors
/// The clocks cannot be held; those already held stay held.
pub fn reapply(root: &SysRoot) -> Result<Option<Step>, TuneError> {
    if !SavedState::exists(root) {
        return Ok(None);
    }
    let _lock = Lock::acquire(root)?;
    let mut record = SavedState::load(root)?;
    record.load_for_boot(root)?;
    if !record.has(Setting::Clocks) {
        return Ok(None);
    }
    let made = apply_step(
        root,
        Setting::Clocks,
        clocks::MAX,
        &mut record,
        &mut Vec::new(),
    );
    made.map(Some).map_err(|cause| TuneError::Failed {
        setting: Setting::Clocks,
        cause,
        not_undone: Vec::new(),
    })
}

/// A change that was applied or started.
struct Change {
    setting: Setting,
    before: String,
    /// Whether this change added it to the record.
    is_new: bool,
}

/// Applies one setting and reads it back. It is added to `done` before the change, so that it can be undone.
fn apply_step(
    root: &SysRoot,
    setting: Setting,
    value: &str,
    record: &mut SavedState,
    done: &mut Vec<Change>,
) -> Result<Step, PlatformError> {
    let target = setting.resolve(root, value)?;
    // Read again: settings before this one may have changed it.
    let before = setting.current(root)?;
    let mut step = Step {
        setting,
        wanted: setting.describe(root, &target),
        real: Some(setting.describe(root, &before)),
        state: StepState::Right,
    };
    if before == target {
        return Ok(step);
    }
    step.state = StepState::Differs;
    // A new mode is set on free clocks: the state to restore later is this mode's, not the old one's.
    if setting == Setting::PowerMode && record.has(Setting::Clocks) {
        done.push(Change {
            setting: Setting::Clocks,
            before: clocks::MAX.to_owned(),
            is_new: false,
        });
        Setting::Clocks.set(root, clocks::FREE)?;
        record.remove(root, Setting::Clocks)?;
    }
    let is_new = record.save_setting(root, setting, &before, &target)?;
    done.push(Change {
        setting,
        before,
        is_new,
    });
    setting.set(root, &target)?;
    setting.verify(root, &target)?;
    Ok(step)
}

/// Undoes the changes, last first; returns those that failed.
fn undo(root: &SysRoot, record: &mut SavedState, done: Vec<Change>) -> Vec<String> {
    let mut failures = Vec::new();
    for change in done.into_iter().rev() {
        let setting = change.setting;
        let undone = setting.revert(root, &change.before).and_then(|()| {
            if setting == Setting::Clocks && change.before == clocks::MAX {
                record.save_setting(root, setting, clocks::FREE, clocks::MAX)?;
            }
            if change.is_new {
                record.remove(root, setting)?;
            }
            Ok(())
        });
        if let Err(error) = undone {
            failures.push(format!("{}: {error}", setting.name()));
        }
    }
    failures
}

/// Result of [`restore`] for one setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The setting.
    pub setting: Setting,
    /// The original value, as text.
    pub before: String,
    /// The result.
    pub outcome: Outcome,
}

/// Result of restoring a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has its original value.
    GivenBack,
    /// Changed by another program since; not touched.
    ChangedSince,
}

/// Restores the settings that [`apply`] has changed, last applied first. Returns an empty list when there are none.
///
/// # Errors
/// A setting could not be restored; the others were, and the record keeps it for another try.
pub fn restore(root: &SysRoot) -> Result<Vec<Restored>, TuneError> {
    restore_some(root, &Setting::ALL)
}

/// Like [`restore`], for the given settings only.
fn restore_some(root: &SysRoot, settings: &[Setting]) -> Result<Vec<Restored>, TuneError> {
    if !SavedState::exists(root) {
        return Ok(Vec::new());
    }
    let _lock = Lock::acquire(root)?;
    let mut record = SavedState::load(root)?;
    record.load_for_boot(root)?;
    let mut restored = Vec::new();
    let mut failures = Vec::new();
    for setting in settings.iter().copied().rev() {
        let Some(saved) = record.get(setting).cloned() else {
            continue;
        };
        let outcome = restore_setting(root, setting, &saved.before, &saved.set)
            .and_then(|outcome| record.remove(root, setting).map(|()| outcome));
        match outcome {
            Ok(outcome) => restored.push(Restored {
                setting,
                before: setting.describe(root, &saved.before),
                outcome,
            }),
            Err(error) => failures.push(format!("{}: {error}", setting.name())),
        }
    }
    if failures.is_empty() {
        Ok(restored)
    } else {
        Err(TuneError::NotRestored { failures })
    }
}

fn restore_setting(
    root: &SysRoot,
    setting: Setting,
    before: &str,
    set: &str,
) -> Result<Outcome, PlatformError> {
    let current = setting.current(root)?;
    if current == set || current == before {
        setting.revert(root, before)?;
        return Ok(Outcome::GivenBack);
    }
    Ok(Outcome::ChangedSince)
}
