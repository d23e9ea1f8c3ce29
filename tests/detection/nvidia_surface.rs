// SPDX-License-Identifier: Apache-2.0
//! Images in NVMM that the GPU reads in place: the same tensors as by the copy, each buffer of a pool registered once, and
//! every unexpected layout refused without harm.
//!
//! On doubles of L4T's elements, libnvbufsurface and libcuda: they prove nothing about a Jetson's own libraries beyond what
//! NVIDIA documents of them.

use crate::support::cuda;
use crate::support::jetson_elements;

use std::sync::Arc;

use cuda::{double, echo, is_child, noise, tensor};
use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app::AppSink;
use jetson_elements::plugin;
use jetwatch_nvidia::cuda::{ColorMatrix, Device, Element, PixelFormat};
use jetwatch_nvidia::session::LetterboxRect;
use jetwatch_nvidia::surface::{NvmmImage, SurfaceError, SurfaceReader};

const WIDTH: u32 = 416;
const HEIGHT: u32 = 234;
const INNER: LetterboxRect = LetterboxRect {
    width: WIDTH,
    height: HEIGHT,
    left: 0,
    top: 91,
};
const NV12: PixelFormat = PixelFormat::Nv12(ColorMatrix::Bt601);

/// Runs `body` in a child that finds the doubles, with more in its environment, and returns the output of the child.
fn run_with_doubles(test: &str, more: &[(&str, &str)], body: impl FnOnce(Arc<Device>)) -> String {
    if is_child(test) {
        gst::init().expect("GStreamer starts");
        let path = plugin().join("libgstvirtualjetson.so");
        gst::Plugin::load_file(path).expect("the plug-in loads");
        body(Device::open(0).expect("the double"));
        return String::new();
    }
    let folders = format!("{}:{}", double().display(), plugin().display());
    let mut settings = vec![
        ("LD_LIBRARY_PATH", folders.as_str()),
        ("JETWATCH_DOUBLE_INTEGRATED", "1"),
    ];
    settings.extend(more);
    cuda::run_on_double(test, &settings)
}

/// A pipeline that ends in an appsink.
struct ImagePipeline {
    pipeline: gst::Pipeline,
    sink: AppSink,
}

impl ImagePipeline {
    fn play(pipeline: &str) -> Self {
        let text = format!("{pipeline} ! appsink name=out sync=false max-buffers=1");
        let pipeline = gst::parse::launch(&text).expect("a pipeline");
        let pipeline = pipeline.downcast::<gst::Pipeline>().expect("a pipeline");
        let sink = pipeline.by_name("out").expect("an element");
        let sink = sink.downcast::<AppSink>().expect("an appsink");
        pipeline.set_state(gst::State::Playing).expect("it plays");
        Self { pipeline, sink }
    }

    /// The next buffer, `None` at the end.
    fn next(&self) -> Option<gst::Buffer> {
        let sample = self.sink.pull_sample().ok()?;
        sample.buffer_owned()
    }
}

impl Drop for ImagePipeline {
    fn drop(&mut self) {
        self.pipeline.set_state(gst::State::Null).expect("it stops");
    }
}

/// Moving images of a size that makes the VIC scale.
fn source(frames: u32) -> String {
    format!(
        "videotestsrc num-buffers={frames} pattern=ball ! video/x-raw,format=I420,width=832,height=468,framerate=30/1 ! nvvidconv \
         ! video/x-raw(memory:NVMM),format=NV12,width=832,height=468"
    )
}

fn caps(memory: &str, format: &str) -> String {
    format!("video/x-raw{memory},format={format},width={WIDTH},height={HEIGHT}")
}

/// Images of the VIC by its defaults.
fn nvmm_images(frames: u32, format: &str) -> ImagePipeline {
    let (source, caps) = (source(frames), caps("(memory:NVMM)", format));
    ImagePipeline::play(&format!("{source} ! nvvidconv ! {caps}"))
}

fn nvmm(buffer: gst::Buffer, pixels: PixelFormat) -> NvmmImage {
    NvmmImage::new(buffer, WIDTH, HEIGHT, pixels)
}

/// Rows of a buffer in the system's memory, without padding at this width.
fn row(bytes: &[u8], pixels: PixelFormat, y: u32) -> &[u8] {
    let pitch = match pixels {
        PixelFormat::Bgrx => 4 * WIDTH as usize,
        PixelFormat::Nv12(_) => WIDTH as usize,
    };
    &bytes[y as usize * pitch..][..pitch]
}

