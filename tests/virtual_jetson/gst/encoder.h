// SPDX-License-Identifier: Apache-2.0
// nvjpegenc's double: images are encoded by GStreamer's jpegenc, inside of it.
#pragma once
#include <gst/gst.h>

GType jpeg_encoder_get_type();
