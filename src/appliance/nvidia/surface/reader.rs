// SPDX-License-Identifier: Apache-2.0
//! Converts images in NVMM to addresses for the kernel.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gstreamer as gst;
use parking_lot::Mutex;

use super::error::SurfaceError;
use super::layout::Layout;
use super::library::Library;
use super::nvmm_image::NvmmImage;
use super::registration::{self, Counts, Registration};
use crate::cuda::{Device, PixelFormat};

/// Reads images in NVMM without a copy. One for all workers.
pub struct SurfaceReader {
    layout: Layout,
    library: Arc<Library>,
    counts: Arc<Counts>,
    device: Arc<Device>,
    /// Held while a memory block is checked, so that none is registered twice.
    registration_lock: Mutex<()>,
    /// Whether an image was refused: other buffers of the same pools would fail, too.
    has_failed: AtomicBool,
}

impl SurfaceReader {
    /// For the L4T release with major version `release` (35 for JetPack 5); `None` on a machine without L4T.
    ///
    /// # Errors
    /// The reason why images have to be copied: unknown release, or a missing library.
    pub fn open(release: Option<u32>, device: &Arc<Device>) -> Result<Self, SurfaceError> {
        Ok(Self {
            layout: Layout::for_release(release)?,
            library: Arc::new(Library::open()?),
            counts: Arc::default(),
            device: Arc::clone(device),
            registration_lock: Mutex::new(()),
            has_failed: AtomicBool::new(false),
        })
    }

    /// The image as memory that the GPU reads. Registers the memory block at its first use.
    ///
    /// # Errors
    /// The image cannot be read without a copy. The caller should fall back to copies: see [`is_usable`](Self::is_usable).
    pub fn surface(&self, image: &NvmmImage) -> Result<Surface, SurfaceError> {
        let surface = self.import(image);
        if surface.is_err() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        surface
    }

    /// Whether no image was refused so far.
    pub fn is_usable(&self) -> bool {
        !self.has_failed.load(Ordering::Relaxed)
    }

    fn import(&self, image: &NvmmImage) -> Result<Surface, SurfaceError> {
        let memories = image.buffer.n_memory();
        if memories != 1 {
            return Err(SurfaceError::Unexpected {
                what: "the buffer",
                found: format!("made of {memories} memories"),
                expected: "one".to_owned(),
            });
        }
        let memory = image.buffer.peek_memory(0);
        let _turn = self.registration_lock.lock();
        let registration = registration::for_memory(
            memory,
            &image.expected,
            &self.layout,
            &self.library,
            &self.counts,
            &self.device,
        )?;
        Ok(Surface {
            registration,
            _buffer: image.buffer.clone(),
        })
    }

    /// Number of memory blocks registered so far: as many as the pools had buffers.
    pub fn registrations(&self) -> u64 {
        self.counts.total.load(Ordering::Relaxed)
    }

    /// Number of memory blocks that are registered now.
    pub fn registered(&self) -> u64 {
        self.counts.alive.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for SurfaceReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SurfaceReader({} memories)", self.registered())
    }
}

/// An image that the GPU reads without a copy. While it or a clone of it lives, the pool does not reuse its memory.
#[derive(Clone)]
pub struct Surface {
    registration: Arc<Registration>,
    /// Dropped last: the registration is valid while the memory lives.
    _buffer: gst::Buffer,
}

/// Address and pitch in bytes of an image's planes; the second plane is NV12's chroma.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planes {
    pub(crate) pixels: (u64, u32),
    pub(crate) chroma: (u64, u32),
}

impl Surface {
    /// Width and height in pixels.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        (
            self.registration.expected.width,
            self.registration.expected.height,
        )
    }

    /// Pixel format.
    pub fn pixels(&self) -> PixelFormat {
        self.registration.expected.pixels
    }

    /// Addresses of the planes; valid while the surface lives.
    pub(crate) fn planes(&self) -> Option<Planes> {
        let pixels = self.registration.pixels.rows(0)?;
        let chroma = match self.pixels() {
            PixelFormat::Bgrx => (0, 0),
            PixelFormat::Nv12(_) => self.registration.pixels.rows(1)?,
        };
        Some(Planes { pixels, chroma })
    }
}

impl fmt::Debug for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (width, height) = self.size();
        write!(f, "Surface({width}×{height})")
    }
}
