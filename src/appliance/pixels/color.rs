// SPDX-License-Identifier: Apache-2.0
//! Colors of classes, and their conversion to Y'CbCr.

/// A color by its red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Color {
    /// Red, 0 to 255.
    pub red: u8,
    /// Green, 0 to 255.
    pub green: u8,
    /// Blue, 0 to 255.
    pub blue: u8,
}

/// Colors of classes, well separated from their neighbors in the table and bright enough for black text.
const CLASSES: [Color; 12] = [
    Color::new(0x3d, 0xd6, 0x50),
    Color::new(0xff, 0x9d, 0x1e),
    Color::new(0x4c, 0xb4, 0xff),
    Color::new(0xff, 0x5f, 0x5f),
    Color::new(0xf7, 0xe0, 0x3c),
    Color::new(0xd9, 0x7c, 0xff),
    Color::new(0x37, 0xe0, 0xd2),
    Color::new(0xff, 0x86, 0xc8),
    Color::new(0xb2, 0xe6, 0x34),
    Color::new(0x9a, 0xa6, 0xff),
    Color::new(0xe0, 0xb0, 0x84),
    Color::new(0xd8, 0xd8, 0xd8),
];

/// Y'CbCr matrix. Both use limited range: 16 to 235 for luma, 16 to 240 for chroma.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matrix {
    /// BT.601, of standard definition.
    Bt601,
    /// BT.709, of high definition.
    Bt709,
}

impl Matrix {
    /// The matrix that players and GStreamer assume for an image of this height without colorimetry information.
    pub(super) const fn for_height(height: u32) -> Self {
        if height > 576 {
            Self::Bt709
        } else {
            Self::Bt601
        }
    }
}

impl Color {
    /// Black.
    pub const BLACK: Self = Self::new(0, 0, 0);

    /// Shorthand for `Color { red, green, blue }`.
    pub const fn new(red: u8, green: u8, blue: u8) -> Self {
        Self { red, green, blue }
    }

    /// The color of a class, the same in every run; colors repeat after twelve classes.
    pub const fn for_class(class: u16) -> Self {
        CLASSES[class as usize % CLASSES.len()]
    }

    /// Luma and the two chroma values, Cb first.
    pub(super) fn to_yuv(self, matrix: Matrix) -> [u8; 3] {
        let (kr, kb) = match matrix {
            Matrix::Bt601 => (0.299, 0.114),
            Matrix::Bt709 => (0.2126, 0.0722),
        };
        let [red, green, blue] =
            [self.red, self.green, self.blue].map(|value| f32::from(value) / 255.0);
        let luma = kr * red + (1.0 - kr - kb) * green + kb * blue;
        let difference = |value: f32, weight: f32| (value - luma) / (1.0 - weight) / 2.0;
        let [u, v] = [difference(blue, kb), difference(red, kr)]
            .map(|difference| (128.0 + 224.0 * difference).round() as u8);
        [(16.0 + 219.0 * luma).round() as u8, u, v]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_colors_in_both_matrices() {
        let red = Color::new(255, 0, 0);
        let cases = [
            (Color::BLACK, [16, 128, 128], [16, 128, 128]),
            (Color::new(255, 255, 255), [235, 128, 128], [235, 128, 128]),
            (red, [81, 90, 240], [63, 102, 240]),
            (Color::new(0, 255, 0), [145, 54, 34], [173, 42, 26]),
            (Color::new(0, 0, 255), [41, 240, 110], [32, 240, 118]),
        ];
        for (color, sd, hd) in cases {
            assert_eq!(color.to_yuv(Matrix::Bt601), sd, "{color:?}");
            assert_eq!(color.to_yuv(Matrix::Bt709), hd, "{color:?}");
        }
        assert_eq!(Matrix::for_height(576), Matrix::Bt601);
        assert_eq!(Matrix::for_height(720), Matrix::Bt709);
    }

    #[test]
    fn colors_of_classes_differ_and_repeat() {
        assert_eq!(Color::for_class(0), Color::for_class(12));
        for class in 0..12 {
            for other in 0..class {
                assert_ne!(Color::for_class(class), Color::for_class(other));
            }
            let [luma, ..] = Color::for_class(class).to_yuv(Matrix::Bt709);
            assert!(luma > 115, "black text is read on class {class}: {luma}");
        }
        let _ = Color::for_class(u16::MAX);
    }
}
