//! Pixels of an EGL image as memory of the GPU, without a copy.
//!
//! Jetson's video engines hand their pictures on as EGL images. Called by `surface`, once for each buffer of a pool. libcuda's
//! functions for it are looked for when the first image comes: on machines without such engines nobody needs them.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

use super::library::symbol;
use super::{CudaError, Device};

/// The GPU reads and does not write.
const READ_ONLY: c_uint = 1;

/// `frameType` of pictures that lie in rows.
const FRAME_TYPE_PITCH: c_uint = 1;

/// What CUDA says of an image (`CUeglFrame` in its `cudaEGL.h`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct EglFrame {
    planes: [*mut c_void; 3],
    width: c_uint,
    height: c_uint,
    depth: c_uint,
    pitch: c_uint,
    plane_count: c_uint,
    channels: c_uint,
    kind: c_uint,
    color: c_uint,
    element: c_uint,
}

/// libcuda's functions for EGL images.
#[derive(Clone, Copy)]
struct Functions {
    register: unsafe extern "C" fn(*mut *mut c_void, *mut c_void, c_uint) -> c_int,
    unregister: unsafe extern "C" fn(*mut c_void) -> c_int,
    frame: unsafe extern "C" fn(*mut EglFrame, *mut c_void, c_uint, c_uint) -> c_int,
}

impl Functions {
    /// Finds them, once for the process. `_device` says that libcuda is there.
    fn find(_device: &Device) -> Result<Self, CudaError> {
        static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
        if let Some(functions) = FUNCTIONS.get() {
            return Ok(*functions);
        }
        let found = Self {
            // SAFETY: CUDA documents this signature, and a device was opened, so libcuda is there.
            register: unsafe { symbol("cuGraphicsEGLRegisterImage") }?,
            // SAFETY: as above.
            unregister: unsafe { symbol("cuGraphicsUnregisterResource") }?,
            // SAFETY: as above.
            frame: unsafe { symbol("cuGraphicsResourceGetMappedEglFrame") }?,
        };
        Ok(*FUNCTIONS.get_or_init(|| found))
    }
}

/// A registered EGL image. It is unregistered when this is dropped, which must be before the image is destroyed.
pub(crate) struct EglPixels {
    resource: *mut c_void,
    functions: Functions,
    frame: EglFrame,
    /// Dropped last: the registration is part of its context.
    device: Arc<Device>,
}

// SAFETY: the handle is valid in every thread of the process; it is used for unregistering alone.
unsafe impl Send for EglPixels {}
// SAFETY: through a shared reference plain numbers are read.
unsafe impl Sync for EglPixels {}

impl EglPixels {
    /// Registers `image` for reading.
    ///
    /// # Safety
    /// `image` is an EGL image that lives longer than what is returned, and nobody writes to its memory while the GPU reads it.
    pub(crate) unsafe fn register(
        device: &Arc<Device>,
        image: *mut c_void,
    ) -> Result<Self, CudaError> {
        let functions = Functions::find(device)?;
        device.make_current()?;
        let mut resource = ptr::null_mut();
        // SAFETY: the pointer is to a live pointer, a context is current, and the caller vouches for the image.
        let code = unsafe { (functions.register)(&raw mut resource, image, READ_ONLY) };
        let library = device.library();
        library.check("cuGraphicsEGLRegisterImage", code)?;
        let mut pixels = Self {
            resource,
            functions,
            frame: EglFrame {
                planes: [ptr::null_mut(); 3],
                width: 0,
                height: 0,
                depth: 0,
                pitch: 0,
                plane_count: 0,
                channels: 0,
                kind: 0,
                color: 0,
                element: 0,
            },
            device: Arc::clone(device),
        };
        // SAFETY: the pointer is to a live structure of CUDA's layout (a test compares it), the resource was just registered,
        // and such an image has one picture at one level.
        let code = unsafe { (functions.frame)(&raw mut pixels.frame, resource, 0, 0) };
        library.check("cuGraphicsResourceGetMappedEglFrame", code)?;
        Ok(pixels)
    }

    /// Address of plane `index` and bytes from one of its rows to the next; `None` when the picture does not lie in rows or
    /// has no such plane.
    pub(crate) fn rows(&self, index: usize) -> Option<(u64, u32)> {
        let is_there =
            self.frame.kind == FRAME_TYPE_PITCH && index < self.frame.plane_count as usize;
        let address = *self.frame.planes.get(index)? as u64;
        (is_there && address != 0).then_some((address, self.frame.pitch))
    }

    /// Whether the picture lies in rows.
    pub(crate) fn is_pitch_linear(&self) -> bool {
        self.frame.kind == FRAME_TYPE_PITCH
    }

    /// Pixels in a row, and rows.
    pub(crate) fn size(&self) -> (u32, u32) {
        (self.frame.width, self.frame.height)
    }
}

impl Drop for EglPixels {
    fn drop(&mut self) {
        let _ = self.device.make_current();
        // SAFETY: registered by `register` and not unregistered before; whoever gave the address to the GPU waited for it.
        let _ = unsafe { (self.functions.unregister)(self.resource) };
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn the_frame_is_laid_out_as_cuda_documents_it() {
        assert_eq!(size_of::<EglFrame>(), 64);
        assert_eq!(offset_of!(EglFrame, width), 24);
        assert_eq!(offset_of!(EglFrame, pitch), 36);
        assert_eq!(offset_of!(EglFrame, plane_count), 40);
        assert_eq!(offset_of!(EglFrame, kind), 48);
    }
}
