// SPDX-License-Identifier: Apache-2.0
//! Video that a phone recorded upright or upside down: the file says how it is to be rotated, and its frames arrive so.

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};

use jetwatch_config::{DecoderChoice, Scaling, SourceConfig, SourceUri};
use jetwatch_platform::SysRoot;
use jetwatch_types::{Region, Size};

use support::clips::gst_launch;
use support::collector::{CollectedFrame, Collector, config};

/// A rotation of 16.16 fixed-point numbers, as it stands in the header of a track.
pub(crate) const CLOCKWISE: [u32; 4] = [0, 0x1_0000, 0xffff_0000, 0];
const UPSIDE_DOWN: [u32; 4] = [0xffff_0000, 0, 0, 0xffff_0000];
pub(crate) const COUNTERCLOCKWISE: [u32; 4] = [0, 0xffff_0000, 0x1_0000, 0];

/// Black frames of 320×240 whose upper quarter is white, with a display matrix.
pub(crate) fn clip(folder: &Path, rotation: Option<[u32; 4]>) -> PathBuf {
    let path = folder.join("clip.mp4");
    gst_launch(&format!(
        "videotestsrc num-buffers=10 pattern=black ! video/x-raw,format=I420,width=320,height=180,framerate=30/1 \
         ! videobox top=-60 fill=white ! x264enc speed-preset=ultrafast key-int-max=10 bframes=0 ! mp4mux ! filesink location={}",
        path.display()
    ));
    let Some([a, b, c, d]) = rotation else {
        return path;
    };
    let mut file = fs::read(&path).expect("the clip was written");
    let header = file
        .windows(4)
        .position(|window| window == b"tkhd")
        .expect("a track has a header");
    // Version and flags, two times, number, reserved, duration: 32 or 64 bits each by the version; then 16 bytes.
    let times = match file[header + 4] {
        0 => 4,
        _ => 8,
    };
    let matrix = header + 4 + 4 + 2 * times + 4 + 4 + times + 16;
    for (index, number) in [a, b, 0, c, d, 0, 0, 0, 1 << 30].into_iter().enumerate() {
        let at = matrix + 4 * index;
        file[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }
    fs::write(&path, file).expect("the folder is writable");
    path
}

fn source(clip: PathBuf) -> SourceConfig {
    SourceConfig {
        decoder: DecoderChoice::Software,
        scaling: Scaling::Cpu,
        ..config(SourceUri::File(clip))
    }
}

fn frames(config: &SourceConfig) -> Vec<CollectedFrame> {
    let machine = SysRoot::default();
    let collector = Collector::start_with_full_images(&machine, config, usize::MAX);
    let (frames, result) = collector.join();
    result.expect("the clip is sound");
    assert_eq!(frames.len(), 10);
    frames
}

/// Brightness of the frames within a part of the upright image.
fn brightness(config: &SourceConfig, [left, top, width, height]: [f32; 4]) -> f32 {
    let roi = Region {
        left,
        top,
        width,
        height,
    };
    let config = SourceConfig {
        roi: Some(roi),
        ..config.clone()
    };
    frames(&config)[5].mean
}

#[test]
fn frames_of_a_rotated_file_are_upright() {
    let upper = [0.0, 0.0, 1.0, 0.2];
    let right = [0.8, 0.0, 0.2, 1.0];
    let lower = [0.0, 0.8, 1.0, 0.2];
    let left = [0.0, 0.0, 0.2, 1.0];
    #[rustfmt::skip]
    let cases = [
        (None, Size::new(320, 240), Size::new(416, 312), upper, lower),
        (Some(CLOCKWISE), Size::new(240, 320), Size::new(312, 416), right, left),
        (Some(UPSIDE_DOWN), Size::new(320, 240), Size::new(416, 312), lower, upper),
        (Some(COUNTERCLOCKWISE), Size::new(240, 320), Size::new(312, 416), left, right),
    ];
    for (rotation, size, inner, white, black) in cases {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = source(clip(folder.path(), rotation));
        for frame in frames(&config) {
            assert_eq!(frame.meta.source_size, size, "{rotation:x?}");
            assert_eq!(frame.image, inner, "{rotation:x?}");
            let full_image = frame.full_image.map(|(size, _)| size);
            assert_eq!(full_image, Some(size), "{rotation:x?}");
        }
        let (white, black) = (brightness(&config, white), brightness(&config, black));
        assert!(
            white > 240.0 && black < 10.0,
            "{rotation:x?}: {white} {black}"
        );
    }
}

#[test]
fn only_rotated_video_passes_an_element_that_rotates() {
    for (rotation, rotates) in [(None, false), (Some(CLOCKWISE), true)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let collector = Collector::start(&source(clip(folder.path(), rotation)), usize::MAX);
        let plan = collector.frames_and_plan().1.to_string();
        let rotation = "rotate by CPU (videoflip, 320×240 I420 to 240×320 I420)";
        assert_eq!(plan.contains(rotation), rotates, "{plan}");
    }
}

#[test]
fn file_that_starts_over_stays_upright() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut config = source(clip(folder.path(), Some(CLOCKWISE)));
    config.loop_at_end = true;
    let (frames, result) = Collector::start(&config, 35).join();
    result.expect("a stop is no error");
    assert_eq!(frames.len(), 35);
    for frame in frames {
        assert_eq!(frame.image, Size::new(312, 416));
    }
}
