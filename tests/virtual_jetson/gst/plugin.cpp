// The plug-in: doubles of the GStreamer elements of L4T. See README.md in the folder above.
#include "camera.h"
#include "decoder.h"
#include "vidconv.h"

static gboolean plugin_init(GstPlugin *plugin) {
    return gst_element_register(plugin, "nvarguscamerasrc", GST_RANK_NONE, argus_camera_get_type()) &&
           gst_element_register(plugin, "nvv4l2camerasrc", GST_RANK_NONE, v4l2_camera_get_type()) &&
           gst_element_register(plugin, "nvv4l2decoder", GST_RANK_PRIMARY + 11, decoder_get_type()) &&
           gst_element_register(plugin, "nvjpegdec", GST_RANK_PRIMARY + 10, jpeg_decoder_get_type()) &&
           gst_element_register(plugin, "nvvidconv", GST_RANK_NONE, vidconv_get_type());
}

#define PACKAGE "jetwatch-doubles"
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, virtualjetson, "Test doubles of the elements of L4T", plugin_init, "1.0", "LGPL",
                  "doubles for tests", "https://gstreamer.freedesktop.org")
