// SPDX-License-Identifier: Apache-2.0
//! Tests of networks with the real ONNX Runtime: whether it is there, model folders, and frames of one gray.

use std::env;
use std::path::Path;

use super::classifier;
use jetwatch_config::{Config, DetectorConfig};
use jetwatch_types::{Frame, FrameMeta, Image, PIXEL_BYTES, PixelAspect, Size};

/// Whether there is no library; prints a message then.
pub fn library_is_missing() -> bool {
    let missing = env::var_os("ORT_DYLIB_PATH").is_none_or(|path| path.is_empty());
    if missing {
        eprintln!("skipped: ORT_DYLIB_PATH is not set");
    }
    missing
}

/// Writes a network and its description. `input` and `output` are the keys below `input.name` and from `output` on; `file` goes
/// into those of the file.
pub fn write_model(folder: &Path, network: &[u8], input: &str, output: &str, file: &str) {
    let keys = format!("name: tiny\ninput: {{name: images, {input}}}\noutput: {output}\n");
    classifier::write_folder(folder, network, &keys, file);
}

/// A detector of one worker for the model in `folder`.
pub fn config(folder: &Path) -> DetectorConfig {
    DetectorConfig {
        workers: 1,
        ..Config::for_source("synthetic://traffic", folder.to_str())
            .expect("a folder of plain text")
            .detector
    }
}

/// A frame of a source of `source_size` with the image `pixels`, of `size` and without padding.
pub fn frame(source: u16, seq: u64, source_size: Size, size: Size, pixels: Vec<u8>) -> Frame {
    let stride = size.width as usize * PIXEL_BYTES;
    Frame {
        meta: FrameMeta::for_test(source, seq, source_size),
        crop: None,
        pixels: PixelAspect::default(),
        image: Image::new(size, stride, Box::new(pixels)).expect("the memory is large enough"),
        full_image: None,
        truth: Vec::new(),
    }
}

/// The bytes of an image of which every byte is `gray`.
pub fn gray_pixels(size: Size, gray: u8) -> Vec<u8> {
    vec![gray; (size.width * size.height) as usize * PIXEL_BYTES]
}
