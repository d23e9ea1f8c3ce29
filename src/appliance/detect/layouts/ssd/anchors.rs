// SPDX-License-Identifier: Apache-2.0
//! The anchors of an SSD: the boxes that its output is relative to. Pure; called when a decoder is created.
//!
//! The file of a network does not contain the anchors of its training. They are computed from a few numbers, as most
//! programs do, or read from a list.

/// One anchor: center and size `[x, y, width, height]` as fractions of the input.
pub type Anchor = [f32; 4];

/// The anchors on one feature map.
#[derive(Debug, Clone, PartialEq)]
pub struct AnchorGrid {
    /// Cells in a row.
    pub columns: usize,
    /// Rows of cells.
    pub rows: usize,
    /// Distance of cells as fractions of the input's width and height. Without it the cells fill the input. They do not in
    /// networks whose steps were rounded, such as 16 pixels for 19 cells over 300.
    pub step: Option<[f32; 2]>,
    /// Side of the square anchor as a fraction of the input.
    pub scale: f32,
    /// The same of the next feature map; the side of a second square is between both.
    pub next_scale: f32,
    /// Aspect ratios (width over height) of the further anchors. Each gives two: this ratio and its inverse.
    pub ratios: Vec<f32>,
}

impl AnchorGrid {
    /// Number of anchors.
    pub fn count(&self) -> usize {
        self.columns * self.rows * (2 + 2 * self.ratios.len())
    }
}

/// Whether anchors may reach beyond the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnchorLimit {
    /// Centers and sizes are clamped to 0…1.
    Input,
    /// They stay unchanged.
    None,
}

/// Why a list of anchors cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAnchor {
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong with it, and what was expected.
    pub problem: String,
}

/// The anchors of all `grids`: row by row, and in each cell the square of `scale`, the square between this and the next
/// scale, and two for each ratio, the one of that ratio first.
///
/// This is the order of Liu et al., "SSD: Single Shot MultiBox Detector" (2016), as Caffe, torchvision and most
/// programs that were written after them have it; TensorFlow's differs.
#[must_use]
pub fn generate(grids: &[AnchorGrid], limit: AnchorLimit) -> Vec<Anchor> {
    let mut anchors = Vec::with_capacity(grids.iter().map(AnchorGrid::count).sum());
    for grid in grids {
        let between = (grid.scale * grid.next_scale).sqrt();
        let mut sizes = vec![[grid.scale; 2], [between; 2]];
        for ratio in &grid.ratios {
            let (wide, narrow) = (grid.scale * ratio.sqrt(), grid.scale / ratio.sqrt());
            sizes.extend([[wide, narrow], [narrow, wide]]);
        }
        let [step_x, step_y] = grid
            .step
            .unwrap_or([1.0 / grid.columns as f32, 1.0 / grid.rows as f32]);
        for row in 0..grid.rows {
            for column in 0..grid.columns {
                let (x, y) = ((column as f32 + 0.5) * step_x, (row as f32 + 0.5) * step_y);
                anchors.extend(sizes.iter().map(|[width, height]| {
                    let anchor = [x, y, *width, *height];
                    match limit {
                        AnchorLimit::Input => anchor.map(|number| number.clamp(0.0, 1.0)),
                        AnchorLimit::None => anchor,
                    }
                }));
            }
        }
    }
    anchors
}

