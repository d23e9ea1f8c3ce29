// SPDX-License-Identifier: Apache-2.0
//! Cameras, servers and files through the units of a virtual Jetson: which unit decodes and scales, in how many steps,
//! what is refused, and what happens when a unit or an element is missing.
//!
//! The doubles do on the CPU what a Jetson's units do, within their documented limits; see `tests/virtual_jetson`.

use crate::sources_rotated::{CLOCKWISE, COUNTERCLOCKWISE, clip};
use crate::support;
use crate::support::jetson_elements;
use crate::support::onnx_file;
use crate::support::virtual_jetson;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use gstreamer as gst;
use jetwatch_config::{DecoderChoice, Scaling, SourceConfig, SourceUri};
use jetwatch_platform::{Machine, VideoUnit};
use jetwatch_source::gst::predict_plan;
use jetwatch_source::{ProcessingPlan, SourceError, StepKind};
use jetwatch_types::{Placement, Region, Size};

use jetson_elements::{ElementActivity, JetsonElements};
use onnx_file::TinyNetwork;
use serde_json::Value;
use support::clips;
use support::collector::{Collector, INPUT, config, first_reason_on, launch, rtsp};
use support::daemon::{Setup, exits, finish, start, stderr, stdout, terminate, wait_until_some};
use support::ffprobe::Colors;
use support::onnx_runtime::write_model;
use support::rtsp::RtspServer;
use virtual_jetson::VirtualJetson;

/// A clip of H.264 with 4:2:2 colors, which NVDEC does not decode.
fn unsupported_by_nvdec(folder: &Path, frames: u32) -> PathBuf {
    let path = folder.join("422.mp4");
    clips::gst_launch(&format!(
        "videotestsrc num-buffers={frames} ! video/x-raw,format=Y42B,width=320,height=240,framerate=30/1 \
         ! x264enc speed-preset=ultrafast ! mp4mux ! filesink location={}",
        path.display()
    ));
    path
}

/// Loads the doubles of L4T's elements into this process.
fn load() {
    gst::init().expect("GStreamer starts");
    let path = jetson_elements::plugin().join("libgstvirtualjetson.so");
    gst::Plugin::load_file(path).expect("the plug-in loads");
}

fn csi(size: Option<(u32, u32)>) -> SourceUri {
    SourceUri::Csi {
        sensor: 0,
        mode: None,
        size,
        fps: Some(30.0),
    }
}

fn vic(uri: SourceUri) -> SourceConfig {
    SourceConfig {
        scaling: Scaling::Vic,
        ..config(uri)
    }
}

/// Receives `frames` frames on the machine; returns the plan and the size of the images.
fn collect_frames(
    machine: &VirtualJetson,
    config: &SourceConfig,
    frames: usize,
) -> (ProcessingPlan, Size) {
    let collector = Collector::start_on(&machine.root(), config, frames);
    let (seen, plan) = collector.frames_and_plan();
    assert!(
        seen.len() >= frames.min(5),
        "{}: {} frames",
        config.uri,
        seen.len()
    );
    assert!(seen.iter().all(|frame| frame.mean > 0.1), "black pictures");
    (plan, seen[0].image)
}

/// The units of a plan by step, in order.
fn units_by_step(plan: &ProcessingPlan) -> Vec<(StepKind, VideoUnit)> {
    let steps = plan.steps.iter();
    steps.map(|step| (step.kind, step.unit)).collect()
}

use StepKind::{Capture, Color, Copy, Decode, Read, Receive, Rotate, Scale};
use VideoUnit::{Cpu, Isp, Nvdec, Nvjpg, Vic};

#[test]
fn csi_frames_stay_in_nvmm_until_inference() {
    load();
    let (plan, size) = collect_frames(
        &VirtualJetson::xavier_nx(),
        &vic(csi(Some((1920, 1080)))),
        5,
    );
    let found = units_by_step(&plan);
    assert_eq!(found, [(Capture, Isp), (Scale, Vic), (Copy, Cpu)]);
    assert_eq!(size, Size::new(416, 234));
    let scale = &plan.steps[1];
    assert_eq!(scale.element, "nvvidconv");
    assert_eq!(scale.detail, "1920×1080 NV12 in NVMM to 416×234 BGRx");
    assert!(plan.notes.is_empty(), "{plan:?}");
}

