// SPDX-License-Identifier: Apache-2.0
//! Tests of the recorder, with a store in memory that can fail.

use std::cell::RefCell;
use std::io::{self, Cursor as Bytes, SeekFrom};
use std::rc::Rc;

use jetwatch_types::{AccessUnit, Size, StreamFormat, VideoCodec};

use super::*;
use crate::RingLimits;

/// Files by path, and whether writes fail.
#[derive(Default)]
struct Memory {
    begun: Vec<(String, SystemTime)>,
    kept: Vec<(String, usize)>,
    is_full: bool,
    next: u32,
}

#[derive(Default, Clone)]
struct MemoryStore(Rc<RefCell<Memory>>);

struct MemoryFile {
    store: MemoryStore,
    bytes: Bytes<Vec<u8>>,
}

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.store.0.borrow().is_full {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.bytes.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for MemoryFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.bytes.seek(to)
    }
}

impl ClipStore for MemoryStore {
    type File = MemoryFile;

    fn new_id(&mut self, _is_continuous: bool, _from: SystemTime) -> String {
        let mut memory = self.0.borrow_mut();
        memory.next += 1;
        format!("new-{}", memory.next)
    }

    fn begin(&mut self, label: &ClipLabel, from: SystemTime) -> Result<MemoryFile, StoreError> {
        self.0.borrow_mut().begun.push((label.id.clone(), from));
        Ok(MemoryFile {
            store: self.clone(),
            bytes: Bytes::new(Vec::new()),
        })
    }

    fn finish(
        &mut self,
        label: &ClipLabel,
        file: MemoryFile,
        facts: &ClipFacts,
    ) -> Result<String, StoreError> {
        let bytes = file.bytes.into_inner().len();
        assert_eq!(bytes as u64, facts.bytes);
        self.0.borrow_mut().kept.push((label.id.clone(), bytes));
        Ok(format!("{}.mp4", label.id))
    }
}

const SEQUENCE: [u8; 24] = [
    0x67, 0x42, 0xc0, 0x1f, 0xd9, 0x00, 0x50, 0x05, 0xbb, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10,
    0x00, 0x00, 0x03, 0x03, 0xc0, 0xf1, 0x83, 0x24,
];

/// A stream at 25 units per second with a keyframe every second, and the number of its next unit.
struct Camera {
    stream: Arc<SourceStream>,
    next: u64,
    /// Last byte of the picture parameter set.
    picture: u8,
}

fn time(index: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(40 * index)
}

impl Camera {
    fn new(name: &str, bytes: usize) -> Self {
        let limits = RingLimits {
            bytes,
            span: Duration::from_secs(60),
        };
        let stream = Arc::new(SourceStream::new(name, limits));
        stream.start(StreamFormat {
            codec: VideoCodec::H264,
            size: Size::new(1280, 720),
        });
        Self {
            stream,
            next: 0,
            picture: 0x20,
        }
    }

    fn bring(&mut self, units: u64) {
        for index in self.next..self.next + units {
            let is_keyframe = index % 25 == 0;
            let mut bytes = Vec::new();
            if is_keyframe {
                bytes.extend([0, 0, 0, 1]);
                bytes.extend(SEQUENCE);
                bytes.extend([0, 0, 0, 1, 0x68, 0xcb, 0x83, 0xcb, self.picture]);
            }
            bytes.extend([0, 0, 0, 1, if is_keyframe { 0x65 } else { 0x41 }]);
            bytes.extend([0x88; 1000]);
            self.stream.push(AccessUnit {
                bytes: bytes.into(),
                pts: Some(Duration::from_millis(40 * index)),
                dts: None,
                duration: None,
                captured_at: time(index),
                is_keyframe,
            });
        }
        self.next += units;
    }

    /// The image `index`.
    fn mark(index: u64) -> Mark {
        Mark {
            pts: Some(Duration::from_millis(40 * index)),
            captured_at: time(index),
        }
    }

    fn open(&self, id: &str, index: u64, pre_roll: u64) -> ClipCommand {
        ClipCommand::Open {
            label: ClipLabel {
                id: id.to_owned(),
                is_continuous: false,
                source: self.stream.name().to_owned(),
                label: None,
                tracks: vec!["first".to_owned()],
            },
            stream: Arc::clone(&self.stream),
            at: Self::mark(index),
            pre_roll: Duration::from_secs(pre_roll),
        }
    }
}

