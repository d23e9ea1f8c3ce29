//! FLOOR 2: pictures drawn on and recorded, without a GPU.
//!
//! [`Canvas`] is a picture in NV12, I420, RGBA or BGRx in the processor's memory, of which only the pixels that are drawn are touched.
//! [`Painter`] draws frames, lines and text on it, [`Overlay`] what is known of a frame. [`Grid`] lays the pictures of several sources
//! side by side. [`Recording`] does all of that on a thread of its own and gives the pictures to the encoder that is there.
//!
//! ```text
//!   follower ── frame's view, tracks ──► queue ──► record: copy or tile, draw, encode ──► file
//!                                         └─► full: dropped and counted
//! ```

mod canvas;
mod color;
mod draw;
mod encoders;
mod error;
mod font;
mod image_budget;
mod overlay;
mod recorder_thread;
mod recording;
mod tiler;
mod tiles;
mod video_writer;

pub use canvas::{Canvas, Fill, PixelRun, Rectangle};
pub use color::Color;
pub use draw::{Colors, Painter};
pub use encoders::{Container, Encoder, EncoderChoice};
pub use error::RenderError;
pub use image_budget::{BudgetObserver, BudgetedImage, ImageBudget};
pub use overlay::{Overlay, Viewport};
pub use recording::{OverflowPolicy, Recording, RecordingEnd, RecordingReport};
pub use tiler::{Grid, TileRect, copy_into};
