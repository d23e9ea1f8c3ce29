//! Networks of Darknet: `jetwatch model import` converts a small one, and ONNX Runtime computes what naive loops compute.
//!
//! What the network computes needs `ORT_DYLIB_PATH`; without it that part is skipped with a message. `tests/reference/darknet.py`
//! compares networks of the published structures with an independent computation.

use crate::support::darknet::{Convolution, Map, POINTWISE, Weights, leaky, sigmoid};
use crate::support::onnx_runtime::{config, frame, gray_pixels, library_is_missing};

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use jetwatch_detect::{load, ort_library};
use jetwatch_telemetry::Recorder;
use jetwatch_types::{Size, SplitMix64};
use ort::session::Session;
use ort::value::Tensor;

const SIZE: Size = Size::new(64, 32);

/// Two grids with two anchors each and two classes, and each kind of layer that is supported.
const CONFIG: &str = "# a small network
[net]
batch=64
width=64
height=32
channels=3
policy=steps

[convolutional] # 0
batch_normalize=1
filters=4
size=3
stride=1
pad=1
activation=mish

[convolutional] # 1
batch_normalize=1
filters=8
size=3
stride=2
pad=1
activation=leaky

[route] # 2
layers = -1
groups = 2
group_id = 1

[convolutional] # 3
batch_normalize=1
filters=4
size=3
stride=1
padding=1
activation=swish

[convolutional] # 4
filters=4
size=1
activation=logistic

[shortcut] # 5
from=-2
activation=relu

[route] # 6
layers=-1,1

[maxpool] # 7
size=2
stride=1

[maxpool] # 8
size=2
stride=2

[dropout] # 9
probability=.5

[convolutional] # 10
filters=14
size=1
activation=linear

[yolo] # 11
mask = 2,3
anchors = 1,2, 3,4, 5,6, 7,8
classes=2
num=4
scale_x_y = 1.05
ignore_thresh = .7

[route] # 12
layers = -4

[convolutional] # 13
batch_normalize=1
filters=6
size=3
groups=2
dilation=2
pad=1
activation=leaky

[upsample] # 14
stride=2

[route] # 15
layers = -1, 1

[maxpool] # 16
size=5
stride=1

[convolutional] # 17
filters=14
size=1
activation=linear

[yolo] # 18
mask = 0,1
anchors = 1,2, 3,4, 5,6, 7,8
classes=2
num=4
scale_x_y = 1.05
";

/// The two grids of [`CONFIG`] for an image, and the file with its weights.
fn naive(image: &Map) -> ([Map; 2], Vec<u8>) {
    let mut weights = Weights::new(7);
    let normalized = |filters, stride| Convolution {
        filters,
        size: 3,
        stride,
        pad: 1,
        normalizes: true,
        ..POINTWISE
    };
    let first = weights
        .convolve(image, &normalized(4, 1))
        .each(|x| x * (1.0 + x.exp()).ln().tanh());
    let second = weights.convolve(&first, &normalized(8, 2)).each(leaky);
    let mut half = Map::new(4, second.rows, second.columns);
    half.values = second.values[second.values.len() / 2..].to_vec();
    let third = weights
        .convolve(&half, &normalized(4, 1))
        .each(|x| x * sigmoid(x));
    let four = Convolution {
        filters: 4,
        ..POINTWISE
    };
    let gate = weights.convolve(&third, &four).each(sigmoid);
    let sum = gate.plus(&third).each(|x| x.max(0.0));
    let pooled = Map::joined(&[&sum, &second]).max_pool(2, 1).max_pool(2, 2);
    let coarse = weights.convolve(&pooled, &POINTWISE);
    let grouped = Convolution {
        groups: 2,
        dilation: 2,
        ..normalized(6, 1)
    };
    let fine = weights.convolve(&pooled, &grouped).each(leaky).upsampled();
    let fine = Map::joined(&[&fine, &second]).max_pool(5, 1);
    let fine = weights.convolve(&fine, &POINTWISE);
    ([coarse, fine], weights.file)
}

