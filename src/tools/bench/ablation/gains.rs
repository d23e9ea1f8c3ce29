//! Gain of each step of the ablation.

use serde::Serialize;

use super::{AblationStep, Explanation, RunCost};
use crate::{Comparison, Noise, SecondaryResult, Statistics};

/// Result of one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// Its number, from 1.
    pub step: usize,
    /// Its name in files.
    pub name: &'static str,
    /// Description of its change.
    pub title: &'static str,
    /// Frames per second over the rounds; `None` where all failed.
    pub fps: Option<Statistics>,
    /// Time per frame, in ms: 1000 divided by the median of the frames per second.
    pub ms_per_frame: Option<f64>,
    /// That time as a share of the first step's, in percent.
    pub relative_percent: Option<f64>,
    /// Speed divided by that of the step before, for each round.
    pub gain: Option<Comparison>,
    /// Speed divided by that of the first step, for each round.
    pub cumulative: Option<Comparison>,
    /// What explains the change from the step before.
    pub explanation: Option<Explanation>,
    /// Keys that the step sets, in addition to those of the step before.
    pub settings: Vec<String>,
    /// What it changes that no key sets.
    pub conditions: &'static str,
    /// Each secondary network; means over the rounds.
    pub secondary: Vec<SecondaryResult>,
    /// Differences from its name, and other notes.
    pub notes: Vec<String>,
}

/// What the runs of a step say besides their speeds.
#[derive(Debug, Clone, Default)]
pub struct StepDetails {
    /// Costs of each round; `None` for a failed one.
    pub costs: Vec<Option<RunCost>>,
    /// Keys that differ from the configuration; `null`: left out.
    pub settings: Vec<(String, String)>,
    /// Each secondary network.
    pub secondary: Vec<SecondaryResult>,
    /// Differences from its name, and other notes.
    pub notes: Vec<String>,
}

/// The gain of each step, from the speeds of its rounds: `None` for a failed round. `details` has what else the runs of
/// each step say. The steps are [`AblationStep::ALL`], in their order.
#[must_use]
pub fn compute_gains(speeds: &[Vec<Option<f64>>], details: Vec<StepDetails>) -> Vec<Gain> {
    let good = |rounds: &[Option<f64>]| -> Vec<f64> { rounds.iter().copied().flatten().collect() };
    let time = |rounds: &[Option<f64>]| {
        let fps = Statistics::from_values(&good(rounds))?;
        (fps.median > 0.0).then(|| 1e3 / fps.median)
    };
    let first = speeds.first().and_then(|rounds| time(rounds));
    let compared = |before: Option<&Vec<Option<f64>>>, rounds: &[Option<f64>]| {
        // Pairs with a failed run are left out.
        let pairs = before?.iter().zip(rounds);
        let pairs = pairs.filter_map(|(before, after)| Some(((*before)?, (*after)?)));
        let (before, after): (Vec<f64>, Vec<f64>) = pairs.unzip();
        Comparison::paired(&before, &after)
    };
    let mut steps: Vec<Gain> = Vec::new();
    let mut previous: Option<&StepDetails> = None;
    for ((step, rounds), own) in AblationStep::ALL.into_iter().zip(speeds).zip(&details) {
        let before = step.number().checked_sub(2).and_then(|at| speeds.get(at));
        let gain = compared(before, rounds);
        let cumulative = before.and_then(|_| compared(speeds.first(), rounds));
        let explanation = previous.and_then(|previous| {
            let pairs = previous.costs.iter().zip(&own.costs);
            let pairs: Vec<_> = pairs
                .filter_map(|(before, after)| Some((before.as_ref()?, after.as_ref()?)))
                .collect();
            // Of the medians in the table of the steps.
            let change = time(rounds)? - time(before?)?;
            Explanation::of_pairs(change, &pairs)
        });
        let mut notes = own.notes.clone();
        let settings = new_settings(previous.map(|previous| previous.settings.as_slice()), own);
        previous = Some(own);
        let fps = good(rounds);
        notes.extend(Noise::detect(&fps).iter().map(Noise::describe));
        let ms_per_frame = time(rounds);
        steps.push(Gain {
            step: step.number(),
            name: step.name(),
            title: step.title(),
            fps: Statistics::from_values(&fps),
            ms_per_frame,
            relative_percent: ms_per_frame
                .zip(first)
                .map(|(own, first)| 100.0 * (own / first)),
            gain,
            cumulative,
            explanation,
            settings,
            conditions: step.conditions(),
            secondary: own.secondary.clone(),
            notes,
        });
    }
    steps
}