/// Compares the tensors with and without a copy, image by image.
fn compare(device: &Arc<Device>, format: &str, pixels: PixelFormat, element: Element) {
    const FRAMES: u32 = 12;
    let reader = SurfaceReader::open(Some(35), device).expect("the double of libnvbufsurface");
    let echo = echo(pixels, tensor(416, 416, element), 2);
    let mut in_place = echo.session(device).expect("an execution");
    let mut copied = echo.session(device).expect("an execution");
    let converter = "nvvidconv interpolation-method=1 bl-output=false output-buffers=3";
    let play = |memory: &str| {
        let (source, caps) = (source(FRAMES), caps(memory, format));
        ImagePipeline::play(&format!("{source} ! {converter} ! {caps}"))
    };
    let (engines, plain) = (play("(memory:NVMM)"), play(""));
    let mut frames = 0;
    while let (Some(one), Some(other)) = (engines.next(), plain.next()) {
        let surface = reader.surface(&nvmm(one, pixels)).expect("a surface");
        in_place.bind_surface(1, INNER, surface).expect("it fits");
        let bytes = other.map_readable().expect("mapped");
        copied
            .upload_image(1, INNER, |y| row(&bytes, pixels, y))
            .expect("it fits");
        in_place.run(2).expect("it runs");
        copied.run(2).expect("it runs");
        let (one, other) = (in_place.output(0), copied.output(0));
        assert!(one == other, "frame {frames}: other bytes");
        // Slot 0 is all padding, slot 1 is not.
        let (padding, picture) = one.split_at(one.len() / 2);
        assert!(padding != picture, "frame {frames}: a picture");
        frames += 1;
    }
    assert_eq!(frames, FRAMES);
    // As many as the pool has buffers, not as many as there were frames; the run releases its images.
    assert_eq!(reader.registrations(), 3);
    in_place.run(2).expect("it runs");
    let (padding, empty) = in_place.output(0).split_at(in_place.output(0).len() / 2);
    assert!(padding == empty, "the slot is empty after its run");
    drop(engines);
    assert_eq!(reader.registered(), 0, "freed with the pool's memory");
}

/// Output of the doubles at the end when nothing leaked.
fn assert_clean(stderr: &str, images: u32) {
    for words in [
        "double: libcuda: alive: contexts=0 streams=0 events=0 graphs=0 graph launches=0 modules=0 memory=0 bytes=0".to_owned(),
        format!("double: libcuda: EGL images: registered=0 ever={images}"),
        format!("double: libnvbufsurface: alive: surfaces=0 images=0 made images={images}"),
    ] {
        assert!(stderr.contains(&words), "`{words}` is not in:\n{stderr}");
    }
}

/// No surface stays mapped (NVIDIA-AI-IOT/deepstream_python_apps#6, insight-platform/Savant#25, jocover/jetson-ffmpeg#16).
#[test]
fn zero_copy_tensor_equals_copied_tensor() {
    let output = run_with_doubles("zero_copy_tensor_equals_copied_tensor", &[], |device| {
        compare(&device, "BGRx", PixelFormat::Bgrx, Element::F32);
    });
    if !output.is_empty() {
        assert_clean(&output, 3);
    }
}

#[test]
fn zero_copy_nv12_tensor_equals_copied_tensor() {
    let test = "zero_copy_nv12_tensor_equals_copied_tensor";
    let output = run_with_doubles(test, &[], |device| {
        compare(&device, "NV12", NV12, Element::I8 { scale: 2.0 });
    });
    if !output.is_empty() {
        assert_clean(&output, 3);
    }
}

#[test]
fn block_linear_images_are_rejected() {
    run_with_doubles("block_linear_images_are_rejected", &[], |device| {
        let reader = SurfaceReader::open(Some(36), &device).expect("a reader");
        // nvvidconv's own default for NV12.
        let images = nvmm_images(1, "NV12");
        let buffer = images.next().expect("a picture");
        let error = reader
            .surface(&nvmm(buffer, NV12))
            .expect_err("block-linear");
        assert_eq!(error, SurfaceError::BlockLinear);
        assert!(error.to_string().contains("bl-output=false"), "{error}");
        assert_eq!(reader.registrations(), 0);
    });
}

