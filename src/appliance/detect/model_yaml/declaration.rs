// SPDX-License-Identifier: Apache-2.0
//! Every key of `model.yaml`: its type, its range, its default, and what it is for.
//!
//! Schema and reference come from here, and so do the readers of single values. What depends on other keys or on other files
//! is only declared here and read by the functions of [`model_yaml`](super): such a field has the reader [`elsewhere`].

use std::path::PathBuf;

use jetwatch_config::{Map, Section, ValueType, Words};
use jetwatch_files::Sha256Digest;
use jetwatch_types::Placement;

use super::{inside, is_filled, output, parameters, sha256};
use crate::decoders::detectnet_v2::DetectNetParameters;
use crate::decoders::ssd::SsdBackground;
use crate::model::{ColorOrder, InputElement, License};

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
    /// A text file in the model's folder with one name a line.
    #[key(value = ValueType::Path, read = elsewhere)]
    #[expect(dead_code, reason = "declared only")]
    pub(super) labels_file: Option<()>,
    /// Names that other sets of labels have for objects of a class, by label: jetwatch eval takes annotated objects of these names for objects of that label. Default: none.
    #[key(value = COVERS, read = elsewhere)]
    #[expect(dead_code, reason = "declared only")]
    pub(super) covers: Option<()>,
    /// Detections below this score are dropped, unless the configuration says otherwise.
    #[key(range = 0.0..=1.0, default = 0.3)]
    pub(super) score_threshold: f32,
    /// Boxes that overlap a better one of their class by more than this IOU are dropped, unless the configuration says otherwise.
    #[key(range = 0.0..=1.0, default = 0.45)]
    pub(super) nms_iou: f32,
    /// Maximum number of detections in one frame.
    #[key(range = 1..=10_000, default = 300)]
    pub(super) max_detections: usize,
    /// Secondary networks: margin of the crops around the object, as a share of its width and height on each side, as the network was trained.
    #[key(range = 0.0..=1.0, default = 0.0)]
    pub(super) crop_margin: f32,
    /// Terms and origin of the files.
    #[key(required)]
    pub(super) license: License,
    /// The network's file in each precision, by the name of the precision, such as fp32 or int8; the first is the default.
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
    /// Name of a second input that takes the size to which boxes refer, as 64-bit integers [batch, 2]: it is given width and height of the input. Default: there is none.
    #[key(text = "a further input's name in the network", check = is_filled)]
    pub(super) sizes_name: Option<String>,
    /// Name of a further input that takes the scale of the images, as 32-bit floats [batch, 2]: it is given ones, so that boxes come back in input pixels. Default: there is none.
    #[key(text = "a further input's name in the network", check = is_filled)]
    pub(super) scales_name: Option<String>,
    /// Width of the input, a multiple of what the layout of the output demands; 32 at least for detectors.
    #[key(value = output::SIDE, required, read = elsewhere)]
    pub(super) width: (),
    /// Height of the input, as width.
    #[key(value = output::SIDE, required, read = elsewhere)]
    pub(super) height: (),
    /// Order of the three planes.
    pub(super) color: ColorOrder,
    /// Order of the axes.
    #[key(default = "nchw")]
    pub(super) layout: AxisOrder,
    /// Type of the elements: float32 is normalized by mean and scale, uint8 is given as it is.
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
    /// SHA-256 of the files in which the network keeps weights, by the paths that it gives. Default: none.
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

/// `output`: the keys of all layouts. Each has some of them.
#[derive(Section)]
#[section(also = AnchorsKey, also = ScaleKey, also = ActivationKey, also = BoxesAreKey)]
#[section(also = GflKeys, also = DetectNetParameters, also = SsdKeys)]
#[expect(dead_code, reason = "declares the keys only")]
pub(super) struct OutputKeys {
    /// What the tensors mean.
    #[key(value = ValueType::Words(&output::LAYOUT_WORDS), required, read = elsewhere)]
    layout: (),
    /// Layouts with one tensor: its name in the network.
    #[key(text = output::TENSOR, check = is_filled)]
    name: Option<String>,
    /// Layouts with several tensors: their names by role.
    #[key(value = ValueType::Map(TensorKeys::KEYS), read = elsewhere)]
    tensors: Option<()>,
}

/// `output.tensors`: the roles of all layouts. Each has some of them.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
struct TensorKeys {
    /// Boxes.
    #[key(value = TENSORS, read = elsewhere)]
    boxes: Option<()>,
    /// Scores of the classes.
    #[key(value = TENSORS, read = elsewhere)]
    scores: Option<()>,
    /// Layouts yolox, yolov3 and yolov4: boxes and scores of each grid in one tensor.
    #[key(value = TENSORS, read = elsewhere)]
    grids: Option<()>,
    /// Layout fcos: centerness of each grid. Default: the scores have it already.
    #[key(value = TENSORS, read = elsewhere)]
    centerness: Option<()>,
    /// Layout detr: classes of the ranked boxes.
    #[key(value = TENSORS, read = elsewhere)]
    labels: Option<()>,
    /// Layouts efficient_nms and batched_nms: number of detections.
    #[key(value = TENSORS, read = elsewhere)]
    count: Option<()>,
    /// Layouts efficient_nms and batched_nms: classes of the detections.
    #[key(value = TENSORS, read = elsewhere)]
    classes: Option<()>,
}

