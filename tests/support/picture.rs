// SPDX-License-Identifier: Apache-2.0
//! Pictures that tests write.

use std::path::Path;

use jetwatch_pixels::ImageFormat;
use jetwatch_source::image_file::write_rgb;
use jetwatch_types::Size;

/// Writes a picture of one color; the name ends in `.png`, or it is a JPEG file.
pub fn write_flat(path: &Path, width: u32, height: u32, color: [u8; 3]) {
    let format = match path.extension().is_some_and(|kind| kind == "png") {
        true => ImageFormat::Png,
        false => ImageFormat::Jpeg,
    };
    let size = Size::new(width, height);
    let pixels = color.repeat((width * height) as usize);
    write_rgb(path, format, size, &pixels).expect("written");
}
