// SPDX-License-Identifier: Apache-2.0
//! The track of sound beside that of the video: its part of the init segment, and its fragments.

use jetwatch_types::AudioFormat;

use super::boxes::{words, write, write_full};
use super::init::{media_header, sample_tables, track_header};
use crate::sound::SoundUnit;
use crate::timeline::StreamTime;

/// Number of the track of sound.
pub(super) const SOUND_TRACK: u32 = 2;

/// Samples of a frame of AAC, without and with spectral band replication.
const FRAME_SAMPLES: [i64; 2] = [1024, 2048];

/// Frames whose distance differs by no more than one part in this many continue each other.
const TOLERANCE: i64 = 8;

/// `trun`: the place of the data, and of each sample its duration and size.
const RUN_FLAGS: u32 = 0x1 | 0x100 | 0x200;

/// `tfhd`: data are addressed from the start of the fragment.
const DEFAULT_BASE_IS_MOOF: u32 = 0x2_0000;

/// Appends the `trak` of sound of this format.
pub(super) fn sound_track(out: &mut Vec<u8>, format: &AudioFormat, created: u64) {
    write(out, b"trak", |out| {
        track_header(out, created, SOUND_TRACK, 0x0100_0000, [0, 0]);
        write(out, b"mdia", |out| {
            media_header(out, created, format.sample_rate, b"soun");
            write(out, b"minf", |out| {
                write_full(out, b"smhd", 0, 0, |out| words(out, &[0]));
                sample_tables(out, |out| sample_entry(out, format));
            });
        });
    });
}

fn sample_entry(out: &mut Vec<u8>, format: &AudioFormat) {
    write(out, b"mp4a", |out| {
        out.extend([0, 0, 0, 0, 0, 0, 0, 1]);
        words(out, &[0, 0]);
        out.extend(format.channels.to_be_bytes());
        // 16 bits per sample.
        out.extend([0, 16]);
        let rate = u16::try_from(format.sample_rate).unwrap_or_default();
        words(out, &[0, u32::from(rate) << 16]);
        write_full(out, b"esds", 0, 0, |out| {
            let decoder = descriptor(4, |out| {
                // AAC, a stream of sound; the size of its buffer and its bit rates are not known.
                out.extend([0x40, 0x15, 0, 0, 0]);
                words(out, &[0, 0]);
                out.extend(descriptor(5, |out| out.extend_from_slice(&format.config)));
            });
            out.extend(descriptor(3, |out| {
                out.extend([0, SOUND_TRACK as u8, 0]);
                out.extend(decoder);
                out.extend(descriptor(6, |out| out.push(2)));
            }));
        });
    });
}

/// A descriptor of ISO/IEC 14496-1.
fn descriptor(tag: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut body = Vec::new();
    fill(&mut body);
    let length = body.len();
    let part = |shift: usize| (length >> shift & 0x7f) as u8;
    let mut out = vec![
        tag,
        0x80 | part(21),
        0x80 | part(14),
        0x80 | part(7),
        part(0),
    ];
    out.extend(body);
    out
}

/// Writes the fragments of sound of one presentation.
#[derive(Debug)]
pub struct SoundFragments {
    sample_rate: u32,
    /// Time at which the first image is shown.
    origin: StreamTime,
    /// End of the last sample, in ticks.
    end: Option<i64>,
    /// Duration of a sample, in ticks.
    step: i64,
}

impl SoundFragments {
    /// For sound of this format in a presentation that begins at `origin`.
    pub const fn new(format: &AudioFormat, origin: StreamTime) -> Self {
        Self {
            sample_rate: format.sample_rate,
            origin,
            end: None,
            step: FRAME_SAMPLES[0],
        }
    }

