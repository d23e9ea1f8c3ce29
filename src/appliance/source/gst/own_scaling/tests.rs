// SPDX-License-Identifier: Apache-2.0
//! Own scaling against GStreamer's element: the pixels must be the same.

use gstreamer_app::{AppSink, AppSrc};

use super::*;
use jetwatch_types::SplitMix64;

fn caps(size: Size, colorimetry: &str) -> gst::Caps {
    gst::Caps::builder("video/x-raw")
        .field("format", "I420")
        .field("width", size.width.cast_signed())
        .field("height", size.height.cast_signed())
        .field("framerate", gst::Fraction::new(30, 1))
        .field("colorimetry", colorimetry)
        .build()
}

fn step(to: Size) -> ConvertStep {
    ConvertStep {
        unit: VideoUnit::Cpu,
        crop: None,
        to: crate::convert_plan::VideoFormat {
            size: to,
            format: "BGRx".to_owned(),
            memory: Memory::System,
            foreign_colors: None,
        },
    }
}

/// A buffer of noise for `caps`.
fn noise(caps: &gst::Caps, seed: u64) -> gst::Buffer {
    let video = VideoInfo::from_caps(caps).expect("caps of video");
    let mut numbers = SplitMix64::new(seed);
    let bytes: Vec<u8> = (0..video.size())
        .map(|_| (numbers.next_u64() >> 56) as u8)
        .collect();
    gst::Buffer::from_slice(bytes)
}

/// The image that `videoscale` makes of `buffer`.
fn scaled_by_elements(caps: &gst::Caps, buffer: &gst::Buffer, to: Size) -> gst::Sample {
    let Size { width, height } = to;
    let pipeline = gst::parse::launch(&format!(
        "appsrc name=source ! videoscale add-borders=false ! video/x-raw,width={width},height={height} ! appsink name=sink sync=false"
    ))
    .expect("a pipeline")
    .downcast::<gst::Pipeline>()
    .expect("a pipeline");
    let element = |name: &str| pipeline.by_name(name).expect("it was named");
    let source = element("source").downcast::<AppSrc>().expect("an appsrc");
    let sink = element("sink").downcast::<AppSink>().expect("an appsink");
    source.set_caps(Some(caps));
    source.set_format(gst::Format::Time);
    pipeline.set_state(gst::State::Playing).expect("it starts");
    source.push_buffer(buffer.clone()).expect("it is accepted");
    source.end_of_stream().expect("it is accepted");
    let sample = sink.pull_sample().expect("an image");
    pipeline.set_state(gst::State::Null).expect("it stops");
    sample
}

#[test]
fn own_scaling_equals_videoscale() {
    crate::gst::init("*:1").expect("GStreamer starts");
    let sizes = [
        ((480, 360), (416, 312)),
        ((1920, 1080), (416, 234)),
        ((642, 482), (415, 311)),
        ((641, 481), (417, 313)),
        ((480, 360), (480, 312)),
        ((480, 360), (416, 360)),
        ((64, 48), (64, 48)),
        ((330, 120), (33, 7)),
    ];
    let colorimetries = ["bt709", "bt601", "bt2020", "1:4:0:0", "1:3:0:0"];
    let mut reader = ScalingReader::default();
    for (index, ((w, h), (to_w, to_h))) in sizes.into_iter().enumerate() {
        for colorimetry in colorimetries.into_iter().skip(index % 2) {
            let (from, to) = (Size::new(w, h), Size::new(to_w, to_h));
            let caps = caps(from, colorimetry);
            let buffer = noise(&caps, 7 + index as u64);
            let raw = gst::Sample::builder().buffer(&buffer).caps(&caps).build();
            let scaling = plan(&caps, &[step(to)], false).expect("a matrix");
            assert!(scaling.is_alone);
            let mut read = |sample: &gst::Sample, scaling| {
                reader
                    .read(sample, scaling)
                    .expect("the buffer is complete")
            };
            let found = read(&raw, scaling);
            let only_colors = OwnScaling {
                from: to,
                ..scaling
            };
            let expected = read(&scaled_by_elements(&caps, &buffer, to), only_colors);
            assert_eq!(found.size, expected.size);
            for row in 0..to.height {
                let width = to.width as usize * PIXEL_BYTES;
                let same = found.row(row)[..width] == expected.row(row)[..width];
                assert!(same, "{from} to {to}, {colorimetry}: row {row}");
            }
        }
    }
}

