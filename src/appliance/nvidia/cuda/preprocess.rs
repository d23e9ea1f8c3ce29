// SPDX-License-Identifier: Apache-2.0
//! Host side of the preprocessing kernel (`preprocess.cu`): its parameters for the tensor and for each image. A session launches
//! it once per batch.

use std::sync::Arc;

use super::kernels::{BLOCK_THREADS, Grid, Kernel};
use super::{CudaError, Device, Kernels, Stream};

/// Planes of the tensor.
const PLANES: usize = 3;

/// Bytes that one thread writes per plane.
const BYTES_PER_THREAD: usize = 16;

/// Memory layout of pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PixelFormat {
    /// 4 bytes per pixel: blue, green, red, unused.
    Bgrx,
    /// A plane of luma, 1 byte per pixel, and a plane of interleaved Cb and Cr, 2 bytes per 2×2 pixels. Limited range.
    Nv12(ColorMatrix),
}

/// Conversion from Y'CbCr to red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorMatrix {
    /// BT.601, standard definition.
    Bt601,
    /// BT.709, high definition.
    Bt709,
}

/// Element type of the tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// Signed bytes: the value divided by `scale`, rounded to even, -128 to 127.
    I8 {
        /// Quantization step, above 0. The kernel multiplies by its inverse, a 32-bit float.
        scale: f32,
    },
    /// Unsigned bytes: the value rounded to even, 0 to 255.
    U8,
}

impl Element {
    /// Size of one element in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
            Self::I8 { .. } | Self::U8 => 1,
        }
    }
}

/// Order of the tensor's color planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaneOrder {
    /// Red first.
    Rgb,
    /// Blue first.
    Bgr,
}

/// Format of a tensor `[batch, 3, height, width]` that is computed from images.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TensorFormat {
    /// Elements per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Element type.
    pub element: Element,
    /// Order of the planes.
    pub order: PlaneOrder,
    /// Subtracted from each sample, per plane.
    pub mean: [f32; PLANES],
    /// Multiplied after that, per plane.
    pub scale: [f32; PLANES],
    /// Value of samples outside of the image, before mean and scale.
    pub padding: u8,
}

impl TensorFormat {
    /// Bytes per image.
    pub fn bytes(&self) -> usize {
        PLANES * self.plane_len() * self.element.bytes()
    }

    fn plane_len(&self) -> usize {
        self.width as usize * self.height as usize
    }

    /// Whether the kernel can index the tensor: both sides at least 1, at most 2^31 elements per plane.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let numbers = u64::from(self.width) * u64::from(self.height);
        numbers > 0 && numbers <= 1 << 31
    }
}

/// Size of one [`ImageEntry`] in bytes.
pub(crate) const IMAGE_ENTRY_BYTES: usize = 48;

/// One image of the batch in the kernel's layout (`Picture` in `preprocess.cu`). All zero: an image without pixels.
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ImageEntry {
    /// Address of the first pixel, or of the first byte of luma.
    pub pixels: u64,
    /// NV12: address of the first byte of chroma.
    pub chroma: u64,
    /// Bytes from one row to the next.
    pub pitch: u32,
    /// NV12: bytes from one row of chroma to the next.
    pub chroma_pitch: u32,
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Column of the tensor at which the image begins.
    pub left: u32,
    /// Row of the tensor at which the image begins.
    pub top: u32,
    /// Zero; padding.
    pub unused: [u32; 2],
}

impl ImageEntry {
    /// The entry's bytes in the kernel's layout.
    pub(crate) fn to_bytes(self) -> [u8; IMAGE_ENTRY_BYTES] {
        let mut bytes = [0; IMAGE_ENTRY_BYTES];
        bytes[0..8].copy_from_slice(&self.pixels.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.chroma.to_ne_bytes());
        let numbers = [
            self.pitch,
            self.chroma_pitch,
            self.width,
            self.height,
            self.left,
            self.top,
        ];
        for (into, number) in bytes[16..40].as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *into = number.to_ne_bytes();
        }
        bytes
    }
}

/// Parameters for the whole batch (`Job` in `preprocess.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct KernelParams {
    images: u64,
    output: u64,
    width: u32,
    height: u32,
    threads: u32,
    whole: u32,
    shift: [u32; PLANES],
    mean: [f32; PLANES],
    scale: [f32; PLANES],
    padding: [f32; PLANES],
    quantum: f32,
    low: f32,
    high: f32,
    matrix: Matrix,
}

/// Coefficients for NV12 in units of 2^-16; the kernel adds a half and shifts, so every machine computes the same bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Matrix {
    luma: i32,
    v_to_red: i32,
    u_to_green: i32,
    v_to_green: i32,
    u_to_blue: i32,
}

impl Matrix {
    /// From the shares of red and blue in luma.
    fn new(red: f64, blue: f64) -> Self {
        let unit = |factor: f64| (factor * 65536.0).round() as i32;
        // Limited range: 219 steps of luma and 224 of each chroma for 255 steps of red, green and blue.
        let difference = 255.0 / 224.0 * 2.0;
        let green = 1.0 - red - blue;
        Self {
            luma: unit(255.0 / 219.0),
            v_to_red: unit(difference * (1.0 - red)),
            u_to_green: unit(-difference * (1.0 - blue) * blue / green),
            v_to_green: unit(-difference * (1.0 - red) * red / green),
            u_to_blue: unit(difference * (1.0 - blue)),
        }
    }

