// SPDX-License-Identifier: Apache-2.0
//! The ONNX Runtime detector with the real library, on tiny networks that the tests write themselves and, where
//! `JETWATCH_TEST_DATA` is set, on yolox_nano.
//!
//! Needs `ORT_DYLIB_PATH`; without it the tests are skipped with a message.

use crate::support::onnx_file;
use crate::support::onnx_runtime::{self, config, gray_pixels, write_model};

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use jetwatch_config::{DetectorConfig, OnnxProvider};
use jetwatch_detect::{DetectError, DetectorFactory, load, ort_library};
use jetwatch_telemetry::{Recorder, Stage};
use jetwatch_types::{Detection, Frame, Letterbox, PIXEL_BYTES, Placement, Size};
use onnx_file::onnx_graph::{Attribute, INT64};
use onnx_file::{CELLS, ROW, TinyNetwork};

pub(crate) const INPUT: Size = Size::new(96, 64);
/// Size of the sources of these tests; 96×54 in the input.
const SOURCE: Size = Size::new(384, 216);

/// A network with one box: cell 13 of stride 8 (column 1, row 1), 32×16 pixels around 12,12; class 1, score 0.72. Its
/// center moves right by one cell for every 10 of the image's mean.
pub(crate) fn one_box(batch: Option<i64>) -> TinyNetwork {
    let cell = [0.5, 0.5, 4.0_f32.ln(), 2.0_f32.ln(), 0.9, 0.1, 0.8];
    let mut network = TinyNetwork::yolox(batch, &[(13, cell)]);
    network.mask[13 * ROW] = 0.1;
    network
}

pub(crate) fn folder_with(bytes: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let input = "width: 96, height: 64, color: bgr, letterbox: {value: 0, placement: top_left}";
    let output = "{layout: yolox, name: output}\nlabels: [person, car]";
    write_model(folder.path(), bytes, input, output, "");
    folder
}

fn prepared(config: &DetectorConfig) -> DetectorFactory {
    load(config, &Recorder::default()).expect("the model is right")
}

/// A frame whose every color is `gray`.
pub(crate) fn frame(seq: u64, gray: u8) -> Frame {
    let inner = Letterbox::new(SOURCE, INPUT, Placement::TopLeft).inner;
    onnx_runtime::frame(2, seq, SOURCE, inner, gray_pixels(inner, gray))
}

fn detect(prepared: &DetectorFactory, batch: &[Frame]) -> Result<Vec<Vec<Detection>>, DetectError> {
    let mut results = Vec::new();
    prepared.create(0)?.detect(batch, &mut results)?;
    Ok(results)
}

/// The box of [`one_box`] in source pixels, four times those of the input, for an image of this gray.
fn wanted(gray: u8) -> [f32; 4] {
    // The mean is that of the whole input, with its black padding below the image.
    let shift = f32::from(gray) * 54.0 / 64.0 * 0.1 * 8.0;
    [
        (12.0 + shift - 16.0).max(0.0) * 4.0,
        16.0,
        (28.0 + shift) * 4.0,
        80.0,
    ]
}

pub(crate) fn assert_box(found: &[Detection], gray: u8) {
    let wanted = wanted(gray);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].class, 1);
    assert!((found[0].score - 0.72).abs() < 1e-5, "{found:?}");
    let near = found[0]
        .xyxy
        .iter()
        .zip(wanted)
        .all(|(a, b)| (a - b).abs() < 1e-2);
    assert!(near, "{found:?} instead of {wanted:?}");
}

/// The error of a network that is written with `change`.
fn refused(change: impl FnOnce(&mut TinyNetwork)) -> String {
    let mut network = one_box(Some(1));
    change(&mut network);
    let folder = folder_with(&network.bytes());
    error_with(folder.path(), frame(7, 0))
}

/// The error of loading the network in `folder` or of running it on `frame`.
fn error_with(folder: &Path, frame: Frame) -> String {
    load(&config(folder), &Recorder::default())
        .and_then(|prepared| detect(&prepared, &[frame]))
        .expect_err("it cannot work")
        .to_string()
}

#[test]
fn a_box_comes_back_in_source_pixels() {
    needs_onnx_runtime!();
    let folder = folder_with(&one_box(Some(1)).bytes());
    let prepared = prepared(&config(folder.path()));
    let found = (prepared.backend(), prepared.model(), prepared.precision());
    assert_eq!(found, ("onnx", "tiny", Some("fp32")));
    let found = (prepared.input_size(), prepared.placement());
    assert_eq!(found, (INPUT, Placement::TopLeft));
    assert_eq!(*prepared.labels(), ["person", "car"]);
    let results = detect(&prepared, &[frame(0, 20)]).expect("it works");
    assert_box(&results[0], 20);
}

