// SPDX-License-Identifier: Apache-2.0
// The doubles of nvjpegenc and nvv4l2h264enc: images are encoded by GStreamer's jpegenc and x264enc, inside of them.
#pragma once
#include <gst/gst.h>

GType jpeg_encoder_get_type();
GType h264_encoder_get_type();
