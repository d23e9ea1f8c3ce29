// SPDX-License-Identifier: Apache-2.0
//! The doubles of L4T's elements themselves: pads, images of the VIC, refusals and counts. Tests with them are only as good as the doubles.
//! What they decode is compared with software by `jetson_chain`.

use crate::support::jetson_elements;

use std::fs;

use gstreamer as gst;

use jetson_elements::{JetsonElements, plugin};

/// Loads the plug-in into this process.
fn load() {
    gst::init().expect("GStreamer starts");
    let path = plugin().join("libgstvirtualjetson.so");
    gst::Plugin::load_file(path).expect("the plug-in loads");
}

/// Caps of a pad's template.
fn template(factory: &str, pad: &str) -> gst::Caps {
    let found = gst::ElementFactory::find(factory).expect("registered");
    let templates = found.static_pad_templates();
    let template = templates.iter().find(|one| one.name_template() == pad);
    template.expect("a template").caps()
}

fn caps(text: &str) -> gst::Caps {
    text.parse().expect("caps")
}

/// JPEG images that are not parsed come out gray (insight-platform/Savant#119): the double refuses them without `mjpeg`.
#[test]
fn virtual_element_pads_match_documentation() {
    load();
    const NV12: &str = "video/x-raw(memory:NVMM),format=NV12";
    const CAMERA: &str = "width=1280,height=720,framerate=30/1";
    let takes = |factory: &str, pad: &str, text: &str, expected: bool| {
        let is_taken = caps(text).is_subset(&template(factory, pad));
        assert_eq!(is_taken, expected, "{factory}, {pad}: {text}");
    };
    #[rustfmt::skip]
    let cases = [
        ("nvarguscamerasrc", "src", &format!("{NV12},{CAMERA}")[..], true),
        ("nvarguscamerasrc", "src", &format!("video/x-raw,format=NV12,{CAMERA}"), false),
        ("nvv4l2decoder", "sink", "image/jpeg", true),
        ("nvv4l2decoder", "src", NV12, true),
        ("nvv4l2decoder", "src", "video/x-raw,format=NV12", false),
        ("nvjpegdec", "src", "video/x-raw(memory:NVMM),format=I420", true),
        ("nvjpegdec", "src", "video/x-raw,format=I420", true),
        ("nvjpegenc", "sink", NV12, true),
        ("nvjpegenc", "sink", "video/x-raw(memory:NVMM),format=I420", true),
        ("nvjpegenc", "sink", "video/x-raw,format=I420", true),
        ("nvjpegenc", "sink", "video/x-raw,format=BGRx", false),
        ("nvv4l2h264enc", "sink", &format!("{NV12},{CAMERA}"), true),
        ("nvv4l2h264enc", "sink", &format!("video/x-raw,format=NV12,{CAMERA}"), false),
        ("nvv4l2h264enc", "src", "video/x-h264,stream-format=byte-stream,alignment=au", true),
        ("nvv4l2camerasrc", "src", "video/x-raw(memory:NVMM),format=UYVY,width=640,height=480,framerate=30/1", true),
    ];
    for (factory, pad, text, expected) in cases {
        takes(factory, pad, text, expected);
    }
    for pad in ["sink", "src"] {
        for format in ["I420", "NV12", "UYVY", "YUY2", "GRAY8", "BGRx", "RGBA"] {
            for memory in ["", "(memory:NVMM)"] {
                let text = format!("video/x-raw{memory},format={format}");
                takes("nvvidconv", pad, &text, true);
            }
        }
        for format in ["RGB", "BGR"] {
            takes(
                "nvvidconv",
                pad,
                &format!("video/x-raw,format={format}"),
                false,
            );
        }
    }
    for codec in ["video/x-h264", "video/x-h265"] {
        for (format, expected) in [("byte-stream", true), ("avc", false)] {
            let text = format!("{codec},stream-format={format},alignment=au");
            takes("nvv4l2decoder", "sink", &text, expected);
        }
    }
    let printed = JetsonElements::new()
        .run_to_error("videotestsrc num-buffers=2 ! jpegenc ! nvv4l2decoder ! fakesink");
    assert_has!(printed => "JPEG needs mjpeg=1");
}

