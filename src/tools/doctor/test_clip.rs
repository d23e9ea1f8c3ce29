// SPDX-License-Identifier: Apache-2.0
//! The test clip: a short H.264 video, and the SHA-256 of every image that a decoder must output for it.
//!
//! H.264 defines decoding bit for bit, so all decoders output the same images. The package contains the clip, `video_selftest`
//! decodes it, and [`write_test_clip`](super::write_test_clip) makes it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jetwatch_files::Sha256Digest;
use jetwatch_types::Size;
use serde::{Deserialize, Serialize};

/// The video: byte stream, with an access unit delimiter before each access unit.
pub(super) const VIDEO: &str = "test-clip.h264";

/// The description, a [`ClipIndex`].
pub(super) const INDEX: &str = "test-clip.json";

/// Start code and header of an access unit delimiter (ITU-T H.264, 7.3.2.4).
const DELIMITER: [u8; 5] = [0, 0, 0, 1, 9];

/// Largest width and height, in pixels.
const MAX_SIDE: u32 = 4096;

/// Content of the file [`INDEX`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClipIndex {
    /// Pixels in a row, even.
    pub(super) width: u32,
    /// Rows, even.
    pub(super) height: u32,
    /// Digest of the file [`VIDEO`].
    pub(super) sha256: Sha256Digest,
    /// Digest of each image in display order: the planes Y, U and V, one after another, without padding.
    pub(super) images: Vec<Sha256Digest>,
}

/// A video and the digests of its images.
#[derive(Debug, Clone)]
pub(super) struct TestClip {
    /// Width and height, even.
    pub(super) size: Size,
    /// In decoding order, one for each image.
    pub(super) access_units: Vec<Vec<u8>>,
    /// Digest of each image in display order, as in [`ClipIndex::images`].
    pub(super) images: Vec<Sha256Digest>,
}

/// A clip that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TestClipError {
    /// The folder has none.
    Missing(PathBuf),
    /// A file cannot be read, or the files do not fit each other. The reason, with the file's path.
    Damaged(String),
}

impl TestClip {
    /// Loads the clip from its two files in `folder`.
    ///
    /// # Errors
    /// A file is missing, cannot be read, or is not the one that was written.
    pub(super) fn load(folder: &Path) -> Result<Self, TestClipError> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound if name == INDEX => {
                    TestClipError::Missing(folder.to_owned())
                }
                _ => damaged(&path, &error.to_string()),
            })
        };
        let index: ClipIndex = serde_json::from_slice(&read(INDEX)?)
            .map_err(|error| damaged(&folder.join(INDEX), &error.to_string()))?;
        let video = read(VIDEO)?;
        let found = Sha256Digest::of(&video);
        if found != index.sha256 {
            let text = format!("its SHA-256 is {found}, expected {}", index.sha256);
            return Err(damaged(&folder.join(VIDEO), &text));
        }
        Self::new(index, &video).map_err(|text| damaged(&folder.join(INDEX), &text))
    }

    /// The clip of a description and a video.
    fn new(index: ClipIndex, video: &[u8]) -> Result<Self, String> {
        let is_side = |side: u32| side.is_multiple_of(2) && (2..=MAX_SIDE).contains(&side);
        let size = Size::new(index.width, index.height);
        if !is_side(size.width) || !is_side(size.height) {
            return Err(format!(
                "the size is {size}, expected even numbers up to {MAX_SIDE}"
            ));
        }
        let access_units = access_units(video);
        let (units, images) = (access_units.len(), index.images.len());
        if units != images || images == 0 {
            return Err(format!(
                "it lists {images} images, the video has {units} access units"
            ));
        }
        Ok(Self {
            size,
            access_units,
            images: index.images,
        })
    }
}

fn damaged(path: &Path, reason: &str) -> TestClipError {
    TestClipError::Damaged(format!("{} cannot be used: {reason}", path.display()))
}

/// Splits a byte stream before each access unit delimiter. Bytes before the first one are left out.
pub(super) fn access_units(video: &[u8]) -> Vec<Vec<u8>> {
    let mut starts: Vec<usize> = video
        .windows(DELIMITER.len())
        .enumerate()
        .filter(|(_, window)| *window == DELIMITER)
        .map(|(start, _)| start)
        .collect();
    starts.push(video.len());
    starts
        .windows(2)
        .map(|range| video[range[0]..range[1]].to_vec())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two access units of one byte each after the delimiter.
    const TWO: [u8; 12] = [0, 0, 0, 1, 9, 7, 0, 0, 0, 1, 9, 8];

    /// A folder with a clip of two images.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let index = ClipIndex {
            width: 64,
            height: 32,
            sha256: Sha256Digest::of(&TWO),
            images: vec![Sha256Digest::of(b"first"), Sha256Digest::of(b"second")],
        };
        write(&folder, &index, &TWO);
        folder
    }

    fn write(folder: &tempfile::TempDir, index: &ClipIndex, video: &[u8]) {
        let text = serde_json::to_vec(index).expect("JSON");
        fs::write(folder.path().join(INDEX), text).expect("written");
        fs::write(folder.path().join(VIDEO), video).expect("written");
    }

    fn index(folder: &tempfile::TempDir) -> ClipIndex {
        let text = fs::read(folder.path().join(INDEX)).expect("readable");
        serde_json::from_slice(&text).expect("JSON")
    }

    fn damage(folder: &tempfile::TempDir) -> String {
        match TestClip::load(folder.path()).expect_err("it is damaged") {
            TestClipError::Damaged(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clip_has_one_access_unit_for_each_image() {
        let folder = folder();
        let clip = TestClip::load(folder.path()).expect("it is whole");
        assert_eq!(clip.size, Size::new(64, 32));
        assert_eq!(clip.access_units, [TWO[..6].to_vec(), TWO[6..].to_vec()]);
        assert_eq!(clip.images, index(&folder).images);
    }

    #[test]
    fn folder_without_a_clip_is_no_damage() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(
            TestClip::load(folder.path()).expect_err("it is empty"),
            TestClipError::Missing(folder.path().to_owned())
        );
    }

    #[test]
    fn every_flipped_byte_of_the_video_is_found() {
        let folder = folder();
        for position in 0..TWO.len() {
            let mut video = TWO;
            video[position] ^= 0x10;
            fs::write(folder.path().join(VIDEO), video).expect("written");
            let text = damage(&folder);
            assert!(
                text.contains(VIDEO) && text.contains("SHA-256"),
                "{position}: {text}"
            );
        }
        fs::remove_file(folder.path().join(VIDEO)).expect("removed");
        assert!(damage(&folder).contains(VIDEO));
    }

    #[test]
    fn damaged_description_is_found() {
        let folder = folder();
        let whole = index(&folder);
        type Change = fn(&mut ClipIndex);
        let cases: [(Change, &str); 4] = [
            (|index| index.width = 63, "the size is 63"),
            (|index| index.height = 0, "the size is 64"),
            (|index| index.images.truncate(1), "1 images"),
            (|index| index.images.clear(), "0 images"),
        ];
        for (change, expected) in cases {
            let mut index = whole.clone();
            change(&mut index);
            write(&folder, &index, &TWO);
            let text = damage(&folder);
            assert!(text.contains(INDEX) && text.contains(expected), "{text}");
        }
        for text in ["", "{}", "[1, 2]", "{\"width\": 64"] {
            fs::write(folder.path().join(INDEX), text).expect("written");
            assert!(damage(&folder).contains(INDEX), "{text}");
        }
    }
}
