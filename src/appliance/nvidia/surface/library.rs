//! libnvbufsurface's functions that make and destroy EGL images, opened at run time.

use std::ffi::{c_int, c_void};
use std::path::Path;

use super::error::SurfaceError;
use crate::shared_library::SharedLibrary;

/// By its name, then where JetPack puts it, which the loader is told of only by some releases.
const LIBRARY_PATHS: [&str; 4] = [
    "libnvbufsurface.so.1.0.0",
    "/usr/lib/aarch64-linux-gnu/tegra/libnvbufsurface.so.1.0.0",
    "/usr/lib/aarch64-linux-gnu/nvidia/libnvbufsurface.so.1.0.0",
    "libnvbufsurface.so",
];

type SurfaceFunction = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// The functions, and the library that they are part of.
#[derive(Debug)]
pub(super) struct Library {
    map: SurfaceFunction,
    unmap: SurfaceFunction,
    /// Kept open for as long as the functions are known.
    _library: SharedLibrary,
}

impl Library {
    /// Opens it where it is found first.
    pub(super) fn open() -> Result<Self, SurfaceError> {
        let mut first = None;
        for place in LIBRARY_PATHS {
            match SharedLibrary::open(Path::new(place)) {
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

    /// Has an EGL image made of the surface's picture; its address then stands in the surface.
    ///
    /// # Safety
    /// `surface` points to a live `NvBufSurface` of one picture.
    pub(super) unsafe fn map_egl_image(&self, surface: *mut c_void) -> Result<(), SurfaceError> {
        // SAFETY: the caller vouches for the surface, and 0 is its only picture.
        let code = unsafe { (self.map)(surface, 0) };
        success("NvBufSurfaceMapEglImage", code)
    }

    /// Destroys the picture's EGL image.
    ///
    /// # Safety
    /// As above, and nobody uses the image any more.
    pub(super) unsafe fn unmap_egl_image(&self, surface: *mut c_void) -> Result<(), SurfaceError> {
        // SAFETY: the caller vouches for the surface and the image.
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
