// SPDX-License-Identifier: Apache-2.0
//! Makes the test clip: frames of the built-in street, encoded by x264, and decoded by libavcodec for the digests.
//!
//! GStreamer runs in `gst-launch-1.0`, a process of its own. So the program for arm64 makes the clip on a build host of
//! another architecture, too: under user-mode emulation it can start the host's programs, but not load the host's plug-ins.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use jetwatch_config::{Pacing, SyntheticScene};
use jetwatch_files::Sha256Digest;
use jetwatch_source::ElementSpec;
use jetwatch_traffic::scene::Scene;
use jetwatch_types::Size;

use super::test_clip::{ClipIndex, INDEX, VIDEO, access_units};

/// Program that runs the elements, and its package.
const LAUNCH: &str = "gst-launch-1.0";
const LAUNCH_PACKAGE: &str = "gstreamer1.0-tools";

const SIZE: Size = Size::new(320, 240);

/// Number of images.
const IMAGES: u64 = 12;

/// Frames of the scene from image to image, at 30 frames per second: enough motion for prediction between images.
const STEP: u64 = 3;

/// Largest size of the video, in bytes.
const MAX_BYTES: usize = 60_000;

/// Names of the temporary files.
const FRAMES: &str = "frames.bgrx";
const ENCODED: &str = "encoded.h264";
const DECODED: &str = "decoded.i420";

/// Elements that only make the test clip. No machine needs them to run the daemon.
pub const TEST_CLIP_ELEMENTS: &[ElementSpec] = &[
    ElementSpec {
        name: "filesrc",
        package: "libgstreamer1.0-0",
        properties: &["location"],
    },
    ElementSpec {
        name: "filesink",
        package: "libgstreamer1.0-0",
        properties: &["location"],
    },
    ElementSpec {
        name: "rawvideoparse",
        package: "gstreamer1.0-plugins-base",
        properties: &["format", "width", "height", "framerate"],
    },
    ElementSpec {
        name: "videoconvert",
        package: "gstreamer1.0-plugins-base",
        properties: &[],
    },
    ElementSpec {
        name: "x264enc",
        package: "gstreamer1.0-plugins-ugly",
        properties: &[
            "threads",
            "pass",
            "quantizer",
            "key-int-max",
            "bframes",
            "b-adapt",
            "cabac",
            "dct8x8",
            "aud",
        ],
    },
    ElementSpec {
        name: "h264parse",
        package: "gstreamer1.0-plugins-bad",
        properties: &[],
    },
    ElementSpec {
        name: "avdec_h264",
        package: "gstreamer1.0-libav",
        properties: &[],
    },
];

/// Writes `test-clip.h264` and `test-clip.json` to `folder`, which is created if it does not exist. The same releases of
/// x264 and GStreamer write the same bytes.
///
/// # Errors
/// A program or element is missing, GStreamer fails, or the folder cannot be written.
pub fn write_test_clip(folder: &Path) -> anyhow::Result<()> {
    let temporary = tempfile::tempdir().context("cannot create a temporary folder")?;
    let path = |name: &str| temporary.path().join(name);
    fs::write(path(FRAMES), frames()).context("cannot write the frames of the test clip")?;
    launch(temporary.path(), &encode())?;
    launch(temporary.path(), &decode())?;
    let video = fs::read(path(ENCODED)).context("cannot read the encoded test clip")?;
    let decoded = fs::read(path(DECODED)).context("cannot read the decoded test clip")?;
    let (images, rest) = decoded
        .as_slice()
        .split_at(decoded.len() / image_len() * image_len());
    let images: Vec<_> = images.chunks(image_len()).map(Sha256Digest::of).collect();
    let units = access_units(&video).len();
    ensure!(
        images.len() as u64 == IMAGES && rest.is_empty() && units == images.len(),
        "the test clip has {units} access units and {} bytes of images, expected {IMAGES} of {} bytes",
        decoded.len(),
        image_len()
    );
    ensure!(
        video.len() <= MAX_BYTES,
        "the test clip has {} bytes, expected at most {MAX_BYTES}",
        video.len()
    );
    let index = ClipIndex {
        width: SIZE.width,
        height: SIZE.height,
        sha256: Sha256Digest::of(&video),
        images,
    };
    let text = format!("{}\n", serde_json::to_string_pretty(&index)?);
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    jetwatch_files::write(&folder.join(VIDEO), &video)?;
    jetwatch_files::write(&folder.join(INDEX), text.as_bytes())?;
    Ok(())
}

