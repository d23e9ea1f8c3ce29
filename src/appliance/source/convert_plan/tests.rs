// SPDX-License-Identifier: Apache-2.0
//! Routes by tables: steps, limits, refusals.

use super::*;

fn all() -> ScalerAvailability {
    ScalerAvailability {
        vic: Ok(()),
        gpu: Ok(()),
    }
}

fn none() -> ScalerAvailability {
    ScalerAvailability {
        vic: Err("no VIC here".to_owned()),
        gpu: Err("no GPU here".to_owned()),
    }
}

fn nvmm(width: u32, height: u32) -> VideoFormat {
    VideoFormat {
        size: Size::new(width, height),
        format: "NV12".to_owned(),
        memory: Memory::Nvmm,
        foreign_colors: None,
    }
}

fn system(width: u32, height: u32, format: &str) -> VideoFormat {
    VideoFormat {
        size: Size::new(width, height),
        format: format.to_owned(),
        memory: Memory::System,
        foreign_colors: None,
    }
}

/// The plan as text: unit and result of each step.
fn describe(plan: &ConvertPlan) -> String {
    let steps = plan.steps.iter();
    let texts: Vec<String> = steps
        .map(|step| format!("{} {}", step.unit.name(), step.to))
        .collect();
    texts.join(" > ")
}

#[test]
fn the_vic_takes_one_step_or_two() {
    #[rustfmt::skip]
    let cases = [
        ((1920, 1080), (416, 234), "VIC 416×234 BGRx"),
        // Exactly a factor of 16 is one step, one pixel more is two.
        ((6656, 3744), (416, 234), "VIC 416×234 BGRx"),
        ((6658, 3744), (416, 234), "VIC 1664×234 NV12 in NVMM > VIC 416×234 BGRx"),
        ((7680, 4320), (416, 234), "VIC 1788×1006 NV12 in NVMM > VIC 416×234 BGRx"),
        // Only one side needs two steps.
        ((7680, 500), (416, 27), "VIC 1788×116 NV12 in NVMM > VIC 416×27 BGRx"),
        // Enlarged: a small image for a large network.
        ((16, 16), (256, 256), "VIC 256×256 BGRx"),
        ((16, 16), (258, 258), "VIC 64×64 NV12 in NVMM > VIC 258×258 BGRx"),
        ((416, 416), (416, 416), "VIC 416×416 BGRx"),
    ];
    for ((width, height), inner, expected) in cases {
        let inner = Size::new(inner.0, inner.1);
        let plan = plan_conversion(
            &nvmm(width, height),
            inner,
            Scaling::Vic,
            &all(),
            Memory::System,
        )
        .unwrap_or_else(|reason| panic!("{width}×{height}: {reason}"));
        assert_eq!(describe(&plan), expected, "{width}×{height}");
        assert_eq!(plan.note, None);
    }
}

#[test]
fn crop_is_done_by_first_step_within_limits() {
    let inner = Size::new(416, 234);
    let part = |width, height, scaling, scalers: &ScalerAvailability| {
        let crop = Crop {
            left: 100,
            top: 50,
            size: Size::new(width, height),
        };
        let from = nvmm(1920, 1080);
        plan_crop_conversion(&from, Some(crop), inner, scaling, scalers, Memory::Nvmm)
    };
    let whole = plan_conversion(&nvmm(640, 360), inner, Scaling::Vic, &all(), Memory::Nvmm);
    let cut = part(640, 360, Scaling::Vic, &all()).expect("it can");
    // No step more.
    assert_eq!(describe(&cut), describe(&whole.expect("it can")));
    let first_crop = cut.steps[0].crop.expect("the first step crops");
    assert_eq!(
        (first_crop.crop.left, first_crop.of),
        (100, Size::new(1920, 1080))
    );
    // Two steps when the factor requires them; the second reads the whole output of the first.
    let small = part(20, 20, Scaling::Vic, &all()).expect("it can");
    assert_eq!(small.steps.len(), 2, "{}", describe(&small));
    assert!(small.steps[0].crop.is_some() && small.steps[1].crop.is_none());
    let refused = part(14, 360, Scaling::Vic, &all()).expect_err("too small");
    assert!(
        refused.contains("roi is 14×360 at 100,50 of 1920×1080"),
        "{refused}"
    );
    assert!(refused.contains("at least 16×16"), "{refused}");
    let auto = part(14, 360, Scaling::Auto, &all()).expect("the CPU can");
    assert_eq!(describe(&auto), "VIC 1920×1080 BGRx > CPU 416×234 BGRx");
    // The VIC cannot even copy only the crop.
    assert!(auto.steps[0].crop.is_none() && auto.steps[1].crop.is_some());
    let by_cpu = part(640, 360, Scaling::Cpu, &all()).expect("the CPU can");
    assert_eq!(describe(&by_cpu), "VIC 640×360 BGRx > CPU 416×234 BGRx");
    assert!(by_cpu.steps[0].crop.is_some(), "only the crop is copied");
}