fn close(id: &str, index: u64) -> ClipCommand {
    ClipCommand::Close {
        clip: id.to_owned(),
        at: Some(Camera::mark(index)),
    }
}

fn track(clip: &str, track: &str) -> ClipCommand {
    ClipCommand::Track {
        clip: clip.to_owned(),
        track: track.to_owned(),
    }
}

fn recorder() -> (Recorder<MemoryStore>, Rc<RefCell<Memory>>) {
    let store = MemoryStore::default();
    let memory = Rc::clone(&store.0);
    (Recorder::new(store), memory)
}

#[test]
fn clip_begins_with_the_keyframe_before_its_pre_roll_and_is_complete_at_its_end() {
    let now = Instant::now();
    let (mut recorder, _) = recorder();
    let mut camera = Camera::new("gate", 1 << 20);
    camera.bring(260);
    recorder.execute(camera.open("a", 250, 5), now);
    recorder.poll(now);
    camera.bring(200);
    recorder.execute(track("a", "second"), now);
    recorder.execute(close("a", 440), now);
    let recorded = recorder.take_recorded();
    let [clip] = recorded.as_slice() else {
        panic!("one clip: {recorded:?}");
    };
    // 250 − 125 is a keyframe.
    assert_eq!((clip.facts.from, clip.facts.to), (time(125), time(440)));
    assert_eq!(clip.facts.images, 316);
    assert_eq!(clip.facts.duration(), Duration::from_millis(40 * 315));
    assert_eq!(clip.label.tracks, ["first", "second"]);
    assert_eq!(clip.path, "a.mp4");
    assert_eq!(recorder.counts().lost, 0);
}

#[test]
fn clips_of_one_source_may_overlap() {
    let now = Instant::now();
    let (mut recorder, _) = recorder();
    let mut camera = Camera::new("gate", 1 << 20);
    camera.bring(100);
    recorder.execute(camera.open("a", 90, 1), now);
    recorder.execute(close("a", 99), now);
    recorder.execute(camera.open("b", 99, 0), now);
    camera.bring(30);
    recorder.execute(close("b", 129), now);
    let ends: Vec<_> = recorder
        .take_recorded()
        .into_iter()
        .map(|clip| (clip.label.id, clip.facts.from, clip.facts.to))
        .collect();
    assert_eq!(
        ends,
        [
            ("a".to_owned(), time(50), time(99)),
            ("b".to_owned(), time(75), time(129))
        ]
    );
}

/// Objects that came more often than four times a second kept the thread from writing, until the ring had dropped images.
#[test]
fn new_objects_without_pause_lose_no_image() {
    let start = Instant::now();
    let (mut recorder, _) = recorder();
    // Four seconds.
    let mut camera = Camera::new("gate", 104_000);
    camera.bring(50);
    recorder.execute(camera.open("a", 49, 0), start);
    for number in 0..200 {
        camera.bring(5);
        let now = start + Duration::from_millis(200 * (number + 1));
        recorder.execute(track("a", &number.to_string()), now);
    }
    recorder.execute(close("a", 1049), start + Duration::from_secs(40));
    assert_eq!(recorder.counts().lost, 0);
    let clip = recorder.take_recorded().pop().expect("a clip");
    assert_eq!(clip.facts.images, 1025);
}

#[test]
fn slow_store_loses_whole_groups_that_are_counted() {
    let now = Instant::now();
    let (mut recorder, _) = recorder();
    // Four seconds.
    let mut camera = Camera::new("gate", 104_000);
    camera.bring(50);
    recorder.execute(camera.open("a", 49, 0), now);
    recorder.poll(now);
    camera.bring(500);
    recorder.execute(close("a", 549), now);
    let clip = recorder.take_recorded().pop().expect("a clip");
    assert_eq!((clip.facts.from, clip.facts.to), (time(25), time(549)));
    let lost = recorder.counts().lost;
    assert!(lost >= 400 && lost.is_multiple_of(25), "{lost}");
    assert_eq!(clip.facts.images + lost, 525);
}

