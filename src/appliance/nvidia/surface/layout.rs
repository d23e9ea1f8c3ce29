// SPDX-License-Identifier: Apache-2.0
//! Offsets of the fields in NVIDIA's structures, by release of L4T, and checks of their values for one buffer.
//!
//! Offsets are in bytes, for 64-bit machines. L4T 35 and 36 agree in all fields that are read here. Later ones may not, so a
//! new release is added only after a comparison of its header.

use super::error::SurfaceError;
use crate::cuda::PixelFormat;

/// Offsets of one release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Of the surface: number of images, number of filled images, kind of memory, address of the images.
    batch: usize,
    filled: usize,
    memory: usize,
    images: usize,
    /// Number of bytes that are read of the surface.
    pub(super) surface_bytes: usize,
    /// Of an image: size, format, layout, number of planes, their pitches, its EGL image.
    width: usize,
    height: usize,
    color: usize,
    layout: usize,
    planes: usize,
    plane_pitch: usize,
    egl_image: usize,
    /// Number of bytes that are read of an image.
    pub(super) image_bytes: usize,
}

/// L4T 35 and 36.
const JETPACK_5_AND_6: Layout = Layout {
    batch: 4,
    filled: 8,
    memory: 16,
    images: 24,
    surface_bytes: 32,
    width: 0,
    height: 4,
    color: 12,
    layout: 16,
    planes: 48,
    plane_pitch: 84,
    egl_image: 312,
    image_bytes: 320,
};

/// Memory kind that Jetson's engines share.
const SURFACE_ARRAY: u32 = 4;

/// Values of `layout`.
const PITCH_LINEAR: u32 = 0;
const BLOCK_LINEAR: u32 = 1;

/// Format numbers: BGRx, and NV12 in its color spaces with limited range.
const BGRX: u32 = 24;
const NV12: [u32; 3] = [6, 33, 37];

/// Maximum plausible pitch, in bytes.
const MAX_PITCH: u32 = 1 << 18;

/// Expected size and format of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExpectedLayout {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) pixels: PixelFormat,
}

impl ExpectedLayout {
    /// Minimum bytes per row of the first plane.
    pub(super) fn row_bytes(&self) -> u64 {
        let width = u64::from(self.width);
        match self.pixels {
            PixelFormat::Bgrx => 4 * width,
            PixelFormat::Nv12(_) => width.next_multiple_of(2),
        }
    }

    /// Number of planes.
    pub(super) fn planes(&self) -> u32 {
        match self.pixels {
            PixelFormat::Bgrx => 1,
            PixelFormat::Nv12(_) => 2,
        }
    }
}

impl Layout {
    /// The layout of a release by its major version; `None`: a machine without L4T.
    ///
    /// # Errors
    /// The release is unknown.
    pub(super) fn for_release(major: Option<u32>) -> Result<Self, SurfaceError> {
        match major {
            Some(35 | 36) => Ok(JETPACK_5_AND_6),
            Some(other) => Err(SurfaceError::UnknownRelease {
                found: format!("L4T {other}"),
            }),
            None => Err(SurfaceError::UnknownRelease {
                found: "no L4T".to_owned(),
            }),
        }
    }

    /// Checks a surface and returns the address of its only image. `bytes` has `surface_bytes` bytes.
    pub(super) fn image_address(&self, bytes: &[u8]) -> Result<u64, SurfaceError> {
        let batch = word(bytes, self.batch);
        require("batchSize", batch, batch == 1, "1")?;
        let filled = word(bytes, self.filled);
        require("numFilled", filled, filled <= batch, "0 or 1")?;
        let memory = word(bytes, self.memory);
        require(
            "memType",
            memory,
            memory == SURFACE_ARRAY,
            "4, a surface array",
        )?;
        let address = long(bytes, self.images);
        let is_place = address != 0 && address.is_multiple_of(8);
        require(
            "surfaceList",
            format!("{address:#x}"),
            is_place,
            "an address",
        )?;
        Ok(address)
    }

    /// Checks an image. `bytes` has `image_bytes` bytes.
    pub(super) fn check_image(
        &self,
        bytes: &[u8],
        image: &ExpectedLayout,
    ) -> Result<(), SurfaceError> {
        let [width, height] = [self.width, self.height].map(|at| word(bytes, at));
        let size = (image.width, image.height);
        require(
            "its size",
            format!("{width}×{height}"),
            (width, height) == size,
            &format!("{}×{}", size.0, size.1),
        )?;
        let color = word(bytes, self.color);
        let is_format = match image.pixels {
            PixelFormat::Bgrx => color == BGRX,
            PixelFormat::Nv12(_) => NV12.contains(&color),
        };
        let expected = match image.pixels {
            PixelFormat::Bgrx => "24, BGRx",
            PixelFormat::Nv12(_) => "6, 33 or 37, NV12",
        };
        require("colorFormat", color, is_format, expected)?;
        match word(bytes, self.layout) {
            PITCH_LINEAR => {}
            BLOCK_LINEAR => return Err(SurfaceError::BlockLinear),
            other => require("layout", other, false, "0 or 1")?,
        }
        let planes = word(bytes, self.planes);
        require(
            "num_planes",
            planes,
            planes == image.planes(),
            &image.planes().to_string(),
        )?;
        for plane in 0..planes as usize {
            check_pitch(word(bytes, self.plane_pitch + 4 * plane), image)?;
        }
        Ok(())
    }