    fn for_format(format: PixelFormat) -> Self {
        match format {
            // Not read by the kernel for BGRx.
            PixelFormat::Bgrx | PixelFormat::Nv12(ColorMatrix::Bt601) => Self::new(0.299, 0.114),
            PixelFormat::Nv12(ColorMatrix::Bt709) => Self::new(0.2126, 0.0722),
        }
    }
}

/// The kernel, configured for one tensor format and one pixel format.
pub(crate) struct Preprocess {
    params: KernelParams,
    kernel: Kernel,
    columns: u32,
    kernels: Arc<Kernels>,
}

impl Preprocess {
    /// For tensors of format `tensor`, which must be [valid](TensorFormat::is_valid), and images of format `pixels`.
    pub(crate) fn new(
        device: &Arc<Device>,
        pixels: PixelFormat,
        tensor: &TensorFormat,
    ) -> Result<Self, CudaError> {
        debug_assert!(tensor.is_valid());
        let per_thread = BYTES_PER_THREAD / tensor.element.bytes();
        let threads = tensor.plane_len().div_ceil(per_thread) as u32;
        let (element, quantum, low, high) = match tensor.element {
            Element::F32 => (0, 1.0, 0.0, 0.0),
            Element::F16 => (1, 1.0, 0.0, 0.0),
            Element::I8 { scale } => (2, 1.0 / scale, -128.0, 127.0),
            Element::U8 => (2, 1.0, 0.0, 255.0),
        };
        let format = match pixels {
            PixelFormat::Bgrx => 0,
            PixelFormat::Nv12(_) => 3,
        };
        let padding = f32::from(tensor.padding);
        let params = KernelParams {
            images: 0,
            output: 0,
            width: tensor.width,
            height: tensor.height,
            threads,
            whole: u32::from((tensor.width as usize).is_multiple_of(per_thread)),
            shift: match tensor.order {
                PlaneOrder::Bgr => [0, 8, 16],
                PlaneOrder::Rgb => [16, 8, 0],
            },
            mean: tensor.mean,
            scale: tensor.scale,
            padding: std::array::from_fn(|plane| {
                (padding - tensor.mean[plane]) * tensor.scale[plane]
            }),
            quantum,
            low,
            high,
            matrix: Matrix::for_format(pixels),
        };
        Ok(Self {
            params,
            kernel: Kernel::Preprocess(format + element),
            columns: threads.div_ceil(BLOCK_THREADS),
            kernels: device.kernels()?,
        })
    }

    /// Enqueues the conversion of `count` images, 1 to 65535, in `stream`.
    ///
    /// # Safety
    /// Until the stream has passed it, and at each launch of a graph in which it is captured: at `images` there are `count`
    /// entries, 16-byte aligned, whose pixels are in memory that the GPU can read, and at `output`, 16-byte aligned, is space
    /// for `count` images of the tensor, which nothing else uses.
    pub(crate) unsafe fn enqueue(
        &self,
        stream: &Stream,
        images: u64,
        output: u64,
        count: usize,
    ) -> Result<(), CudaError> {
        let params = KernelParams {
            images,
            output,
            ..self.params
        };
        let grid = Grid {
            columns: self.columns,
            rows: count as u32,
            threads: BLOCK_THREADS,
        };
        // SAFETY: `KernelParams` has the layout of the kernel's parameter (a test compares the sizes); the caller guarantees the rest.
        unsafe { self.kernels.launch(self.kernel, stream, grid, &params) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_parameter_layout_matches_source() {
        let ptx = include_str!("preprocess.ptx");
        let parameter = format!("jetwatch_bgrx_float_param_0[{}]", size_of::<KernelParams>());
        assert!(
            ptx.contains(&parameter),
            "the kernel's parameter is not {parameter}"
        );
        assert_eq!(size_of::<ImageEntry>(), IMAGE_ENTRY_BYTES);
        let entry = ImageEntry {
            pixels: 1,
            chroma: 2,
            pitch: 3,
            chroma_pitch: 4,
            width: 5,
            height: 6,
            left: 7,
            top: 8,
            unused: [0; 2],
        };
        let values: Vec<u32> = entry
            .to_bytes()
            .as_chunks::<4>()
            .0
            .iter()
            .map(|value| u32::from_ne_bytes(*value))
            .collect();
        assert_eq!(values, [1, 0, 2, 0, 3, 4, 5, 6, 7, 8, 0, 0]);
    }

    #[test]
    fn limited_range_factors_match_standards() {
        let bt601 = Matrix {
            luma: 76_309,
            v_to_red: 104_597,
            u_to_green: -25_675,
            v_to_green: -53_279,
            u_to_blue: 132_201,
        };
        let bt709 = Matrix {
            luma: 76_309,
            v_to_red: 117_489,
            u_to_green: -13_975,
            v_to_green: -34_925,
            u_to_blue: 138_438,
        };
        assert_eq!(
            Matrix::for_format(PixelFormat::Nv12(ColorMatrix::Bt601)),
            bt601
        );
        assert_eq!(
            Matrix::for_format(PixelFormat::Nv12(ColorMatrix::Bt709)),
            bt709
        );
    }
}