/// Size of a decoded image, in bytes: planes Y, U and V with 8 bits per sample.
fn image_len() -> usize {
    SIZE.width as usize * SIZE.height as usize * 3 / 2
}

/// The images as `BGRx`, one after another.
fn frames() -> Vec<u8> {
    let mut scene = Scene::new(&SyntheticScene {
        seed: 1,
        objects: 8,
        width: SIZE.width,
        height: SIZE.height,
        fps: 30,
        frames: None,
        shake: 0,
        pacing: Pacing::Unlimited,
    });
    let row = SIZE.width as usize * 4;
    let mut images = vec![0; row * SIZE.height as usize * IMAGES as usize];
    for (image, index) in images.chunks_mut(row * SIZE.height as usize).zip(0_u64..) {
        scene.draw(index * STEP, SIZE, image, row);
    }
    images
}

/// Elements and caps from the frames to the video: high profile with CABAC and transforms of both sizes; groups of six
/// images, with two B-frames between others. A constant quantizer and one thread, so that the result depends neither on
/// the CPU nor on its load.
fn encode() -> Vec<Vec<String>> {
    let (width, height) = (SIZE.width.to_string(), SIZE.height.to_string());
    vec![
        element("filesrc", &[("location", FRAMES)]),
        element(
            "rawvideoparse",
            &[
                ("format", "bgrx"),
                ("width", &width),
                ("height", &height),
                ("framerate", "10/1"),
            ],
        ),
        element("videoconvert", &[]),
        vec!["video/x-raw,format=I420".to_owned()],
        element(
            "x264enc",
            &[
                ("threads", "1"),
                ("pass", "quant"),
                ("quantizer", "26"),
                ("key-int-max", "6"),
                ("bframes", "2"),
                ("b-adapt", "false"),
                ("cabac", "true"),
                ("dct8x8", "true"),
                ("aud", "true"),
            ],
        ),
        vec!["video/x-h264,stream-format=byte-stream,alignment=au,profile=high".to_owned()],
        element("filesink", &[("location", ENCODED)]),
    ]
}

/// Elements and caps from the video to its images.
fn decode() -> Vec<Vec<String>> {
    vec![
        element("filesrc", &[("location", ENCODED)]),
        element("h264parse", &[]),
        element("avdec_h264", &[]),
        vec!["video/x-raw,format=I420".to_owned()],
        element("filesink", &[("location", DECODED)]),
    ]
}

/// The arguments of `gst-launch-1.0` for an element of [`TEST_CLIP_ELEMENTS`].
fn element(name: &str, settings: &[(&str, &str)]) -> Vec<String> {
    debug_assert!(
        TEST_CLIP_ELEMENTS.iter().any(|spec| spec.name == name
            && settings
                .iter()
                .all(|(key, _)| spec.properties.contains(key))),
        "{name} with {settings:?} is not in the table of elements"
    );
    let settings = settings.iter().map(|(key, value)| format!("{key}={value}"));
    std::iter::once(name.to_owned()).chain(settings).collect()
}

