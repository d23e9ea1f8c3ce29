// SPDX-License-Identifier: Apache-2.0
//! Boxes, lines and text: positions, and that no input panics.

use proptest::prelude::*;

use super::*;
use crate::Color;

/// Draws on a black image; returns for each pixel whether it was changed.
fn drawn(size: Size, draw: impl FnOnce(&mut Canvas<'_>, &Fill)) -> Vec<bool> {
    let stride = size.width as usize * 4;
    let mut bytes = vec![0; stride * size.height as usize];
    let mut canvas = Canvas::bgrx(size, &mut bytes, stride).expect("its own size");
    let fill = canvas.color_fill(Color::new(255, 255, 255), 255);
    draw(&mut canvas, &fill);
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|pixel| *pixel != [0; 4])
        .collect()
}

/// The changed pixels as text, for readable assertions.
fn text(size: Size, changed: &[bool]) -> Vec<String> {
    let rows = changed.chunks(size.width as usize);
    rows.map(|row| row.iter().map(|&is| if is { '#' } else { '.' }).collect())
        .collect()
}

const THIN: Painter = Painter {
    stroke: 1,
    scale: 1,
};

#[test]
fn sizes_come_from_the_image() {
    let cases = [
        ((640, 360), (2, 1)),
        ((1280, 720), (2, 2)),
        ((1920, 1080), (3, 2)),
        ((1080, 1920), (3, 2)),
        ((3840, 2160), (6, 4)),
        ((1, 1), (2, 1)),
    ];
    for ((width, height), (stroke, scale)) in cases {
        let found = Painter::for_size(Size::new(width, height));
        assert_eq!(found, Painter { stroke, scale });
    }
    let _ = Painter::for_size(Size::new(u32::MAX, u32::MAX));
}

#[test]
fn a_frame_lies_inside_of_its_box_and_ends_at_the_image() {
    let size = Size::new(8, 5);
    #[rustfmt::skip]
    let cases: [([f32; 4], [&str; 5]); 6] = [
        ([1.0, 1.0, 5.0, 4.0], ["........", ".####...", ".#..#...", ".####...", "........"]),
        ([-3.0, 1.0, 3.4, 9.0], ["........", "###.....", "..#.....", "..#.....", "..#....."]),
        ([5.6, -2.0, 1e30, 2.6], ["......#.", "......#.", "......##", "........", "........"]),
        ([2.0, 2.0, 4.0, 4.0], ["........", "........", "..##....", "..##....", "........"]),
        ([3.0, 3.0, 3.0, 3.0], ["........", "........", "........", "...#....", "........"]),
        ([-9.0, -9.0, 99.0, 99.0], ["........"; 5]),
    ];
    for (xyxy, expected) in cases {
        let changed = drawn(size, |canvas, fill| {
            THIN.draw_boxes(canvas, &[(xyxy, *fill)])
        });
        assert_eq!(text(size, &changed), expected, "{xyxy:?}");
    }
    let nan = f32::NAN;
    for none in [
        [nan, 1.0, 5.0, 4.0],
        [1.0, 1.0, 5.0, nan],
        [5.0, 1.0, 1.0, 4.0],
        [nan; 4],
    ] {
        let changed = drawn(size, |canvas, fill| {
            THIN.draw_boxes(canvas, &[(none, *fill)])
        });
        assert!(changed.iter().all(|is| !is), "{none:?}");
    }
}

#[test]
fn outlines_drawn_together_equal_single_drawing() {
    let size = Size::new(40, 30);
    let boxes = [
        [2.0, 3.0, 20.0, 25.0],
        [10.0, -5.0, 35.0, 18.0],
        [10.0, 18.0, 60.0, 60.0],
        [2.0, 3.0, 20.0, 25.0],
        [5.0, 5.0, 7.0, 29.0],
    ];
    let painter = Painter {
        stroke: 2,
        scale: 1,
    };
    let together = drawn(size, |canvas, fill| {
        painter.draw_boxes(canvas, &boxes.map(|xyxy| (xyxy, *fill)));
    });
    let single = drawn(size, |canvas, fill| {
        for xyxy in boxes {
            painter.draw_boxes(canvas, &[(xyxy, *fill)]);
        }
    });
    assert_eq!(text(size, &together), text(size, &single));
}

