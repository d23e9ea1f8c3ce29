// SPDX-License-Identifier: Apache-2.0
//! The networks of these tests, and the output of a double of TensorRT for an image.

use jetwatch_nvidia::cuda::{Element, PixelFormat};
use jetwatch_nvidia::session::{
    InferenceSession, InputPlan, InputSource, LetterboxRect, OutputPlan, Plan,
};
use jetwatch_nvidia::tensorrt::{BuildRequest, Engine, Precision, Runtime};
use std::sync::Arc;

use crate::support::cuda::{noise, tensor};
use crate::support::onnx_graph::{FLOAT, FLOAT16, Graph, INT8, UINT8};
use crate::support::tensorrt::Double;

pub const WIDTH: u32 = 96;
pub const HEIGHT: u32 = 64;
/// Cells of 32 by 32 pixels.
pub const CELLS: usize = 6;
/// Bytes of one image's boxes.
pub const BOXES_BYTES: usize = 5 * CELLS * 4;

/// A network with batches of `batch`, open if it is `None`, whose input has `element` numbers; `operators` stand one after
/// the other.
pub fn network(batch: Option<i64>, element: Element, operators: &[&str]) -> Vec<u8> {
    let number = match element {
        Element::F32 => FLOAT,
        Element::F16 => FLOAT16,
        Element::I8 { .. } => INT8,
        Element::U8 => UINT8,
    };
    let mut graph = Graph::default();
    let between: Vec<String> = (1..operators.len()).map(|at| format!("t{at}")).collect();
    let names: Vec<&str> = std::iter::once("images")
        .chain(between.iter().map(String::as_str))
        .chain(["boxes"])
        .collect();
    for (at, operator) in operators.iter().enumerate() {
        graph.node(operator, &[names[at]], names[at + 1], &[]);
    }
    let [height, width] = [HEIGHT, WIDTH].map(|size| Some(i64::from(size)));
    graph.input("images", number, &[batch, Some(3), height, width]);
    graph.output("boxes", FLOAT, &[batch, Some(5), Some(CELLS as i64)]);
    graph.bytes()
}

/// The usual one: an open batch, floats.
pub fn open_network() -> Vec<u8> {
    network(None, Element::F32, &["Conv", "Relu", "MatMul"])
}

/// A request for batches up to 4.
pub fn request(onnx: &[u8]) -> BuildRequest<'_> {
    BuildRequest {
        batch: 4,
        ..BuildRequest::new(onnx, Precision::Fp32)
    }
}

/// The engine built by `request`.
pub fn engine(double: &Double, request: BuildRequest<'_>) -> Arc<Engine> {
    let built = request.build(&double.library).expect("it builds");
    let runtime = Runtime::new(&double.library, None).expect("a runtime");
    runtime.deserialize(&built.plan).expect("an engine")
}

/// The plan for those networks.
pub fn plan(element: Element, batch: usize) -> Plan {
    Plan {
        input: InputPlan {
            name: "images".to_owned(),
            source: InputSource::Images {
                pixels: PixelFormat::Bgrx,
                tensor: tensor(WIDTH, HEIGHT, element),
            },
        },
        constants: Vec::new(),
        outputs: vec![OutputPlan {
            name: "boxes".to_owned(),
            bytes_per_image: BOXES_BYTES,
        }],
        batch,
        graphs: true,
    }
}

/// Writes a picture into slot `index`: noise by `seed`.
pub fn write(execution: &mut InferenceSession, index: usize, seed: u32) {
    let pixels = noise((WIDTH * HEIGHT * 4) as usize, seed);
    let inner = LetterboxRect {
        width: WIDTH,
        height: HEIGHT,
        left: 0,
        top: 0,
    };
    let row = |y: u32| &pixels[(y * WIDTH * 4) as usize..];
    execution
        .upload_image(index, inner, row)
        .expect("the picture fits");
}

/// The double's output for that image, if its first plane has `value` for each byte of blue.
pub fn boxes(seed: u32, value: impl Fn(u8) -> f64) -> Vec<f32> {
    let pixels = noise((WIDTH * HEIGHT * 4) as usize, seed);
    let across = WIDTH as usize / 32;
    let corner = |cell: usize| (cell % across * 32, cell / across * 32);
    let score = |cell: usize| {
        let (left, top) = corner(cell);
        let mut sum = 0.0;
        for y in top..top + 32 {
            for x in left..left + 32 {
                sum += value(pixels[4 * (y * WIDTH as usize + x)]);
            }
        }
        (sum / (32.0 * 32.0) / 255.0) as f32
    };
    let cells = || 0..CELLS;
    cells()
        .map(|cell| corner(cell).0 as f32 + 16.0)
        .chain(cells().map(|cell| corner(cell).1 as f32 + 16.0))
        .chain(cells().chain(cells()).map(|_| 32.0))
        .chain(cells().map(score))
        .collect()
}

/// Runs the first slots with new pictures, whose seeds begin with `seed`, and compares.
pub fn run_and_compare(execution: &mut InferenceSession, count: usize, seed: u32) {
    for index in 0..count {
        write(execution, index, seed + index as u32);
    }
    execution.run(count).expect("it runs");
    compare(execution, count, seed);
}

/// Compares what the last run gave for those pictures.
pub fn compare(execution: &InferenceSession, count: usize, seed: u32) {
    let found = execution.output_f32(0);
    assert_eq!(found.len(), count * BOXES_BYTES / 4);
    for (index, found) in found.chunks(BOXES_BYTES / 4).enumerate() {
        let wanted = boxes(seed + index as u32, f64::from);
        assert_eq!(found, wanted, "picture {index} of {count}");
    }
}
