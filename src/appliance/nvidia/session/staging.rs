//! Where the CPU writes what goes to the GPU: one slot for each picture of the batch.

use super::error::ExecutionError;
use crate::cuda::{IMAGE_ENTRY_BYTES, ImageEntry, PinnedBuffer, PixelFormat, TensorFormat};
use crate::surface::Surface;

/// Each slot begins at a multiple of this many bytes.
const ALIGNMENT: usize = 256;

/// How a picture lies in the tensor, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LetterboxRect {
    /// Pixels in a row of the picture.
    pub width: u32,
    /// Rows of the picture.
    pub height: u32,
    /// The tensor's column in which it begins.
    pub left: u32,
    /// The tensor's row in which it begins.
    pub top: u32,
}

/// How the slots are filled.
enum Kind {
    /// With pixels; entries for the kernel stand before them.
    Images {
        pixels: PixelFormat,
        width: u32,
        height: u32,
        /// Bytes from one row to the next; chroma rows of NV12 follow the luma rows.
        pitch: usize,
        /// Where the GPU sees the first byte of the slots' memory.
        base: u64,
    },
    /// With the tensor.
    Tensors,
}

/// Page-locked memory in slots.
pub(super) struct StagingBuffers {
    memory: PinnedBuffer,
    /// Pictures that the GPU reads in place in the next run, by slot.
    bound: Vec<Option<Surface>>,
    kind: Kind,
    batch: usize,
    /// Bytes before the first slot.
    header_len: usize,
    slot_len: usize,
}

impl StagingBuffers {
    /// Bytes of memory for [`images`](Self::pictures).
    pub(super) fn images_len(pixels: PixelFormat, tensor: &TensorFormat, batch: usize) -> usize {
        header_len(batch) + slot_len(pixels, tensor) * batch
    }

    /// Slots for pictures that are at most as large as the tensor. The GPU sees `memory` at `base`.
    pub(super) fn for_images(
        memory: PinnedBuffer,
        base: u64,
        pixels: PixelFormat,
        tensor: &TensorFormat,
        batch: usize,
    ) -> Self {
        let mut slots = Self {
            kind: Kind::Images {
                pixels,
                width: tensor.width,
                height: tensor.height,
                pitch: pitch(pixels, tensor),
                base,
            },
            batch,
            header_len: header_len(batch),
            slot_len: slot_len(pixels, tensor),
            memory,
            bound: (0..batch).map(|_| None).collect(),
        };
        // Pictures without pixels, until others are written.
        for index in 0..batch {
            slots.set_entry(index, ImageEntry::default());
        }
        slots
    }

    /// Slots for the tensor itself, one right behind the other.
    pub(super) fn for_tensors(memory: PinnedBuffer, slot_len: usize, batch: usize) -> Self {
        Self {
            memory,
            bound: Vec::new(),
            kind: Kind::Tensors,
            batch,
            header_len: 0,
            slot_len,
        }
    }

    /// Where the GPU sees the memory, also one that copies it first.
    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Bytes of the first `count` slots, with what stands before them.
    pub(super) fn bytes(&self, count: usize) -> usize {
        self.header_len + self.slot_len * count
    }

    /// The tensor of picture `index`.
    pub(super) fn tensor(&mut self, index: usize) -> Result<&mut [u8], ExecutionError> {
        self.check_index(index)?;
        match self.kind {
            Kind::Tensors => {
                Ok(&mut self.memory.as_mut_slice()[index * self.slot_len..][..self.slot_len])
            }
            Kind::Images { .. } => Err(ExecutionError::Use {
                what: "what is written",
                found: "a tensor".to_owned(),
                expected: "pictures".to_owned(),
            }),
        }
    }

