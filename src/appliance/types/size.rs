// SPDX-License-Identifier: Apache-2.0
//! Sizes of images, and the shape of their pixels.

use std::fmt;

/// Width and height in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Size {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

impl Size {
    /// Shorthand for `Size { width, height }`.
    pub const fn new(width: u32, height: u32) -> Self {
        Self { width, height }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}×{}", self.width, self.height)
    }
}

/// Shape of the pixels of an image: SAR of MPEG, `pixel-aspect-ratio` of GStreamer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PixelAspect {
    /// Width of a pixel, at least 1.
    width: u32,
    /// Height of a pixel, at least 1.
    height: u32,
}

impl Default for PixelAspect {
    fn default() -> Self {
        Self {
            width: 1,
            height: 1,
        }
    }
}

impl PixelAspect {
    /// `None`: a side is 0, or one is more than ten times the other, which no camera has.
    pub fn new(width: u32, height: u32) -> Option<Self> {
        let (less, more) = (width.min(height), width.max(height));
        (less > 0 && more / less <= 10).then_some(Self { width, height })
    }

    /// The shape of the pixels of a rotated image.
    #[must_use]
    pub fn turned(self) -> Self {
        Self {
            width: self.height,
            height: self.width,
        }
    }

    /// The size at which an image of `size` pixels is shown with square pixels.
    #[must_use]
    pub fn shown(self, size: Size) -> Size {
        let width = u64::from(size.width) * u64::from(self.width) / u64::from(self.height);
        Size::new(u32::try_from(width).unwrap_or(u32::MAX).max(1), size.height)
    }
}

impl fmt::Display for PixelAspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.width, self.height)
    }
}
