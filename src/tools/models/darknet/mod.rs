//! Converts a detector of Darknet into an ONNX file: YOLOv3, YOLOv3-tiny, YOLOv4, YOLOv4-tiny and networks built like them.
//!
//! A network is two files: `NAME.cfg`, a text with a section for each layer ([`config`]), and `NAME.weights`, the numbers of the
//! layers in the same order ([`weights`]). [`network`] computes the shapes, folds batch normalization into the convolutions, and
//! makes a grid of each `[yolo]` layer an output, as the layouts `yolov3` and `yolov4` decode them. Sections and keys that
//! change what a network computes and that are not known here are errors. Pure; called by `jetwatch model import`.

mod config;
mod error;
mod layers;
mod network;
#[cfg(test)]
mod tests;
mod weights;

pub use error::DarknetError;

use jetwatch_types::Size;

use crate::onnx_writer;

/// Name of the input.
pub const INPUT: &str = "images";

/// A converted network.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvertedDarknet {
    /// The ONNX file, of operator set 13: input `[batch, 3, height, width]`, red first, 0 to 1; one output for each grid.
    pub onnx: Vec<u8>,
    /// Size of the input.
    pub size: Size,
    /// The outputs, in the order of the file.
    pub grids: Vec<Grid>,
    /// Number of classes.
    pub classes: usize,
    /// Whether Darknet keeps the shape of images (`letter_box=1`), or stretches them to the input.
    pub letter_box: bool,
}

/// An output `[batch, anchors · (5 + classes), height, width]`, before any sigmoid.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Name of the output.
    pub name: String,
    /// Pixels of the input for each cell.
    pub stride: usize,
    /// Width and height of each anchor in pixels of the input.
    pub anchors: Vec<[f32; 2]>,
    /// How far centers reach beyond their cell.
    pub scale_x_y: f32,
}

/// Converts the text of a `.cfg` file and the bytes of its `.weights` file. The same input gives the same bytes.
///
/// # Errors
/// The text has an unknown section, key or value, its layers do not fit each other, or the weights do not fit the layers.
pub fn convert(
    config: &str,
    weights: &[u8],
    metadata: &[(String, String)],
) -> Result<ConvertedDarknet, DarknetError> {
    let sections = config::parse(config)?;
    let network = network::Network::build(&sections, weights)?;
    let onnx = onnx_writer::write(&onnx_writer::Network {
        producer: "Darknet",
        metadata,
        input: INPUT,
        size: network.size,
        nodes: &network.nodes,
        initializers: &network.initializers,
        outputs: &network.outputs,
    });
    Ok(ConvertedDarknet {
        onnx,
        size: network.size,
        grids: network.grids,
        classes: network.classes,
        letter_box: network.letter_box,
    })
}