#[test]
fn every_size_is_within_limits_or_rejected() {
    let sides = [
        1, 15, 16, 17, 31, 100, 255, 256, 257, 640, 1080, 1920, 4095, 4096, 7680, 8192,
    ];
    for width in sides {
        for height in sides {
            for inner in [(416, 234), (640, 640), (16, 16), (1280, 17), (13, 640)] {
                let from = nvmm(width, height);
                let inner = Size::new(inner.0, inner.1);
                let Ok(steps) = vic(&from, inner, Memory::Nvmm) else {
                    let small = width.min(height).min(inner.width).min(inner.height);
                    let most = (width / inner.width)
                        .max(inner.width / width)
                        .max(height / inner.height)
                        .max(inner.height / height);
                    assert!(small < 16 || most > 200, "{from} to {inner} was refused");
                    continue;
                };
                let mut size = from.size;
                for step in &steps {
                    assert!(fits(size, step.to.size), "{from} to {inner}: {steps:?}");
                    assert!(step.to.size.width.min(step.to.size.height) >= 16);
                    size = step.to.size;
                }
                assert_eq!(size, inner);
            }
        }
    }
}

#[test]
fn what_the_vic_cannot_do_is_rejected_or_done_by_the_cpu() {
    let inner = Size::new(416, 234);
    #[rustfmt::skip]
    let cases = [
        (system(1920, 1080, "RGB"), inner, "delivers RGB"),
        (system(1920, 1080, "Y41B"), inner, "delivers Y41B"),
        (system(15, 1080, "NV12"), inner, "the source has 15×1080"),
        (system(1920, 40, "NV12"), Size::new(416, 9), "network's image has 416×9"),
        (system(8192, 17, "NV12"), Size::new(16, 16), "more than two steps"),
    ];
    for (from, inner, expected) in cases {
        let refused = plan_conversion(&from, inner, Scaling::Vic, &all(), Memory::System);
        let reason = refused.expect_err("the VIC cannot do it");
        assert!(
            reason.contains(expected) && reason.contains("scaling is vic"),
            "{reason}"
        );
        let auto = plan_conversion(&from, inner, Scaling::Auto, &all(), Memory::Nvmm)
            .expect("the CPU can");
        assert_eq!(describe(&auto), format!("CPU {inner} BGRx"));
        assert!(auto.note.is_some_and(|note| note.contains(expected)));
    }
}

#[test]
fn missing_units_are_handled() {
    let (from, inner) = (system(1920, 1080, "I420"), Size::new(416, 234));
    let auto =
        plan_conversion(&from, inner, Scaling::Auto, &none(), Memory::System).expect("the CPU can");
    assert_eq!(describe(&auto), "CPU 416×234 BGRx");
    assert_eq!(
        auto.note.as_deref(),
        Some("the CPU scales, not the VIC: no VIC here")
    );
    for (scaling, expected) in [(Scaling::Vic, "no VIC here"), (Scaling::Gpu, "no GPU here")] {
        let reason =
            plan_conversion(&from, inner, scaling, &none(), Memory::System).expect_err("not there");
        assert!(reason.contains(expected), "{reason}");
    }
    let stuck = plan_conversion(&nvmm(64, 64), inner, Scaling::Auto, &none(), Memory::System);
    assert!(stuck.expect_err("no conversion").contains("in NVMM"));
}

#[test]
fn cpu_and_gpu_follow_the_configuration() {
    let inner = Size::new(416, 234);
    let summary = |from: &VideoFormat, scaling, output| {
        describe(&plan_conversion(from, inner, scaling, &all(), output).expect("possible"))
    };
    assert_eq!(
        summary(&nvmm(1920, 1080), Scaling::Cpu, Memory::Nvmm),
        "VIC 1920×1080 BGRx > CPU 416×234 BGRx"
    );
    assert_eq!(
        summary(&nvmm(1920, 1080), Scaling::Gpu, Memory::System),
        "GPU 416×234 BGRx"
    );
    assert_eq!(
        summary(&nvmm(1920, 1080), Scaling::Auto, Memory::Nvmm),
        "VIC 416×234 BGRx in NVMM"
    );
    let yuy2 = system(640, 480, "YUY2");
    assert_eq!(
        summary(&yuy2, Scaling::Vic, Memory::System),
        "VIC 416×234 BGRx in NVMM > VIC 416×234 BGRx"
    );
    assert_eq!(
        summary(&yuy2, Scaling::Vic, Memory::Nvmm),
        "VIC 416×234 BGRx in NVMM"
    );
    let refused = plan_conversion(&yuy2, inner, Scaling::Gpu, &all(), Memory::System);
    assert!(
        refused
            .expect_err("not for the GPU")
            .contains("delivers YUY2")
    );
}
