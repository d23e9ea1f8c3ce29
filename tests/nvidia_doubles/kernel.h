// SPDX-License-Identifier: Apache-2.0
// One step of the double's function, as host and kernel see it: see README.md for what it computes.
#pragma once

namespace doubles {

typedef long long i64;
typedef unsigned long long u64;

/// An output made of an input. All fields are 64 bits wide, so that both compilers lay it out alike.
struct Step {
    u64 input;
    /// The vendor's number of the element type.
    i64 input_type;
    i64 channels;
    i64 height;
    i64 width;
    /// Strides in elements: image, block of channels, row, pixel; and how many channels a block holds.
    i64 stride_picture;
    i64 stride_block;
    i64 stride_row;
    i64 stride_pixel;
    i64 block;
    u64 output;
    i64 output_type;
    i64 pictures;
    /// Elements of the output for each image.
    i64 elements;
    /// 1: boxes of cells; 0: the mean of the image.
    i64 is_cells;
};

/// Edge of a cell in pixels.
constexpr i64 kCell = 32;

} // namespace doubles
