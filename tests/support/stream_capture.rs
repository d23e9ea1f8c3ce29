// SPDX-License-Identifier: Apache-2.0
//! The encoded stream of a real source, with the images that it belongs to.
#![allow(dead_code)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jetwatch_config::{EncodingConfig, SourceUri};
use jetwatch_media::{ClipFacts, ClipFile, RingLimits, RingUnit, SourceStream};
use jetwatch_source::{Flow, FrameHandler, SourceContext, start};
use jetwatch_telemetry::StopToken;
use jetwatch_types::{
    AccessUnit, AudioFormat, AudioUnit, Frame, Placement, SourceId, StreamFormat,
};

use super::collector::{INPUT, config};
use super::daemon::wait_until_some;

/// More than any clip of these tests.
pub const LIMITS: RingLimits = RingLimits {
    bytes: 64 << 20,
    span: Duration::from_secs(3600),
};

/// Stores what a source delivers, and stops it after `max_frames` frames.
pub struct Capture {
    pub stream: Arc<SourceStream>,
    pub formats: Mutex<Vec<StreamFormat>>,
    pub units: Mutex<Vec<AccessUnit>>,
    pub frame_pts: Mutex<Vec<Duration>>,
    max_frames: usize,
    stop: StopToken,
}

impl FrameHandler for Capture {
    fn frame(&self, frame: Frame) -> Flow {
        let mut times = self.frame_pts.lock().unwrap();
        times.extend(frame.meta.pts);
        match times.len() < self.max_frames {
            true => Flow::Continue,
            false => {
                self.stop.stop();
                Flow::Stop
            }
        }
    }

    fn stream_started(&self, _source: SourceId, format: StreamFormat) {
        self.formats.lock().unwrap().push(format);
        self.stream.start(format);
    }

    fn access_unit(&self, _source: SourceId, unit: AccessUnit) {
        self.units.lock().unwrap().push(unit.clone());
        self.stream.push(unit);
    }

    fn audio_started(&self, _source: SourceId, format: AudioFormat) {
        self.stream.start_sound(format);
    }

    fn audio_unit(&self, _source: SourceId, unit: AudioUnit) {
        self.stream.push_sound(unit);
    }
}

/// Runs a source until its end, or until `max_frames` frames.
pub fn capture(uri: SourceUri, max_frames: usize) -> Arc<Capture> {
    capture_within(uri, max_frames, EncodingConfig::default())
}

/// The same, with these limits of an encoder.
pub fn capture_within(uri: SourceUri, max_frames: usize, encoding: EncodingConfig) -> Arc<Capture> {
    captured(uri, max_frames, encoding, false)
}

/// The same with the sound of the source.
pub fn capture_with_sound(uri: SourceUri, max_frames: usize) -> Arc<Capture> {
    captured(uri, max_frames, EncodingConfig::default(), true)
}

fn captured(
    uri: SourceUri,
    max_frames: usize,
    encoding: EncodingConfig,
    wants_audio: bool,
) -> Arc<Capture> {
    let stop = StopToken::default();
    let handler = Arc::new(Capture {
        stream: Arc::new(SourceStream::new("cam", LIMITS)),
        formats: Mutex::default(),
        units: Mutex::default(),
        frame_pts: Mutex::default(),
        max_frames,
        stop: stop.clone(),
    });
    let context = SourceContext {
        wants_access_units: true,
        wants_audio,
        encoding,
        synthetic: Some(jetwatch_traffic::synthetic_factory()),
        ..SourceContext::standalone("cam", INPUT, Placement::TopLeft, &stop, handler.clone())
    };
    let source = start(&config(uri), context).expect("a thread");
    wait_until_some("the source ends", || source.is_finished().then_some(()));
    source.join().expect("the source is sound");
    handler
}

/// Writes these units as a clip.
pub fn write_clip(path: &std::path::Path, units: &[RingUnit]) -> ClipFacts {
    let file = std::fs::File::create(path).expect("created");
    let mut clip = ClipFile::begin(file, &units[0]).expect("begun");
    for unit in units {
        assert!(clip.accepts(unit));
        clip.add(unit.clone()).expect("written");
    }
    clip.finish().expect("finished").1
}

/// All units of a stream.
pub fn units(stream: &SourceStream) -> Vec<RingUnit> {
    let mut cursor = stream.keyframe_before(i64::MIN).expect("units");
    let mut units = Vec::new();
    let read = stream.read(&mut cursor, usize::MAX, &mut units);
    assert_eq!(read.lost, 0);
    units
}
