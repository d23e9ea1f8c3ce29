// SPDX-License-Identifier: Apache-2.0
//! The families of networks that jetwatch decodes: required outputs, and usual preprocessing.
//!
//! Shapes are those of one image, `C` is the number of classes. The preprocessing is that of the authors' training;
//! an ONNX file does not contain it, so it is always a guess.

use jetwatch_detect::model::ColorOrder;
use jetwatch_types::Placement;

/// A family of networks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Family {
    /// Value of `output.layout`.
    pub layout: &'static str,
    /// Networks that belong to it.
    pub networks: &'static str,
    /// Required outputs, for errors and help.
    pub needs: &'static str,
    /// Order of the planes.
    pub color: ColorOrder,
    /// Subtracted from each value, 0 to 255, in the order of the planes.
    pub mean: [f32; 3],
    /// Factor after the subtraction.
    pub scale: [f32; 3],
    /// Position of the scaled image.
    pub placement: Placement,
    /// Value of the padding, 0 to 255.
    pub padding: u8,
    /// Default score threshold.
    pub score_threshold: f32,
    /// Whether boxes of one object overlap.
    pub needs_suppression: bool,
}

/// 0 to 255 as they are.
const RAW: Family = Family {
    layout: "",
    networks: "",
    needs: "",
    color: ColorOrder::Bgr,
    mean: [0.0; 3],
    scale: [1.0; 3],
    placement: Placement::Stretch,
    padding: 114,
    score_threshold: 0.3,
    needs_suppression: true,
};

/// Red first, 0 to 1.
const UNIT: Family = Family {
    color: ColorOrder::Rgb,
    scale: [0.003_921_569; 3],
    ..RAW
};

/// Red first, by ImageNet's mean and deviation; the object fills the input.
const CLASSIFIER: Family = Family {
    color: ColorOrder::Rgb,
    mean: [123.675, 116.28, 103.53],
    scale: [0.017_124_8, 0.017_507, 0.017_429_2],
    score_threshold: 0.5,
    needs_suppression: false,
    ..RAW
};

/// Ultralytics trains its classifiers without mean and deviation; its exporter writes the task into the metadata.
const ULTRALYTICS_CLASSIFIER: Family = Family {
    networks: "classifiers of Ultralytics",
    mean: [0.0; 3],
    scale: [0.003_921_569; 3],
    ..CLASSIFIER
};

