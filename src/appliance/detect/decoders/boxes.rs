// SPDX-License-Identifier: Apache-2.0
//! Box formats of networks: corners or center and size, in pixels or as fractions of the input. Pure.
//!
//! Independent of the layout. Decoders call it for the few boxes whose score passes.

use jetwatch_types::{Size, Xyxy};

/// Unit of the boxes of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoxUnit {
    /// Pixels of the network's input.
    Pixels,
    /// Fractions of the input's width and height, 0 to 1 inside of it.
    Normalized,
}

impl BoxUnit {
    /// Input pixels in one unit, horizontally and vertically.
    pub(crate) fn pixels(self, input: Size) -> [f32; 2] {
        match self {
            Self::Pixels => [1.0, 1.0],
            Self::Normalized => [input.width as f32, input.height as f32],
        }
    }
}

/// The corners, `[left, top, right, bottom]` in units of `unit` pixels, in pixels.
pub(crate) fn from_corners(raw: [f32; 4], unit: [f32; 2]) -> Xyxy {
    [
        raw[0] * unit[0],
        raw[1] * unit[1],
        raw[2] * unit[0],
        raw[3] * unit[1],
    ]
}

/// The corners of the box of center and size, `[x, y, width, height]` in units of `unit` pixels, in pixels.
pub(crate) fn from_center(raw: [f32; 4], unit: [f32; 2]) -> Xyxy {
    let [x, y, width, height] = raw;
    let (half_w, half_h) = (width * 0.5, height * 0.5);
    from_corners([x - half_w, y - half_h, x + half_w, y + half_h], unit)
}

/// Index of the number that makes a box invalid: the first of `raw` that is not finite, or the greatest of `raw` if
/// `xyxy`, computed from it, overflows.
pub(crate) fn first_unbounded(raw: &[f32], xyxy: &Xyxy) -> Option<usize> {
    if let Some(place) = raw.iter().position(|number| !number.is_finite()) {
        return Some(place);
    }
    if xyxy.iter().all(|edge| edge.is_finite()) {
        return None;
    }
    let greatest = |best: usize, place: usize| {
        if raw[place].abs() > raw[best].abs() {
            place
        } else {
            best
        }
    };
    Some((0..raw.len()).fold(0, greatest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_and_centers_become_input_pixels() {
        let input = Size::new(64, 32);
        let unit = BoxUnit::Normalized.pixels(input);
        let found = from_corners([0.25, 0.5, 0.5, 1.0], unit);
        assert_eq!(found, [16.0, 16.0, 32.0, 32.0]);
        let found = from_center([0.5, 0.5, 0.25, 0.5], unit);
        assert_eq!(found, [24.0, 8.0, 40.0, 24.0]);
        let pixels = BoxUnit::Pixels.pixels(input);
        let found = from_center([10.0, 20.0, 4.0, 6.0], pixels);
        assert_eq!(found, [8.0, 17.0, 12.0, 23.0]);
    }

    #[test]
    fn the_invalid_value_is_found() {
        let sound = [0.0; 4];
        assert_eq!(first_unbounded(&[1.0; 4], &sound), None);
        let found = first_unbounded(&[1.0, 1.0, f32::NEG_INFINITY, f32::NAN], &sound);
        assert_eq!(found, Some(2));
        let beyond = [f32::INFINITY, 0.0, 0.0, 0.0];
        assert_eq!(first_unbounded(&[1.0, -9.0, 8.0, 1.0], &beyond), Some(1));
    }
}