#[test]
fn failed_store_is_tried_again() {
    let now = Instant::now();
    let (mut recorder, memory) = recorder();
    let mut camera = Camera::new("gate", 1 << 20);
    camera.bring(100);
    recorder.execute(camera.open("a", 90, 1), now);
    recorder.poll(now);
    assert!(recorder.is_recording());
    memory.borrow_mut().is_full = true;
    camera.bring(50);
    recorder.poll(now);
    assert!(!recorder.is_recording());
    assert_eq!(recorder.counts().failures, 1);
    camera.bring(50);
    recorder.poll(now);
    assert_eq!(recorder.counts().failures, 1, "it waits");
    recorder.poll(now + RETRY_INTERVAL);
    assert_eq!(recorder.counts().failures, 2, "full still");
    memory.borrow_mut().is_full = false;
    recorder.poll(now + 2 * RETRY_INTERVAL);
    assert!(recorder.is_recording());
    camera.bring(100);
    recorder.execute(close("a", 299), now + 2 * RETRY_INTERVAL);
    let clip = recorder.take_recorded().pop().expect("the rest is kept");
    assert_eq!(clip.facts.to, time(299));
    assert_eq!(clip.label.id, "new-1", "a file of its own");
}

#[test]
fn clip_that_ends_while_the_store_fails_is_given_up() {
    let now = Instant::now();
    let (mut recorder, memory) = recorder();
    let mut camera = Camera::new("gate", 1 << 20);
    camera.bring(100);
    memory.borrow_mut().is_full = true;
    recorder.execute(camera.open("a", 90, 1), now);
    recorder.poll(now);
    recorder.execute(close("a", 99), now);
    assert_eq!(recorder.counts().lost, 50, "from its keyframe to its end");
    memory.borrow_mut().is_full = false;
    recorder.poll(now + RETRY_INTERVAL);
    assert!(recorder.take_recorded().is_empty());
}

#[test]
fn what_a_full_store_has_not_taken_until_the_end_is_lost() {
    let now = Instant::now();
    let (mut recorder, memory) = recorder();
    let mut camera = Camera::new("gate", 1 << 20);
    memory.borrow_mut().is_full = true;
    let (stream, segment) = (Arc::clone(&camera.stream), Duration::from_secs(60));
    recorder.execute(ClipCommand::Continuous { stream, segment }, now);
    camera.bring(25);
    recorder.poll(now);
    camera.bring(75);
    recorder.close(now);
    assert_eq!((recorder.counts().files, recorder.counts().lost), (0, 100));
}

#[test]
fn continuous_recording_is_cut_at_keyframes() {
    let now = Instant::now();
    let (mut recorder, _) = recorder();
    let mut camera = Camera::new("gate", 1 << 20);
    recorder.execute(
        ClipCommand::Continuous {
            stream: Arc::clone(&camera.stream),
            segment: Duration::from_millis(2500),
        },
        now,
    );
    recorder.poll(now);
    camera.bring(10);
    recorder.poll(now);
    camera.bring(190);
    recorder.poll(now);
    recorder.close(now);
    let parts = recorder.take_recorded();
    let ends: Vec<_> = parts
        .iter()
        .map(|part| (part.facts.from, part.facts.to))
        .collect();
    assert_eq!(
        ends,
        [
            (time(0), time(74)),
            (time(75), time(149)),
            (time(150), time(199))
        ]
    );
    assert!(parts.iter().all(|part| part.label.is_continuous));
    assert!(parts[0].label.id != parts[1].label.id);
}

#[test]
fn other_parameter_sets_begin_another_file() {
    let now = Instant::now();
    let (mut recorder, memory) = recorder();
    let mut camera = Camera::new("gate", 1 << 20);
    camera.bring(75);
    recorder.execute(camera.open("a", 60, 1), now);
    camera.picture = 0x21;
    camera.bring(50);
    recorder.execute(close("a", 124), now);
    let recorded = recorder.take_recorded();
    let ids: Vec<_> = recorded.iter().map(|clip| clip.label.id.as_str()).collect();
    assert_eq!(ids, ["a", "new-1"]);
    assert_eq!(recorded[0].facts.to, time(74));
    assert_eq!(memory.borrow().begun[1], ("new-1".to_owned(), time(75)));
}

#[test]
fn stream_that_begins_again_continues_the_clip() {
    let now = Instant::now();
    let (mut recorder, _) = recorder();
    let mut camera = Camera::new("gate", 1 << 20);
    camera.bring(75);
    recorder.execute(camera.open("a", 60, 1), now);
    camera.stream.start(StreamFormat {
        codec: VideoCodec::H264,
        size: Size::new(1280, 720),
    });
    // Until the next keyframe nothing is taken.
    camera.next = 90;
    camera.bring(40);
    recorder.execute(close("a", 129), now);
    let clip = recorder.take_recorded().pop().expect("a clip");
    assert_eq!((clip.facts.from, clip.facts.to), (time(25), time(129)));
    assert_eq!(clip.facts.images, 50 + 30);
}
