// SPDX-License-Identifier: Apache-2.0
//! Detection: class, score and box of one object in one frame, without identity.

/// A box as `[left, top, right, bottom]`.
pub type Xyxy = [f32; 4];

/// One detected object in one frame. For an identity over time see [`Track`](super::Track).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detection {
    /// Index into the model's labels.
    pub class: u16,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// Box in source pixels, clipped to the image.
    pub xyxy: Xyxy,
}

/// Area of a box; zero when it is empty or inverted.
pub fn area(a: &Xyxy) -> f32 {
    (a[2] - a[0]).max(0.0) * (a[3] - a[1]).max(0.0)
}

/// Intersection over union of two boxes, 0 to 1; zero when both are empty.
///
/// ```
/// use jetwatch_types::intersection_over_union;
///
/// let left = [0.0, 0.0, 4.0, 2.0];
/// let right = [2.0, 0.0, 6.0, 2.0];
/// assert_eq!(intersection_over_union(&left, &right), 4.0 / 12.0);
/// ```
pub fn intersection_over_union(a: &Xyxy, b: &Xyxy) -> f32 {
    let width = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
    let height = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
    let both = width * height;
    let either = area(a) + area(b) - both;
    if either > 0.0 { both / either } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iou_of_equal_half_and_disjoint_boxes() {
        let a = [0.0, 0.0, 2.0, 2.0];
        assert_eq!(intersection_over_union(&a, &a), 1.0);
        assert_eq!(intersection_over_union(&a, &[0.0, 0.0, 2.0, 1.0]), 0.5);
        assert_eq!(intersection_over_union(&a, &[2.0, 0.0, 4.0, 2.0]), 0.0);
        assert_eq!(intersection_over_union(&[1.0; 4], &[1.0; 4]), 0.0);
    }

    #[test]
    fn an_inverted_box_has_no_area() {
        assert_eq!(area(&[3.0, 0.0, 1.0, 2.0]), 0.0);
    }
}
