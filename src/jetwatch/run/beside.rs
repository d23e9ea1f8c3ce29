//! The second configuration of `jetwatch run --beside`, and what cannot be recorded side by side.

use std::path::Path;

use anyhow::ensure;

use jetwatch_config::{CameraMotionModel, Config, Interval};

/// Reads the configuration of the second detector. Only its sections `detector` and `tracker` count, and `score_threshold` and
/// `classes` of its source.
///
/// # Errors
/// The file has problems, or one of the two configurations cannot be recorded side by side.
pub(super) fn load(
    path: &Path,
    config: &Config,
    config_path: &Path,
) -> anyhow::Result<Box<Config>> {
    let other = Config::load(path)?;
    for (file, config) in [(config_path, config), (path, &other)] {
        one_source(config, file)?;
        every_frame(config, file)?;
    }
    ensure!(
        !config.commands.enabled,
        "--beside: commands.enabled of {} is true, expected false: an added source would not be recorded; switch it off for this run",
        config_path.display()
    );
    let file = path.display();
    ensure!(
        other.tracker.appearance.is_none(),
        "--beside: {file} sets tracker.appearance, expected none: no secondary network runs for the second detector; remove the key"
    );
    ensure!(
        other.tracker.camera_motion == CameraMotionModel::Off,
        "--beside: {file} sets tracker.camera_motion, expected off: it is not estimated for the second detector; remove the key"
    );
    Ok(Box::new(other))
}

fn one_source(config: &Config, file: &Path) -> anyhow::Result<()> {
    ensure!(
        config.sources.len() == 1,
        "--beside: found {} sources in {}, expected 1: both detectors get the frames of the same source; keep one",
        config.sources.len(),
        file.display()
    );
    Ok(())
}

/// Both detectors must see the same frames.
fn every_frame(config: &Config, file: &Path) -> anyhow::Result<()> {
    let source = &config.sources[0];
    let (key, interval) = match source.interval {
        Some(interval) => ("sources[0].interval", interval),
        None => ("detector.interval", config.detector.interval),
    };
    ensure!(
        matches!(interval, Interval::Frames(0)),
        "--beside: {key} of {} skips frames, expected 0: both detectors get every frame; set it to 0",
        file.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
sources: [{name: cam, uri: \"synthetic://traffic\"}]
detector: {backend: scripted}
";

    /// Checks a pair of configurations; returns the error.
    fn refused(first: &str, second: &str) -> Option<String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("b.yaml");
        std::fs::write(&path, second).expect("written");
        let config = Config::from_str("a.yaml", first).expect("a good file");
        let error = load(&path, &config, Path::new("a.yaml")).err()?;
        Some(
            error
                .to_string()
                .replace(&path.display().to_string(), "b.yaml"),
        )
    }

    #[test]
    fn combinations_that_cannot_be_recorded_side_by_side_are_refused() {
        assert_eq!(refused(GOOD, GOOD), None);
        let with = |from: &str, to: &str| GOOD.replace(from, to);
        let two = with("}]", "}, {name: b, uri: \"synthetic://traffic\"}]");
        #[rustfmt::skip]
        let cases = [
            (two.clone(), GOOD.to_owned(), "found 2 sources in a.yaml, expected 1"),
            (GOOD.to_owned(), two, "found 2 sources in b.yaml, expected 1"),
            (with("scripted", "scripted, interval: 2"), GOOD.to_owned(), "detector.interval of a.yaml skips frames, expected 0"),
            (GOOD.to_owned(), with("traffic\"", "traffic\", interval: adaptive"), "sources[0].interval of b.yaml skips frames"),
            (
                GOOD.to_owned(),
                format!("{GOOD}tracker: {{camera_motion: similarity}}\n"),
                "b.yaml sets tracker.camera_motion, expected off",
            ),
        ];
        for (first, second, expected) in cases {
            let error = refused(&first, &second).expect("it cannot be recorded");
            assert!(error.contains(expected), "{error}");
        }
    }
}