/// Up to 1.31, ONNX Runtime takes zeros in front of a MaxPool for its own padding, which it ignores (microsoft/onnxruntime#18136 has
/// this optimization, onnxsim/onnxsim#290 reports the same one): YOLOv3-tiny of ultralytics lost half of its boxes.
#[test]
fn zeros_in_front_of_a_max_pool_count() {
    needs_onnx_runtime!();
    let mut network = one_box(Some(1));
    network.mask[13 * ROW] = -0.1;
    let bytes = network.bytes_behind(|graph| {
        graph.node("Neg", &["images"], "negative", &[]);
        let pads = [0_i64, 0, 0, 0, 0, 0, 0, 32];
        graph.constant("pads", INT64, &[8], &pads, i64::to_le_bytes);
        graph.node("Pad", &["negative", "pads"], "padded", &[]);
        let kernel = [Attribute::Ints("kernel_shape", &[1, 33])];
        graph.node("MaxPool", &["padded"], "pooled", &kernel);
        "pooled"
    });
    let folder = folder_with(&bytes);
    let results = detect(&prepared(&config(folder.path())), &[frame(0, 30)]);
    // The right third is zero.
    assert_box(&results.expect("it works")[0], 20);
}

#[test]
fn batch_results_equal_single_frame_results() {
    needs_onnx_runtime!();
    // Any number of images in a run, one, or always as many.
    for axis in [None, Some(1), Some(2), Some(4)] {
        let folder = folder_with(&one_box(axis).bytes());
        let mut config = config(folder.path());
        config.batch_size = 3;
        let prepared = prepared(&config);
        let mut detector = prepared.create(0).expect("it works");
        let mut results = Vec::new();
        for grays in [&[10, 40, 60][..], &[50, 30], &[20], &[70, 10, 0]] {
            let batch: Vec<Frame> = grays
                .iter()
                .enumerate()
                .map(|(seq, gray)| frame(seq as u64, *gray))
                .collect();
            detector.detect(&batch, &mut results).expect("it works");
            assert_eq!(results.len(), grays.len());
            for (found, gray) in results.iter().zip(grays) {
                assert_box(found, *gray);
            }
        }
        let four: Vec<Frame> = (0..4).map(|seq| frame(seq, 0)).collect();
        for batch in [&four[..], &[]] {
            let error = detector
                .detect(batch, &mut results)
                .expect_err("3 fit")
                .to_string();
            assert_has!(error => &format!("a batch of {} frames", batch.len()));
        }
    }
}

#[test]
fn configured_thresholds_and_classes_override_model() {
    needs_onnx_runtime!();
    let folder = folder_with(&one_box(Some(1)).bytes());
    let mut config = config(folder.path());
    let mut found = |threshold: Option<f32>, class: &str| {
        config.score_threshold = threshold;
        config.classes = vec![class.to_owned()];
        detect(&prepared(&config), &[frame(0, 0)]).expect("it works")[0].len()
    };
    assert_eq!(found(None, "car"), 1);
    assert_eq!(found(None, "person"), 0);
    assert_eq!(found(Some(0.71), "car"), 1);
    assert_eq!(found(Some(0.73), "car"), 0);
}

#[test]
fn two_workers_run_concurrently_with_one_library() {
    needs_onnx_runtime!();
    let folder = folder_with(&one_box(Some(1)).bytes());
    let first = prepared(&config(folder.path()));
    // A second configuration in the same process shares the library.
    let second = prepared(&config(folder.path()));
    std::thread::scope(|scope| {
        for (worker, prepared) in [&first, &second, &first].into_iter().enumerate() {
            scope.spawn(move || {
                let mut detector = prepared.create(worker).expect("it works");
                let mut results = Vec::new();
                for gray in [5, 25, 45, 65] {
                    detector
                        .detect(&[frame(0, gray)], &mut results)
                        .expect("it works");
                    assert_box(&results[0], gray);
                }
            });
        }
    });
    let library = PathBuf::from(env::var_os("ORT_DYLIB_PATH").expect("checked above"));
    assert!(ort_library::open(&library).is_ok());
    let other = folder.path().join("tiny.onnx");
    let error = ort_library::open(&other)
        .expect_err("one per process")
        .to_string();
    assert_has!(error => "was already opened from", "tiny.onnx");
}

#[test]
fn stage_times_are_recorded_with_their_frames() {
    needs_onnx_runtime!();
    let folder = folder_with(&one_box(None).bytes());
    let mut config = config(folder.path());
    config.batch_size = 2;
    let recorder = Recorder::default();
    let prepared = load(&config, &recorder).expect("the model is right");
    detect(&prepared, &[frame(0, 0), frame(1, 0)]).expect("it works");
    let summary = recorder.summary();
    for stage in [Stage::Tensor, Stage::Infer, Stage::Decode] {
        let found = (summary.stage(stage).count, summary.stage(stage).items);
        assert_eq!(found, (1, 2), "{stage:?}");
    }
}

