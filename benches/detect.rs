// SPDX-License-Identifier: Apache-2.0
//! CPU work of the detector on one core: writing tensors, decoding, suppression. Without the network.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use jetwatch_detect::decoders::{DType, NetworkShape, TensorShape, TensorView};
use jetwatch_detect::layouts::OutputLayout;
use jetwatch_detect::layouts::yolox::YoloxForm;
use jetwatch_detect::model::{ColorOrder, InputElement, InputSpec};
use jetwatch_detect::{ClassFilter, nms};
use jetwatch_pixels::{Slot, TensorWriter};
use jetwatch_types::{Image, Letterbox, PIXEL_BYTES, Placement, Size};

const THRESHOLD: f32 = 0.3;
const IOU: f32 = 0.45;

/// An output with 60 objects, each in 5 neighboring cells: 300 candidates of which 60 are kept.
fn output(input: Size, cells: usize, row_len: usize) -> Vec<f32> {
    let mut output = vec![0.0_f32; cells * row_len];
    for (index, number) in output.iter_mut().enumerate() {
        // Objectness of the background up to 0.2, classes below 0.1, all different.
        let noise = ((index as u32).wrapping_mul(2_654_435_761) >> 16) as f32 / 65_536.0;
        *number = match index % row_len {
            4 => noise * 0.2,
            column if column > 4 => noise * 0.1,
            _ => 0.0,
        };
    }
    // Cells of stride 16 come after those of stride 8.
    let (columns, first) = (
        (input.width / 16) as usize,
        ((input.width / 8) * (input.height / 8)) as usize,
    );
    for object in 0..60 {
        let (x, y) = (1 + object % 12 * 3, 2 + object / 12 * 7);
        for (step, (dx, dy)) in [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
            .into_iter()
            .enumerate()
        {
            let row = &mut output[(first + (y + dy) * columns + x + dx) * row_len..][..row_len];
            // All five point to the same center, 40×64 pixels around it.
            row[0] = 0.5 - dx as f32;
            row[1] = 0.5 - dy as f32;
            row[2] = (40.0_f32 / 16.0).ln();
            row[3] = (64.0_f32 / 16.0).ln();
            row[4] = 0.95 - step as f32 * 0.05;
            row[5 + object % 80] = 0.9;
        }
    }
    output
}

fn decoding(criterion: &mut Criterion) {
    let input = Size::new(640, 640);
    let shapes = [TensorShape {
        element: DType::F32,
        axes: &[8400, 85],
    }];
    let network = NetworkShape::new(input, 80, &shapes);
    let yolox = YoloxForm::Rows.create_decoder(&network);
    let yolox = yolox.expect("the shape is right");
    let output = output(input, 8400, 85);
    let output = [TensorView::F32(&output)];
    let all = ClassFilter::new(&[], &[]).expect("nothing to look up");
    let mut candidates = Vec::new();
    yolox.decode(&output, THRESHOLD, &all, &mut candidates);
    assert_eq!(candidates.len(), 300);
    let proposed = candidates.clone();
    nms::non_max_suppression(&mut candidates, IOU, 300);
    assert_eq!(candidates.len(), 60);

    criterion.bench_function(
        "decode and suppress, 8400 cells, 80 classes, 300 candidates, 60 kept",
        |bench| {
            bench.iter(|| {
                let decoded = yolox.decode(black_box(&output), THRESHOLD, &all, &mut candidates);
                nms::non_max_suppression(&mut candidates, IOU, 300);
                (decoded, candidates.len())
            });
        },
    );
    criterion.bench_function("decode only, 8400 cells", |bench| {
        bench.iter(|| yolox.decode(black_box(&output), THRESHOLD, &all, &mut candidates));
    });
    criterion.bench_function("suppress only, 300 candidates, 60 kept", |bench| {
        bench.iter_batched_ref(
            || proposed.clone(),
            |candidates| nms::non_max_suppression(candidates, IOU, 300),
            BatchSize::SmallInput,
        );
    });
}

fn tensors(criterion: &mut Criterion) {
    #[rustfmt::skip]
    let cases = [
        ("416×312 as is", Size::new(416, 416), Size::new(480, 360), [0.0; 3], [1.0; 3]),
        ("640×360 as is", Size::new(640, 640), Size::new(1920, 1080), [0.0; 3], [1.0; 3]),
        ("416×312 normalized", Size::new(416, 416), Size::new(480, 360), [123.7, 116.3, 103.5], [0.017; 3]),
    ];
    for (name, size, source, mean, scale) in cases {
        let spec = InputSpec {
            name: "images".to_owned(),
            element: InputElement::Float32,
            sizes_name: None,
            scales_name: None,
            size,
            color: ColorOrder::Bgr,
            mean,
            scale,
            placement: Placement::TopLeft,
            padding: 114,
        };
        let letterbox = Letterbox::new(source, size, spec.placement);
        let stride = letterbox.inner.width as usize * PIXEL_BYTES;
        let bytes: Vec<u8> = (0..stride * letterbox.inner.height as usize)
            .map(|index| index as u8)
            .collect();
        let picture = Image::new(letterbox.inner, stride, Box::new(bytes)).expect("large enough");
        let mut writer = TensorWriter::new(spec.format(), 1);
        let mut tensor = vec![0.0_f32; writer.slot_len()];
        criterion.bench_function(&format!("tensor, {name}"), |bench| {
            bench.iter(|| {
                writer.write(
                    0,
                    Slot::F32(black_box(&mut tensor)),
                    black_box(&picture),
                    &letterbox,
                )
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(3));
    targets = decoding, tensors
}
criterion_main!(benches);
