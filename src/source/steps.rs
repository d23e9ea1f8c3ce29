//! From the picture that a decoder gives to the one that the network takes: which unit does it, in how many steps, through
//! which sizes. Pure: elements are made elsewhere.
//!
//! The limits of the VIC are kept here, so that no element of NVIDIA's meets them at run time: a step changes neither side by
//! more than a factor of 16, both pictures have at least 16 pixels a side, and three-channel RGB is neither read nor written.

use std::fmt;

use crate::config::Scaling;
use crate::platform::VideoUnit;
use crate::types::{Crop, Size};

/// Greatest factor by which the VIC changes a side in one step.
const VIC_FACTOR: u32 = 16;

/// Least side of a picture that the VIC reads or writes, in pixels.
const VIC_SIDE: u32 = 16;

/// Formats in system memory that `nvvidconv` takes to the VIC, and to the GPU, by NVIDIA's Accelerated GStreamer guide.
const VIC_READS: &[&str] = &[
    "I420",
    "UYVY",
    "YUY2",
    "YVYU",
    "NV12",
    "NV16",
    "NV24",
    "P010_10LE",
    "GRAY8",
    "BGRx",
    "RGBA",
    "Y42B",
];
const GPU_READS: &[&str] = &["I420", "NV12", "P010_10LE", "GRAY8", "BGRx", "RGBA"];

/// What the network's side takes.
const OUTPUT: &str = "BGRx";

/// Between two steps of the VIC: half the memory of `BGRx`.
const BETWEEN: &str = "NV12";

/// Where pixels lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// In memory of the processor.
    System,
    /// In a surface of a Jetson, `memory:NVMM`.
    Nvmm,
}

/// A picture as caps describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) size: Size,
    /// GStreamer's name of the pixel format.
    pub(super) format: String,
    pub(super) memory: Memory,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            size,
            format,
            memory,
        } = self;
        write!(f, "{size} {format}")?;
        match memory {
            Memory::System => Ok(()),
            Memory::Nvmm => f.write_str(" in NVMM"),
        }
    }
}

/// One step: who does it, of which part, and what comes out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) unit: VideoUnit,
    /// Cut out of the picture before; `None`: all of it is taken.
    pub(super) cut: Option<Cut>,
    pub(super) to: Form,
}

/// A part of a picture of this size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) crop: Crop,
    pub(super) of: Size,
}

/// The units that this machine can scale with, or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scalers {
    pub(super) vic: Result<(), String>,
    pub(super) gpu: Result<(), String>,
}

/// The steps, and why they are not done by a better unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) steps: Vec<Step>,
    pub(super) note: Option<String>,
}

/// The way from `from` to `BGRx` of the size `inner`, or why there is none that the configuration accepts.
///
/// `output` says where the last picture lies if a Jetson's unit makes it; the processor always writes to its own memory.
pub(super) fn route(
    from: &Form,
    inner: Size,
    scaling: Scaling,
    scalers: &Scalers,
    output: Memory,
) -> Result<Route, String> {
    let by_vic = || -> Result<Vec<Step>, String> {
        scalers.vic.clone()?;
        vic(from, inner, output)
    };
    let by_gpu = || -> Result<Vec<Step>, String> {
        scalers.gpu.clone()?;
        reads(from, GPU_READS, VideoUnit::Gpu)?;
        Ok(through_nvmm(
            from,
            vec![last(VideoUnit::Gpu, inner, output)],
        ))
    };
    let plain = |steps| Route { steps, note: None };
    match scaling {
        Scaling::Vic => by_vic().map(plain).map_err(|reason| {
            format!("scaling is vic, but the VIC cannot do it: {reason}; change it, or set scaling to auto")
        }),
        Scaling::Gpu => by_gpu().map(plain).map_err(|reason| {
            format!("scaling is gpu, but the GPU cannot do it: {reason}; change it, or set scaling to auto")
        }),
        Scaling::Cpu => cpu(from, inner, scalers).map(plain),
        Scaling::Auto => match by_vic() {
            Ok(steps) => Ok(plain(steps)),
            Err(reason) => Ok(Route {
                steps: cpu(from, inner, scalers)?,
                note: Some(format!("the CPU scales, not the VIC: {reason}")),
            }),
        },
    }
}

