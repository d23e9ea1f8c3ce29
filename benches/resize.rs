//! Scaling a crop on the CPU, by size of the crop and of the result.
//!
//! ```text
//! cargo bench --bench resize
//! ```

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use jetwatch_resize::{Filter, Resizer};
use jetwatch_types::{PIXEL_BYTES, Size};

const CASES: [(Size, Size); 4] = [
    (Size::new(120, 200), Size::new(64, 64)),
    (Size::new(60, 120), Size::new(128, 256)),
    (Size::new(400, 300), Size::new(224, 224)),
    (Size::new(1920, 1080), Size::new(416, 234)),
];

fn resize(criterion: &mut Criterion) {
    let bytes = |size: Size| size.width as usize * size.height as usize * PIXEL_BYTES;
    let mut resizer = Resizer::default();
    for (from, to) in CASES {
        let pixels: Vec<u8> = (0..bytes(from)).map(|at| (at * 7919 % 251) as u8).collect();
        let mut result = vec![0; bytes(to)];
        criterion.bench_function(&format!("{from}_to_{to}"), |bencher| {
            bencher.iter(|| {
                resizer.scale(black_box(&pixels), from, to, Filter::Triangle, &mut result);
                black_box(&mut result);
            });
        });
    }
}

criterion_group!(benches, resize);
criterion_main!(benches);
