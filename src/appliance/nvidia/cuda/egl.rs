// SPDX-License-Identifier: Apache-2.0
//! Pixels of an EGL image as GPU memory, without a copy.
//!
//! Jetson's video engines export their images as EGL images. `surface` calls this once for each buffer of a pool. The
//! functions are looked up at the first image: machines without such engines do not need them.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::{Arc, OnceLock};

use super::library::symbol;
use super::{CudaError, Device};

/// Registration flag: the GPU only reads.
const READ_ONLY: c_uint = 1;

/// `frameType` of pitch-linear images.
const FRAME_TYPE_PITCH: c_uint = 1;

/// CUDA's description of an image (`CUeglFrame` in `cudaEGL.h`).
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
    /// Looks the functions up, once per process. `_device` proves that libcuda is loaded.
    ///
    /// # Errors
    /// libcuda does not have one of them.
    fn find(_device: &Device) -> Result<Self, CudaError> {
        static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
        if let Some(functions) = FUNCTIONS.get() {
            return Ok(*functions);
        }
        let found = Self {
            // SAFETY: CUDA documents this signature, and a device was opened, so libcuda is loaded.
            register: unsafe { symbol("cuGraphicsEGLRegisterImage") }?,
            // SAFETY: as above.
            unregister: unsafe { symbol("cuGraphicsUnregisterResource") }?,
            // SAFETY: as above.
            frame: unsafe { symbol("cuGraphicsResourceGetMappedEglFrame") }?,
        };
        Ok(*FUNCTIONS.get_or_init(|| found))
    }
}

/// A registered EGL image. Dropping it unregisters the image, which must happen before the image is destroyed.
pub(crate) struct EglPixels {
    resource: *mut c_void,
    functions: Functions,
    frame: EglFrame,
    /// Dropped last: the registration is part of its context.
    device: Arc<Device>,
}

// SAFETY: the handle is valid in every thread of the process; it is used for unregistering only.
unsafe impl Send for EglPixels {}
// SAFETY: a shared reference allows reading plain numbers only.
unsafe impl Sync for EglPixels {}

impl EglPixels {
    /// Registers `image` for reading.
    ///
    /// # Safety
    /// `image` is an EGL image that lives longer than the result, and nothing writes to its memory while the GPU reads it.
    pub(crate) unsafe fn register(
        device: &Arc<Device>,
        image: *mut c_void,
    ) -> Result<Self, CudaError> {
        let functions = Functions::find(device)?;
        device.make_current()?;
        let mut resource = ptr::null_mut();
        // SAFETY: the pointer refers to a live pointer, a context is current, and the caller guarantees the image.
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
        // SAFETY: the pointer refers to a live structure of CUDA's layout (a test compares it), the resource was just registered,
        // and such a resource has one image at one level.
        let code = unsafe { (functions.frame)(&raw mut pixels.frame, resource, 0, 0) };
        library.check("cuGraphicsResourceGetMappedEglFrame", code)?;
        Ok(pixels)
    }

    /// Address of plane `index`, and bytes from one of its rows to the next; `None` when the image is not pitch-linear or has no
    /// such plane.
    pub(crate) fn rows(&self, index: usize) -> Option<(u64, u32)> {
        let is_there =
            self.frame.kind == FRAME_TYPE_PITCH && index < self.frame.plane_count as usize;
        let address = *self.frame.planes.get(index)? as u64;
        (is_there && address != 0).then_some((address, self.frame.pitch))
    }

    /// Whether the image is pitch-linear.
    pub(crate) fn is_pitch_linear(&self) -> bool {
        self.frame.kind == FRAME_TYPE_PITCH
    }

    /// Width and height in pixels.
    pub(crate) fn size(&self) -> (u32, u32) {
        (self.frame.width, self.frame.height)
    }
}

impl Drop for EglPixels {
    fn drop(&mut self) {
        let _ = self.device.make_current();
        // SAFETY: registered by `register` and not unregistered before; the code that passed the address to the GPU has waited for it.
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