const TENSORS: ValueType = ValueType::Other {
    form: "the tensor's name in the network, or a list with one for each grid",
    schema: r#"{"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}]}"#,
};

/// Of darknet's layouts.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
pub(super) struct AnchorsKey {
    /// Layouts yolov3 and yolov4 with grids: width and height of each anchor in input pixels, one list for each grid. Default: those of the tiny networks, for two grids.
    #[key(value = ANCHORS, read = elsewhere)]
    anchors: Option<()>,
}

const ANCHORS: ValueType = ValueType::Other {
    form: "for each grid a list such as [81, 82, 135, 169]",
    schema: r#"{"type": "array", "minItems": 1, "items": {"type": "array", "items": {"type": "number", "minimum": 1, "maximum": 8192}}}"#,
};

/// Of YOLOv4.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
pub(super) struct ScaleKey {
    /// Layout yolov4 with grids: factor of the box centers' range, one for all grids or for each. Default: 1.05.
    #[key(value = SCALE, read = elsewhere)]
    scale_x_y: Option<()>,
}

const SCALE: ValueType = ValueType::Other {
    form: "one number from 1 to 2 or a list with one for each grid",
    schema: r#"{"anyOf": [{"type": "number", "minimum": 1, "maximum": 2}, {"type": "array", "items": {"type": "number", "minimum": 1, "maximum": 2}}]}"#,
};

/// Of the layouts whose scores are raw.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
pub(super) struct ActivationKey {
    /// Layouts detr and ssd: what turns the tensor's values into scores; softmax for ssd only. Required for ssd. Default: sigmoid for detr.
    #[key(value = ValueType::Words(&["sigmoid", "softmax", "none"]), read = elsewhere)]
    activation: Option<()>,
}

/// Of the layouts that know several units of boxes.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
pub(super) struct BoxesAreKey {
    /// Layouts efficient_nms, batched_nms and ssd: unit of the boxes; deltas, which refer to anchors, for ssd only. Required for batched_nms. Default: pixels for efficient_nms, deltas for ssd.
    #[key(value = ValueType::Words(&["pixels", "normalized", "deltas"]), read = elsewhere)]
    boxes_are: Option<()>,
}

/// Of the layouts with generalized focal loss.
#[derive(Section)]
pub(super) struct GflKeys {
    /// Layouts nanodet and picodet with tensors by role: last bin of the distances' distribution.
    #[key(range = 1..=64, default = 7)]
    pub(super) reg_max: usize,
}

/// Of the layout `ssd`.
#[derive(Section)]
#[section(also = DeltaKeys)]
pub(super) struct SsdKeys {
    /// Layout ssd: where the class of the background stands among the scores.
    #[key(default = "first")]
    pub(super) background: SsdBackground,
}

/// How deltas become boxes.
#[derive(Section)]
#[section(also = GridKeys)]
#[expect(dead_code, reason = "declares the keys only")]
pub(super) struct DeltaKeys {
    /// Layout ssd: factors of the deltas of x, y, width and height. Default: 0.1, 0.1, 0.2, 0.2.
    #[key(value = numbers(parameters::VARIANCES_FORM), read = elsewhere)]
    variances: Option<()>,
    /// Layout ssd: file in the model's folder with an anchor in each line: x, y, width and height as parts of the input. Default: anchors are computed from the following keys.
    #[key(value = ValueType::Path, read = elsewhere)]
    anchors_file: Option<()>,
}

/// How anchors are computed.
#[derive(Section)]
#[expect(dead_code, reason = "declares the keys only")]
pub(super) struct GridKeys {
    /// Layout ssd: cells of each feature map.
    #[key(value = FEATURE_MAPS, read = elsewhere)]
    feature_maps: Option<()>,
    /// Layout ssd: size of the anchors of each feature map, and one more.
    #[key(value = numbers(parameters::SCALES_FORM), read = elsewhere)]
    scales: Option<()>,
    /// Layout ssd: shapes of the anchors of each feature map.
    #[key(value = RATIOS, read = elsewhere)]
    aspect_ratios: Option<()>,
    /// Layout ssd: distance of the cells of each feature map. Default: the input divided by the cells.
    #[key(value = numbers(parameters::STEPS_FORM), read = elsewhere)]
    steps: Option<()>,
    /// Layout ssd: anchors are cut at the edges of the input.
    #[key(default = false)]
    clip_anchors: bool,
}

const FEATURE_MAPS: ValueType = ValueType::Other {
    form: parameters::MAPS_FORM,
    schema: r#"{"type": "array", "minItems": 1, "maxItems": 16, "items": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 1024}, {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 1024}, "minItems": 2, "maxItems": 2}]}}"#,
};

const RATIOS: ValueType = ValueType::Other {
    form: parameters::RATIOS_FORM,
    schema: r#"{"type": "array", "items": {"type": "array", "items": {"type": "number", "minimum": 0.01, "maximum": 100}}}"#,
};

const fn numbers(form: &'static str) -> ValueType {
    ValueType::Other {
        form,
        schema: r#"{"type": "array", "items": {"type": "number"}}"#,
    }
}

/// The reader of keys that depend on others: it reads nothing.
fn elsewhere<T: Default>(_: &Map<'_>) -> Option<T> {
    Some(T::default())
}
