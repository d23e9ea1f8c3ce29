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
mod film;
mod font;
mod overlay;
mod pen;
mod recording;
mod scribe;
mod seats;
mod shelf;
mod tiler;

pub use canvas::{Canvas, Ink, Rectangle, Run};
pub use color::Color;
pub use encoders::{Choice, Container, Encoder};
pub use error::RenderError;
pub use overlay::{Overlay, Viewport};
pub use pen::{Inks, Pen};
pub use recording::{Lag, Recording, RecordingEnd, RecordingReport};
pub use shelf::{KeptView, Shelf, Watch};
pub use tiler::{Grid, Place, copy_into};
