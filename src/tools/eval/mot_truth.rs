// SPDX-License-Identifier: Apache-2.0
//! The ground truth of MOTChallenge sequences: the boxes of each object by frame. Works on strings; the caller reads the files.
//!
//! A line is `frame,id,x,y,width,height,counts[,class[,visibility]]`, with up to ten fields. Rows whose seventh field is 0
//! do not count in the benchmark and are omitted here too. Classes are ignored: a file with several must be split
//! first.

use jetwatch_types::Xyxy;

use crate::mot_format::{self, Line, MotError};

/// An object in one frame.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TruthRow {
    /// Number of the frame, from 1.
    pub frame: u32,
    /// Identity over the sequence.
    pub object: u64,
    /// Box in the pixels of the detections.
    pub xyxy: Xyxy,
}

/// Reads a file of ground truth: in any order, with spaces around fields, with either line ending, with empty lines.
///
/// The result is sorted by frame, then by object.
///
/// # Errors
/// The first line that cannot be parsed, or an object that occurs twice in one frame.
pub fn parse_truth(text: &str) -> Result<Vec<TruthRow>, MotError> {
    parse(text, |counts| counts > 0.0)
}

/// The rows that [`parse_truth`] omits, because they do not count.
///
/// # Errors
/// As [`parse_truth`].
pub(crate) fn parse_uncounted(text: &str) -> Result<Vec<TruthRow>, MotError> {
    parse(text, |counts| counts <= 0.0)
}

fn parse(text: &str, is_wanted: impl Fn(f64) -> bool) -> Result<Vec<TruthRow>, MotError> {
    let mut rows = Vec::new();
    for line in Line::lines(text) {
        let line = line?;
        let frame = line.frame()?;
        let object = line.number(1, "id", "a whole number from 0 to 16777216", |value| {
            value.fract() == 0.0 && (0.0..=mot_format::MAX_VALUE).contains(&value)
        })?;
        let xyxy = line.xyxy()?;
        let counts = line.number(6, "the seventh field", "0 or above", |value| value >= 0.0)?;
        if is_wanted(counts) {
            rows.push((
                line.line_number(),
                TruthRow {
                    frame,
                    object: object as u64,
                    xyxy,
                },
            ));
        }
    }
    rows.sort_by_key(|(_, row)| (row.frame, row.object));
    let twice = rows
        .windows(2)
        .find(|pair| (pair[0].1.frame, pair[0].1.object) == (pair[1].1.frame, pair[1].1.object));
    if let Some([_, (line, row)]) = twice {
        return Err(MotError::Twice {
            line: *line,
            object: row.object,
            frame: row.frame,
        });
    }
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_count_are_read_in_order() {
        let text =
            "2,7,1,2,10,20,1,-1,-1,-1\r\n1,9,1.5,2,10,20,1\n\n1,8,0,0,5,5,1,1,0.5\n1,3,0,0,5,5,0\n";
        let row = |frame, object, xyxy| TruthRow {
            frame,
            object,
            xyxy,
        };
        assert_eq!(
            parse_truth(text),
            Ok(vec![
                row(1, 8, [0.0, 0.0, 5.0, 5.0]),
                row(1, 9, [1.5, 2.0, 11.5, 22.0]),
                row(2, 7, [1.0, 2.0, 11.0, 22.0]),
            ])
        );
        assert_eq!(parse_truth(""), Ok(Vec::new()));
    }

    #[test]
    fn errors_name_line_field_and_format() {
        let cases = [
            r#"1,-1,1,1,1,1,1 => line 1: id is "-1", expected a whole number from 0 to 16777216"#,
            r#"1,1,1,1,1,1,x => line 1: the seventh field is "x", expected 0 or above"#,
            r#"1,1,1,1,0,1,1 => line 1: width is "0", expected a number of pixels above 0"#,
            "1,4,1,1,1,1,1\n2,4,1,1,1,1,1\n\n1,4,2,2,1,1,1 => line 4: object 4 is in frame 1 a second time, expected every object once in a frame",
        ];
        for case in cases {
            let (text, wanted) = case.split_once(" => ").expect("a text and its error");
            assert_eq!(
                parse_truth(text).map_err(|error| error.to_string()),
                Err(wanted.to_owned()),
                "{text:?}"
            );
        }
    }
}
