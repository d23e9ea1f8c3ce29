//! The settings of the machine that a detection appliance needs: power mode, clocks, fan, and who may profile.
//!
//! [`plan`] says what is and what would be done, as [`Step`]s; [`apply`] does it, [`restore`] takes it back. Applying twice does
//! nothing the second time. Nothing is begun when one setting is refused; each is read back after it was made; what was made
//! before a failure is undone. What was there before is kept in a record that only root can write. A setting that the
//! configuration does not name is left alone. Reboots are nobody's decision but the owner's.

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

/// What is wanted. `None`: leave it as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DesiredSettings {
    /// `kernel.perf_event_paranoid`, -1 to 4: who may profile.
    pub perf_event_paranoid: Option<i32>,
    /// A power mode by number or name.
    pub power_mode: Option<String>,
    /// Whether the clocks are held at the highest that the power mode allows.
    pub clocks: Option<Clocks>,
    /// A fan profile by name.
    pub fan_profile: Option<String>,
}

/// What becomes of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clocks {
    /// Held at the highest that the power mode allows.
    Max,
}

impl DesiredSettings {
    /// What is wanted of each setting, in the order in which they are made: a power mode moves the clocks' limits.
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
            .filter_map(|(setting, wanted)| Some((setting, wanted?)))
            .collect()
    }
}

/// One setting: what is wanted, what is, and what follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Which.
    pub setting: Setting,
    /// What is wanted, in words.
    pub wanted: String,
    /// What is, in words; `None` where it cannot be read.
    pub real: Option<String>,
    /// What follows.
    #[serde(flatten)]
    pub state: StepState,
}

/// What follows from a setting's wanted and real value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "snake_case")]
pub enum StepState {
    /// It is as wanted.
    Right,
    /// It is not, and can be made so.
    Differs,
    /// It cannot be made so, for this reason.
    Refused(String),
}

/// Compares the machine below `sysroot` with what is wanted. Changes nothing.
#[must_use]
pub fn plan(root: &SysRoot, wanted: &DesiredSettings) -> Vec<Step> {
    let step = |(setting, wanted): (Setting, String)| {
        let real = setting.current(root);
        let target = setting.resolve(root, &wanted);
        let shown = |value: &String| setting.describe(root, value);
        let state = match (&target, &real) {
            (Err(error), _) | (Ok(_), Err(error)) => StepState::Refused(error.to_string()),
            (Ok(target), Ok(real)) if target == real => StepState::Right,
            (Ok(_), Ok(_)) => match setting.check_tools(root) {
                Ok(()) => StepState::Differs,
                Err(error) => StepState::Refused(error.to_string()),
            },
        };
        Step {
            setting,
            wanted: target.as_ref().map_or(wanted, shown),
            real: real.as_ref().ok().map(shown),
            state,
        }
    };
    wanted.settings().into_iter().map(step).collect()
}

/// Makes what is wanted, and says what was done: a step for each setting, with the value before as `current`, and
/// [`StepState::Right`] where nothing was to do. Waits for another that is at work, and for the tools, up to a minute each.
///
/// # Errors
/// A setting is refused, and nothing was changed; or one failed, and those before it were undone.
pub fn apply(root: &SysRoot, wanted: &DesiredSettings) -> Result<Vec<Step>, TuneError> {
    let planned = plan(root, wanted);
    if planned
        .iter()
        .any(|step| matches!(step.state, StepState::Refused(_)))
    {
        return Err(TuneError::Refused { steps: planned });
    }
    if planned.iter().all(|step| step.state == StepState::Right) {
        return Ok(planned);
    }
    // Who may not write here may not do the rest either: that is told before anything is changed.
    let _lock = Lock::acquire(root)?;
    let mut record = SavedState::load(root)?;
    record.load_for_boot(root)?;
    let mut done = Vec::new();
    let mut steps = Vec::new();
    for (setting, wanted) in wanted.settings() {
        match apply_step(root, setting, &wanted, &mut record, &mut done) {
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

/// Holds the clocks anew where [`apply`] has held them and something has freed them since, as a change of the power mode does. Says
/// what was done: `None` where [`apply`] holds none.
///
/// # Errors
/// They cannot be held; what is held already stays so.
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

/// A change that was made or begun.
struct Change {
    setting: Setting,
    before: String,
    /// Whether the record knows of it only since now.
    is_new: bool,
}

/// Makes one setting and reads it back. What it changes goes to `done` before it does, so that it can be undone.
fn apply_step(
    root: &SysRoot,
    setting: Setting,
    wanted: &str,
    record: &mut SavedState,
    done: &mut Vec<Change>,
) -> Result<Step, PlatformError> {
    let target = setting.resolve(root, wanted)?;
    // Looked at again: settings before this one may have changed it.
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
    // A new mode is made on free clocks: what would be given back later are this mode's, not the new one's.
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

/// Takes back what was made, last first; what could not be is told.
fn undo(root: &SysRoot, record: &mut SavedState, done: Vec<Change>) -> Vec<String> {
    let mut trouble = Vec::new();
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
            trouble.push(format!("{}: {error}", setting.name()));
        }
    }
    trouble
}

/// A setting that [`restore`] looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Which.
    pub setting: Setting,
    /// As it was before, in words.
    pub before: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a setting that was to be given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is again as it was.
    GivenBack,
    /// Somebody has changed it since; that is not touched.
    ChangedSince,
}

/// Gives back what [`apply`] has changed since the record was begun, last made first. Nothing changed is fine.
///
/// # Errors
/// What could not be given back; the rest was, and the record keeps what is left, so that it can be tried again.
pub fn restore(root: &SysRoot) -> Result<Vec<Restored>, TuneError> {
    restore_some(root, &Setting::ALL)
}

/// As [`restore`], for some settings alone.
fn restore_some(root: &SysRoot, settings: &[Setting]) -> Result<Vec<Restored>, TuneError> {
    if !SavedState::exists(root) {
        return Ok(Vec::new());
    }
    let _lock = Lock::acquire(root)?;
    let mut record = SavedState::load(root)?;
    record.load_for_boot(root)?;
    let mut restored = Vec::new();
    let mut trouble = Vec::new();
    for setting in settings.iter().copied().rev() {
        let Some(kept) = record.get(setting).cloned() else {
            continue;
        };
        let given_back = restore_setting(root, setting, &kept.before, &kept.set)
            .and_then(|outcome| record.remove(root, setting).map(|()| outcome));
        match given_back {
            Ok(outcome) => restored.push(Restored {
                setting,
                before: setting.describe(root, &kept.before),
                outcome,
            }),
            Err(error) => trouble.push(format!("{}: {error}", setting.name())),
        }
    }
    if trouble.is_empty() {
        Ok(restored)
    } else {
        Err(TuneError::NotRestored { trouble })
    }
}

fn restore_setting(
    root: &SysRoot,
    setting: Setting,
    before: &str,
    set: &str,
) -> Result<Outcome, PlatformError> {
    let real = setting.current(root)?;
    if real == set || real == before {
        setting.revert(root, before)?;
        return Ok(Outcome::GivenBack);
    }
    Ok(Outcome::ChangedSince)
}
