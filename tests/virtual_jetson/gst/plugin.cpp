// SPDX-License-Identifier: Apache-2.0
// The plug-in: doubles of the GStreamer elements of L4T. See README.md in the folder above.
#include "camera.h"
#include "decoder.h"
#include "encoder.h"
#include "vidconv.h"

static gboolean plugin_init(GstPlugin *plugin) {
    return gst_element_register(plugin, "nvarguscamerasrc", GST_RANK_NONE, argus_camera_get_type()) &&
           gst_element_register(plugin, "nvv4l2camerasrc", GST_RANK_NONE, v4l2_camera_get_type()) &&
           gst_element_register(plugin, "nvv4l2decoder", GST_RANK_PRIMARY + 11, decoder_get_type()) &&
           gst_element_register(plugin, "nvjpegdec", GST_RANK_PRIMARY + 10, jpeg_decoder_get_type()) &&
           gst_element_register(plugin, "nvjpegenc", GST_RANK_PRIMARY + 10, jpeg_encoder_get_type()) &&
           gst_element_register(plugin, "nvv4l2h264enc", GST_RANK_PRIMARY + 1, h264_encoder_get_type()) &&
           gst_element_register(plugin, "nvvidconv", GST_RANK_NONE, vidconv_get_type());
}

#define PACKAGE "jetwatch-doubles"
// GStreamer opens no plug-in that was made for a newer one; this one asks for nothing that came after 1.16, which JetPack 5 has.
GST_PLUGIN_DEFINE(1, 16, virtualjetson, "Test doubles of the elements of L4T", plugin_init, "1.0", "LGPL",
                  "doubles for tests", "https://gstreamer.freedesktop.org")