#[test]
fn other_images_are_left_to_elements() {
    crate::gst::init("*:1").expect("GStreamer starts");
    let (from, to) = (Size::new(480, 360), Size::new(416, 312));
    let is_alone =
        |caps: &gst::Caps, steps: &[ConvertStep]| Some(plan(caps, steps, false)?.is_alone);
    let good = caps(from, "bt709");
    assert_eq!(is_alone(&good, &[step(to)]), Some(true));
    assert!(
        plan(&good, &[step(to)], true).is_some_and(|it| !it.is_alone),
        "it is rotated"
    );
    let with = |name: &str, value: &str| {
        let mut caps = good.clone();
        caps.make_mut().set(name, value);
        caps
    };
    let interlaced = with("interlace-mode", "interleaved");
    let cropped = ConvertStep {
        crop: Some(crate::convert_plan::CropOf {
            crop: jetwatch_types::Crop {
                left: 0,
                top: 0,
                size: from,
            },
            of: from,
        }),
        ..step(to)
    };
    // Their colors are converted here.
    for (caps, step) in [
        (&with("format", "NV12"), step(to)),
        (&with("format", "Y444"), step(to)),
        (&interlaced, step(to)),
        (&good, step(Size::new(640, 480))),
        (&good, cropped),
    ] {
        assert_eq!(is_alone(caps, &[step]), Some(false), "{caps}");
    }
    let rgb = with("format", "BGRx");
    assert_eq!(is_alone(&rgb, &[step(to)]), None);
    let on_vic = ConvertStep {
        unit: VideoUnit::Vic,
        ..step(to)
    };
    assert_eq!(is_alone(&good, &[on_vic]), None);
    assert_eq!(is_alone(&good, &[step(from), step(to)]), None, "two steps");
}

#[test]
fn short_buffer_is_refused() {
    crate::gst::init("*:1").expect("GStreamer starts");
    let (from, to) = (Size::new(480, 360), Size::new(416, 312));
    let caps = caps(from, "bt709");
    let scaling = plan(&caps, &[step(to)], false).expect("a supported size");
    let whole = VideoInfo::from_caps(&caps).expect("caps of video").size();
    let mut reader = ScalingReader::default();
    let mut read = |bytes: usize| {
        let buffer = gst::Buffer::from_slice(vec![9_u8; bytes]);
        let sample = gst::Sample::builder().buffer(&buffer).caps(&caps).build();
        reader.read(&sample, scaling).is_some()
    };
    assert!(read(whole));
    assert!(!read(whole - 1));
    assert!(!read(0));
}

/// Whether an image lies in memory of the decoder's layout: it begins the second plane behind the padded first one.
fn has_padding(sample: &gst::Sample, size: Size) -> bool {
    let buffer = sample.buffer().expect("an image");
    let layout = buffer.meta::<gst_video::VideoMeta>();
    layout.is_some_and(|meta| meta.offset()[1] > size.width as usize * size.height as usize)
}

#[test]
fn decoder_writes_into_the_memory_that_is_read_here() {
    crate::gst::init("*:1").expect("GStreamer starts");
    // Of the heights only the last is a multiple of 16.
    for size in [
        Size::new(480, 360),
        Size::new(322, 242),
        Size::new(320, 240),
    ] {
        let Size { width, height } = size;
        let pipeline = gst::parse::launch(&format!(
            "videotestsrc num-buffers=8 pattern=ball ! video/x-raw,format=I420,width={width},height={height} \
             ! x264enc speed-preset=ultrafast bframes=0 ! avdec_h264 max-threads=1 ! identity ! appsink name=sink sync=false"
        ))
        .expect("a pipeline")
        .downcast::<gst::Pipeline>()
        .expect("a pipeline");
        let sink = pipeline.by_name("sink").expect("it was named");
        let sink = sink.downcast::<AppSink>().expect("an appsink");
        offer_padded_buffers(&sink.static_pad("sink").expect("a sink has one"), || true);
        pipeline.set_state(gst::State::Playing).expect("it starts");
        let samples: Vec<gst::Sample> = std::iter::from_fn(|| sink.pull_sample().ok()).collect();
        pipeline.set_state(gst::State::Null).expect("it stops");
        assert_eq!(samples.len(), 8);
        // The first ones were decoded before the query.
        let newest = samples.last().expect("there are some");
        assert!(has_padding(newest, size), "{size}: the image was copied");
    }
}