#[test]
fn virtual_vic_scales_crops_and_rotates() {
    let machine = JetsonElements::new();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let made = |name: &str, chain: &str| {
        machine.run_to_end(&format!(
            "videotestsrc num-buffers=1 ! video/x-raw,format=BGRx,width=256,height=128 ! {chain} ! filesink location={}",
            folder.join(name).display()
        ));
        fs::read(folder.join(name)).expect("written")
    };
    let (up, down) = (
        "video/x-raw(memory:NVMM),format=BGRx",
        "nvvidconv ! video/x-raw,format=BGRx",
    );
    let whole = made("whole", "identity");
    assert_eq!(made("same", &format!("nvvidconv ! {up} ! {down}")), whole);
    // The swizzle is reversible, and lossless between equivalent formats.
    let through = made(
        "block",
        &format!("nvvidconv ! video/x-raw(memory:NVMM),format=NV12 ! {down}"),
    );
    assert_eq!(through.len(), whole.len());
    assert_eq!(
        made(
            "crop",
            "nvvidconv left=64 right=192 top=32 bottom=96 ! video/x-raw(memory:NVMM),width=128,height=64 ! nvvidconv ! video/x-raw"
        ),
        made("cropped", "videocrop left=64 right=64 top=32 bottom=32")
    );
    for (method, same) in [(1, 3), (2, 2), (4, 4), (5, 5), (6, 6), (7, 7)] {
        let back = made(
            "back",
            &format!(
                "nvvidconv flip-method={method} ! {up} ! nvvidconv flip-method={same} ! video/x-raw"
            ),
        );
        assert_eq!(back, whole, "flip {method} and {same}");
    }
    let found = made(
        "turned",
        &format!("nvvidconv flip-method=2 ! {up} ! {down}"),
    );
    assert_ne!(found, whole);
    let half = made(
        "half",
        &format!("nvvidconv interpolation-method=1 ! {up},width=128,height=64 ! {down}"),
    );
    let truth = made(
        "true",
        "videoscale method=bilinear ! video/x-raw,width=128,height=64",
    );
    let worst = half
        .iter()
        .zip(&truth)
        .map(|(one, other)| one.abs_diff(*other))
        .max();
    assert!(half.len() == truth.len() && worst <= Some(2), "{worst:?}");
}

