// SPDX-License-Identifier: Apache-2.0
//! The text format of the MOTChallenge benchmarks: detections in, tracks out. Works on strings; the caller reads and writes the files.
//!
//! A line of detections is `frame,-1,x,y,width,height,score[,class[,…]]`, a line of tracks
//! `frame,id,x,y,width,height,score,class,-1,-1`. Frames count from 1. Boxes are read and written without conversion,
//! whatever the pixel origin of the file (the benchmark's own is 1), so that input and output agree.
//! A class of -1, or none, is [`NO_CLASS`].

use std::fmt::Write;

use jetwatch_types::{Detection, TrackId, Xyxy};

/// Class of detections whose file names none; written as -1.
pub(crate) const NO_CLASS: u16 = u16::MAX;

/// Minimum and maximum number of fields of a line: up to the score, and with class and two more unused ones.
const FIELDS: std::ops::RangeInclusive<usize> = 7..=10;

/// Maximum frame number and coordinate: integers up to here are exact in `f32` and `f64`, and sums stay finite.
pub(crate) const MAX_VALUE: f64 = 16_777_216.0;

/// One line of a file of detections.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MotDetection {
    /// Number of the frame, from 1.
    pub frame: u32,
    /// The detection, in the file's pixels. Scores of some detectors are not within 0 to 1; they are not changed.
    pub detection: Detection,
}

/// One line of a file of tracks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrackRow {
    /// Number of the frame, from 1.
    pub frame: u32,
    /// Id of the track.
    pub id: TrackId,
    /// The box in the file's pixels.
    pub xyxy: Xyxy,
    /// Score of the detection in this frame.
    pub score: f32,
    /// Its class, or [`NO_CLASS`].
    pub class: u16,
}

/// Why a line cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MotError {
    #[error(
        "line {line}: found {found} fields, expected {} to {}: frame,-1,x,y,width,height,score[,class[,-1,-1]]",
        FIELDS.start(),
        FIELDS.end()
    )]
    FieldCount { line: usize, found: usize },
    #[error("line {line}: {field} is {found:?}, expected {expected}")]
    Field {
        line: usize,
        field: &'static str,
        found: String,
        expected: &'static str,
    },
    #[error(
        "line {line}: object {object} is in frame {frame} a second time, expected every object once in a frame"
    )]
    Twice {
        line: usize,
        object: u64,
        frame: u32,
    },
}

/// Reads a file of detections: in any order, with spaces around fields, with either line ending, with empty lines.
///
/// The result is sorted by frame; detections of one frame keep their order.
///
/// # Errors
/// The first line that cannot be parsed.
pub fn parse_detections(text: &str) -> Result<Vec<MotDetection>, MotError> {
    let mut detections = Line::lines(text)
        .map(|line| line?.detection())
        .collect::<Result<Vec<_>, _>>()?;
    detections.sort_by_key(|detection| detection.frame);
    Ok(detections)
}

/// Writes rows as lines, in the order given. Boxes have three decimals and scores six, as in the benchmark's own files.
#[must_use]
pub fn write_tracks(rows: &[TrackRow]) -> String {
    let mut text = String::with_capacity(rows.len() * 64);
    for row in rows {
        let [left, top, right, bottom] = row.xyxy;
        let (frame, id, score, class) = (row.frame, row.id, row.score, class_number(row.class));
        let (width, height) = (right - left, bottom - top);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{frame},{id},{left:.3},{top:.3},{width:.3},{height:.3},{score:.6},{class},-1,-1"
        );
    }
    text
}

fn class_number(class: u16) -> i32 {
    if class == NO_CLASS {
        -1
    } else {
        i32::from(class)
    }
}

/// One line that is not empty, as its fields.
pub(crate) struct Line<'t> {
    line: usize,
    fields: [&'t str; 10],
    found: usize,
}

