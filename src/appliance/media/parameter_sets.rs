// SPDX-License-Identifier: Apache-2.0
//! Parameter sets of a stream: what a decoder must have before the first image, and the facts of a sequence parameter set that
//! the header of an MP4 file repeats. It reads bytes of a camera, so nothing in it panics.

use std::sync::Arc;

use jetwatch_types::{Size, VideoCodec};

use crate::nal::{NalKind, kind_of, nal_units};
use crate::{h264, h265};

/// The parameter sets of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterSets {
    /// Codec of the stream.
    pub codec: VideoCodec,
    /// Size of its images in pixels, after cropping.
    pub size: Size,
    /// Video parameter sets, for H.265.
    pub(crate) video: Vec<Arc<[u8]>>,
    /// Sequence parameter sets, at least one.
    pub(crate) sequence: Vec<Arc<[u8]>>,
    /// Picture parameter sets, at least one.
    pub(crate) picture: Vec<Arc<[u8]>>,
}

impl ParameterSets {
    /// Those that are before the first slice of `unit`, an access unit as a byte stream; `None` where one kind is missing or the
    /// first sequence parameter set cannot be read.
    #[must_use]
    pub(crate) fn of_access_unit(codec: VideoCodec, unit: &[u8]) -> Option<Self> {
        let (mut video, mut sequence, mut picture) = (Vec::new(), Vec::new(), Vec::new());
        for nal in nal_units(unit) {
            let sets = match kind_of(codec, nal) {
                NalKind::VideoParameterSet => &mut video,
                NalKind::SequenceParameterSet => &mut sequence,
                NalKind::PictureParameterSet => &mut picture,
                NalKind::Slice => break,
                NalKind::Structure | NalKind::Other => continue,
            };
            // A parser repeats what a camera sends itself.
            if !sets.iter().any(|set: &Arc<[u8]>| **set == *nal)
                && nal.len() <= usize::from(u16::MAX)
            {
                sets.push(Arc::from(nal));
            }
        }
        if picture.is_empty() || (codec == VideoCodec::H265 && video.is_empty()) {
            return None;
        }
        Some(Self {
            codec,
            size: size_of(codec, sequence.first()?)?,
            video,
            sequence,
            picture,
        })
    }

    /// The codec with profile and level for the type of a medium, as RFC 6381 writes it: `avc1.42c01f`.
    pub(crate) fn codec_string(&self) -> String {
        let first = self.sequence.first().map(|set| &**set).unwrap_or_default();
        match self.codec {
            VideoCodec::H264 => h264::codec_string(first),
            VideoCodec::H265 => h265::codec_string(first),
        }
    }
}

/// The size of the images of a sequence parameter set, a NAL unit with its header.
pub fn size_of(codec: VideoCodec, sequence: &[u8]) -> Option<Size> {
    match codec {
        VideoCodec::H264 => h264::size_of(sequence),
        VideoCodec::H265 => h265::Sequence::parse(sequence).map(|sequence| sequence.size),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bit_reader::MAX_SIDE;

    /// Baseline, 1280×720, as x264 writes it.
    const H264_720P: [u8; 24] = [
        0x67, 0x42, 0xc0, 0x1f, 0xd9, 0x00, 0x50, 0x05, 0xbb, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00,
        0x10, 0x00, 0x00, 0x03, 0x03, 0xc0, 0xf1, 0x83, 0x24,
    ];

    fn unit(sets: &[&[u8]]) -> Vec<u8> {
        let with_code = |set: &&[u8]| [&[0, 0, 0, 1], *set].concat();
        sets.iter().flat_map(with_code).collect()
    }

    #[test]
    fn sets_before_the_first_slice_are_taken_once() {
        let picture = [0x68, 0xcb, 0x83, 0xcb, 0x20];
        let bytes = unit(&[
            &[9, 0x10],
            &H264_720P,
            &picture,
            &H264_720P,
            &picture,
            &[0x65, 0x88],
            &[0x68, 1],
        ]);
        let sets = ParameterSets::of_access_unit(VideoCodec::H264, &bytes).expect("all kinds");
        assert_eq!((sets.sequence.len(), sets.picture.len()), (1, 1));
        assert_eq!(sets.size, Size::new(1280, 720));
        assert_eq!(sets.codec_string(), "avc1.42C01F");
        let without = unit(&[&H264_720P, &[0x65, 0x88]]);
        assert_eq!(
            ParameterSets::of_access_unit(VideoCodec::H264, &without),
            None
        );
        assert_eq!(
            ParameterSets::of_access_unit(VideoCodec::H265, &bytes),
            None
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn hostile_parameter_sets_are_refused_without_a_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..120),
            is_h265 in any::<bool>(),
        ) {
            let (codec, header): (_, &[u8]) = match is_h265 {
                true => (VideoCodec::H265, &[0x42, 1]),
                false => (VideoCodec::H264, &[0x67]),
            };
            let _ = size_of(codec, &bytes);
            let _ = ParameterSets::of_access_unit(codec, &bytes);
            bytes.splice(0..0, header.iter().copied());
            if let Some(size) = size_of(codec, &bytes) {
                prop_assert!(size.width <= MAX_SIDE && size.height <= MAX_SIDE);
            }
            let unit = unit(&[&[0x40, 1, 1], &bytes, &[0x68, 1], &[0x44, 1]]);
            if let Some(sets) = ParameterSets::of_access_unit(codec, &unit) {
                prop_assert!(!sets.codec_string().is_empty());
            }
        }

        #[test]
        fn damaged_parameter_sets_are_refused_without_a_panic(at in 1..24_usize, byte in any::<u8>(), cut in 0..24_usize) {
            let mut damaged = H264_720P;
            damaged[at] = byte;
            let _ = size_of(VideoCodec::H264, &damaged);
            let _ = size_of(VideoCodec::H264, &damaged[..cut]);
        }
    }
}