#[test]
fn full_images_leave_nvmm_at_source_size() {
    load();
    let machine = VirtualJetson::xavier_nx();
    let source = vic(csi(Some((1280, 720))));
    let collector = Collector::start_with_full_images(&machine.root(), &source, 5);
    let (seen, plan) = collector.frames_and_plan();
    assert!(seen.len() >= 5, "{} frames", seen.len());
    for frame in &seen {
        let (size, mean) = frame.full_image.expect("each frame has its view");
        assert_eq!(size, Size::new(1280, 720));
        assert!((mean - frame.mean).abs() < 4.0, "{mean}, {}", frame.mean);
    }
    // The steps to the network's image are the same.
    let found = units_by_step(&plan);
    assert_eq!(found, [(Capture, Isp), (Scale, Vic), (Copy, Cpu)]);
}

#[test]
fn rotated_file_is_rotated_by_the_vic_and_stays_in_nvmm() {
    load();
    let machine = VirtualJetson::orin_nx();
    // The white band of the clip, and the opposite side.
    let (left, right) = ([0.0, 0.0, 0.2, 1.0], [0.8, 0.0, 0.2, 1.0]);
    for (rotation, white, black) in [(CLOCKWISE, right, left), (COUNTERCLOCKWISE, left, right)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut source = vic(SourceUri::File(clip(folder.path(), Some(rotation))));
        let (plan, size) = collect_frames(&machine, &source, usize::MAX);
        let wanted = [
            (Read, Cpu),
            (Decode, Nvdec),
            (Rotate, Vic),
            (Scale, Vic),
            (Copy, Cpu),
        ];
        assert_eq!(units_by_step(&plan), wanted);
        assert_eq!(size, Size::new(312, 416));
        let mut brightness = |[left, top, width, height]: [f32; 4]| {
            source.roi = Some(Region {
                left,
                top,
                width,
                height,
            });
            let (frames, result) = Collector::start_on(&machine.root(), &source, usize::MAX).join();
            result.expect("the clip is sound");
            frames[5].mean
        };
        let (white, black) = (brightness(white), brightness(black));
        assert!(white > 200.0 && black < 50.0, "{white} {black}");
    }
}

#[test]
fn h264_and_h265_files_and_servers_are_decoded_by_nvdec() {
    load();
    let machine = VirtualJetson::orin_nx();
    let folder = tempfile::tempdir().expect("a folder");
    let clip = clips::mp4(folder.path(), "a.mp4", 640, 480, 20);
    let (plan, _) = collect_frames(&machine, &vic(SourceUri::File(clip)), usize::MAX);
    let from_file = [(Read, Cpu), (Decode, Nvdec), (Scale, Vic), (Copy, Cpu)];
    assert_eq!(units_by_step(&plan), from_file);

    let path = folder.path().join("b.mkv");
    clips::gst_launch(&format!(
        "videotestsrc num-buffers=20 ! video/x-raw,format=I420,width=320,height=240 ! x265enc speed-preset=ultrafast \
         ! h265parse ! matroskamux ! filesink location={}",
        path.display()
    ));
    let (plan, _) = collect_frames(&machine, &vic(SourceUri::File(path)), usize::MAX);
    assert_eq!(units_by_step(&plan), from_file);

    let server = RtspServer::start(0, &[]);
    let (plan, size) = collect_frames(&machine, &vic(rtsp(server.uri(), None)), 10);
    let wanted = [(Receive, Cpu), (Decode, Nvdec), (Scale, Vic), (Copy, Cpu)];
    assert_eq!(units_by_step(&plan), wanted);
    assert_eq!(size, Size::new(416, 312));
}

#[test]
fn usb_jpeg_uses_nvjpg_and_raw_uses_vic() {
    load();
    let machine = VirtualJetson::xavier_nx();
    let jpeg = "videotestsrc is-live=true ! video/x-raw,format=I420,width=640,height=480,framerate=60/1 ! jpegenc ! identity";
    let (plan, _) = collect_frames(&machine, &vic(launch(jpeg)), 5);
    let kinds = units_by_step(&plan);
    let wanted = [(Decode, Nvjpg), (Scale, Vic), (Copy, Cpu)];
    assert_eq!(kinds[1..], wanted, "{plan}");
    let raw = "videotestsrc is-live=true ! video/x-raw,format=YUY2,width=640,height=480,framerate=60/1 ! identity";
    let (plan, size) = collect_frames(&machine, &vic(launch(raw)), 5);
    assert_eq!(
        units_by_step(&plan)[1..],
        [(Copy, Cpu), (Scale, Vic), (Copy, Cpu)],
        "{plan}"
    );
    assert_eq!(size, Size::new(416, 312));
}

