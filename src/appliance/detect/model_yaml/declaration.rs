// SPDX-License-Identifier: Apache-2.0
//! Every key of `model.yaml`: its type, its range, its default, and what it is for.
//!
//! Schema and reference come from here, and so do the readers of single values. What depends on other keys or on other files
//! is only declared here and read by the functions of [`model_yaml`](super): such a field has the reader [`elsewhere`].

use std::path::PathBuf;

use jetwatch_config::{Section, Unit, ValueType, Words};
use jetwatch_files::Sha256Digest;
use jetwatch_types::Placement;

use super::{CLASSIFIER_SIDES, sha256};
use crate::layouts::keys::OutputKeys;
use crate::model::{ColorOrder, InputElement, License};
use crate::yaml_values::{elsewhere, inside, is_filled};

/// The outermost map.
#[derive(Section)]
pub struct ModelKeys {
    /// Name of the model in logs and statistics.
    #[key(text = "the model's name", check = is_filled)]
    pub(super) name: String,
    /// The input tensor, [batch, 3, height, width].
    #[key(value = ValueType::Map(InputKeys::KEYS), required, read = elsewhere)]
    pub(super) input: (),
    /// The output tensors.
    #[key(value = ValueType::Map(OutputKeys::KEYS), required, read = elsewhere)]
    pub(super) output: (),
    /// Names of the classes in the network's order. Either these or labels_file; neither with the layout embedding.
    #[key(value = ValueType::Texts("a name; quote it if it is a number"), read = elsewhere)]
    #[expect(dead_code, reason = "declared only")]
    pub(super) labels: Option<()>,
    /// A text file in the model's folder: one name a line, or a list or map of names in YAML or JSON.
    #[key(value = ValueType::Path, read = elsewhere)]
    #[expect(dead_code, reason = "declared only")]
    pub(super) labels_file: Option<()>,
    /// Names in annotations that jetwatch eval takes for a label. Default: none.
    #[key(value = COVERS, read = elsewhere)]
    #[expect(dead_code, reason = "declared only")]
    pub(super) covers: Option<()>,
    /// Detections below this score are dropped, by default.
    #[key(range = 0.0..=1.0, default = 0.3)]
    pub(super) score_threshold: f32,
    /// Boxes that overlap a better one of their class by a higher IOU are dropped, by default.
    #[key(range = 0.0..=1.0, default = 0.45)]
    pub(super) nms_iou: f32,
    /// Maximum number of detections in one frame.
    #[key(range = 1..=10_000, default = 300)]
    pub(super) max_detections: usize,
    /// Secondary networks: margin around the object on each side, as a share of its width and height, as in training.
    #[key(range = 0.0..=1.0, default = 0.0)]
    pub(super) crop_margin: f32,
    /// Terms and origin of the files.
    #[key(required)]
    pub(super) license: License,
    /// The network's file by precision, such as fp32 or int8; the first is the default.
    #[key(value = ValueType::Named(FileKeys::KEYS), required, read = elsewhere)]
    pub(super) files: (),
}

const COVERS: ValueType = ValueType::Other {
    form: "a map such as `vehicle: [car, bus]` with labels of this model",
    schema: r#"{"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string", "minLength": 1}}}"#,
};

/// `input`.
#[derive(Section)]
pub(super) struct InputKeys {
    /// Name of the tensor in the network.
    #[key(text = "the tensor's name in the network", check = is_filled)]
    pub(super) name: String,
    /// Name of an input that gets width and height of the input, 64-bit integers [batch, 2]. Default: none.
    #[key(text = "a further input's name in the network", check = is_filled)]
    pub(super) sizes_name: Option<String>,
    /// Name of an input for the scale of the images, 32-bit floats [batch, 2]; it gets ones. Default: none.
    #[key(text = "a further input's name in the network", check = is_filled)]
    pub(super) scales_name: Option<String>,
    /// Width of the input, a multiple of what the layout demands; at least 32 for detectors.
    #[key(value = SIDE, required, read = elsewhere)]
    pub(super) width: (),
    /// Height of the input, as width.
    #[key(value = SIDE, required, read = elsewhere)]
    pub(super) height: (),
    /// Order of the three planes.
    pub(super) color: ColorOrder,
    /// Order of the axes.
    #[key(default = "nchw")]
    pub(super) layout: AxisOrder,
    /// Type of the elements: float32 is normalized by mean and scale, uint8 is not.
    #[key(name = "type", default = "float32")]
    pub(super) element: InputElement,
    /// Subtracted from each value, 0 to 255, in the order of the planes. Default: 0.
    #[key(value = PLANES, read = elsewhere)]
    #[expect(dead_code, reason = "declared only")]
    pub(super) mean: Option<()>,
    /// Multiplied after that, in the order of the planes. Default: 1.
    #[key(value = PLANES, read = elsewhere)]
    #[expect(dead_code, reason = "declared only")]
    pub(super) scale: Option<()>,
    /// Where the scaled image lies in the input, and what surrounds it.
    #[key(required)]
    pub(super) letterbox: LetterboxKeys,
}

/// The type of `width` and `height`, whose range depends on the layout.
const SIDE: ValueType = ValueType::Integer {
    min: *CLASSIFIER_SIDES.start(),
    max: *CLASSIFIER_SIDES.end(),
    unit: Unit::Of("pixels"),
};

/// Order of the axes of the input.
#[derive(Clone, Copy, Words)]
pub(super) enum AxisOrder {
    Nchw,
}

/// Accepted form of `mean` and `scale`.
pub(super) const PLANES_FORM: &str = "one number or a list of three";

const PLANES: ValueType = ValueType::Other {
    form: PLANES_FORM,
    schema: r#"{"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}]}"#,
};

/// `input.letterbox`.
#[derive(Section)]
pub(super) struct LetterboxKeys {
    /// Value of the padding before mean and scale.
    #[key(range = 0..=255)]
    pub(super) value: u8,
    /// Where the scaled image lies: top_left and center keep its shape, stretch fills the input.
    #[key(words(
        top_left = Placement::TopLeft,
        center = Placement::Center,
        stretch = Placement::Stretch,
    ))]
    pub(super) placement: Placement,
}

/// One of `files`.
#[derive(Section)]
pub(super) struct FileKeys {
    /// The network's file in the model's folder.
    #[key(text = "a path inside the model's folder, without `..`", parse = inside)]
    pub(super) file: PathBuf,
    /// SHA-256 of the file.
    #[key(text = "64 hexadecimal digits, as `sha256sum FILE` prints", parse = sha256)]
    pub(super) sha256: Sha256Digest,
    /// SHA-256 of external files of weights. Default: none.
    #[key(value = WEIGHTS, read = elsewhere)]
    #[expect(dead_code, reason = "declared only")]
    pub(super) weights: Option<()>,
}

/// Accepted form of `weights`.
pub(super) const WEIGHTS_FORM: &str = "a map such as `NAME.onnx.data: DIGITS`: files in which the network keeps weights, by the paths that it \
    gives, with what `sha256sum` prints";

const WEIGHTS: ValueType = ValueType::Other {
    form: WEIGHTS_FORM,
    schema: r#"{"type": "object", "additionalProperties": {"type": "string", "pattern": "^[0-9A-Fa-f]{64}$"}}"#,
};