#[test]
fn lines_go_from_end_to_end() {
    let size = Size::new(7, 5);
    #[rustfmt::skip]
    let cases: [([f32; 2], [f32; 2], [&str; 5]); 5] = [
        ([1.5, 2.5], [5.5, 2.5], [".......", ".......", ".#####.", ".......", "......."]),
        ([1.5, 0.5], [5.5, 4.5], [".#.....", "..#....", "...#...", "....#..", ".....#."]),
        ([2.5, 4.5], [2.5, 1.5], [".......", "..#....", "..#....", "..#....", "..#...."]),
        ([-1e30, 3.5], [1e30, 3.5], [".......", ".......", ".......", "#######", "......."]),
        ([-9.0, -9.0], [-2.0, 40.0], ["......."; 5]),
    ];
    for (from, to, expected) in cases {
        let changed = drawn(size, |canvas, fill| THIN.draw_line(canvas, from, to, fill));
        assert_eq!(text(size, &changed), expected, "{from:?} to {to:?}");
    }
}

#[test]
fn letters_are_those_of_the_font_at_any_scale() {
    let size = Size::new(12, 7);
    let changed = drawn(size, |canvas, fill| {
        THIN.draw_text(canvas, 0, 0, "i2", fill)
    });
    let expected = [
        "..#....###..",
        "......#...#.",
        ".##.......#.",
        "..#.....##..",
        "..#....#....",
        "..#...#.....",
        ".###..#####.",
    ];
    assert_eq!(text(size, &changed), expected);
    let double = Size::new(24, 14);
    let painter = Painter {
        stroke: 2,
        scale: 2,
    };
    let twice = drawn(double, |canvas, fill| {
        painter.draw_text(canvas, 0, 0, "i2", fill)
    });
    for (index, is) in twice.iter().enumerate() {
        let (x, y) = (index % 24 / 2, index / 24 / 2);
        assert_eq!(*is, changed[y * 12 + x], "{x},{y}");
    }
}

#[test]
fn a_label_stays_in_the_image_where_it_fits() {
    let size = Size::new(40, 30);
    for (left, bottom) in [(0, 20), (-50, 20), (90, 20), (5, 3), (5, -40), (5, 300)] {
        let changed = drawn(size, |canvas, fill| {
            let colors = Colors {
                background: *fill,
                text: *fill,
            };
            THIN.draw_label(canvas, left, bottom, "car", &colors);
        });
        let count = changed.iter().filter(|is| **is).count();
        assert_eq!(count, (3 * 6 + 1) * 9, "whole, at {left},{bottom}");
    }
}

fn number() -> impl Strategy<Value = f32> {
    prop_oneof![
        -20.0..80.0_f32,
        any::<f32>(),
        Just(f32::NAN),
        Just(f32::INFINITY),
        Just(f32::MIN)
    ]
}

proptest! {
    #[test]
    fn outline_changes_no_pixel_outside_box(
        (width, height) in (1..50_u32, 1..50_u32),
        xyxy in [number(), number(), number(), number()],
        stroke in 1..6_i32,
    ) {
        let size = Size::new(width, height);
        let painter = Painter { stroke, scale: 1 };
        let changed = drawn(size, |canvas, fill| painter.draw_boxes(canvas, &[(xyxy, *fill)]));
        for (index, is) in changed.iter().enumerate() {
            if !is {
                continue;
            }
            let (x, y) = (index as u32 % width, index as u32 / width);
            let reaches = |at: u32, first: f32, last: f32| {
                at as f32 + 1.0 >= first.round() && (at as f32) < last.round().max(first.round() + 1.0)
            };
            prop_assert!(reaches(x, xyxy[0], xyxy[2]) && reaches(y, xyxy[1], xyxy[3]), "{},{}", x, y);
        }
    }

    #[test]
    fn drawing_accepts_any_line_and_label(
        (width, height) in (1..50_u32, 1..50_u32),
        from in [number(), number()],
        to in [number(), number()],
        (left, bottom) in (any::<i32>(), any::<i32>()),
        text_input in "\\PC{0,40}",
        scale in 1..5_i32,
    ) {
        let size = Size::new(width, height);
        let painter = Painter { stroke: scale + 1, scale };
        let changed = drawn(size, |canvas, fill| {
            painter.draw_line(canvas, from, to, fill);
            let colors = Colors { background: *fill, text: *fill };
            painter.draw_label(canvas, left, bottom, &text_input, &colors);
        });
        prop_assert_eq!(changed.len(), (width * height) as usize);
    }
}