#[test]
fn network_not_matching_model_yaml_is_rejected() {
    needs_onnx_runtime!();
    type Change = fn(&mut TinyNetwork);
    // Each kind of mismatch once; the others are tested where the signature is checked.
    let cases: [(Change, &str); 3] = [
        (
            |network| network.input = "data",
            "input `images`: found `data`, expected this name; set input.name",
        ),
        (
            |network| network.input_shape = [Some(1), Some(3), Some(96), Some(64)],
            "input `images`: found float32 [1, 3, 96, 64], expected float32 [1 or N, 3, 64, 96]; set input.width",
        ),
        (
            |network| {
                network.output_shape = [CELLS as i64, 8];
                network.rows = vec![0.0; CELLS * 8];
                network.mask = vec![0.0; CELLS * 8];
            },
            "output `output`: found float32 [126, 8] for each image, expected float32 [126, 7]; YOLOX has 126 rows",
        ),
    ];
    for (change, wanted) in cases {
        let error = refused(change);
        assert!(
            error.contains(wanted) && error.contains("tiny.onnx: "),
            "{error}\ninstead of\n{wanted}"
        );
    }
}

#[test]
fn invalid_network_outputs_are_errors() {
    needs_onnx_runtime!();
    let error = refused(|network| network.rows[13 * ROW + 6] = f32::NAN);
    let wanted = "frame 7 of source 2: output `output` holds NaN at index 97 (1 such boxes)";
    assert_has!(error => wanted, "another detector.precision");
    let error = refused(|network| network.rows[40 * ROW + 4] = f32::INFINITY);
    assert_has!(error => "holds inf at index 284");
    let error = refused(|network| network.rows[13 * ROW + 4] = 6.5);
    assert_has!(error => "a score outside of 0 to 1 at index 95 for a made-up image", "export the network with its sigmoid");
}

#[test]
fn cuda_provider_fails_when_required_and_falls_back_when_auto() {
    needs_onnx_runtime!();
    let folder = folder_with(&one_box(None).bytes());
    let mut config = config(folder.path());
    for provider in [OnnxProvider::Auto, OnnxProvider::Cpu] {
        config.onnx_provider = provider;
        let prepared = prepared(&config);
        let found = detect(&prepared, &[frame(0, 9)]).expect("it works");
        assert_box(&found[0], 9);
        // With a library that has the provider, on a machine with a GPU, auto selects it.
        let has_gpu = prepared.describe().contains("cuda");
        assert!(!has_gpu || provider == OnnxProvider::Auto, "{prepared:?}");
    }
    config.onnx_provider = OnnxProvider::Cuda;
    match load(&config, &Recorder::default()) {
        Ok(prepared) => assert!(prepared.describe().contains("cuda"), "{prepared:?}"),
        Err(error) => {
            assert!(error.is_configuration(), "{error}");
            let error = error.to_string();
            assert_has!(error => "cannot run the network on an NVIDIA GPU", "set detector.onnx_provider to auto");
        }
    }
}

#[test]
fn non_network_file_is_error() {
    needs_onnx_runtime!();
    let folder = folder_with(b"not a network");
    let error = error_with(folder.path(), frame(0, 0));
    assert_has!(error => "cannot load", "tiny.onnx");
    let library = env::var("ORT_DYLIB_PATH").expect("checked above");
    assert!(error.contains(&library), "the library is named: {error}");
}

#[test]
fn image_of_wrong_size_is_error() {
    needs_onnx_runtime!();
    let folder = folder_with(&one_box(Some(1)).bytes());
    let mut wrong = frame(3, 0);
    wrong.meta.source_size = Size::new(100, 100);
    let error = detect(&prepared(&config(folder.path())), &[wrong])
        .expect_err("another size")
        .to_string();
    assert_has!(error => "the image is 96×54, expected 64×64 (100×100 laid into 96×64)");
}

