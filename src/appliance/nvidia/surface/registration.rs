// SPDX-License-Identifier: Apache-2.0
//! Registration of a pool's memory block with the GPU: created once, attached to GStreamer's memory, removed when that is freed.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gstreamer as gst;
use gstreamer::ffi::{GstMiniObject, gst_mini_object_get_qdata, gst_mini_object_set_qdata};
use gstreamer::glib::Quark;
use gstreamer::glib::translate::IntoGlib;

use super::error::SurfaceError;
use super::layout::{ExpectedLayout, Layout, check_pitch};
use super::library::Library;
use super::safe_read;
use crate::cuda::{Device, EglPixels};

/// Load size of the kernel in bytes.
const WORD: u64 = 4;

/// Number of registrations.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) total: AtomicU64,
    pub(super) alive: AtomicU64,
}

/// A surface whose EGL image the GPU reads. Fields are dropped in order: CUDA releases the image, then it is destroyed.
pub(super) struct Registration {
    pub(super) pixels: EglPixels,
    pub(super) expected: ExpectedLayout,
    _image: Image,
}

/// An EGL image of a surface.
struct Image {
    surface: *mut c_void,
    library: Arc<Library>,
    counts: Arc<Counts>,
}

// SAFETY: `surface` is never read here and is passed to libnvbufsurface only, once, in `drop`; its functions may be called from every
// thread, and GStreamer frees a memory on any.
unsafe impl Send for Image {}
// SAFETY: no method takes `&Image`, so that a shared reference allows nothing.
unsafe impl Sync for Image {}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the surface lives as long as GStreamer's memory, which drops this first; CUDA has released the image.
        let destroyed = unsafe { self.library.unmap_egl_image(self.surface) };
        if let Err(error) = destroyed {
            log::warn!("{error}");
        }
        self.counts.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Registration {
    /// Checks the surface at `surface`, of which `mapped_bytes` are mapped, and registers its image.
    ///
    /// # Safety
    /// If `surface` is a surface, the result must be dropped before it. If it is none, there is no requirement.
    unsafe fn new(
        surface: *mut c_void,
        mapped_bytes: usize,
        expected_layout: &ExpectedLayout,
        layout: &Layout,
        library: &Arc<Library>,
        counts: &Arc<Counts>,
        device: &Arc<Device>,
    ) -> Result<Self, SurfaceError> {
        let short = |what, found: String, expected: String| SurfaceError::Unexpected {
            what,
            found,
            expected,
        };
        if mapped_bytes < layout.surface_bytes {
            let expected = format!("{} bytes or more", layout.surface_bytes);
            return Err(short(
                "the buffer",
                format!("{mapped_bytes} bytes"),
                expected,
            ));
        }
        let read = |address, bytes| {
            let mut copy = vec![0; bytes];
            safe_read::read(address, &mut copy).map_err(|error| {
                short(
                    "surfaceList",
                    format!("{address:#x} ({error})"),
                    "an address".to_owned(),
                )
            })?;
            Ok::<_, SurfaceError>(copy)
        };
        let image = layout.image_address(&read(surface as u64, layout.surface_bytes)?)?;
        layout.check_image(&read(image, layout.image_bytes)?, expected_layout)?;
        // SAFETY: all that is known of such a structure holds for this one, down to the negotiated size: it is a surface with one
        // image.
        unsafe { library.map_egl_image(surface) }?;
        counts.total.fetch_add(1, Ordering::Relaxed);
        counts.alive.fetch_add(1, Ordering::Relaxed);
        let made = Image {
            surface,
            library: Arc::clone(library),
            counts: Arc::clone(counts),
        };
        let address = layout.egl_image(&read(image, layout.image_bytes)?);
        let address = address.ok_or_else(|| {
            short(
                "eglImage",
                "empty".to_owned(),
                "what NvBufSurfaceMapEglImage made".to_owned(),
            )
        })?;
        // SAFETY: the image was just created and lives until `made` is dropped, after the registration. The engines write to the
        // memory only when the pool has it back, which is after the GPU has read it.
        let pixels = unsafe { EglPixels::register(device, address as *mut c_void) }?;
        let registration = Self {
            pixels,
            expected: *expected_layout,
            _image: made,
        };
        registration.check()?;
        Ok(registration)
    }

    /// Checks that CUDA's description of the image matches the surface's.
    fn check(&self) -> Result<(), SurfaceError> {
        let (pixels, expected_layout) = (&self.pixels, &self.expected);
        if !pixels.is_pitch_linear() {
            return Err(SurfaceError::BlockLinear);
        }
        let unexpected = |what, found, expected| SurfaceError::Unexpected {
            what,
            found,
            expected,
        };
        let (width, height) = pixels.size();
        if (width, height) != (expected_layout.width, expected_layout.height) {
            let expected = format!("{}×{}", expected_layout.width, expected_layout.height);
            return Err(unexpected(
                "the EGL image",
                format!("{width}×{height}"),
                expected,
            ));
        }
        for plane in 0..expected_layout.planes() as usize {
            let (address, pitch) = pixels.rows(plane).ok_or_else(|| {
                unexpected(
                    "a plane of the EGL image",
                    "missing".to_owned(),
                    "an address".to_owned(),
                )
            })?;
            check_pitch(pitch, expected_layout)?;
            if !address.is_multiple_of(WORD) || !u64::from(pitch).is_multiple_of(WORD) {
                let found = format!("rows of {pitch} bytes at {address:#x}");
                return Err(unexpected(
                    "the image",
                    found,
                    format!("multiples of {WORD}"),
                ));
            }
        }
        Ok(())
    }
}