/// The anchors in `text`: one per line as four numbers, `x y width height`, in the order of the network's output. Empty
/// lines and those that begin with `#` are skipped.
///
/// # Errors
/// A line is not an anchor.
pub fn read(text: &str) -> Result<Vec<Anchor>, BadAnchor> {
    let mut anchors = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let fields = line.trim();
        if fields.is_empty() || fields.starts_with('#') {
            continue;
        }
        let bad = |problem: String| BadAnchor {
            line: index + 1,
            problem,
        };
        let numbers = fields
            .split_whitespace()
            .map(|word| {
                let number = word.parse::<f32>().ok().filter(|number| number.is_finite());
                number.ok_or_else(|| bad(format!("`{word}` is not a number")))
            })
            .collect::<Result<Vec<f32>, BadAnchor>>()?;
        let anchor = Anchor::try_from(numbers.as_slice()).map_err(|_| {
            bad(format!(
                "has {} numbers instead of 4: x, y, width and height as parts of the input",
                numbers.len()
            ))
        })?;
        let [_, _, width, height] = anchor;
        if !(width > 0.0 && height > 0.0) {
            return Err(bad("width and height must be above 0".to_owned()));
        }
        // Fractions of the input are around 1; larger numbers are pixels.
        if anchor.iter().any(|number| number.abs() > 10.0) {
            return Err(bad(
                "anchors are parts of the input, mostly 0 to 1: divide pixels by its width and height".to_owned(),
            ));
        }
        anchors.push(anchor);
    }
    Ok(anchors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_has_two_squares_and_two_of_each_ratio() {
        let grid = AnchorGrid {
            columns: 2,
            rows: 1,
            step: None,
            scale: 0.4,
            next_scale: 0.9,
            ratios: vec![4.0],
        };
        let found = generate(std::slice::from_ref(&grid), AnchorLimit::None);
        let wanted = [0.25, 0.75].map(|x| {
            [
                [x, 0.5, 0.4, 0.4],
                [x, 0.5, 0.6, 0.6],
                [x, 0.5, 0.8, 0.2],
                [x, 0.5, 0.2, 0.8],
            ]
        });
        assert_eq!(found.len(), 8);
        for (found, wanted) in found
            .iter()
            .flatten()
            .zip(wanted.iter().flatten().flatten())
        {
            assert!((found - wanted).abs() < 1e-6, "{found} instead of {wanted}");
        }
        // A step that is larger than the cells: the last column moves out of the input.
        let stepped = AnchorGrid {
            step: Some([0.75, 1.0]),
            scale: 1.5,
            ..grid
        };
        let free = generate(std::slice::from_ref(&stepped), AnchorLimit::None);
        assert_eq!(free[4], [1.125, 0.5, 1.5, 1.5]);
        assert_eq!(
            generate(&[stepped], AnchorLimit::Input)[4],
            [1.0, 0.5, 1.0, 1.0]
        );
    }

    #[test]
    fn six_feature_maps_have_the_anchors_of_the_usual_network() {
        let sides = [19, 10, 5, 3, 2, 1];
        let grids = sides.map(|side| AnchorGrid {
            columns: side,
            rows: side,
            step: None,
            scale: 0.2,
            next_scale: 0.3,
            ratios: vec![2.0, 3.0],
        });
        assert_eq!(generate(&grids, AnchorLimit::Input).len(), 3000);
    }

    #[test]
    fn a_list_is_read_line_by_line() {
        let text = "# x y width height\n0.5 0.5 1.2 0.25\n\n  1e-1\t0.2 0.3 0.4  \n";
        let wanted = vec![[0.5, 0.5, 1.2, 0.25], [0.1, 0.2, 0.3, 0.4]];
        assert_eq!(read(text), Ok(wanted));
        #[rustfmt::skip]
        let cases = [
            ("0.5 0.5 0.1 0.1\n0.5 0.5 0.1", 2, "has 3 numbers instead of 4"),
            ("0.5,0.5,0.1,0.1", 1, "`0.5,0.5,0.1,0.1` is not a number"),
            ("0.5 0.5 nan 0.1", 1, "`nan` is not a number"),
            ("\n0.5 0.5 0 0.1", 2, "must be above 0"),
            ("150 150 60 60", 1, "divide pixels by its width and height"),
        ];
        for (text, line, problem) in cases {
            let bad = read(text).expect_err(problem);
            assert_eq!(bad.line, line);
            assert!(bad.problem.contains(problem), "{}", bad.problem);
        }
    }
}
