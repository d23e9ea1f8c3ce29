// SPDX-License-Identifier: Apache-2.0
//! Small video clips that the tests encode with GStreamer.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use gstreamer as gst;
use gstreamer::prelude::*;
use gstreamer_app::AppSink;

use super::daemon::Signal;

/// Runs a GStreamer pipeline to its end.
pub fn gst_launch(pipeline: &str) {
    let output = Command::new("gst-launch-1.0")
        .arg("--quiet")
        .args(pipeline.split_whitespace())
        .output()
        .expect("gst-launch-1.0 starts; install it with: apt-get install gstreamer1.0-tools");
    assert!(
        output.status.success(),
        "{pipeline}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Calls `take` for each buffer that comes out of `line`, which ends before an appsink.
pub fn each_sample(line: &str, mut take: impl FnMut(gst::Sample)) {
    gst::init().expect("GStreamer starts");
    let line = format!("{line} ! appsink name=sink sync=false");
    let pipeline = gst::parse::launch(&line).expect("the elements are there");
    let pipeline = pipeline.downcast::<gst::Pipeline>().expect("a pipeline");
    let sink = pipeline.by_name("sink").expect("it is in the line");
    let sink = sink.downcast::<AppSink>().expect("an appsink");
    pipeline.set_state(gst::State::Playing).expect("it plays");
    while let Ok(sample) = sink.pull_sample() {
        take(sample);
    }
    let bus = pipeline.bus().expect("a bus");
    if let Some(message) = bus.pop_filtered(&[gst::MessageType::Error]) {
        panic!("{line}: {message:?}");
    }
    pipeline.set_state(gst::State::Null).expect("it stops");
}

/// A program that runs until it is dropped.
pub struct Running {
    command: Command,
    child: Child,
}

impl Running {
    /// Starts it.
    pub fn start(program: &str, arguments: &str) -> Self {
        let mut command = Command::new(program);
        command
            .args(arguments.split_whitespace())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn();
        let child = child.unwrap_or_else(|error| panic!("{program} does not start: {error}"));
        Self { command, child }
    }

    /// Starts it once more, if it has ended.
    pub fn start_again_at_its_end(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            self.child = self.command.spawn().expect("it has started before");
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        super::daemon::signal(&self.child, signal);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An H.264 clip in MP4: `frames` frames of a moving ball at 30 frames/s.
pub fn mp4(folder: &Path, name: &str, width: u32, height: u32, frames: u32) -> PathBuf {
    let path = folder.join(name);
    gst_launch(&format!(
        "videotestsrc num-buffers={frames} pattern=ball ! video/x-raw,format=I420,width={width},height={height},framerate=30/1 \
         ! x264enc speed-preset=ultrafast key-int-max=10 bframes=0 ! mp4mux ! filesink location={}",
        path.display()
    ));
    path
}

/// Theora in Ogg, which allows any size down to 1×1; Matroska and AVI refuse images below 16×16, at least up to 1.18.
pub fn theora(folder: &Path, name: &str, width: u32, height: u32, frames: u32) -> PathBuf {
    let path = folder.join(name);
    gst_launch(&format!(
        "videotestsrc num-buffers={frames} ! video/x-raw,format=I420,width={width},height={height},framerate=30/1 \
         ! theoraenc ! oggmux ! filesink location={}",
        path.display()
    ));
    path
}

/// A clip of JPEG images in AVI.
pub fn mjpeg(folder: &Path, name: &str, width: u32, height: u32, frames: u32) -> PathBuf {
    let path = folder.join(name);
    gst_launch(&format!(
        "videotestsrc num-buffers={frames} pattern=ball ! video/x-raw,width={width},height={height},framerate=30/1 \
         ! jpegenc ! avimux ! filesink location={}",
        path.display()
    ));
    path
}

/// A raw H.264 stream whose resolution changes after the first `frames` frames.
pub fn two_resolutions(
    folder: &Path,
    first: (u32, u32),
    second: (u32, u32),
    frames: u32,
) -> PathBuf {
    let path = folder.join("two-resolutions.h264");
    let mut stream = Vec::new();
    for (index, (width, height)) in [first, second].into_iter().enumerate() {
        let part = folder.join(format!("part{index}.h264"));
        gst_launch(&format!(
            "videotestsrc num-buffers={frames} pattern=ball ! video/x-raw,format=I420,width={width},height={height},framerate=30/1 \
             ! x264enc speed-preset=ultrafast key-int-max=10 bframes=0 ! video/x-h264,stream-format=byte-stream ! filesink location={}",
            part.display()
        ));
        stream.extend(std::fs::read(part).expect("the part was written"));
    }
    std::fs::write(&path, stream).expect("the folder is writable");
    path
}

/// A folder with GStreamer's plug-ins but those whose file names contain one of `words`.
pub fn plugins_without(folder: &Path, words: &[&str]) -> PathBuf {
    let output = Command::new("pkg-config")
        .args(["--variable=pluginsdir", "gstreamer-1.0"])
        .output()
        .expect("pkg-config starts");
    let installed = String::from_utf8(output.stdout).expect("a path");
    let plugins = folder.join("plugins");
    fs::create_dir(&plugins).expect("made");
    for entry in fs::read_dir(installed.trim()).expect("GStreamer is installed") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if !words.iter().any(|word| name.contains(word)) {
            symlink(&path, plugins.join(name)).expect("linked");
        }
    }
    plugins
}
