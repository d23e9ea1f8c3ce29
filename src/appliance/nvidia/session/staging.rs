// SPDX-License-Identifier: Apache-2.0
//! Page-locked memory into which the CPU writes images for the GPU: one slot per image of the batch.

use super::error::SessionError;
use crate::cuda::{IMAGE_ENTRY_BYTES, ImageEntry, PinnedBuffer, PixelFormat, TensorFormat};
use crate::surface::Surface;

/// Alignment of each slot in bytes.
const ALIGNMENT: usize = 256;

/// Position of an image in the tensor, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LetterboxRect {
    /// Pixels in a row of the image.
    pub width: u32,
    /// Rows of the image.
    pub height: u32,
    /// Column of the tensor at which the image begins.
    pub left: u32,
    /// Row of the tensor at which the image begins.
    pub top: u32,
}

/// Contents of the slots.
enum Kind {
    /// Pixels; a header with the kernel's image entries precedes them.
    Images {
        pixels: PixelFormat,
        width: u32,
        height: u32,
        /// Bytes from one row to the next; the chroma rows of NV12 follow the luma rows.
        pitch: usize,
        /// Address of the memory's first byte for the GPU.
        base: u64,
    },
    /// The tensor itself.
    Tensors,
}

/// Page-locked memory, divided into slots.
pub(super) struct StagingBuffers {
    memory: PinnedBuffer,
    /// By slot: the surface that the GPU reads in the next run instead.
    bound: Vec<Option<Surface>>,
    kind: Kind,
    batch: usize,
    /// Bytes before the first slot.
    header_len: usize,
    slot_len: usize,
}

impl StagingBuffers {
    /// Required bytes of memory for [`for_images`](Self::for_images).
    pub(super) fn images_len(pixels: PixelFormat, tensor: &TensorFormat, batch: usize) -> usize {
        header_len(batch) + slot_len(pixels, tensor) * batch
    }

    /// Slots for images that are at most as large as the tensor. `memory` has the address `base` for the GPU.
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
        // Images without pixels, until others are written.
        for index in 0..batch {
            slots.set_entry(index, ImageEntry::default());
        }
        slots
    }

    /// Slots for the tensor itself, contiguous.
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

    /// Address of the memory for the GPU, which reads it directly or copies it first.
    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Bytes of the header and the first `count` slots.
    pub(super) fn bytes(&self, count: usize) -> usize {
        self.header_len + self.slot_len * count
    }

    /// The tensor of image `index`.
    pub(super) fn tensor(&mut self, index: usize) -> Result<&mut [u8], SessionError> {
        self.check_index(index)?;
        match self.kind {
            Kind::Tensors => {
                Ok(&mut self.memory.as_mut_slice()[index * self.slot_len..][..self.slot_len])
            }
            Kind::Images { .. } => Err(SessionError::Use {
                what: "the input",
                found: "a tensor".to_owned(),
                expected: "images".to_owned(),
            }),
        }
    }

    /// Copies an image's rows into slot `index`; see [`InferenceSession::upload_image`](super::InferenceSession::upload_image).
    pub(super) fn write_image<'a>(
        &mut self,
        index: usize,
        inner: LetterboxRect,
        row: impl Fn(u32) -> &'a [u8],
    ) -> Result<(), SessionError> {
        let (pixels, pitch, base) = self.check_image(index, inner)?;
        let row_bytes = row_bytes(pixels, inner.width);
        let rows = rows(pixels, inner.height);
        self.bound[index] = None;
        let begin = self.header_len + index * self.slot_len;
        let slot = &mut self.memory.as_mut_slice()[begin..][..self.slot_len];
        for (y, into) in (0..rows).zip(slot.chunks_mut(pitch)) {
            let from = row(y);
            if from.len() < row_bytes {
                return Err(SessionError::Use {
                    what: "a row of the image",
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
                // A row of at most 2^31 pixels; longer ones would not fit into the memory of any machine.
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

    /// Lets the GPU read slot `index` from `surface`; see [`InferenceSession::bind_surface`](super::InferenceSession::bind_surface).
    pub(super) fn bind_surface(
        &mut self,
        index: usize,
        inner: LetterboxRect,
        surface: Surface,
    ) -> Result<(), SessionError> {
        let (pixels, ..) = self.check_image(index, inner)?;
        let refuse = |found: String| SessionError::Use {
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

    /// Releases the bound surfaces and empties their slots. The GPU must be done with them.
    pub(super) fn release(&mut self) {
        for index in 0..self.bound.len() {
            if self.bound[index].is_some() {
                self.set_entry(index, ImageEntry::default());
                self.bound[index] = None;
            }
        }
    }

    /// Checks that an image fits at this position into slot `index`; returns its format, the pitch of slots, and their GPU address.
    fn check_image(
        &self,
        index: usize,
        inner: LetterboxRect,
    ) -> Result<(PixelFormat, usize, u64), SessionError> {
        self.check_index(index)?;
        let Kind::Images {
            pixels,
            width,
            height,
            pitch,
            base,
        } = self.kind
        else {
            return Err(SessionError::Use {
                what: "the input",
                found: "an image".to_owned(),
                expected: "tensors".to_owned(),
            });
        };
        let fits =
            |begin: u32, len: u32, all: u32| begin.checked_add(len).is_some_and(|end| end <= all);
        if fits(inner.left, inner.width, width) && fits(inner.top, inner.height, height) {
            return Ok((pixels, pitch, base));
        }
        Err(SessionError::Use {
            what: "the image",
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

    fn check_index(&self, index: usize) -> Result<(), SessionError> {
        if index < self.batch {
            return Ok(());
        }
        Err(SessionError::Use {
            what: "the number of the slot",
            found: index.to_string(),
            expected: format!("0 to {}", self.batch - 1),
        })
    }
}

/// Bytes of the image entries.
fn header_len(batch: usize) -> usize {
    (batch * IMAGE_ENTRY_BYTES).next_multiple_of(ALIGNMENT)
}

/// Bytes of a row of `width` pixels; luma and chroma rows of NV12 have the same length.
fn row_bytes(pixels: PixelFormat, width: u32) -> usize {
    match pixels {
        PixelFormat::Bgrx => 4 * width as usize,
        PixelFormat::Nv12(_) => (width as usize).next_multiple_of(2),
    }
}

/// Rows of memory for an image with `height` rows of pixels.
fn rows(pixels: PixelFormat, height: u32) -> u32 {
    match pixels {
        PixelFormat::Bgrx => height,
        PixelFormat::Nv12(_) => height + height.div_ceil(2),
    }
}

/// Bytes from one row of the largest image to the next: the kernel's wide loads need multiples of 16.
fn pitch(pixels: PixelFormat, tensor: &TensorFormat) -> usize {
    row_bytes(pixels, tensor.width).next_multiple_of(16)
}

/// Bytes of the largest image.
fn slot_len(pixels: PixelFormat, tensor: &TensorFormat) -> usize {
    (pitch(pixels, tensor) * rows(pixels, tensor.height) as usize).next_multiple_of(ALIGNMENT)
}
