//! Keys of `detector` and of the sections in it.

use super::super::form::{Fallback, Form, Key, Unit};
use super::super::{ENGINES_FOLDER, MAX_BATCH_SIZE};

/// Most frames that may skip the network in a row.
const MAX_INTERVAL: i64 = 30;

/// `interval`, here and in a source.
pub(super) const INTERVAL: Form = Form::WordOrCount {
    word: "adaptive",
    max: MAX_INTERVAL,
    things: "frames",
};

/// `detector`.
pub const DETECTOR: &[Key] = &[
    Key::or(
        "backend",
        Form::Words(&["auto", "onnx", "tensorrt", "scripted"]),
        Fallback::Text("auto"),
        "auto: the best that works here; onnx: ONNX Runtime; tensorrt: an engine that TensorRT has built for this GPU; scripted: ground truth of synthetic sources, without a network, for demonstrations and tests.",
    ),
    Key::new(
        "model",
        Form::Path,
        "Model folder with its model.yaml. Required unless backend is scripted, which does not use it.",
    ),
    Key::new(
        "precision",
        Form::Text("a precision of the model, such as fp32 or int8"),
        "Which of the model's files to use. Default: the model's first; with TensorRT int8, where the model has it. TensorRT also makes fp16 of a model's fp32 file, and int8 with a calibration.",
    ),
    Key::new(
        "score_threshold",
        Form::share(),
        "Detections below this score are dropped. Default: the model's own.",
    ),
    Key::new(
        "nms_iou",
        Form::share(),
        "Boxes that overlap a better one of their class by more than this IOU are dropped. Default: the model's own.",
    ),
    Key::new(
        "classes",
        Form::Texts("a label of the model"),
        "Labels to keep. Default: all.",
    ),
    Key::or(
        "batch_size",
        Form::count(1, MAX_BATCH_SIZE, "frames"),
        Fallback::Integer(1),
        "Most frames in one batch.",
    ),
    Key::or(
        "batch_timeout_ms",
        Form::milliseconds(0, 1000),
        Fallback::Integer(10),
        "Longest wait of a batch's first frame for company.",
    ),
    Key::or(
        "interval",
        INTERVAL,
        Fallback::Integer(0),
        "Frames of a source that skip the network after each one that goes through it; the tracker carries the tracks meanwhile. adaptive: as few as keep every live source without drops.",
    ),
    Key::or(
        "max_interval",
        Form::count(1, MAX_INTERVAL, "frames"),
        Fallback::Integer(5),
        "The most that interval: adaptive may choose.",
    ),
    Key::or(
        "workers",
        Form::count(1, 16, "workers"),
        Fallback::Integer(2),
        "Detectors that run side by side.",
    ),
    Key::or(
        "threads_per_worker",
        Form::count(1, 64, "threads"),
        Fallback::Integer(1),
        "Threads of the network inside each worker.",
    ),
    Key::new(
        "onnxruntime",
        Form::Path,
        "Path of libonnxruntime.so. Default: ORT_DYLIB_PATH, then the usual places.",
    ),
    Key::or(
        "onnx_provider",
        Form::Words(&["auto", "cpu", "cuda"]),
        Fallback::Text("auto"),
        "What runs the network with ONNX Runtime. auto: an NVIDIA GPU where it has the CUDA provider and that works, else the processor; cuda: the GPU or an error.",
    ),
    Key::new(
        "tensorrt",
        Form::Map(TENSORRT),
        "Backend tensorrt, also when auto chooses it: where the library and its engines are, and how engines are built.",
    ),
    Key::new(
        "scripted",
        Form::Map(SCRIPTED),
        "Backend scripted only: how it differs from the truth. Default: not at all.",
    ),
];

/// `detector.scripted`.
pub const SCRIPTED: &[Key] = &[
    Key::or(
        "miss_rate",
        Form::share(),
        Fallback::Number(0.0),
        "Share of objects missed.",
    ),
    Key::or(
        "jitter",
        Form::share(),
        Fallback::Number(0.0),
        "Largest shift of each box edge, as a share of the box's side.",
    ),
    Key::or(
        "min_visible",
        Form::share(),
        Fallback::Number(0.0),
        "Objects whose visible share is below this are not seen.",
    ),
    Key::or(
        "seed",
        Form::Integer {
            min: 0,
            max: i64::MAX,
            unit: Unit::None,
        },
        Fallback::Integer(0),
        "Seed of misses and shifts.",
    ),
    Key::or(
        "frame_time_ms",
        Form::milliseconds(0, 10_000),
        Fallback::Integer(0),
        "Time that a frame takes, to stand for a network that is as slow.",
    ),
];

/// `detector.tensorrt`.
pub const TENSORRT: &[Key] = &[
    Key::new(
        "library",
        Form::Path,
        "Path of libnvinfer.so, or the folder that holds it. Default: where the system's loader finds it.",
    ),
    Key::or(
        "engines",
        Form::Path,
        Fallback::Text(ENGINES_FOLDER),
        "Folder of the engines that were built; jetwatch engine build fills it.",
    ),
    Key::or(
        "build",
        Form::Words(&["never", "allow"]),
        Fallback::Text("never"),
        "Whether the daemon may build an engine that is missing, which takes minutes: never (jetwatch engine build does it) or allow.",
    ),
    Key::new(
        "dla",
        Form::count(0, 15, "DLA cores"),
        "Number of the deep learning accelerator that runs what it can of the network, from 0. Default: the GPU runs all of it. Secondary networks always run on the GPU.",
    ),
    Key::or(
        "gpu_fallback",
        Form::Boolean,
        Fallback::Boolean(true),
        "With dla: layers that it cannot run are run by the GPU; false: such a network is refused.",
    ),
    Key::new(
        "workspace_mib",
        Form::count(1, 65_536, "MiB"),
        "Memory that a layer may use while it computes, in MiB. Default: what TensorRT thinks right, up to all of the GPU's.",
    ),
    Key::new(
        "calibration",
        Form::Path,
        "Calibration cache that makes int8 of a network in fp32 (TensorRT 8 and 10); jetwatch engine build writes one with --calibration-images.",
    ),
];
