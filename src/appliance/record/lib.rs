//! FLOOR 2: pictures drawn on and recorded, without a GPU.
//!
//! [`Canvas`] is a picture in NV12, I420, RGBA or BGRx in the processor's memory, of which only the pixels that are drawn are touched.
//! [`Pen`] draws frames, lines and text on it, [`Overlay`] what is known of a frame. [`Grid`] lays the pictures of several sources
//! side by side. [`Recording`] does all of that on a thread of its own and gives the pictures to the encoder that is there.
//!
//! ```text
//!   follower ── frame's view, tracks ──► queue ──► record: copy or tile, draw, encode ──► file
//!                                         └─► full: dropped and counted
//! ```

mod canvas;
mod color;
mod encoders;
mod error;
mod video_writer;
mod font;
mod overlay;
mod draw;
mod recording;
mod recorder_thread;
mod tiles;
mod image_budget;
mod tiler;

pub use canvas::{Canvas, Fill, Rectangle, PixelRun};
pub use color::Color;
pub use encoders::{EncoderChoice, Container, Encoder};
pub use error::RenderError;
pub use overlay::{Overlay, Viewport};
pub use draw::{Colors, Painter};
pub use recording::{OverflowPolicy, Recording, RecordingEnd, RecordingReport};
pub use image_budget::{BudgetedImage, ImageBudget, BudgetObserver};
pub use tiler::{Grid, TileRect, copy_into};