/// "VIC Configuration failed image scale factor exceeds 16" (preronamajumder/deepstream-lpr-python-version#7), and a region outside of the
/// image, which fails with −3 (insight-platform/Savant#1034).
#[test]
fn virtual_vic_rejects_unsupported_crops() {
    let machine = JetsonElements::new();
    let nvmm = "video/x-raw(memory:NVMM)";
    // Of an image of 640×360.
    let pipeline = |crop: &str, to: &str| {
        format!(
            "videotestsrc num-buffers=2 ! video/x-raw,width=640,height=360 ! nvvidconv {crop} ! {nvmm},{to} ! fakesink"
        )
    };
    let square = "width=64,height=64";
    for outside in [
        "left=0 right=641 top=0 bottom=360",
        "left=0 right=640 top=0 bottom=361",
        "left=700 right=800 top=0 bottom=100",
        // Edges without an image between them.
        "left=100 right=100 top=0 bottom=100",
        "left=0 right=100 top=80 bottom=40",
    ] {
        for engine in ["", "compute-hw=GPU "] {
            let printed = machine.run_to_error(&pipeline(&format!("{engine}{outside}"), square));
            let is_refused = printed.contains("the crop is outside of the picture");
            assert!(is_refused, "{engine}{outside}: {printed}");
        }
    }
    // The limits apply to the crop, not to the image: this one is large enough, and scaled by at most 3.
    #[rustfmt::skip]
    let cases = [
        ("left=0 right=15 top=0 bottom=64", square, "15x64 to 64x64: the VIC takes and gives nothing smaller than 16x16"),
        ("left=600 right=640 top=352 bottom=360", square, "40x8 to 64x64: the VIC takes and gives nothing smaller than 16x16"),
        ("left=0 right=32 top=0 bottom=32", "width=528,height=32", "32x32 to 528x32: the VIC scales by 16 at most"),
        ("left=0 right=32 top=0 bottom=16", "width=64,height=272", "32x16 to 64x272: the VIC scales by 16 at most"),
    ];
    for (crop, to, why) in cases {
        let printed = machine.run_to_error(&pipeline(crop, to));
        assert!(
            printed.contains("NvBufSurfTransform failed") && printed.contains(why),
            "{crop}: {printed}"
        );
    }
    assert_eq!(machine.activity(), [], "nothing came through");
    // The limits themselves are allowed, and a crop of an image that is too large as a whole.
    machine.run_to_end(&pipeline(
        "left=624 right=640 top=344 bottom=360",
        "width=256,height=256",
    ));
    machine.run_to_end(&pipeline(
        "left=160 right=480 top=90 bottom=270",
        "width=20,height=20",
    ));
    // The GPU's limits are others.
    machine.run_to_end(&pipeline(
        "compute-hw=GPU left=0 right=8 top=0 bottom=8",
        "width=256,height=256",
    ));
    let work = machine.activity();
    let done: Vec<(&str, &str, u64)> = work
        .iter()
        .map(|work| (work.engine.as_str(), work.to.as_str(), work.frames))
        .collect();
    let sizes = ["256x256", "20x20", "256x256"];
    assert_eq!(done.len(), sizes.len(), "{done:?}");
    for ((engine, to, frames), (size, by)) in done
        .into_iter()
        .zip(sizes.into_iter().zip(["VIC", "VIC", "GPU"]))
    {
        assert!(to.contains(size), "{to}");
        assert_eq!((engine, frames), (by, 2), "{size}");
    }
}

/// A start of the camera that times out (D3Engineering/d3-jetson-bsp#31, ArduCAM/MIPI_Camera#73).
#[test]
fn virtual_camera_delivers_frames_and_fails_on_request() {
    let machine = JetsonElements::new();
    let mode = "video/x-raw(memory:NVMM),width=1280,height=720,framerate=60/1";
    machine.run_to_end(&format!(
        "nvarguscamerasrc num-buffers=6 sensor-mode=4 name=front ! {mode} ! fakesink"
    ));
    let work = machine.activity();
    assert_eq!(work.len(), 1);
    let found = (work[0].element.as_str(), work[0].name.as_str());
    assert_eq!(found, ("nvarguscamerasrc", "front"));
    assert_eq!((work[0].engine.as_str(), work[0].frames), ("ISP", 6));
    assert_eq!(work[0].to, "NVMM NV12 1280x720 block");

    let printed =
        |pipeline: &str| String::from_utf8_lossy(&machine.launch(pipeline).stderr).into_owned();
    let text = printed("nvarguscamerasrc sensor-id=2 ! fakesink");
    assert_has!(text => "Invalid camera device specified");
    machine.write("sensors", "0\n");
    let text = printed("nvarguscamerasrc ! fakesink");
    assert_has!(text => "No cameras available");
    machine.remove("sensors");
    machine.write("argus-wedged", "timeout\n");
    let text = machine.run_to_error("nvarguscamerasrc ! fakesink");
    assert_has!(text => "TIMEOUT", "Argus Error Status");
    machine.remove("argus-wedged");
    machine.remove("nvargus-daemon");
    let text = printed("nvarguscamerasrc ! fakesink");
    assert_has!(text => "Connecting to nvargus-daemon failed");
    assert_eq!(machine.activity(), work, "no further frames");
}
