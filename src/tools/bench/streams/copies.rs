// SPDX-License-Identifier: Apache-2.0
//! Copies of the sources of a configuration, each at the pace of a camera.

use anyhow::bail;

use jetwatch_config::{Config, Pacing, Playback, SourceConfig, SourceUri};

/// Replaces the sources of `config` by `count` copies of them, in turns. Files, images and scenes are played at `fps`, or at
/// their own pace without it, and start over at their end.
///
/// # Errors
/// A source cannot be copied, or has no pace of its own.
pub(crate) fn copy_sources(
    config: &mut Config,
    count: usize,
    fps: Option<u32>,
) -> anyhow::Result<()> {
    let originals = std::mem::take(&mut config.sources);
    for index in 0..count {
        let original = &originals[index % originals.len()];
        let mut source = original.clone();
        source.name = format!("{}-{}", original.name, index + 1);
        set_pace(&mut source, fps)?;
        if count > originals.len() && is_exclusive(&source.uri) {
            bail!(
                "{}: {} can be read by one program at a time; record it, and give the file as the source",
                original.name,
                original.uri
            );
        }
        config.sources.push(source);
    }
    Ok(())
}

/// Whether only one source can open it.
fn is_exclusive(uri: &SourceUri) -> bool {
    matches!(uri, SourceUri::V4l2 { .. } | SourceUri::Csi { .. })
}

fn set_pace(source: &mut SourceConfig, fps: Option<u32>) -> anyhow::Result<()> {
    let name = &source.name;
    match (&mut source.uri, fps) {
        (SourceUri::Synthetic(scene), fps) => {
            scene.pacing = Pacing::Realtime;
            scene.fps = fps.unwrap_or(scene.fps);
            source.loop_at_end = scene.frames.is_some();
        }
        (SourceUri::File(_) | SourceUri::Images(_) | SourceUri::Launch(_), Some(fps)) => {
            source.playback_fps = Playback::Fps(fps);
        }
        (SourceUri::Images(_), None) => match source.playback_fps {
            Playback::Fps(_) => {}
            _ => bail!("{name}: images of a folder have no rate; give one with --fps"),
        },
        (SourceUri::File(_), None) => {
            if source.playback_fps == Playback::Unlimited {
                source.playback_fps = Playback::Realtime;
            }
        }
        // Its elements set the pace.
        (SourceUri::Launch(_), None) => {}
        (_, None) => {}
        (_, Some(_)) => bail!("{name}: a camera sets its own rate; leave --fps out"),
    }
    if matches!(source.uri, SourceUri::File(_) | SourceUri::Images(_)) {
        source.loop_at_end = true;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(uri: &str, count: usize, fps: Option<u32>) -> Result<Vec<SourceConfig>, String> {
        let text = format!(
            "sources:\n  - {{name: a, uri: '{uri}'}}\n  - {{name: b, uri: 'synthetic://traffic?realtime=false'}}\ndetector: {{model: m}}\n"
        );
        let mut config = Config::from_str("f.yaml", &text).map_err(|error| error.to_string())?;
        copy_sources(&mut config, count, fps).map_err(|error| error.to_string())?;
        Ok(config.sources)
    }

    #[test]
    fn copies_are_live_take_turns_and_do_not_end() {
        let sources = copied("/x.mp4", 3, None).expect("a file");
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["a-1", "b-2", "a-3"]);
        assert!(sources.iter().all(SourceConfig::is_live));
        assert_eq!(sources[0].playback_fps, Playback::Realtime);
        assert!(
            sources[0].loop_at_end && !sources[1].loop_at_end,
            "the scene has no end"
        );
        let sources = copied("/x.mp4", 2, Some(25)).expect("a file");
        assert_eq!(sources[0].playback_fps, Playback::Fps(25));
        assert!(
            matches!(&sources[1].uri, SourceUri::Synthetic(scene) if scene.fps == 25),
            "{:?}",
            sources[1].uri
        );
    }

    #[test]
    fn sources_that_cannot_be_copied_are_refused() {
        for (uri, count, fps, wanted) in [
            ("v4l2:///dev/video0", 3, None, "one program at a time"),
            ("rtsp://camera/1", 3, Some(25), "sets its own rate"),
            ("images:/frames", 3, None, "give one with --fps"),
        ] {
            let error = copied(uri, count, fps).expect_err(uri);
            assert!(error.contains(wanted), "{uri}: {error}");
        }
        assert!(
            copied("v4l2:///dev/video0", 1, None).is_ok(),
            "it is read once"
        );
        assert!(copied("rtsp://camera/1", 16, None).is_ok());
    }
}