impl<'t> Line<'t> {
    /// The lines of a file, without the empty ones.
    pub(crate) fn lines(text: &'t str) -> impl Iterator<Item = Result<Self, MotError>> {
        // Some editors begin a file with a byte order mark, which is not part of the first number.
        let lines = text.trim_start_matches('\u{feff}').lines().enumerate();
        lines
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(index, line)| Self::split(index + 1, line))
    }

    fn split(line: usize, text: &'t str) -> Result<Self, MotError> {
        let mut fields = [""; 10];
        let mut found = 0;
        for field in text.split(',') {
            if let Some(slot) = fields.get_mut(found) {
                *slot = field.trim();
            }
            found += 1;
        }
        if !FIELDS.contains(&found) {
            return Err(MotError::FieldCount { line, found });
        }
        Ok(Self {
            line,
            fields,
            found,
        })
    }

    /// Its number in the file, from 1.
    pub(crate) fn line_number(&self) -> usize {
        self.line
    }

    /// A field as a number.
    pub(crate) fn number(
        &self,
        index: usize,
        field: &'static str,
        expected: &'static str,
        accepts: fn(f64) -> bool,
    ) -> Result<f64, MotError> {
        let parsed = self.fields[index].parse::<f64>().ok();
        parsed
            .filter(|value| accepts(*value))
            .ok_or_else(|| MotError::Field {
                line: self.line,
                field,
                found: self.fields[index].to_owned(),
                expected,
            })
    }

    /// The number of the frame. Numeric tools write whole numbers as `1.0` or `1.000000e+00`, so it is read as a number
    /// and checked to be whole.
    pub(crate) fn frame(&self) -> Result<u32, MotError> {
        let frame = self.number(0, "frame", "a whole number from 1 to 16777216", |v| {
            v.fract() == 0.0 && (1.0..=MAX_VALUE).contains(&v)
        })?;
        // The check makes this cast exact.
        Ok(frame as u32)
    }

    /// The box; boxes are `f32` everywhere.
    pub(crate) fn xyxy(&self) -> Result<Xyxy, MotError> {
        let left = self.number(2, "x", "a number of pixels", |v| v.abs() <= MAX_VALUE)?;
        let top = self.number(3, "y", "a number of pixels", |v| v.abs() <= MAX_VALUE)?;
        let width = self.number(4, "width", "a number of pixels above 0", |v| {
            v > 0.0 && v <= MAX_VALUE
        })?;
        let height = self.number(5, "height", "a number of pixels above 0", |v| {
            v > 0.0 && v <= MAX_VALUE
        })?;
        Ok([
            left as f32,
            top as f32,
            (left + width) as f32,
            (top + height) as f32,
        ])
    }

    fn detection(&self) -> Result<MotDetection, MotError> {
        let frame = self.frame()?;
        let xyxy = self.xyxy()?;
        let score = self.number(6, "score", "a finite number", |v| (v as f32).is_finite())?;
        let class = if self.found > 7 {
            self.number(
                7,
                "class",
                "a whole number from 0 to 65534, or -1 for none",
                |v| v.fract() == 0.0 && (-1.0..f64::from(NO_CLASS)).contains(&v),
            )?
        } else {
            -1.0
        };
        Ok(MotDetection {
            frame,
            detection: Detection {
                class: if class < 0.0 { NO_CLASS } else { class as u16 },
                score: score as f32,
                xyxy,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(u32, u16, f32, Xyxy)> {
        let detections = parse_detections(text).expect("these are well-formed lines");
        detections
            .iter()
            .map(|d| {
                (
                    d.frame,
                    d.detection.class,
                    d.detection.score,
                    d.detection.xyxy,
                )
            })
            .collect()
    }

    #[test]
    fn accepted_mot_formats_are_parsed() {
        let boxed = [10.0, 20.5, 40.0, 60.5];
        let cases = [
            "1,-1,10,20.5,30,40,0.5",
            "1,-1,10,20.5,30,40,0.5\r\n\r\n",
            "\u{feff}1,-1,10,20.5,30,40,0.5,-1\n",
            " 1 , -1 , 10 , 20.5 , 30 , 40 , 0.5 , -1 , -1 , -1 ",
            "\n  \n1.0,-1,1e1,20.5,3.0e+01,40,0.5,-1.0,-1,-1",
        ];
        for text in cases {
            assert_eq!(read(text), [(1, NO_CLASS, 0.5, boxed)], "{text:?}");
        }
        assert_eq!(read("7,-1,10,20.5,30,40,-1.25,3"), [(7, 3, -1.25, boxed)]);
        assert_eq!(read(""), []);
    }

    #[test]
    fn lines_may_come_in_any_order() {
        let read = read("3,-1,1,1,1,1,0.1\n1,-1,2,2,1,1,0.2\n3,-1,3,3,1,1,0.3\n1,-1,4,4,1,1,0.4\n");
        assert_eq!(
            read.iter().map(|row| (row.0, row.3[0])).collect::<Vec<_>>(),
            [(1, 2.0), (1, 4.0), (3, 1.0), (3, 3.0)]
        );
    }

    #[test]
    fn errors_name_line_field_and_format() {
        let cases = [
            "1,-1,1,1,1,1,1\n\nx,-1,1,1,1,1,1 => line 3: frame is \"x\", expected a whole number from 1 to 16777216",
            r#"0,-1,1,1,1,1,1 => line 1: frame is "0", expected a whole number from 1 to 16777216"#,
            r#"1.5,-1,1,1,1,1,1 => line 1: frame is "1.5", expected a whole number from 1 to 16777216"#,
            r#"99999999999,-1,1,1,1,1,1 => line 1: frame is "99999999999", expected a whole number from 1 to 16777216"#,
            r#"1,-1,nan,1,1,1,1 => line 1: x is "nan", expected a number of pixels"#,
            r#"1,-1,1,,1,1,1 => line 1: y is "", expected a number of pixels"#,
            r#"1,-1,1,1,0,1,1 => line 1: width is "0", expected a number of pixels above 0"#,
            r#"1,-1,1,1,1,-4,1 => line 1: height is "-4", expected a number of pixels above 0"#,
            r#"1,-1,1,1,1,inf,1 => line 1: height is "inf", expected a number of pixels above 0"#,
            r#"1,-1,1,1,1,1,inf => line 1: score is "inf", expected a finite number"#,
            r#"1,-1,1,1,1,1,1,car => line 1: class is "car", expected a whole number from 0 to 65534, or -1 for none"#,
            r#"1,-1,1,1,1,1,1,65535 => line 1: class is "65535", expected a whole number from 0 to 65534, or -1 for none"#,
            "1,-1,1,1 => line 1: found 4 fields, expected 7 to 10: frame,-1,x,y,width,height,score[,class[,-1,-1]]",
            "1 -1 1 1 1 1 1 => line 1: found 1 fields, expected 7 to 10: frame,-1,x,y,width,height,score[,class[,-1,-1]]",
            "1,2,3,4,5,6,7,8,9,10,11 => line 1: found 11 fields, expected 7 to 10: frame,-1,x,y,width,height,score[,class[,-1,-1]]",
        ];
        for case in cases {
            let (text, wanted) = case.split_once(" => ").expect("a text and its error");
            assert_eq!(
                parse_detections(text).map_err(|error| error.to_string()),
                Err(wanted.to_owned()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn rows_are_written_as_the_benchmark_reads_them() {
        let row = TrackRow {
            frame: 3,
            id: TrackId(12),
            xyxy: [281.931, 187.466, 361.861, 397.003],
            score: 0.997784,
            class: NO_CLASS,
        };
        let other = TrackRow { class: 4, ..row };
        let wanted = "3,12,281.931,187.466,79.930,209.537,0.997784,-1,-1,-1\n3,12,281.931,187.466,79.930,209.537,0.997784,4,-1,-1\n";
        assert_eq!(write_tracks(&[row, other]), wanted);
    }
}
