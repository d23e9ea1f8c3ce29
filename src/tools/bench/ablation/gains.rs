//! Gain of each step of the ablation.

use serde::Serialize;
use serde_json::Value;

use super::AblationStep;
use crate::{Comparison, Noise, Statistics};
use jetwatch_telemetry::Stage;

/// Stages that are reported of a step.
const MAX_STAGES: usize = 3;

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
    /// The stages with the longest times, in the first successful round.
    pub spent: Vec<CpuPerFrame>,
    /// Differences from its name, and other notes.
    pub notes: Vec<String>,
}

/// Time of one stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuPerFrame {
    /// The stage.
    pub stage: String,
    /// Milliseconds of its threads for each frame.
    pub ms_per_frame: f64,
}

/// The gain of each step, from the speeds of its rounds: `None` for a failed round. `details` has the stage times and the notes of
/// each step. The steps are [`AblationStep::ALL`], in their order.
#[must_use]
pub fn compute_gains(
    speeds: &[Vec<Option<f64>>],
    details: Vec<(Vec<CpuPerFrame>, Vec<String>)>,
) -> Vec<Gain> {
    let good = |rounds: &[Option<f64>]| -> Vec<f64> { rounds.iter().copied().flatten().collect() };
    let time = |rounds: &[Option<f64>]| {
        let fps = Statistics::from_values(&good(rounds))?;
        (fps.median > 0.0).then(|| 1e3 / fps.median)
    };
    let first = speeds.first().and_then(|rounds| time(rounds));
    let mut steps = Vec::new();
    for ((step, rounds), (spent, mut notes)) in
        AblationStep::ALL.into_iter().zip(speeds).zip(details)
    {
        let before = step.number().checked_sub(2).and_then(|at| speeds.get(at));
        let gain = before.and_then(|before| {
            // Pairs with a failed run are left out.
            let pairs = before.iter().zip(rounds);
            let pairs = pairs.filter_map(|(before, after)| Some(((*before)?, (*after)?)));
            let (before, after): (Vec<f64>, Vec<f64>) = pairs.unzip();
            Comparison::paired(&before, &after)
        });
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
            spent,
            notes,
        });
    }
    steps
}

/// The stages with the longest times of a run, from `run` in `benchmark.json`. Without waits, without times of the GPU, which are
/// part of `infer`, and without the stay of images in elements, which contains waits for the pipeline behind them.
#[must_use]
pub fn cpu_per_frame(run: &Value) -> Vec<CpuPerFrame> {
    let frames = run["frames"].as_f64().unwrap_or(0.0).max(1.0);
    let is_work = |name: &str| {
        Stage::ALL.iter().any(|stage| {
            stage.name() == name && !stage.is_on_gpu() && !stage.is_stay() && !stage.is_wait()
        })
    };
    let stages = run["stages"].as_array().into_iter().flatten();
    let mut spent: Vec<CpuPerFrame> = stages
        .filter_map(|stage| {
            let name = stage["stage"].as_str().filter(|name| is_work(name))?;
            Some(CpuPerFrame {
                stage: name.to_owned(),
                ms_per_frame: stage["total_ms"].as_f64()? / frames,
            })
        })
        .filter(|spent| spent.ms_per_frame > 0.0)
        .collect();
    spent.sort_by(|a, b| b.ms_per_frame.total_cmp(&a.ms_per_frame));
    spent.truncate(MAX_STAGES);
    spent
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        ];
        let details = vec![(Vec::new(), vec!["a word".to_owned()]); 6];
        let steps = compute_gains(&speeds, details);
        let relative: Vec<_> = steps.iter().map(|step| step.relative_percent).collect();
        // Medians of 10, 20, 40, nothing, 40 and 80 frames a second.
        let wanted = [
            Some(100.0),
            Some(50.0),
            Some(25.0),
            None,
            Some(25.0),
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
        ];
        assert_eq!(gains, wanted);
        assert_eq!(steps[0].notes[0], "a word");
        assert_eq!((steps[5].step, steps[5].name), (6, "6_int8_interval"));
    }

    #[test]
    fn slowest_stages_are_listed_per_frame_without_waits() {
        let run = json!({"frames": 50, "stages": [
            {"stage": "video_decode_stay", "total_ms": 700.0}, {"stage": "enqueue", "total_ms": 600.0}, {"stage": "source", "total_ms": 100.0}, {"stage": "batch", "total_ms": 900.0},
            {"stage": "infer", "total_ms": 400.0}, {"stage": "track", "total_ms": 5.0},
            {"stage": "publish", "total_ms": 10.0}, {"stage": "gpu_network", "total_ms": 390.0},
            {"stage": "secondary_wait", "total_ms": 800.0}, {"stage": "render", "total_ms": 0.0},
        ]});
        let details: Vec<(String, f64)> = cpu_per_frame(&run)
            .into_iter()
            .map(|spent| (spent.stage, spent.ms_per_frame))
            .collect();
        let wanted = [("infer", 8.0), ("source", 2.0), ("publish", 0.2)];
        assert_eq!(details, wanted.map(|(stage, ms)| (stage.to_owned(), ms)));
        assert_eq!(cpu_per_frame(&Value::Null), []);
    }
}