/// The same for a part of the picture, which the first step cuts out: no step more, and no copy.
pub(super) fn route_of_part(
    from: &Form,
    crop: Option<Crop>,
    inner: Size,
    scaling: Scaling,
    scalers: &Scalers,
    output: Memory,
) -> Result<Route, String> {
    let Some(crop) = crop else {
        return route(from, inner, scaling, scalers, output);
    };
    let part = Form {
        size: crop.size,
        ..from.clone()
    };
    let named = |reason: String| format!("roi is {crop} of {}: {reason}", from.size);
    let mut route = route(&part, inner, scaling, scalers, output).map_err(named)?;
    if let Some(first) = route.steps.first_mut() {
        first.cut = Some(Cut {
            crop,
            of: from.size,
        });
    }
    Ok(Route {
        note: route.note.map(named),
        ..route
    })
}

/// The way from `from` to `BGRx` of the same size in the processor's memory, or why there is none. Nothing is scaled, so that the
/// VIC's limits do not matter; what is in the processor's memory already stays with the processor.
pub(super) fn way_to_view(from: &Form, scalers: &Scalers) -> Result<Vec<Step>, String> {
    let unit = match (from.memory, &scalers.vic, &scalers.gpu) {
        (Memory::System, ..) => VideoUnit::Cpu,
        (Memory::Nvmm, Ok(()), _) => VideoUnit::Vic,
        (Memory::Nvmm, _, Ok(())) => VideoUnit::Gpu,
        (Memory::Nvmm, Err(reason), _) => {
            return Err(format!(
                "the pictures lie in NVMM and nothing can copy them from there: {reason}"
            ));
        }
    };
    Ok(vec![last(unit, from.size, Memory::System)])
}

/// On the processor. A picture in NVMM is copied to its memory first, which only `nvvidconv` can do.
fn cpu(from: &Form, inner: Size, scalers: &Scalers) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    if from.memory == Memory::Nvmm {
        let unit = match (&scalers.vic, &scalers.gpu) {
            (Ok(()), _) => VideoUnit::Vic,
            (_, Ok(())) => VideoUnit::Gpu,
            (Err(reason), _) => {
                return Err(format!(
                    "the pictures lie in NVMM and nothing can copy them from there: {reason}"
                ));
            }
        };
        let to = Form {
            memory: Memory::System,
            ..from.clone()
        };
        steps.push(Step {
            unit,
            cut: None,
            to,
        });
    }
    steps.push(last(VideoUnit::Cpu, inner, Memory::System));
    Ok(steps)
}

fn vic(from: &Form, inner: Size, output: Memory) -> Result<Vec<Step>, String> {
    reads(from, VIC_READS, VideoUnit::Vic)?;
    for (what, size) in [("source", from.size), ("network's picture", inner)] {
        if size.width.min(size.height) < VIC_SIDE {
            return Err(format!(
                "the {what} has {size} pixels, and the VIC needs at least {VIC_SIDE}×{VIC_SIDE}"
            ));
        }
    }
    let last = last(VideoUnit::Vic, inner, output);
    if fits(from.size, inner) {
        return Ok(through_nvmm(from, vec![last]));
    }
    let between = Size::new(
        halfway(from.size.width, inner.width),
        halfway(from.size.height, inner.height),
    );
    if !fits(from.size, between) || !fits(between, inner) {
        return Err(format!(
            "{} to {inner} is more than two steps of a factor of {VIC_FACTOR}",
            from.size
        ));
    }
    let to = Form {
        size: between,
        format: BETWEEN.to_owned(),
        memory: Memory::Nvmm,
    };
    let first = Step {
        unit: VideoUnit::Vic,
        cut: None,
        to,
    };
    Ok(vec![first, last])
}

/// A converter of the Jetson has its own memory at one side at least: from the processor's memory to the processor's memory,
/// the one step writes there, and another gets the picture out.
fn through_nvmm(from: &Form, steps: Vec<Step>) -> Vec<Step> {
    match steps.as_slice() {
        [only] if from.memory == Memory::System && only.to.memory == Memory::System => {
            let mut first = only.clone();
            first.to.memory = Memory::Nvmm;
            vec![first, only.clone()]
        }
        _ => steps,
    }
}

fn last(unit: VideoUnit, size: Size, memory: Memory) -> Step {
    let to = Form {
        size,
        format: OUTPUT.to_owned(),
        memory,
    };
    Step {
        unit,
        cut: None,
        to,
    }
}

