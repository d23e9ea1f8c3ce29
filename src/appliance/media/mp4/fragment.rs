// SPDX-License-Identifier: Apache-2.0
//! Fragments, and the table of those at which playing can begin.

use jetwatch_types::VideoCodec;

use super::TIMESCALE;
use super::boxes::{words, write, write_full};
use crate::nal::write_with_lengths;
use crate::ring::RingUnit;
use crate::timeline::StreamTime;

/// Flags of a sample that depends on no other.
const SYNC_SAMPLE: u32 = 0x0200_0000;

/// Flags of a sample that depends on others.
const OTHER_SAMPLE: u32 = 0x0101_0000;

/// `trun`: the place of the data, and of each sample its duration, size, flags and composition time.
const RUN_FLAGS: u32 = 0x1 | 0x100 | 0x200 | 0x400 | 0x800;

/// `tfhd`: data are addressed from the start of the fragment.
const DEFAULT_BASE_IS_MOOF: u32 = 0x2_0000;

/// Bytes of a sample in `trun`.
const RUN_ENTRY: usize = 16;

/// Writes the fragments of one presentation, whose decoding begins at 0 with its first unit. The init segment says how much
/// later that is shown.
#[derive(Debug)]
pub struct Fragments {
    codec: VideoCodec,
    /// Decoding time of the first unit.
    origin: Option<StreamTime>,
    sequence: u32,
    /// Duration of the last sample, in ticks, for the next last one.
    last_duration: u32,
}

impl Fragments {
    /// For a stream of this codec.
    pub const fn new(codec: VideoCodec) -> Self {
        Self {
            codec,
            origin: None,
            sequence: 0,
            last_duration: TIMESCALE / 25,
        }
    }

    /// Appends a fragment with `units` to `out`, which are in the order of decoding; nothing without units. `end`: the decoding
    /// time of the unit after them, where it is known. The times of fragments continue each other: what lies between them
    /// lengthens the last sample of the first.
    pub fn write(&mut self, units: &[RingUnit], end: Option<StreamTime>, out: &mut Vec<u8>) {
        let Some(first) = units.first() else {
            return;
        };
        let decoded = *self.origin.get_or_insert(first.time.dts);
        self.sequence += 1;
        let start = out.len();
        let mut fields = Fields::default();
        write(out, b"moof", |out| {
            write_full(out, b"mfhd", 0, 0, |out| words(out, &[self.sequence]));
            write(out, b"traf", |out| {
                write_full(out, b"tfhd", 0, DEFAULT_BASE_IS_MOOF, |out| {
                    words(out, &[1])
                });
                write_full(out, b"tfdt", 1, 0, |out| {
                    let time = ticks(first.time.dts - decoded).max(0);
                    out.extend(time.to_be_bytes());
                });
                write_full(out, b"trun", 1, RUN_FLAGS, |out| {
                    words(out, &[units.len() as u32]);
                    fields.data_offset = out.len();
                    words(out, &[0]);
                    fields.samples = out.len();
                    out.resize(out.len() + units.len() * RUN_ENTRY, 0);
                });
            });
        });
        let offset = (out.len() - start + 8) as u32;
        fields.set(out, fields.data_offset, offset);
        write(out, b"mdat", |out| {
            let following = units.iter().skip(1).map(|unit| Some(unit.time.dts));
            for (place, (unit, next)) in units.iter().zip(following.chain([end])).enumerate() {
                let before = out.len();
                write_with_lengths(self.codec, &unit.unit.bytes, out);
                let size = (out.len() - before) as u32;
                let time = ticks(unit.time.dts - decoded);
                let duration = next.map(|next| ticks(next - decoded) - time);
                let duration = duration.and_then(|ticks| u32::try_from(ticks).ok());
                self.last_duration = duration.unwrap_or(self.last_duration);
                let flags = match unit.unit.is_keyframe {
                    true => SYNC_SAMPLE,
                    false => OTHER_SAMPLE,
                };
                let composition = ticks(unit.time.pts - decoded) - time;
                // As the bits of a signed number: version 1 of the box.
                let composition = i32::try_from(composition).unwrap_or_default() as u32;
                let entry = fields.samples + place * RUN_ENTRY;
                for (field, value) in [self.last_duration, size, flags, composition]
                    .into_iter()
                    .enumerate()
                {
                    fields.set(out, entry + 4 * field, value);
                }
            }
        });
    }

    /// Number of the next fragment, for one of another track.
    pub fn next_number(&mut self) -> u32 {
        self.sequence += 1;
        self.sequence
    }

    /// The time of `unit` in the order of presentation, in ticks since the first decoding time.
    pub(crate) fn shown_at(&self, unit: &RingUnit) -> u64 {
        let origin = self.origin.unwrap_or(unit.time.dts);
        u64::try_from(ticks(unit.time.pts - origin)).unwrap_or_default()
    }
}

/// Places of what is known once the data are written.
#[derive(Default, Clone, Copy)]
struct Fields {
    data_offset: usize,
    samples: usize,
}

impl Fields {
    fn set(self, out: &mut [u8], place: usize, value: u32) {
        out[place..place + 4].copy_from_slice(&value.to_be_bytes());
    }
}

/// Ticks of the file's clock, rounded to the nearest. Of times and not of distances, so that errors do not add up.
pub(super) fn ticks(time: StreamTime) -> i64 {
    let ticks = i128::from(time) * i128::from(TIMESCALE);
    i64::try_from((ticks + 500_000_000).div_euclid(1_000_000_000)).unwrap_or_default()
}

/// The table at the end of a file: time in ticks and place in bytes of each fragment that begins with a keyframe.
#[must_use]
pub fn random_access(entries: &[(u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, b"mfra", |out| {
        write_full(out, b"tfra", 1, 0, |out| {
            // Numbers of track fragment, run and sample have one byte.
            words(out, &[1, 0, entries.len() as u32]);
            for (time, place) in entries {
                out.extend(time.to_be_bytes());
                out.extend(place.to_be_bytes());
                out.extend([1, 1, 1]);
            }
        });
        write_full(out, b"mfro", 0, 0, |out| words(out, &[0]));
    });
    let length = out.len();
    let size = (length as u32).to_be_bytes();
    out[length - 4..].copy_from_slice(&size);
    out
}