/// A folder with the network's files.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(weights: &[u8]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let files = Self { folder };
        fs::write(files.path("tiny.cfg"), CONFIG).expect("written");
        fs::write(files.path("tiny.weights"), weights).expect("written");
        fs::write(files.path("tiny.names"), "cat\nguide dog\n").expect("written");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn import(&self, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_jetwatch"))
            .current_dir(self.folder.path())
            .args([
                "model",
                "import",
                "--darknet",
                "tiny.cfg",
                "--weights",
                "tiny.weights",
            ])
            .args(["-o", "model"])
            .args(more)
            .output()
            .expect("the binary starts")
    }

    /// The error of an import that fails.
    fn refused(&self, more: &[&str]) -> String {
        let output = self.import(more);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

fn noise(seed: u64) -> Map {
    let mut random = SplitMix64::new(seed);
    let mut image = Map::new(3, SIZE.height as usize, SIZE.width as usize);
    for value in &mut image.values {
        *value = f64::from((random.next_u64() >> 40) as f32 / (1_u64 << 24) as f32);
    }
    image
}

#[test]
fn imported_network_computes_what_its_layers_say() {
    let images = [noise(1), noise(2)];
    let wanted = images.each_ref().map(naive);
    let files = Files::new(&wanted[0].1);
    let output = files.import(&["--names", "tiny.names"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert_has!(text => "layout yolov4, input 64×32, 2 classes, 2 anchors at stride 4, 2 anchors at stride 2");
    let yaml = fs::read_to_string(files.path("model/model.yaml")).expect("it is there");
    for line in [
        "  tensors: {grids: [grid_4, grid_2]}",
        "  anchors: [[5, 6, 7, 8], [1, 2, 3, 4]]",
        "  scale_x_y: [1.05, 1.05]",
        "  cat, guide dog",
    ] {
        assert!(yaml.lines().any(|found| found == line), "{line}\n{yaml}");
    }
    if library_is_missing() {
        return;
    }
    let library = ort_library::find(None).expect("it is set");
    let environment = ort_library::open(&library).expect("ONNX Runtime");
    let mut session = Session::builder(&environment)
        .and_then(|mut builder| builder.commit_from_file(files.path("model/tiny.onnx")))
        .expect("it opens");
    let numbers: Vec<f32> = images
        .iter()
        .flat_map(|image| image.values.iter().map(|value| *value as f32))
        .collect();
    let tensor = Tensor::from_array(([2, 3, 32, 64], numbers)).expect("it fits");
    let found = session
        .run(ort::inputs!["images" => tensor])
        .expect("it runs");
    for (grid, name) in ["grid_4", "grid_2"].into_iter().enumerate() {
        let (shape, numbers) = found[name].try_extract_tensor::<f32>().expect("floats");
        let (rows, columns) = (wanted[0].0[grid].rows, wanted[0].0[grid].columns);
        assert_eq!(shape[..], [2, 14, rows as i64, columns as i64], "{name}");
        let wanted = wanted.iter().flat_map(|(grids, _)| &grids[grid].values);
        let apart = numbers
            .iter()
            .zip(wanted)
            .map(|(found, wanted)| (f64::from(*found) - wanted).abs())
            .fold(0.0, f64::max);
        assert!(apart < 1e-4, "{name}: {apart}");
        let least = numbers.iter().copied().fold(f32::INFINITY, f32::min);
        let most = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        assert!(most - least > 1.0, "{name}: {least} to {most} says little");
    }
}

#[test]
fn imported_network_detects() {
    let gray = 200_u8;
    let image = Map::new(3, 32, 64).each(|_| f64::from(gray) / 255.0);
    let (grids, weights) = naive(&image);
    let files = Files::new(&weights);
    assert!(files.import(&[]).status.success());
    let yaml = fs::read_to_string(files.path("model/model.yaml")).expect("it is there");
    assert_has!(yaml => "GUESS", "  class 0, class 1\n");
    let yaml = yaml
        .replace(
            "score_threshold: 0.25",
            "score_threshold: 0.05\nmax_detections: 5000",
        )
        .replace("nms_iou: 0.45", "nms_iou: 1.0");
    fs::write(files.path("model/model.yaml"), yaml).expect("written");
    if library_is_missing() {
        return;
    }
    let mut wanted: Vec<f64> = Vec::new();
    for grid in &grids {
        let cells = grid.rows * grid.columns;
        for anchor in 0..2 {
            for cell in 0..cells {
                let plane = |plane: usize| grid.values[(anchor * 7 + plane) * cells + cell];
                wanted.push(sigmoid(plane(4)) * sigmoid(plane(5).max(plane(6))));
            }
        }
    }
    wanted.retain(|score| *score >= 0.05);
    let found = detect(&files.path("model"), gray);
    // Boxes that lie outside of the image are dropped.
    assert!(
        found.len() > 20 && found.len() <= wanted.len() && found.len() * 10 >= wanted.len() * 9,
        "{} of {}",
        found.len(),
        wanted.len()
    );
    for score in found {
        let apart = wanted.iter().map(|wanted| (wanted - score).abs());
        let apart = apart.fold(f64::INFINITY, f64::min);
        assert!(apart < 1e-4, "{score} differs from all by {apart}");
    }
}

/// Scores of the detections in an image of one gray.
fn detect(folder: &Path, gray: u8) -> Vec<f64> {
    let prepared = load(&config(folder), &Recorder::default()).expect("it can be run");
    let frame = frame(0, 0, SIZE, SIZE, gray_pixels(SIZE, gray));
    let mut results = Vec::new();
    let mut detector = prepared.create(0).expect("it can be created");
    detector.detect(&[frame], &mut results).expect("it runs");
    let detections = results.pop().expect("one frame");
    detections
        .iter()
        .map(|found| f64::from(found.score))
        .collect()
}

#[test]
fn refused_imports_name_file_and_line() {
    let (_, weights) = naive(&noise(1));
    let files = Files::new(&weights[..weights.len() - 1]);
    let error = files.refused(&[]);
    assert_has!(error => "tiny.weights: it ends after", "in layer 17, [convolutional] in line");
    fs::write(files.path("tiny.weights"), [&weights[..], &[0; 4]].concat()).expect("written");
    assert!(
        files
            .refused(&[])
            .contains("tiny.weights: 4 bytes are left")
    );
    fs::write(files.path("tiny.weights"), &weights).expect("written");

    fs::write(files.path("tiny.names"), "cat\n").expect("written");
    let error = files.refused(&["--names", "tiny.names"]);
    assert_has!(error => "tiny.names: found 1 names, expected 2");
    fs::write(
        files.path("tiny.cfg"),
        CONFIG.replace("[dropout]", "[lstm]"),
    )
    .expect("written");
    let error = files.refused(&[]);
    assert_has!(error => "tiny.cfg:", "section [lstm] is not supported");
    assert!(!files.path("model/model.yaml").exists());

    fs::write(files.path("tiny.cfg"), CONFIG).expect("written");
    assert!(files.import(&[]).status.success());
    assert!(files.refused(&[]).contains("exists already"));
    assert!(files.import(&["--force"]).status.success());

    // Centers that stay in their cells are YOLOv3's.
    let yolov3 = CONFIG.replace("scale_x_y = 1.05", "");
    fs::write(files.path("tiny.cfg"), yolov3).expect("written");
    let output = files.import(&["--force"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("layout yolov3"), "{output:?}");
}