    /// The EGL image; `None` if there is none yet.
    pub(super) fn egl_image(&self, bytes: &[u8]) -> Option<u64> {
        Some(long(bytes, self.egl_image)).filter(|address| *address != 0)
    }
}

/// Checks that rows of `pitch` bytes can be those of the image.
pub(super) fn check_pitch(pitch: u32, image: &ExpectedLayout) -> Result<(), SurfaceError> {
    let is_plausible = u64::from(pitch) >= image.row_bytes() && pitch <= MAX_PITCH;
    let expected = format!("{} to {MAX_PITCH} bytes", image.row_bytes());
    require("pitch", pitch, is_plausible, &expected)
}

fn require(
    what: &'static str,
    found: impl ToString,
    holds: bool,
    expected: &str,
) -> Result<(), SurfaceError> {
    if holds {
        return Ok(());
    }
    Err(SurfaceError::Unexpected {
        what,
        found: found.to_string(),
        expected: expected.to_owned(),
    })
}

/// The 32-bit number at offset `at`; 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    four.map_or(0, |four| u32::from_ne_bytes(*four))
}

/// The 64-bit number at offset `at`; 0 beyond the end.
fn long(bytes: &[u8], at: usize) -> u64 {
    let eight = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>());
    eight.map_or(0, |eight| u64::from_ne_bytes(*eight))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: ExpectedLayout = ExpectedLayout {
        width: 416,
        height: 234,
        pixels: PixelFormat::Bgrx,
    };

    fn put(bytes: &mut [u8], at: usize, number: u32) {
        bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
    }

    fn surface() -> Vec<u8> {
        let mut bytes = vec![0; 32];
        for (at, number) in [(4, 1), (8, 1), (16, 4), (24, 0x1000)] {
            put(&mut bytes, at, number);
        }
        bytes
    }

    fn image() -> Vec<u8> {
        let mut bytes = vec![0; 320];
        for (at, number) in [(0, 416), (4, 234), (12, 24), (16, 0), (48, 1), (84, 1792)] {
            put(&mut bytes, at, number);
        }
        bytes
    }

    #[test]
    fn unknown_releases_are_rejected() {
        for release in [35, 36] {
            assert_eq!(Layout::for_release(Some(release)), Ok(JETPACK_5_AND_6));
        }
        for (unknown, found) in [(Some(32), "L4T 32"), (Some(38), "L4T 38"), (None, "no L4T")] {
            let text = Layout::for_release(unknown)
                .expect_err("unknown")
                .to_string();
            assert!(
                text.contains(found) && text.contains("copied instead"),
                "{text}"
            );
        }
    }

    #[test]
    fn every_field_of_a_surface_is_checked() {
        let layout = JETPACK_5_AND_6;
        assert_eq!(layout.image_address(&surface()), Ok(0x1000));
        let cases = [
            (4, 0, "batchSize"),
            (4, 2, "batchSize"),
            (8, 2, "numFilled"),
            (16, 2, "memType"),
            (24, 0, "surfaceList"),
            (24, 0x1004, "surfaceList"),
        ];
        for (at, number, what) in cases {
            let mut bytes = surface();
            put(&mut bytes, at, number);
            let text = layout.image_address(&bytes).expect_err(what).to_string();
            assert!(text.contains(what), "{text}");
        }
        assert!(layout.image_address(&[]).is_err(), "a buffer of no bytes");
    }

    #[test]
    fn image_parameters_are_compared_with_the_expected_layout() {
        let layout = JETPACK_5_AND_6;
        assert_eq!(layout.check_image(&image(), &EXPECTED), Ok(()));
        assert_eq!(layout.egl_image(&image()), None);
        let cases = [
            (0, 400, "its size is 400×234, expected 416×234"),
            (12, 6, "colorFormat"),
            (16, 1, "block-linear"),
            (16, 7, "layout"),
            (48, 2, "num_planes"),
            (84, 1663, "pitch is 1663, expected 1664 to"),
            (84, 1 << 20, "pitch"),
        ];
        for (at, number, expected) in cases {
            let mut bytes = image();
            put(&mut bytes, at, number);
            let error = layout.check_image(&bytes, &EXPECTED).expect_err(expected);
            assert!(error.to_string().contains(expected), "{error}");
        }
        assert!(layout.check_image(&[], &EXPECTED).is_err());
    }
}