/// Whether `unit` can take pictures of this form. What lies in NVMM was made by another unit of the Jetson and always fits.
fn reads(from: &Form, formats: &[&str], unit: VideoUnit) -> Result<(), String> {
    if from.memory == Memory::Nvmm || formats.contains(&from.format.as_str()) {
        return Ok(());
    }
    Err(format!(
        "the source gives {}, and the {} reads {} alone",
        from.format,
        unit.name(),
        formats.join(", ")
    ))
}

/// Whether one step of the VIC leads from one size to the other.
fn fits(from: Size, to: Size) -> bool {
    let fits = |from: u32, to: u32| {
        let (less, more) = (from.min(to), from.max(to));
        u64::from(more) <= u64::from(less) * u64::from(VIC_FACTOR)
    };
    fits(from.width, to.width) && fits(from.height, to.height)
}

/// A side between two steps: the end's where one step leads there, else the geometric mean, so that both steps change it
/// alike. Even, as colors of `NV12` have half the pixels.
fn halfway(from: u32, to: u32) -> u32 {
    let side = match fits(Size::new(from, 1), Size::new(to, 1)) {
        true => to,
        false => (f64::from(from) * f64::from(to)).sqrt().round() as u32,
    };
    side.max(VIC_SIDE).next_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Scalers {
        Scalers {
            vic: Ok(()),
            gpu: Ok(()),
        }
    }

    fn none() -> Scalers {
        Scalers {
            vic: Err("no VIC here".to_owned()),
            gpu: Err("no GPU here".to_owned()),
        }
    }

    fn nvmm(width: u32, height: u32) -> Form {
        Form {
            size: Size::new(width, height),
            format: "NV12".to_owned(),
            memory: Memory::Nvmm,
        }
    }

    fn system(width: u32, height: u32, format: &str) -> Form {
        Form {
            size: Size::new(width, height),
            format: format.to_owned(),
            memory: Memory::System,
        }
    }

    /// The route in words: unit and result of each step.
    fn words(route: &Route) -> String {
        let steps = route.steps.iter();
        let words: Vec<String> = steps
            .map(|step| format!("{} {}", step.unit.name(), step.to))
            .collect();
        words.join(" > ")
    }

    #[test]
    fn the_vic_takes_one_step_or_two() {
        let cases = [
            ((1920, 1080), (416, 234), "VIC 416×234 BGRx"),
            // Exactly a factor of 16 is one step, one pixel more is two.
            ((6656, 3744), (416, 234), "VIC 416×234 BGRx"),
            (
                (6658, 3744),
                (416, 234),
                "VIC 1664×234 NV12 in NVMM > VIC 416×234 BGRx",
            ),
            (
                (7680, 4320),
                (416, 234),
                "VIC 1788×1006 NV12 in NVMM > VIC 416×234 BGRx",
            ),
            // Only one side needs two steps.
            (
                (7680, 500),
                (416, 27),
                "VIC 1788×116 NV12 in NVMM > VIC 416×27 BGRx",
            ),
            // Enlarged: a small picture for a large network.
            ((16, 16), (256, 256), "VIC 256×256 BGRx"),
            (
                (16, 16),
                (258, 258),
                "VIC 64×64 NV12 in NVMM > VIC 258×258 BGRx",
            ),
            ((416, 416), (416, 416), "VIC 416×416 BGRx"),
        ];
        for ((width, height), inner, wanted) in cases {
            let inner = Size::new(inner.0, inner.1);
            let route = route(
                &nvmm(width, height),
                inner,
                Scaling::Vic,
                &all(),
                Memory::System,
            )
            .unwrap_or_else(|reason| panic!("{width}×{height}: {reason}"));
            assert_eq!(words(&route), wanted, "{width}×{height}");
            assert_eq!(route.note, None);
        }
    }

    #[test]
    fn a_part_is_cut_out_by_the_first_step_and_held_to_the_same_limits() {
        let inner = Size::new(416, 234);
        let part = |width, height, scaling, scalers: &Scalers| {
            let crop = Crop {
                left: 100,
                top: 50,
                size: Size::new(width, height),
            };
            let from = nvmm(1920, 1080);
            route_of_part(&from, Some(crop), inner, scaling, scalers, Memory::Nvmm)
        };
        let whole = route(&nvmm(640, 360), inner, Scaling::Vic, &all(), Memory::Nvmm);
        let cut = part(640, 360, Scaling::Vic, &all()).expect("it can");
        assert_eq!(words(&cut), words(&whole.expect("it can")), "no step more");
        let taken = cut.steps[0].cut.expect("the first step cuts");
        assert_eq!((taken.crop.left, taken.of), (100, Size::new(1920, 1080)));
        // Two steps where the factor asks for them, and the second takes all of what the first gives.
        let small = part(20, 20, Scaling::Vic, &all()).expect("it can");
        assert_eq!(small.steps.len(), 2, "{}", words(&small));
        assert!(small.steps[0].cut.is_some() && small.steps[1].cut.is_none());
        let refused = part(14, 360, Scaling::Vic, &all()).expect_err("too small");
        assert!(
            refused.contains("roi is 14×360 at 100,50 of 1920×1080"),
            "{refused}"
        );
        assert!(refused.contains("at least 16×16"), "{refused}");
        let auto = part(14, 360, Scaling::Auto, &all()).expect("the CPU can");
        assert_eq!(words(&auto), "VIC 14×360 NV12 > CPU 416×234 BGRx");
        assert!(
            auto.steps[0].cut.is_some(),
            "the copy brings the part alone"
        );
    }

    #[test]
    fn every_size_is_within_the_limits_or_refused() {
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
    fn what_the_vic_cannot_do_is_refused_or_done_by_the_processor() {
        let inner = Size::new(416, 234);
        let cases = [
            (system(1920, 1080, "RGB"), inner, "gives RGB"),
            (system(1920, 1080, "Y41B"), inner, "gives Y41B"),
            (system(15, 1080, "NV12"), inner, "the source has 15×1080"),
            (
                system(1920, 40, "NV12"),
                Size::new(416, 9),
                "network's picture has 416×9",
            ),
            (
                system(8192, 17, "NV12"),
                Size::new(16, 16),
                "more than two steps",
            ),
        ];
        for (from, inner, wanted) in cases {
            let refused = route(&from, inner, Scaling::Vic, &all(), Memory::System);
            let reason = refused.expect_err("the VIC cannot do it");
            assert!(
                reason.contains(wanted) && reason.contains("scaling is vic"),
                "{reason}"
            );
            let auto =
                route(&from, inner, Scaling::Auto, &all(), Memory::Nvmm).expect("the CPU can");
            assert_eq!(words(&auto), format!("CPU {inner} BGRx"));
            assert!(auto.note.is_some_and(|note| note.contains(wanted)));
        }
    }

    #[test]
    fn units_that_are_not_there() {
        let (from, inner) = (system(1920, 1080, "I420"), Size::new(416, 234));
        let auto =
            route(&from, inner, Scaling::Auto, &none(), Memory::System).expect("the CPU can");
        assert_eq!(words(&auto), "CPU 416×234 BGRx");
        assert_eq!(
            auto.note.as_deref(),
            Some("the CPU scales, not the VIC: no VIC here")
        );
        for (scaling, wanted) in [(Scaling::Vic, "no VIC here"), (Scaling::Gpu, "no GPU here")] {
            let reason =
                route(&from, inner, scaling, &none(), Memory::System).expect_err("not there");
            assert!(reason.contains(wanted), "{reason}");
        }
        let stuck = route(&nvmm(64, 64), inner, Scaling::Auto, &none(), Memory::System);
        assert!(stuck.expect_err("no way out").contains("in NVMM"));
    }

    #[test]
    fn processor_and_gpu_do_what_they_are_told() {
        let inner = Size::new(416, 234);
        let way = |from: &Form, scaling, output| {
            words(&route(from, inner, scaling, &all(), output).expect("possible"))
        };
        assert_eq!(
            way(&nvmm(1920, 1080), Scaling::Cpu, Memory::Nvmm),
            "VIC 1920×1080 NV12 > CPU 416×234 BGRx"
        );
        assert_eq!(
            way(&nvmm(1920, 1080), Scaling::Gpu, Memory::System),
            "GPU 416×234 BGRx"
        );
        assert_eq!(
            way(&nvmm(1920, 1080), Scaling::Auto, Memory::Nvmm),
            "VIC 416×234 BGRx in NVMM"
        );
        let yuy2 = system(640, 480, "YUY2");
        assert_eq!(
            way(&yuy2, Scaling::Vic, Memory::System),
            "VIC 416×234 BGRx in NVMM > VIC 416×234 BGRx"
        );
        assert_eq!(
            way(&yuy2, Scaling::Vic, Memory::Nvmm),
            "VIC 416×234 BGRx in NVMM"
        );
        let refused = route(&yuy2, inner, Scaling::Gpu, &all(), Memory::System);
        assert!(refused.expect_err("not for the GPU").contains("gives YUY2"));
    }
}