/// The settings of a step that those of the step before do not have, as text. A key that only the step before sets has the value
/// of the configuration again.
fn new_settings(before: Option<&[(String, String)]>, own: &StepDetails) -> Vec<String> {
    let before = before.unwrap_or_default();
    let is_new = |setting: &&(String, String)| !before.contains(setting);
    let new = own.settings.iter().filter(is_new);
    let mut shown: Vec<String> = new.map(|(key, value)| format!("{key}: {value}")).collect();
    for (key, _) in before {
        if own.settings.iter().all(|(set, _)| set != key) {
            shown.push(format!("{key}: as configured"));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_compare_steps_of_same_round() {
        let speeds = [
            vec![Some(10.0), Some(20.0), Some(10.0)],
            vec![Some(20.0), Some(50.0), Some(20.0)],
            vec![None, Some(50.0), Some(30.0)],
            vec![None, None, None],
            vec![Some(40.0), Some(40.0), Some(40.0)],
            vec![Some(80.0), Some(80.0), Some(80.0)],
            vec![Some(160.0), Some(80.0), Some(80.0)],
        ];
        let set = |settings: &[(&str, &str)]| StepDetails {
            notes: vec!["a word".to_owned()],
            settings: settings
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..StepDetails::default()
        };
        let mut details = vec![set(&[]); 7];
        details[0] = set(&[("detector.workers", "1"), ("detector.precision", "fp32")]);
        details[1] = set(&[("detector.precision", "fp32")]);
        details[2] = set(&[("detector.precision", "int8")]);
        let steps = compute_gains(&speeds, details);
        let relative: Vec<_> = steps.iter().map(|step| step.relative_percent).collect();
        // Medians of 10, 20, 40, nothing, 40, 80 and 80 frames a second.
        let wanted = [
            Some(100.0),
            Some(50.0),
            Some(25.0),
            None,
            Some(25.0),
            Some(12.5),
            Some(12.5),
        ];
        assert_eq!(relative, wanted);
        let gains: Vec<_> = steps
            .iter()
            .map(|step| step.gain.as_ref().map(|gain| gain.ratios.clone()))
            .collect();
        let wanted = [
            None,
            Some(vec![2.0, 2.5, 2.0]),
            Some(vec![1.0, 1.5]),
            None,
            None,
            Some(vec![2.0, 2.0, 2.0]),
            Some(vec![2.0, 1.0, 1.0]),
        ];
        assert_eq!(gains, wanted);
        assert_eq!(steps[0].notes[0], "a word");
        assert_eq!((steps[6].step, steps[6].name), (7, "7_interval"));
        let cumulative = steps[6]
            .cumulative
            .as_ref()
            .map(|factor| factor.ratios.clone());
        assert_eq!(cumulative, Some(vec![16.0, 4.0, 8.0]));
        assert!(steps[0].cumulative.is_none());
        let settings: Vec<String> = steps.iter().map(|step| step.settings.join(", ")).collect();
        let wanted = [
            "detector.workers: 1, detector.precision: fp32",
            "detector.workers: as configured",
            "detector.precision: int8",
            "detector.precision: as configured",
            "",
            "",
            "",
        ];
        assert_eq!(settings, wanted);
    }
}