/// The image that `tests/reference/yolox.py` draws: a clock, a traffic light and a stop sign, as `BGRx`.
fn street(size: Size) -> Vec<u8> {
    let (w, h) = (size.width as i32, size.height as i32);
    let mut pixels = vec![0; (w * h) as usize * PIXEL_BYTES];
    let mut paint = |inside: &dyn Fn(i32, i32) -> bool, color: &dyn Fn(i32) -> [u8; 3]| {
        for y in 0..h {
            for x in 0..w {
                if inside(x, y) {
                    let start = (y * w + x) as usize * PIXEL_BYTES;
                    pixels[start..start + 3].copy_from_slice(&color(y));
                }
            }
        }
    };
    paint(&|_, _| true, &|y| {
        [
            (230 - y / 4) as u8,
            (200 - y / 4) as u8,
            (160 - y / 8) as u8,
        ]
    });
    let mut block = |edges: [i32; 4], bgr: [u8; 3]| {
        let [left, top, right, bottom] = edges;
        paint(
            &|x, y| (left..right).contains(&x) && (top..bottom).contains(&y),
            &|_| bgr,
        );
    };
    // The order matters only for overlapping shapes; overlapping blocks come after the discs below.
    block([230, 40, 280, 170], [25, 25, 25]);
    block([250, 170, 260, 312], [60, 60, 60]);
    let mut disc = |cx: i32, cy: i32, radius: i32, gray: [u8; 3]| {
        paint(
            &|x, y| (x - cx).pow(2) + (y - cy).pow(2) <= radius * radius,
            &|_| gray,
        );
    };
    disc(90, 90, 62, [40; 3]);
    disc(90, 90, 55, [245; 3]);
    for (dx, dy) in [(0, 48), (48, 0), (24, 42), (42, 24)] {
        for (sx, sy) in [(1, 1), (1, -1), (-1, 1), (-1, -1)] {
            disc(90 + sx * dx, 90 + sy * dy, 4, [20; 3]);
        }
    }
    disc(255, 63, 16, [30, 30, 230]);
    disc(255, 105, 16, [20, 90, 110]);
    disc(255, 147, 16, [30, 60, 30]);
    let mut octagon = |radius: i32, bgr: [u8; 3]| {
        let inside = |x: i32, y: i32| {
            let (dx, dy) = ((x - 350).abs(), (y - 90).abs());
            dx <= radius && dy <= radius && 5 * (dx + dy) <= 7 * radius
        };
        paint(&inside, &|_| bgr);
    };
    octagon(50, [240; 3]);
    octagon(45, [30, 30, 200]);
    let mut block = |edges: [i32; 4], gray: u8| {
        let [left, top, right, bottom] = edges;
        paint(
            &|x, y| (left..right).contains(&x) && (top..bottom).contains(&y),
            &|_| [gray; 3],
        );
    };
    block([87, 45, 93, 92], 20);
    block([90, 87, 125, 93], 20);
    block([320, 82, 380, 98], 240);
    block([346, 140, 354, 312], 120);
    pixels
}

#[test]
fn yolox_nano_matches_python_reference() {
    needs_onnx_runtime!();
    let Some(data) = env::var_os("JETWATCH_TEST_DATA").map(PathBuf::from) else {
        eprintln!("skipped: JETWATCH_TEST_DATA is not set");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let models = data.join("models");
    for name in ["yolox_nano.onnx", "coco.names"] {
        fs::copy(models.join(name), folder.path().join(name)).expect("copied");
    }
    let yaml = "name: yolox_nano\n\
         input: {name: images, width: 416, height: 416, color: bgr, letterbox: {value: 114, placement: top_left}}\n\
         output: {layout: yolox, name: output}\n\
         labels_file: coco.names\n\
         license: {spdx: Apache-2.0, source: https://github.com/Megvii-BaseDetection/YOLOX}\n\
         files: {fp32: {file: yolox_nano.onnx, sha256: d39bee73564e338080378b0ad567fbb40e818b55bbfaf971de82a0267ed16b8a}}\n";
    fs::write(folder.path().join("model.yaml"), yaml).expect("written");

    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/yolox_nano_picture.json");
    let golden = fs::read_to_string(golden).expect("the golden file is there");
    let golden: serde_json::Value = serde_json::from_str(&golden).expect("it is JSON");
    let number = |value: &serde_json::Value| value.as_f64().expect("a number") as f32;
    let mut config = config(folder.path());
    config.score_threshold = Some(number(&golden["threshold"]));
    config.nms_iou = Some(number(&golden["iou"]));

    let prepared = prepared(&config);
    assert_eq!(prepared.labels()[74], "clock");
    let inner = Size::new(416, 312);
    let image = onnx_runtime::frame(2, 0, Size::new(480, 360), inner, street(inner));
    let found = &detect(&prepared, &[image]).expect("it works")[0];
    let wanted = golden["detections"].as_array().expect("a list");
    assert_eq!(found.len(), wanted.len(), "{found:?}");
    // Other builds of the library sum in another order.
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!(u64::from(found.class), wanted[0].as_u64().expect("a class"));
        assert!(
            (found.score - number(&wanted[1])).abs() < 0.01,
            "{found:?} instead of {wanted}"
        );
        for (edge, found) in found.xyxy.iter().enumerate() {
            assert!(
                (found - number(&wanted[2 + edge])).abs() < 1.0,
                "edge {edge} of {wanted}: {found}"
            );
        }
    }
}