#[test]
fn missing_surface_library_is_reported() {
    let test = "missing_surface_library_is_reported";
    if is_child(test) {
        let device = Device::open(0).expect("the double");
        let error = SurfaceReader::open(Some(35), &device).expect_err("no library");
        let text = error.to_string();
        let words = ["libnvbufsurface cannot be used", "copied instead"];
        assert!(words.iter().all(|words| text.contains(words)), "{text}");
        return;
    }
    cuda::run_on_double(test, &[]);
}

#[test]
fn unexpected_buffer_layout_is_error() {
    run_with_doubles("unexpected_buffer_layout_is_error", &[], |device| {
        let reader = SurfaceReader::open(Some(35), &device).expect("a reader");
        let refused = |bytes: Vec<u8>| {
            let buffer = gst::Buffer::from_mut_slice(bytes);
            let image = nvmm(buffer, PixelFormat::Bgrx);
            reader.surface(&image).expect_err("no surface")
        };
        for bytes in [0, 1, 8, 31, 32, 63, 64, 4096] {
            refused(vec![0; bytes]);
            for seed in 0..50 {
                refused(noise(bytes, seed));
            }
        }
        // All right up to the address, which leads to nowhere, to the text of the program, or to what is no image.
        let nowhere = [
            8,
            0xdead_beef_0000,
            u64::MAX - 7,
            noise as *const () as u64 & !7,
        ];
        for address in nowhere {
            let mut bytes = vec![0; 64];
            for (at, number) in [(4, 1_u32), (8, 1), (16, 4)] {
                bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
            }
            bytes[24..32].copy_from_slice(&address.to_ne_bytes());
            let error = refused(bytes);
            assert!(matches!(error, SurfaceError::Unexpected { .. }), "{error}");
        }
        // Of another size than in the caps.
        let images = nvmm_images(1, "BGRx");
        let buffer = images.next().expect("a picture");
        let image = NvmmImage::new(buffer.clone(), WIDTH + 2, HEIGHT, PixelFormat::Bgrx);
        let text = reader
            .surface(&image)
            .expect_err("another size")
            .to_string();
        assert_has!(text => "its size is 416×234, expected 418×234");
        let text = reader
            .surface(&nvmm(buffer, NV12))
            .expect_err("another format");
        assert!(text.to_string().contains("colorFormat is 24"), "{text}");
        assert_eq!(reader.registrations(), 0);
    });
}

#[test]
fn surface_library_failure_fails_that_image() {
    let test = "surface_library_failure_fails_that_image";
    let settings = [("JETWATCH_DOUBLE_SURFACE_FAIL", "NvBufSurfaceMapEglImage")];
    run_with_doubles(test, &settings, |device| {
        let reader = SurfaceReader::open(Some(35), &device).expect("a reader");
        let images = nvmm_images(1, "BGRx");
        let buffer = images.next().expect("a picture");
        let error = reader
            .surface(&nvmm(buffer, PixelFormat::Bgrx))
            .expect_err("refused");
        assert_has!(error.to_string() => "NvBufSurfaceMapEglImage");
        assert_eq!(reader.registered(), 0);
    });
}

/// "No EGLDisplay to create EGLImage" (dusty-nv/jetson-utils#101).
#[test]
fn failed_import_leaves_no_egl_image() {
    let test = "failed_import_leaves_no_egl_image";
    let settings = [("JETWATCH_DOUBLE_FAIL", "cuGraphicsEGLRegisterImage:1:1")];
    let output = run_with_doubles(test, &settings, |device| {
        let reader = SurfaceReader::open(Some(35), &device).expect("a reader");
        let images = nvmm_images(2, "BGRx");
        let (first, second) = (images.next(), images.next());
        let image =
            |buffer: Option<gst::Buffer>| nvmm(buffer.expect("a picture"), PixelFormat::Bgrx);
        reader.surface(&image(first)).expect("the first is taken");
        let error = reader.surface(&image(second)).expect_err("refused");
        assert!(matches!(error, SurfaceError::Cuda(_)), "{error}");
        assert_eq!(reader.registered(), 1);
    });
    if !output.is_empty() {
        assert_has!(output => "images=0 made images=2");
    }
}
