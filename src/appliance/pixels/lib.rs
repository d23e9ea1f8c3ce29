// SPDX-License-Identifier: Apache-2.0
//! Computations on the pixels of images and on the numbers of tensors. Pure: no I/O, no threads, no clock.
//!
//! All loops over pixels of the appliance are here, because this crate alone is optimized in the development profile (`Cargo.toml`):
//! crates that decide what to compute are compiled in half the time without. Functions are not generic, since a generic one is
//! compiled in the crate that calls it.
//!
//! - [`Resizer`] scales images; [`I420Scaler`] scales what video decoders on the CPU deliver; [`JpegColors`] converts images for
//!   JPEG encoders; [`decode`] and the encoders read and write image files in memory.
//! - [`TensorWriter`] writes the input of a network, [`argmax`] reads the scores of its output.
//! - [`Canvas`] and [`Painter`] draw on an image; [`Grid`] tiles images.
//! - [`motion`] estimates the motion of a camera.

pub mod argmax;
mod canvas;
mod codec;
mod color;
mod draw;
pub mod exif;
mod font;
mod i420;
mod jpeg_colors;
mod jpeg_markers;
mod jpeg_stream;
pub mod motion;
mod resizer;
mod tensor;
mod tiler;

pub use canvas::{Canvas, Fill, PixelRun, Rectangle};
pub use codec::{BgrxImage, ImageFormat, decode, encode_bgrx_jpeg, encode_rgb};
pub use color::Color;
pub use draw::{Colors, Painter, whole_pixels};
pub use i420::{I420Scaler, Plane, YuvColors};
pub use jpeg_colors::JpegColors;
pub use jpeg_stream::JpegStream;
pub use resizer::{Filter, Resizer, halve};
pub use tensor::{CHANNELS, Slot, TensorFormat, TensorWriter};
pub use tiler::{Grid, TileRect, copy_into};