/// The registration of `memory`, or a new one, which is then attached to it.
///
/// Calls must not overlap: two at once would both register.
pub(super) fn for_memory(
    memory: &gst::MemoryRef,
    expected: &ExpectedLayout,
    layout: &Layout,
    library: &Arc<Library>,
    counts: &Arc<Counts>,
    device: &Arc<Device>,
) -> Result<Arc<Registration>, SurfaceError> {
    let object: *mut GstMiniObject = ptr::from_ref(memory).cast_mut().cast();
    let quark = Quark::from_str("jetwatch-registration").into_glib();
    // SAFETY: a memory is a mini object, and this one is borrowed.
    let existing = unsafe { gst_mini_object_get_qdata(object, quark) };
    let registration: *const Arc<Registration> = existing.cast_const().cast();
    // SAFETY: under this name only the box below is stored, which lives as long as the memory.
    if let Some(registration) = unsafe { registration.as_ref() } {
        if registration.expected == *expected {
            return Ok(Arc::clone(registration));
        }
        // A surface has one EGL image: the old one must be gone before a new one is made.
        if Arc::strong_count(registration) > 1 {
            return Err(SurfaceError::Unexpected {
                what: "the buffer",
                found: "a new size or color space while its last image is in use".to_owned(),
                expected: "buffers that come back before they change".to_owned(),
            });
        }
        // SAFETY: a memory is a mini object; `drop_registration` frees the box of before, once.
        unsafe { gst_mini_object_set_qdata(object, quark, ptr::null_mut(), None) };
    }
    let unreadable = || SurfaceError::Unexpected {
        what: "the buffer",
        found: "unreadable".to_owned(),
        expected: "memory that can be mapped".to_owned(),
    };
    let (surface, bytes) = {
        let mapped = memory.map_readable().map_err(|_| unreadable())?;
        (mapped.as_ptr().cast_mut().cast::<c_void>(), mapped.len())
    };
    // SAFETY: an NVMM memory, when mapped, is its surface, which is freed with it, after its qdata. Users of the registration
    // hold a buffer with the memory.
    let new =
        unsafe { Registration::new(surface, bytes, expected, layout, library, counts, device) }?;
    let new = Arc::new(new);
    let boxed: *mut Arc<Registration> = Box::into_raw(Box::new(Arc::clone(&new)));
    // SAFETY: a memory is a mini object; `drop_registration` frees the box, once.
    unsafe { gst_mini_object_set_qdata(object, quark, boxed.cast(), Some(drop_registration)) };
    Ok(new)
}

/// Called by GStreamer when it frees the memory.
unsafe extern "C" fn drop_registration(registration: *mut c_void) {
    // SAFETY: it is the pointer that was given to `gst_mini_object_set_qdata`, and GStreamer calls this once.
    drop(unsafe { Box::from_raw(registration.cast::<Arc<Registration>>()) });
}