/// Runs linked elements in `folder` until the end of the stream.
fn launch(folder: &Path, elements: &[Vec<String>]) -> anyhow::Result<()> {
    let output = Command::new(LAUNCH)
        .arg("--quiet")
        .args(elements.join(&"!".to_owned()))
        .current_dir(folder)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(without_launch()),
        Err(error) => return Err(error).with_context(|| format!("cannot start {LAUNCH}")),
    };
    // How an emulated process learns that the program does not exist.
    if output.status.code() == Some(127) {
        return Err(without_launch());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    if let Some(missing) = missing_element(&text) {
        bail!(
            "GStreamer element {} is missing; install it with: apt-get install {}",
            missing.name,
            missing.package
        );
    }
    ensure!(
        output.status.success(),
        "{LAUNCH} failed ({}): {}",
        output.status,
        text.trim()
    );
    Ok(())
}

fn without_launch() -> anyhow::Error {
    anyhow::anyhow!("{LAUNCH} is missing; install it with: apt-get install {LAUNCH_PACKAGE}")
}

/// The element that `gst-launch-1.0` does not find, by its error output.
fn missing_element(text: &str) -> Option<&'static ElementSpec> {
    TEST_CLIP_ELEMENTS
        .iter()
        .find(|spec| text.contains(&format!("no element \"{}\"", spec.name)))
}

#[cfg(test)]
mod tests {
    use super::super::test_clip::TestClip;
    use super::super::video_selftest::test_decoding;
    use super::*;

    fn written() -> (tempfile::TempDir, TestClip) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        write_test_clip(folder.path()).expect("x264 and libavcodec are installed");
        let clip = TestClip::load(folder.path()).expect("it is whole");
        (folder, clip)
    }

    /// Types of the NAL units of a byte stream.
    fn unit_types(bytes: &[u8]) -> Vec<u8> {
        let starts = bytes.windows(4).filter(|window| window[..3] == [0, 0, 1]);
        starts.map(|window| window[3] & 0x1f).collect()
    }

    #[test]
    fn clip_has_intra_and_inter_images_that_differ() {
        let (folder, clip) = written();
        assert_eq!((clip.size, clip.images.len() as u64), (SIZE, IMAGES));
        let mut images = clip.images.clone();
        images.sort_unstable();
        images.dedup();
        assert_eq!(images.len() as u64, IMAGES, "no image is repeated");
        let of_type = |kind: u8| {
            let units = clip.access_units.iter();
            units
                .filter(|unit| unit_types(unit).contains(&kind))
                .count()
        };
        assert_eq!((of_type(5), of_type(1)), (2, 10), "IDR and other slices");
        let video = fs::read(folder.path().join(VIDEO)).expect("readable");
        // High profile.
        let sequence = video
            .windows(5)
            .find(|window| window[..4] == [0, 0, 1, 0x67]);
        assert_eq!(sequence.map(|window| window[4]), Some(100));
    }

    #[test]
    fn clip_is_reproducible() {
        let (first, second) = (written().1, written().1);
        assert_eq!(first.access_units, second.access_units);
        assert_eq!(first.images, second.images);
    }

    #[test]
    fn decoder_outputs_the_listed_images_and_a_flipped_byte_changes_them() {
        let (_folder, mut clip) = written();
        let decoded = test_decoding(None, &clip).expect("it decodes");
        assert_eq!(decoded.images, clip.images);
        // In the slice of the last access unit, so that the decoder still outputs all images.
        let last = clip.access_units.last_mut().expect("an access unit");
        let middle = last.len() / 2;
        last[middle] ^= 0x55;
        let decoded = test_decoding(None, &clip).map(|result| result.images);
        assert_ne!(decoded.as_ref(), Ok(&clip.images));
    }

    #[test]
    fn missing_elements_are_named_with_their_package() {
        let error = "WARNING: erroneous pipeline: no element \"x264enc\"\n";
        let missing = missing_element(error).expect("it is in the table");
        assert_eq!(missing.package, "gstreamer1.0-plugins-ugly");
        assert!(missing_element("ERROR: could not link").is_none());
    }
}