    /// Appends a fragment with `units` to `out`, with this number; nothing without units. None is before the first image.
    pub fn write(&mut self, units: &[SoundUnit], number: u32, out: &mut Vec<u8>) {
        let Some(first) = units.first() else {
            return;
        };
        let begin = self.continued(self.ticks(first.at));
        let starts: Vec<i64> = units.iter().map(|unit| self.ticks(unit.at)).collect();
        let mut durations = Vec::with_capacity(units.len());
        let mut end = begin;
        for place in 0..units.len() {
            let duration = match starts.get(place + 1) {
                Some(next) => self.duration(*next - end),
                None => self.step,
            };
            end += duration;
            durations.push(u32::try_from(duration).unwrap_or_default());
        }
        self.end = Some(end);
        let start = out.len();
        let mut offset_at = 0;
        write(out, b"moof", |out| {
            write_full(out, b"mfhd", 0, 0, |out| words(out, &[number]));
            write(out, b"traf", |out| {
                write_full(out, b"tfhd", 0, DEFAULT_BASE_IS_MOOF, |out| {
                    words(out, &[SOUND_TRACK]);
                });
                write_full(out, b"tfdt", 1, 0, |out| out.extend(begin.to_be_bytes()));
                write_full(out, b"trun", 0, RUN_FLAGS, |out| {
                    words(out, &[units.len() as u32]);
                    offset_at = out.len();
                    words(out, &[0]);
                    for (unit, duration) in units.iter().zip(&durations) {
                        words(out, &[*duration, unit.bytes.len() as u32]);
                    }
                });
            });
        });
        let offset = (out.len() - start + 8) as u32;
        out[offset_at..offset_at + 4].copy_from_slice(&offset.to_be_bytes());
        write(out, b"mdat", |out| {
            units
                .iter()
                .for_each(|unit| out.extend_from_slice(&unit.bytes));
        });
    }

    /// Duration of a sample after which the next one begins `distance` later; learns how long samples are.
    fn duration(&mut self, distance: i64) -> i64 {
        let near = |step: i64| (distance - step).abs() <= step / TOLERANCE;
        match FRAME_SAMPLES.into_iter().find(|step| near(*step)) {
            Some(step) => {
                self.step = step;
                step
            }
            None => distance.max(1),
        }
    }

    /// The begin of a sample at `at`: the end of the last one, unless it is far from it.
    fn continued(&self, at: i64) -> i64 {
        match self.end {
            Some(end) if at - end <= self.step / 2 => end,
            _ => at,
        }
    }

    fn ticks(&self, at: StreamTime) -> i64 {
        let ticks = i128::from(at - self.origin) * i128::from(self.sample_rate);
        let rounded = (ticks + 500_000_000).div_euclid(1_000_000_000);
        i64::try_from(rounded).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn fragments() -> SoundFragments {
        let format = AudioFormat {
            sample_rate: 48_000,
            channels: 1,
            config: Arc::from([]),
        };
        SoundFragments::new(&format, 0)
    }

    /// Begin of the fragment, and durations.
    fn written(fragments: &mut SoundFragments, starts_us: &[i64]) -> (u64, Vec<u32>) {
        let unit = |us: &i64| SoundUnit {
            at: us * 1000,
            bytes: Arc::from([1, 2, 3]),
        };
        let units: Vec<SoundUnit> = starts_us.iter().map(unit).collect();
        let mut out = Vec::new();
        fragments.write(&units, 1, &mut out);
        let place = |kind: &[u8; 4]| {
            let found = out.windows(4).position(|part| part == kind);
            found.expect("the box") + 8
        };
        let tfdt = place(b"tfdt");
        let run = place(b"trun") + 8;
        let entries = out[run..run + 8 * units.len()].chunks(8);
        let number = |part: &[u8]| u32::from_be_bytes(part.try_into().expect("4 bytes"));
        let time = out[tfdt..tfdt + 8].try_into().expect("8 bytes");
        (
            u64::from_be_bytes(time),
            entries.map(|entry| number(&entry[..4])).collect(),
        )
    }

    #[test]
    fn timestamps_that_are_rounded_do_not_add_up() {
        let mut fragments = fragments();
        // 21.333 ms in whole milliseconds, as Matroska has them.
        assert_eq!(
            written(&mut fragments, &[0, 21_000, 43_000, 64_000]),
            (0, vec![1024; 4])
        );
        assert_eq!(
            written(&mut fragments, &[85_000, 107_000]),
            (4096, vec![1024; 2])
        );
    }

    #[test]
    fn gaps_are_kept() {
        let mut fragments = fragments();
        let (begin, durations) = written(&mut fragments, &[10_000, 31_333, 131_333]);
        assert_eq!((begin, durations), (480, vec![1024, 4800, 1024]));
        assert_eq!(written(&mut fragments, &[500_000]).0, 24_000);
    }

    #[test]
    fn long_frames_are_learnt() {
        let mut fragments = fragments();
        let (_, durations) = written(&mut fragments, &[0, 42_667, 85_333]);
        assert_eq!(durations, [2048; 3]);
    }
}
