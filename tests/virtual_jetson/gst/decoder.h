// SPDX-License-Identifier: Apache-2.0
// nvv4l2decoder's and nvjpegdec's doubles: images are decoded by GStreamer's software decoders, inside of them.
#pragma once
#include <gst/gst.h>

GType decoder_get_type();
GType jpeg_decoder_get_type();
