// SPDX-License-Identifier: Apache-2.0
//! libnvbufsurface's functions that create and destroy EGL images, opened at run time.

use std::ffi::{c_int, c_void};
use std::path::Path;

use super::error::SurfaceError;
use crate::shared_library::SharedLibrary;

/// The bare name, then JetPack's paths, which only some releases configure in the loader.
const LIBRARY_PATHS: [&str; 4] = [
    "libnvbufsurface.so.1.0.0",
    "/usr/lib/aarch64-linux-gnu/tegra/libnvbufsurface.so.1.0.0",
    "/usr/lib/aarch64-linux-gnu/nvidia/libnvbufsurface.so.1.0.0",
    "libnvbufsurface.so",
];

type SurfaceFunction = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// The functions and their library.
#[derive(Debug)]
pub(super) struct Library {
    map: SurfaceFunction,
    unmap: SurfaceFunction,
    /// Keeps the library open while its functions are in use.
    _library: SharedLibrary,
}

impl Library {
    /// Opens the library at the first of [`LIBRARY_PATHS`] that exists.
    ///
    /// # Errors
    /// It is missing or does not have a function.
    pub(super) fn open() -> Result<Self, SurfaceError> {
        let mut first = None;
        for path in LIBRARY_PATHS {
            match SharedLibrary::open(Path::new(path)) {
                Ok(library) => return Self::find(library),
                Err(reason) => first = first.or(Some(reason)),
            }
        }
        Err(SurfaceError::NoLibrary {
            reason: first.unwrap_or_default(),
        })
    }

    fn find(library: SharedLibrary) -> Result<Self, SurfaceError> {
        let missing = |name: &str| SurfaceError::NoLibrary {
            reason: format!("{} has no function {name}", library.path().display()),
        };
        let (map, unmap) = ("NvBufSurfaceMapEglImage", "NvBufSurfaceUnMapEglImage");
        Ok(Self {
            // SAFETY: NVIDIA's reference documents this signature in all releases that have the function.
            map: unsafe { library.function(map) }.ok_or_else(|| missing(map))?,
            // SAFETY: as above.
            unmap: unsafe { library.function(unmap) }.ok_or_else(|| missing(unmap))?,
            _library: library,
        })
    }

    /// Creates an EGL image of the surface's image; its address is then in the surface.
    ///
    /// # Safety
    /// `surface` points to a live `NvBufSurface` with one image.
    pub(super) unsafe fn map_egl_image(&self, surface: *mut c_void) -> Result<(), SurfaceError> {
        // SAFETY: the caller guarantees the surface, and 0 is its only image.
        let code = unsafe { (self.map)(surface, 0) };
        success("NvBufSurfaceMapEglImage", code)
    }

    /// Destroys the EGL image of the surface's image.
    ///
    /// # Safety
    /// As above, and nothing uses the image any more.
    pub(super) unsafe fn unmap_egl_image(&self, surface: *mut c_void) -> Result<(), SurfaceError> {
        // SAFETY: the caller guarantees the surface and the image.
        let code = unsafe { (self.unmap)(surface, 0) };
        success("NvBufSurfaceUnMapEglImage", code)
    }
}

fn success(call: &'static str, code: c_int) -> Result<(), SurfaceError> {
    if code == 0 {
        return Ok(());
    }
    Err(SurfaceError::Call { call })
}