#[test]
fn vic_and_cpu_scaling_give_similar_images() {
    load();
    let machine = VirtualJetson::xavier_nx();
    let folder = tempfile::tempdir().expect("a folder");
    let clip = SourceUri::File(clips::mp4(folder.path(), "a.mp4", 640, 480, 10));
    let means = |scaling| {
        let config = SourceConfig {
            scaling,
            ..config(clip.clone())
        };
        let (seen, result) = Collector::start_on(&machine.root(), &config, usize::MAX).join();
        result.expect("the file is sound");
        seen.iter().map(|frame| frame.mean).collect::<Vec<_>>()
    };
    let (by_vic, by_cpu) = (means(Scaling::Vic), means(Scaling::Cpu));
    assert_eq!((by_vic.len(), by_cpu.len()), (10, 10));
    for (a, b) in by_vic.iter().zip(&by_cpu) {
        assert!((a - b).abs() < 2.0, "{by_vic:?} and {by_cpu:?}");
    }
}

/// Colors of NVDEC's images come from their surface. `nvvidconv` reads images in CPU memory as BT.601 with limited range, so others are
/// scaled by the CPU (frigate#1178, NVIDIA/VideoProcessingFramework#209, jocover/jetson-ffmpeg#60).
#[test]
fn colors_are_right_on_each_unit_for_each_range_and_matrix() {
    load();
    let machine = VirtualJetson::xavier_nx();
    let folder = tempfile::tempdir().expect("a folder");
    let mut wrong = Vec::new();
    for colors in Colors::all() {
        let clip = |pixels| {
            let path = folder.path().join(format!("{colors}-{pixels}.mp4"));
            colors.make(pixels, "libx264 -preset ultrafast", &path);
            path
        };
        let (by_nvdec, by_cpu) = (clip("yuv420p"), clip("yuv422p"));
        for (path, scaling, decoder, scaler) in [
            (&by_nvdec, Scaling::Vic, Nvdec, Vic),
            (&by_nvdec, Scaling::Cpu, Nvdec, Cpu),
            (&by_cpu, Scaling::Auto, Cpu, Cpu),
        ] {
            let config = SourceConfig {
                scaling,
                ..config(SourceUri::File(path.clone()))
            };
            let collector = Collector::start_on(&machine.root(), &config, usize::MAX);
            let (frames, plan) = collector.frames_and_plan();
            let units = units_by_step(&plan);
            let is_plain = path == &by_cpu && colors.to_string() == "bt601-smpte170m-tv";
            let scaler = if is_plain { Vic } else { scaler };
            assert!(units.contains(&(Decode, decoder)), "{colors} {plan}");
            assert!(units.contains(&(Scale, scaler)), "{colors} {plan}");
            let pixels = if path == &by_cpu {
                "yuv422p"
            } else {
                "yuv420p"
            };
            wrong.extend(colors.differences(path, pixels, frames[2].color, 2.0));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn resolution_change_replans_conversion() {
    load();
    let folder = tempfile::tempdir().expect("a folder");
    // The second half has an image of 8 rows for the network, which the VIC cannot write.
    let path = clips::two_resolutions(folder.path(), (640, 480), (1664, 32), 10);
    let machine = VirtualJetson::xavier_nx();
    let collector = Collector::start_on(
        &machine.root(),
        &config(SourceUri::File(path.clone())),
        usize::MAX,
    );
    let (seen, result) = collector.join();
    result.expect("the CPU does what the VIC cannot");
    let sizes: Vec<Size> = seen.iter().map(|frame| frame.image).collect();
    assert_eq!(sizes.len(), 20);
    assert!(sizes[..10].iter().all(|size| *size == Size::new(416, 312)));
    assert!(sizes[10..].iter().all(|size| *size == Size::new(416, 8)));
    let (_, result) =
        Collector::start_on(&machine.root(), &vic(SourceUri::File(path)), usize::MAX).join();
    let text = result.expect_err("the VIC alone is wanted").to_string();
    assert_has!(text => "416×8", "16×16");
}

#[test]
fn vic_is_not_used_beside_elements_that_scale_elsewhere() {
    load();
    let machine = VirtualJetson::xavier_nx();
    let own = launch(
        "videotestsrc is-live=true ! video/x-raw,format=NV12,width=640,height=480 ! videoscale ! video/x-raw,width=320,height=240 ! identity",
    );
    // A frame may come before these elements are known.
    let collector = Collector::start_on(&machine.root(), &vic(own), usize::MAX);
    let reason = wait_until_some("a refusal", || collector.offline_reasons().first().cloned());
    let _ = collector.stop();
    assert_has!(reason => "scaling is to run on the VIC", "scale by CPU (videoscale");
}

#[test]
fn unsupported_nvdec_format_uses_cpu_or_is_rejected() {
    load();
    let machine = VirtualJetson::xavier_nx();
    let folder = tempfile::tempdir().expect("a folder");
    let path = unsupported_by_nvdec(folder.path(), 10);
    let uri = SourceUri::File(path);
    let (plan, _) = collect_frames(&machine, &config(uri.clone()), usize::MAX);
    assert!(units_by_step(&plan).contains(&(Decode, Cpu)), "{plan}");
    assert!(
        plan.notes.iter().any(|note| note.contains("this is 4:2:2")),
        "{plan:?}"
    );
    let strict = SourceConfig {
        decoder: DecoderChoice::Hardware,
        ..config(uri)
    };
    let reason = first_reason_on(&machine.root(), &strict);
    assert_has!(reason => "decoder is hardware, but NVDEC");

    // Other codecs never go to it.
    let theora = SourceUri::File(clips::theora(folder.path(), "a.ogv", 320, 240, 10));
    let (plan, _) = collect_frames(&machine, &config(theora.clone()), usize::MAX);
    let wanted = [(Decode, Cpu), (Copy, Cpu), (Scale, Vic), (Copy, Cpu)];
    assert_eq!(units_by_step(&plan)[1..], wanted, "{plan}");
    let strict = SourceConfig {
        decoder: DecoderChoice::Hardware,
        ..config(theora)
    };
    let collector = Collector::start_on(&machine.root(), &strict, usize::MAX);
    let (_, result) = collector.join();
    let text = result.expect_err("the CPU decodes").to_string();
    assert_has!(text => "decoder is hardware");
}

#[test]
fn roi_is_cropped_by_scaling_step() {
    load();
    let machine = VirtualJetson::xavier_nx();
    let region = |width: f32, height: f32| {
        Some(Region {
            left: 0.25,
            top: 0.5,
            width,
            height,
        })
    };
    let camera = vic(csi(Some((1920, 1080))));
    let part = SourceConfig {
        roi: region(0.5, 0.25),
        ..camera.clone()
    };
    let (whole, _) = collect_frames(&machine, &camera, 5);
    let (plan, size) = collect_frames(&machine, &part, 5);
    // No step and no copy more.
    assert_eq!(units_by_step(&plan), units_by_step(&whole));
    assert_eq!(size, Size::new(416, 117));
    let scale = plan.steps.iter().find(|step| step.kind == Scale);
    let detail = &scale.expect("it is scaled").detail;
    assert!(
        detail.starts_with("960×270 at 480,540 of 1920×1080 NV12 in NVMM to 416×117"),
        "{detail}"
    );
    // Known before anything runs, like a crop that the VIC does not support.
    let found = Machine::find(&machine.root());
    let reported = predict_plan(&part, &found, INPUT, Placement::TopLeft).expect("it can be done");
    assert_has!(reported.to_string() => "960×270 at 480,540 of");
    let small = SourceConfig {
        roi: region(0.004, 0.25),
        ..camera
    };
    let refused = predict_plan(&small, &found, INPUT, Placement::TopLeft).expect_err("too small");
    let reason = refused.to_string();
    assert_has!(reason => "roi is 8×270", "at least 16×16");
}

#[test]
fn config_can_disable_hardware_units() {
    load();
    let machine = VirtualJetson::xavier_nx();
    let folder = tempfile::tempdir().expect("a folder");
    let uri = SourceUri::File(clips::mp4(folder.path(), "a.mp4", 640, 480, 10));
    let software = SourceConfig {
        decoder: DecoderChoice::Software,
        scaling: Scaling::Cpu,
        ..config(uri.clone())
    };
    let (plan, _) = collect_frames(&machine, &software, usize::MAX);
    let found = units_by_step(&plan);
    assert_eq!(found, [(Read, Cpu), (Decode, Cpu), (Scale, Cpu)]);
    // Decoded in NVMM, and copied from there by the only element that can.
    let half = SourceConfig {
        scaling: Scaling::Cpu,
        ..config(uri.clone())
    };
    let (plan, _) = collect_frames(&machine, &half, usize::MAX);
    let wanted = [
        (Read, Cpu),
        (Decode, Nvdec),
        (Color, Vic),
        (Copy, Cpu),
        (Scale, Cpu),
    ];
    assert_eq!(units_by_step(&plan), wanted, "{plan}");
    let gpu = SourceConfig {
        scaling: Scaling::Gpu,
        ..config(uri)
    };
    let (plan, _) = collect_frames(&machine, &gpu, usize::MAX);
    assert!(
        units_by_step(&plan).contains(&(Scale, VideoUnit::Gpu)),
        "{plan}"
    );
}

#[test]
fn file_loops_through_hardware_units() {
    load();
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = vic(SourceUri::File(clips::mp4(
        folder.path(),
        "a.mp4",
        320,
        240,
        10,
    )));
    config.loop_at_end = true;
    let machine = VirtualJetson::xavier_nx();
    let (seen, result) = Collector::start_on(&machine.root(), &config, 35).join();
    result.expect("the file is sound");
    assert_eq!(seen.len(), 35);
}

#[test]
fn the_plan_is_known_before_anything_is_opened() {
    load();
    let machine = Machine::find(&VirtualJetson::xavier_nx().root());
    let plan = |config: &SourceConfig| predict_plan(config, &machine, INPUT, Placement::TopLeft);
    let known = plan(&vic(csi(Some((1920, 1080))))).expect("possible");
    assert_eq!(units_by_step(&known), [(Capture, Isp), (Scale, Vic)]);
    let wanted = "1920×1080 NV12 in NVMM to 416×234 BGRx";
    assert_eq!(known.steps[1].detail, wanted);
    let two = plan(&vic(csi(Some((7680, 4320))))).expect("possible");
    let found = units_by_step(&two);
    assert_eq!(found, [(Capture, Isp), (Scale, Vic), (Scale, Vic)]);
    let tall = SourceConfig {
        display_aspect: Some((4, 3)),
        ..vic(csi(Some((1920, 1080))))
    };
    let known = plan(&tall).expect("possible");
    let wanted = "1920×1080 NV12 in NVMM to 416×312 BGRx";
    assert_eq!(known.steps[1].detail, wanted);
    let refused = plan(&vic(csi(Some((1920, 32))))).expect_err("too flat for the VIC");
    assert!(matches!(refused, SourceError::Refused(_)), "{refused}");
    let file = plan(&vic(SourceUri::File(Path::new("/nowhere.mp4").into()))).expect("possible");
    let wanted = [(Read, Cpu), (Decode, Nvdec), (Decode, Nvjpg), (Scale, Vic)];
    assert_eq!(units_by_step(&file), wanted);

    let other = tempfile::tempdir().expect("a folder");
    let machine = Machine::find(&jetwatch_platform::SysRoot::new(other.path()));
    let plan = |config: &SourceConfig| predict_plan(config, &machine, INPUT, Placement::TopLeft);
    let camera = plan(&config(csi(None))).expect_err("no Jetson").to_string();
    assert_has!(camera => "not a Jetson", "v4l2://");
    let file = SourceUri::File(Path::new("/nowhere.mp4").into());
    let error = plan(&vic(file.clone())).expect_err("no VIC").to_string();
    assert_has!(error => "not a Jetson");
    let hardware = SourceConfig {
        decoder: DecoderChoice::Hardware,
        ..config(file)
    };
    let error = plan(&hardware).expect_err("no NVDEC").to_string();
    assert_has!(error => "decoder is hardware");
}

/// A configuration of these sources, with a network of 96×64 pixels that detects nothing.
fn daemon(sources: &str) -> Setup {
    let setup = Setup::new(&format!(
        "sources:\n{sources}detector: {{backend: onnx, model: model}}\npublish: {{mqtt: off}}\n"
    ));
    let network = TinyNetwork::yolox(Some(1), &[]);
    let folder = setup.path("model");
    fs::create_dir(&folder).expect("the folder is writable");
    let input = "width: 96, height: 64, color: bgr, letterbox: {value: 0, placement: top_left}";
    let output = "{layout: yolox, name: output}\nlabels: [person, car]";
    write_model(&folder, &network.bytes(), input, output, "");
    setup
}

/// A CSI camera, a server, a file and a camera that sends JPEG, all scaled by the VIC.
fn four_sources(server: &RtspServer, clip: &Path) -> String {
    let jpeg = "launch:videotestsrc is-live=true ! video/x-raw,format=I420,width=640,height=480,framerate=30/1 ! jpegenc ! identity";
    format!(
        "  - {{name: lens, uri: 'csi://0', width: 1920, height: 1080, fps: 30, scaling: vic}}\n\
         \x20 - {{name: gate, uri: '{}', decoder: hardware, scaling: vic}}\n\
         \x20 - {{name: tape, uri: '{}', loop: true, scaling: vic}}\n\
         \x20 - {{name: desk, uri: '{jpeg}', scaling: vic}}\n",
        server.uri(),
        clip.display()
    )
}

/// Runs a command of the daemon on the machine, with its elements where there are any.
fn command(
    setup: &Setup,
    machine: &VirtualJetson,
    elements: Option<&JetsonElements>,
    arguments: &[&str],
) -> Output {
    let mut command = setup.command(arguments[0]);
    command
        .args(&arguments[1..])
        .arg("--root")
        .arg(machine.path("/"));
    match elements {
        Some(elements) => command.envs(elements.environment()),
        None => command.env_remove("GST_PLUGIN_PATH"),
    };
    finish(&mut command)
}

/// The elements that had frames to work on, with their engines.
fn engines(work: &[ElementActivity]) -> BTreeSet<(&str, &str)> {
    let done = work.iter().filter(|work| work.frames > 0);
    done.map(|work| (work.element.as_str(), work.engine.as_str()))
        .collect()
}

#[test]
fn four_sources_are_scaled_only_on_vic() {
    needs_onnx_runtime!();
    let (machine, elements) = (VirtualJetson::xavier_nx(), JetsonElements::new());
    let server = RtspServer::start(0, &[]);
    let media = tempfile::tempdir().expect("a folder");
    let clip = clips::mp4(media.path(), "a.mp4", 640, 480, 30);
    let setup = daemon(&four_sources(&server, &clip));
    let mut run = setup.command("run");
    run.arg("--health").arg(setup.path("health.json"));
    run.arg("--root").arg(machine.path("/"));
    let child = start(run.envs(elements.environment()));
    let all = BTreeSet::from([
        ("nvarguscamerasrc", "ISP"),
        ("nvv4l2decoder", "NVDEC"),
        ("nvv4l2decoder", "NVJPG"),
        ("nvvidconv", "VIC"),
    ]);
    let is_of_lens =
        |work: &ElementActivity| work.element == "nvvidconv" && work.from.contains("1920x1080");
    wait_until_some("work of each engine", || {
        let work = elements.activity();
        (all.is_subset(&engines(&work)) && work.iter().any(is_of_lens)).then_some(())
    });
    // A session that is stopped while `rtspsrc` connects may make GLib complain.
    wait_until_some("the network camera", || {
        let health = fs::read(setup.path("health.json")).ok()?;
        let health: Value = serde_json::from_slice(&health).ok()?;
        let mut sources = health["sources"].as_array()?.iter();
        sources
            .any(|source| source["name"] == "gate" && source["state"] == "online")
            .then_some(())
    });
    terminate(child);
    let work = elements.activity();
    assert_eq!(engines(&work), all);
    // 1920 pixels to 96 are a factor of 20: two steps, and only the last image leaves NVMM.
    let lens: Vec<_> = work.iter().filter(|work| is_of_lens(work)).collect();
    assert_eq!(lens.len(), 1, "{work:?}");
    assert!(lens[0].to.starts_with("NVMM NV12 430x242"), "{lens:?}");
    for work in &work {
        let leaves = work.to.starts_with("system");
        assert_eq!(work.cpu_copy, leaves, "{work:?}");
        assert!(!leaves || work.to.contains("BGRx"), "{work:?}");
    }
}

#[test]
fn check_reports_plan_and_problems() {
    needs_onnx_runtime!();
    let (machine, elements) = (VirtualJetson::xavier_nx(), JetsonElements::new());
    let server = RtspServer::start(0, &[]);
    let media = tempfile::tempdir().expect("a folder");
    let clip = clips::mp4(media.path(), "a.mp4", 640, 480, 30);
    let setup = daemon(&four_sources(&server, &clip));
    let right = command(&setup, &machine, Some(&elements), &["check"]);
    let output = stdout(&right);
    assert_eq!(right.status.code(), Some(0), "{output}{}", stderr(&right));
    assert_has!(output =>
        "ok     machine: Jetson Xavier NX (p3668-0001), L4T 35.4.1, JetPack 5.1.2",
        "ok     plan lens: capture by ISP (nvarguscamerasrc, 1920×1080 NV12 in NVMM); \
         scale by VIC (nvvidconv, 1920×1080 NV12 in NVMM to 430×242 NV12 in NVMM); \
         scale by VIC (nvvidconv, 430×242 NV12 in NVMM to 96×54 BGRx); copy by CPU (nvvidconv, 96×54 BGRx out of NVMM)",
        "ok     plan gate: receive by CPU (rtspsrc); decode by NVDEC (nvv4l2decoder, video/x-h264 to 320×240 NV12 in NVMM); scale by VIC",
        "ok     plan tape: read by CPU (filesrc); decode by NVDEC (nvv4l2decoder",
        "; decode by NVJPG (nvv4l2decoder, image/jpeg to 640×480 NV12 in NVMM); scale by VIC");

    // The camera's daemon does not run.
    elements.remove("nvargus-daemon");
    let broken = command(&setup, &machine, Some(&elements), &["check"]);
    let output = stdout(&broken);
    assert_eq!(broken.status.code(), Some(1), "{output}");
    assert_has!(output => "wrong  source lens: camera: ", "systemctl status nvargus-daemon", "unknown plan lens: expected");

    // JetPack's elements are not installed.
    let bare = command(&setup, &machine, None, &["check"]);
    let output = stdout(&bare);
    assert_eq!(bare.status.code(), Some(1), "{output}");
    assert_has!(output =>
        "wrong  plan lens: csi://0: GStreamer element nvarguscamerasrc is missing; install it with: apt-get install nvidia-l4t-gstreamer",
        "wrong  plan gate: decoder is hardware, but only the CPU decodes",
        "wrong  plan tape: scaling is vic, but the VIC cannot do it: GStreamer element nvvidconv is missing");
}

#[test]
fn cpu_is_used_without_elements_or_jetson() {
    needs_onnx_runtime!();
    let media = tempfile::tempdir().expect("a folder");
    let clip = clips::mp4(media.path(), "a.mp4", 640, 480, 30);
    let setup = daemon(&format!("  - {{name: tape, uri: '{}'}}\n", clip.display()));
    let plan = "plan tape: read by CPU (filesrc); decode by CPU (avdec_h264";
    let bare = command(&setup, &VirtualJetson::orin_nx(), None, &["check"]);
    let output = stdout(&bare);
    assert_eq!(bare.status.code(), Some(0), "{output}");
    assert_has!(output => plan, "the CPU scales, not the VIC: GStreamer element nvvidconv is missing");
    // The elements without L4T are no Jetson.
    let elements = JetsonElements::new();
    let other = VirtualJetson::orin_nx();
    other.remove("/proc/device-tree/compatible");
    let output = stdout(&command(&setup, &other, Some(&elements), &["check"]));
    assert_has!(output => plan, "this machine is not a Jetson");
}

/// A decoder that receives data and gives no image (dusty-nv/jetson-utils#102, #66, dusty-nv/jetson-inference#1263, #1265, #1779,
/// jocover/jetson-ffmpeg#113, Keylost/jetson-ffmpeg#14, OE4T/meta-tegra#486, #488, frigate#8377).
#[test]
fn the_cpu_decodes_what_the_hardware_does_not() {
    needs_onnx_runtime!();
    let (machine, elements) = (VirtualJetson::xavier_nx(), JetsonElements::new());
    elements.write("decoder-silent", "");
    let server = RtspServer::start(0, &[]);
    let media = tempfile::tempdir().expect("a folder");
    let clip = clips::mp4(media.path(), "a.mp4", 640, 480, 30);
    let setup = daemon(&format!(
        "  - {{name: gate, uri: '{}', reconnect_wait_ms: 50}}\n\
         \x20 - {{name: tape, uri: '{}'}}\n",
        server.uri(),
        clip.display()
    ));
    let mut run = setup.command("run");
    run.args(["--max-frames", "60", "--root"])
        .arg(machine.path("/"));
    let log = exits(0, run.envs(elements.environment())).err;
    let changes = log.matches("the CPU decodes it from now on").count();
    assert_eq!(changes, 2, "{log}");
    for source in ["gate", "tape"] {
        assert!(log.contains(&format!("source={source} online")), "{log}");
    }
}

/// A machine without the devices of its decoders, such as a container (idavis/jetson-containers#28, NVIDIA/nvidia-docker#1202).
#[test]
fn the_cpu_decodes_where_the_decoder_does_not_open() {
    needs_onnx_runtime!();
    let (machine, elements) = (VirtualJetson::xavier_nx(), JetsonElements::new());
    elements.write("decoder-missing", "");
    let media = tempfile::tempdir().expect("a folder");
    let clip = clips::mp4(media.path(), "a.mp4", 640, 480, 30);
    let reason = "nvv4l2decoder does not open its device";
    for (choice, code, expected) in [
        ("auto", 0, "source=tape the CPU decodes: "),
        ("hardware", 3, "decoder is hardware, but "),
    ] {
        let jpeg = "launch:videotestsrc num-buffers=30 ! video/x-raw,format=I420,width=640,height=480,framerate=30/1 ! jpegenc ! identity";
        let mut sources = format!(
            "  - {{name: tape, uri: '{}', decoder: {choice}}}\n",
            clip.display()
        );
        if code == 0 {
            sources += &format!("  - {{name: desk, uri: '{jpeg}'}}\n");
        }
        let setup = daemon(&sources);
        let mut run = setup.command("run");
        run.args(["--max-frames", "60", "--root"])
            .arg(machine.path("/"));
        let log = exits(code, run.envs(elements.environment())).err;
        assert_has!(log => reason, expected);
        if code == 0 {
            assert_has!(log => "source=desk online", "source=tape frames=30 end of media");
        }
        assert!(!log.contains("cannot stop"), "{log}");
    }
}

/// Behaviour of decoders that users report: images come late, 8 behind (NVIDIA's forum, topic 60040); the end never comes
/// (OE4T/meta-tegra#486); another size is an error.
#[test]
fn late_images_lost_ends_and_other_sizes_cost_no_image_before() {
    needs_onnx_runtime!();
    let media = tempfile::tempdir().expect("a folder");
    let clip = clips::mp4(media.path(), "a.mp4", 640, 480, 30);
    let two_sizes = clips::two_resolutions(media.path(), (640, 480), (320, 240), 15);
    #[rustfmt::skip]
    let cases = [
        ("decoder-late", "8", &clip, 0, 30, "end of media"),
        ("decoder-without-end", "", &clip, 3, 30, "source tape: no frame for"),
        ("decoder-of-one-size", "", &two_sizes, 3, 15, "source tape: decoder: Failed to process frame"),
    ];
    for (state, text, file, code, frames, result) in cases {
        let (machine, elements) = (VirtualJetson::xavier_nx(), JetsonElements::new());
        elements.write(state, text);
        let setup = daemon(&format!(
            "  - {{name: tape, uri: '{}', stall_timeout_ms: 3000}}\n",
            file.display()
        ));
        let mut run = setup.command("run");
        run.arg("--root").arg(machine.path("/"));
        let log = exits(code, run.envs(elements.environment())).err;
        assert_has!(log => &format!("frames={frames} dropped=0"), result);
    }
}

#[test]
fn sessions_release_all_resources() {
    load();
    let machine = VirtualJetson::xavier_nx();
    let folder = tempfile::tempdir().expect("a folder");
    let path = unsupported_by_nvdec(folder.path(), 5);
    let jpeg = "videotestsrc is-live=true ! video/x-raw,format=I420,width=64,height=48,framerate=60/1 ! jpegenc ! identity";
    #[rustfmt::skip]
    let configs = [
        vic(SourceUri::File(clips::mp4(folder.path(), "a.mp4", 320, 240, 5))),
        config(SourceUri::File(path)),
        vic(csi(Some((1280, 720)))),
        vic(launch(jpeg)),
    ];
    let round = || {
        for config in &configs {
            let (seen, result) = Collector::start_on(&machine.root(), config, 3).join();
            result.unwrap_or_else(|error| panic!("{}: {error}", config.uri));
            assert!(seen.len() >= 3);
        }
    };
    let open = || {
        fs::read_dir("/proc/self/fd")
            .expect("/proc is there")
            .count()
    };
    // Plug-ins and their pools of threads settle in the first rounds.
    for _ in 0..3 {
        round();
    }
    let before = open();
    for _ in 0..10 {
        round();
    }
    // A leaked pipeline keeps at least two descriptors, so forty would remain.
    wait_until_some("what was opened is closed", || {
        (open() <= before + 4).then_some(())
    });
}