/// Every family, in the order in which guesses are preferred.
pub const FAMILIES: [Family; 18] = [
    Family {
        layout: "efficient_nms",
        networks: "exports with TensorRT's EfficientNMS",
        needs: "four outputs: count int32 [1], boxes [K, 4], scores [K], classes int32 [K]",
        placement: Placement::Center,
        needs_suppression: false,
        ..UNIT
    },
    Family {
        layout: "batched_nms",
        networks: "exports with TensorRT's BatchedNMS",
        needs: "four outputs: count int32 [1], boxes [K, 4], scores [K], classes float32 [K]",
        placement: Placement::Center,
        needs_suppression: false,
        ..UNIT
    },
    Family {
        layout: "yolox",
        networks: "YOLOX",
        needs: "one output [cells, 5 + C] with a row for every cell of the grids of strides 8, 16 and 32, or one output \
                [5 + C, height, width] for each stride",
        placement: Placement::TopLeft,
        ..RAW
    },
    Family {
        layout: "yolov5",
        networks: "Ultralytics YOLOv5, YOLOv7 with its grid",
        needs: "one output [N, 5 + C] with three rows for every cell of the grids of strides 8, 16 and 32",
        placement: Placement::Center,
        ..UNIT
    },
    Family {
        layout: "yolov8",
        networks: "YOLOv8, YOLO11",
        needs: "one output [4 + C, N] with a column for every cell of the grids of strides 8, 16 and 32",
        placement: Placement::Center,
        ..UNIT
    },
    Family {
        layout: "nanodet",
        networks: "NanoDet-Plus, NanoDet",
        needs: "one output [N, C + 32] with a row for every cell of the grids of strides 8, 16, 32 and 64, or scores [n, C] \
                and boxes [n, 32] for each stride",
        // Blue, green and red as ImageNet's mean and deviation.
        mean: [103.53, 116.28, 123.675],
        scale: [0.017_429_2, 0.017_507, 0.017_124_8],
        ..RAW
    },
    Family {
        layout: "picodet",
        networks: "PicoDet",
        needs: "scores [n, C] and boxes [n, 32] for each of the strides 8, 16, 32 and 64, or one output [K, 6]",
        mean: [123.675, 116.28, 103.53],
        scale: [0.017_124_8, 0.017_507, 0.017_429_2],
        ..UNIT
    },
    Family {
        layout: "detr",
        networks: "RT-DETR, D-FINE",
        needs: "scores [Q, C] and boxes [Q, 4], or labels int64 [Q], boxes [Q, 4] and scores [Q], or one output [Q, 4 + C]",
        needs_suppression: false,
        ..UNIT
    },
    Family {
        layout: "yolov4",
        networks: "YOLOv4, YOLOv4-tiny",
        needs: "boxes [N, 1, 4] or [N, 4] and scores [N, C], or one output [3 * (5 + C), height, width] for each grid",
        ..UNIT
    },
    Family {
        layout: "yolov3",
        networks: "YOLOv3, YOLOv3-tiny",
        needs: "boxes [N, 1, 4] or [N, 4] and scores [N, C], or one output [3 * (5 + C), height, width] for each grid",
        ..UNIT
    },
    Family {
        layout: "fcos",
        networks: "FCOS-like networks without anchors",
        needs: "scores [C, height, width] and boxes [4, height, width] for each stride, perhaps centerness [1, height, width]",
        ..UNIT
    },
    Family {
        layout: "fastestdet",
        networks: "FastestDet",
        needs: "one output [5 + C, height, width] at stride 16",
        scale: [0.003_921_569; 3],
        ..RAW
    },
    Family {
        layout: "detectnet_v2",
        networks: "NVIDIA TAO's DetectNet_v2",
        needs: "scores [C, height, width] and boxes [4 * C, height, width] at stride 16",
        ..UNIT
    },
    Family {
        layout: "ssd",
        networks: "SSD with MobileNet and the like",
        needs: "boxes [N, 4] and scores [N, C + 1]",
        mean: [127.5; 3],
        scale: [0.007_843_137; 3],
        ..UNIT
    },
    Family {
        layout: "softmax",
        networks: "classifiers trained with ImageNet's mean and deviation",
        needs: "one output [C], behind the network's own Softmax: one probability for each label of a classifier",
        ..CLASSIFIER
    },
    Family {
        layout: "logits",
        networks: "classifiers trained with ImageNet's mean and deviation",
        needs: "one output [C] without a Softmax or Sigmoid behind it: the logits of a classifier with exclusive labels",
        ..CLASSIFIER
    },
    Family {
        layout: "sigmoid",
        networks: "classifiers trained with ImageNet's mean and deviation",
        needs: "one output [C], behind the network's own Sigmoid: one score for each label of a multi-label classifier",
        ..CLASSIFIER
    },
    Family {
        layout: "embedding",
        networks: "networks that tell objects apart (ReID), trained with ImageNet's mean and deviation",
        needs: "one output [D]: a vector for each image, without classes",
        ..CLASSIFIER
    },
];

/// The family with this value of `output.layout`.
#[must_use]
pub(crate) fn find(layout: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.layout == layout)
}

impl Family {
    /// Whether its networks classify the whole image and have no boxes.
    #[must_use]
    pub fn is_classifier(&self) -> bool {
        matches!(self.layout, "softmax" | "logits" | "sigmoid")
    }

    /// Whether its networks give a vector instead of scores, and have no labels.
    #[must_use]
    pub fn is_embedding(&self) -> bool {
        self.layout == "embedding"
    }

    /// The family with the preprocessing of this network's authors; `task` is from the metadata of the exporter.
    #[must_use]
    pub(crate) fn for_task(&self, task: Option<&str>) -> Self {
        match task {
            Some("classify") if self.is_classifier() => Self {
                layout: self.layout,
                needs: self.needs,
                ..ULTRALYTICS_CLASSIFIER
            },
            _ => *self,
        }
    }
}
