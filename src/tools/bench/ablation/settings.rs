//! The keys that a step sets, as they stand in a configuration file.

use jetwatch_config::{Config, Interval};

/// The keys with their values that make `to` of `from`, of those that steps of the ablation change; `null`: the key is left out.
/// How the sources are read is no such key.
#[must_use]
pub fn changed_settings(from: &Config, to: &Config) -> Vec<(String, String)> {
    let mut changed = Vec::new();
    let mut compare = |key: String, before: String, after: String| {
        if before != after {
            changed.push((key, after));
        }
    };
    let text = |text: &Option<String>| match text {
        Some(text) => text.clone(),
        None => "null".to_owned(),
    };
    let interval = |interval: Interval| match interval {
        Interval::Frames(frames) => frames.to_string(),
        Interval::Adaptive => "adaptive".to_owned(),
    };
    let own = |own: Option<Interval>| own.map_or_else(|| "null".to_owned(), interval);
    let (a, b) = (&from.detector, &to.detector);
    let mut detector = |key: &str, before: String, after: String| {
        compare(format!("detector.{key}"), before, after);
    };
    detector("workers", a.workers.to_string(), b.workers.to_string());
    detector(
        "batch_size",
        a.batch_size.to_string(),
        b.batch_size.to_string(),
    );
    detector("precision", text(&a.precision), text(&b.precision));
    detector("interval", interval(a.interval), interval(b.interval));
    let path = |path: &Option<std::path::PathBuf>| {
        let shown = path
            .as_ref()
            .map(|path| format!("{:?}", path.display().to_string()));
        shown.unwrap_or_else(|| "null".to_owned())
    };
    let (a, b) = (&a.tensorrt, &b.tensorrt);
    detector(
        "tensorrt.calibration",
        path(&a.calibration),
        path(&b.calibration),
    );
    let number = |dla: Option<u32>| dla.map_or_else(|| "null".to_owned(), |dla| dla.to_string());
    detector("tensorrt.dla", number(a.dla), number(b.dla));
    for (index, (a, b)) in from.sources.iter().zip(&to.sources).enumerate() {
        compare(
            format!("sources[{index}].interval"),
            own(a.interval),
            own(b.interval),
        );
    }
    for (index, (a, b)) in from.secondary.iter().zip(&to.secondary).enumerate() {
        let mut network = |key: &str, before: String, after: String| {
            compare(format!("secondary[{index}].{key}"), before, after);
        };
        network("workers", a.workers.to_string(), b.workers.to_string());
        network(
            "batch_size",
            a.batch_size.to_string(),
            b.batch_size.to_string(),
        );
        network("precision", text(&a.precision), text(&b.precision));
    }
    changed
}