    /// Copies a picture's rows into slot `index`; see [`Execution::upload_image`](super::Execution::write).
    pub(super) fn write_image<'a>(
        &mut self,
        index: usize,
        inner: LetterboxRect,
        row: impl Fn(u32) -> &'a [u8],
    ) -> Result<(), ExecutionError> {
        let (pixels, pitch, base) = self.check_image(index, inner)?;
        let row_bytes = row_bytes(pixels, inner.width);
        let rows = rows(pixels, inner.height);
        self.bound[index] = None;
        let begin = self.header_len + index * self.slot_len;
        let slot = &mut self.memory.as_mut_slice()[begin..][..self.slot_len];
        for (y, into) in (0..rows).zip(slot.chunks_mut(pitch)) {
            let from = row(y);
            if from.len() < row_bytes {
                return Err(ExecutionError::Use {
                    what: "a row of the picture",
                    found: format!("{} bytes long", from.len()),
                    expected: format!("{row_bytes} bytes"),
                });
            }
            into[..row_bytes].copy_from_slice(&from[..row_bytes]);
        }
        let address = base + begin as u64;
        self.set_entry(
            index,
            ImageEntry {
                pixels: address,
                chroma: address + (pitch * inner.height as usize) as u64,
                // A row of at most 2^31 pixels would not fit into the memory of any machine.
                pitch: pitch as u32,
                chroma_pitch: pitch as u32,
                width: inner.width,
                height: inner.height,
                left: inner.left,
                top: inner.top,
                unused: [0; 2],
            },
        );
        Ok(())
    }

    /// Has the GPU read slot `index` where `surface` lies; see [`Execution::bind_surface`](super::Execution::place).
    pub(super) fn bind_surface(
        &mut self,
        index: usize,
        inner: LetterboxRect,
        surface: Surface,
    ) -> Result<(), ExecutionError> {
        let (pixels, ..) = self.check_image(index, inner)?;
        let refuse = |found: String| ExecutionError::Use {
            what: "the surface",
            found,
            expected: format!("{}×{} in {pixels:?}, in rows", inner.width, inner.height),
        };
        let (width, height) = surface.size();
        if (width, height) != (inner.width, inner.height) || surface.pixels() != pixels {
            return Err(refuse(format!(
                "{width}×{height} in {:?}",
                surface.pixels()
            )));
        }
        let planes = surface
            .planes()
            .ok_or_else(|| refuse("without rows".to_owned()))?;
        self.set_entry(
            index,
            ImageEntry {
                pixels: planes.pixels.0,
                chroma: planes.chroma.0,
                pitch: planes.pixels.1,
                chroma_pitch: planes.chroma.1,
                width,
                height,
                left: inner.left,
                top: inner.top,
                unused: [0; 2],
            },
        );
        self.bound[index] = Some(surface);
        Ok(())
    }

    /// Empties the slots whose pictures were read in place. The GPU must be done with them.
    pub(super) fn release(&mut self) {
        for index in 0..self.bound.len() {
            if self.bound[index].is_some() {
                self.set_entry(index, ImageEntry::default());
                self.bound[index] = None;
            }
        }
    }

    /// Whether a picture can lie so in slot `index`; gives its format, the pitch of slots, and where the GPU sees them.
    fn check_image(
        &self,
        index: usize,
        inner: LetterboxRect,
    ) -> Result<(PixelFormat, usize, u64), ExecutionError> {
        self.check_index(index)?;
        let Kind::Images {
            pixels,
            width,
            height,
            pitch,
            base,
        } = self.kind
        else {
            return Err(ExecutionError::Use {
                what: "what is written",
                found: "a picture".to_owned(),
                expected: "tensors".to_owned(),
            });
        };
        let fits =
            |begin: u32, len: u32, all: u32| begin.checked_add(len).is_some_and(|end| end <= all);
        if fits(inner.left, inner.width, width) && fits(inner.top, inner.height, height) {
            return Ok((pixels, pitch, base));
        }
        Err(ExecutionError::Use {
            what: "the picture",
            found: format!(
                "{}×{} at {}, {}",
                inner.width, inner.height, inner.left, inner.top
            ),
            expected: format!("a part of {width}×{height}"),
        })
    }

    fn set_entry(&mut self, index: usize, entry: ImageEntry) {
        let bytes = entry.to_bytes();
        self.memory.as_mut_slice()[index * IMAGE_ENTRY_BYTES..][..IMAGE_ENTRY_BYTES]
            .copy_from_slice(&bytes);
    }

    fn check_index(&self, index: usize) -> Result<(), ExecutionError> {
        if index < self.batch {
            return Ok(());
        }
        Err(ExecutionError::Use {
            what: "the number of the slot",
            found: index.to_string(),
            expected: format!("0 to {}", self.batch - 1),
        })
    }
}

/// Bytes of the entries.
fn header_len(batch: usize) -> usize {
    (batch * IMAGE_ENTRY_BYTES).next_multiple_of(ALIGNMENT)
}

/// Bytes of a row of `width` pixels; with NV12 luma and chroma have rows of the same length.
fn row_bytes(pixels: PixelFormat, width: u32) -> usize {
    match pixels {
        PixelFormat::Bgrx => 4 * width as usize,
        PixelFormat::Nv12(_) => (width as usize).next_multiple_of(2),
    }
}

/// Rows of a picture with `height` rows of pixels.
fn rows(pixels: PixelFormat, height: u32) -> u32 {
    match pixels {
        PixelFormat::Bgrx => height,
        PixelFormat::Nv12(_) => height + height.div_ceil(2),
    }
}

/// Bytes from one row of the largest picture to the next: the kernel's wide loads want multiples of 16.
fn pitch(pixels: PixelFormat, tensor: &TensorFormat) -> usize {
    row_bytes(pixels, tensor.width).next_multiple_of(16)
}

/// Bytes of the largest picture.
fn slot_len(pixels: PixelFormat, tensor: &TensorFormat) -> usize {
    (pitch(pixels, tensor) * rows(pixels, tensor.height) as usize).next_multiple_of(ALIGNMENT)
}
