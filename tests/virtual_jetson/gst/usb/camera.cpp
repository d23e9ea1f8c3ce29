// SPDX-License-Identifier: Apache-2.0
// A plug-in with a double of GStreamer's own v4l2src, for a USB camera that is a file. See README.md in the folder above.
//
// The file that `device` names is the camera. Its line specifies the output of the camera: `mjpeg WIDTH HEIGHT RATE`, or in that place
// `raw` for YUY2, `h264` for H.264. With the file goes the camera. The library has the real plug-in's file name, so that GStreamer takes it for
// that one where GST_PLUGIN_PATH names its folder.
#include "../machine.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

static GstStaticPadTemplate camera_src = GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS("video/x-raw; image/jpeg; video/x-h264"));

struct DoubleUsbCamera {
    GstBin base;
    GMutex mutex;
    char *device;
    // What draws and encodes the images, while the camera is open.
    GstElement *inside;
    GstPad *src;
    Counter *counter;
};
struct DoubleUsbCameraClass {
    GstBinClass base;
};
G_DEFINE_TYPE(DoubleUsbCamera, usb_camera, GST_TYPE_BIN)

static DoubleUsbCamera *as_camera(void *object) { return reinterpret_cast<DoubleUsbCamera *>(object); }

static std::string device_of(DoubleUsbCamera *self) {
    g_mutex_lock(&self->mutex);
    std::string device = self->device ? self->device : "";
    g_mutex_unlock(&self->mutex);
    return device;
}

// Every image passes here, so an unplugged camera is detected here.
static GstPadProbeReturn picture(GstPad *, GstPadProbeInfo *info, gpointer data) {
    DoubleUsbCamera *self = as_camera(data);
    if (access(device_of(self).c_str(), F_OK) == 0) {
        self->counter->frame();
        return GST_PAD_PROBE_OK;
    }
    GST_ELEMENT_ERROR(self, RESOURCE, READ, ("Could not read from resource."), ("poll error 1: No such device (19)"));
    gst_buffer_unref(GST_PAD_PROBE_INFO_BUFFER(info));
    GST_PAD_PROBE_INFO_DATA(info) = nullptr;
    GST_PAD_PROBE_INFO_FLOW_RETURN(info) = GST_FLOW_ERROR;
    return GST_PAD_PROBE_HANDLED;
}

static bool open_camera(DoubleUsbCamera *self) {
    std::string device = device_of(self);
    char line[128] = "", kind[16] = "";
    int file = open(device.c_str(), O_RDONLY | O_CLOEXEC), width = 0, height = 0, rate = 0;
    if (file < 0) {
        GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND, ("Cannot identify device '%s'.", device.c_str()), ("system error: %s", strerror(errno)));
        return false;
    }
    ssize_t length = read(file, line, sizeof line - 1);
    close(file);
    if (length <= 0 || sscanf(line, "%15s %d %d %d", kind, &width, &height, &rate) != 4 || width <= 0 || height <= 0 || rate <= 0) {
        GST_ELEMENT_ERROR(self, RESOURCE, NOT_FOUND, ("Device '%s' is not a capture device.", device.c_str()), ("the double reads `%s`", line));
        return false;
    }
    bool is_jpeg = !strcmp(kind, "mjpeg"), is_h264 = !strcmp(kind, "h264");
    std::string size = ",width=" + std::to_string(width) + ",height=" + std::to_string(height) + ",framerate=" + std::to_string(rate) + "/1";
    std::string text = "videotestsrc is-live=true ! video/x-raw,format=" + std::string(is_jpeg || is_h264 ? "I420" : "YUY2") + size;
    if (is_jpeg) text += " ! jpegenc ! image/jpeg" + size;
    if (is_h264) text += " ! x264enc speed-preset=ultrafast tune=zerolatency key-int-max=15 ! video/x-h264,stream-format=byte-stream,alignment=au" + size;
    // Caps at an end leave no free pad.
    text += " ! identity";
    GError *error = nullptr;
    self->inside = gst_parse_bin_from_description(text.c_str(), TRUE, &error);
    if (!self->inside || error) {
        GST_ELEMENT_ERROR(self, CORE, MISSING_PLUGIN, ("the double cannot draw"), ("%s", error ? error->message : ""));
        g_clear_error(&error);
        return false;
    }
    gst_bin_add(GST_BIN(self), self->inside);
    GstPad *target = gst_element_get_static_pad(self->inside, "src");
    bool is_set = gst_ghost_pad_set_target(GST_GHOST_PAD(self->src), target);
    gst_object_unref(target);
    self->counter->set_camera("v4l2src", GST_OBJECT_NAME(self), is_jpeg ? "JPEG" : is_h264 ? "H.264" : "YUY2", width, height);
    return is_set;
}

static void close_camera(DoubleUsbCamera *self) {
    if (!self->inside) return;
    gst_ghost_pad_set_target(GST_GHOST_PAD(self->src), nullptr);
    gst_element_set_state(self->inside, GST_STATE_NULL);
    gst_bin_remove(GST_BIN(self), self->inside);
    self->inside = nullptr;
    self->counter->flush();
}

static GstStateChangeReturn change_state(GstElement *element, GstStateChange change) {
    DoubleUsbCamera *self = as_camera(element);
    if (change == GST_STATE_CHANGE_NULL_TO_READY && !open_camera(self)) {
        close_camera(self);
        return GST_STATE_CHANGE_FAILURE;
    }
    GstStateChangeReturn result = GST_ELEMENT_CLASS(usb_camera_parent_class)->change_state(element, change);
    if (change == GST_STATE_CHANGE_READY_TO_NULL) close_camera(self);
    return result;
}

static void set_property(GObject *object, guint, const GValue *value, GParamSpec *) {
    DoubleUsbCamera *self = as_camera(object);
    g_mutex_lock(&self->mutex);
    g_free(self->device);
    self->device = g_value_dup_string(value);
    g_mutex_unlock(&self->mutex);
}

static void get_property(GObject *object, guint, GValue *value, GParamSpec *) { g_value_set_string(value, device_of(as_camera(object)).c_str()); }

static void finalize(GObject *object) {
    DoubleUsbCamera *self = as_camera(object);
    g_free(self->device);
    g_mutex_clear(&self->mutex);
    delete self->counter;
    G_OBJECT_CLASS(usb_camera_parent_class)->finalize(object);
}

static void usb_camera_class_init(DoubleUsbCameraClass *of) {
    GObjectClass *object_class = G_OBJECT_CLASS(of);
    object_class->set_property = set_property;
    object_class->get_property = get_property;
    object_class->finalize = finalize;
    auto flags = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS);
    g_object_class_install_property(object_class, 1, g_param_spec_string("device", "device", "Device location", "/dev/video0", flags));
    GstElementClass *element_class = GST_ELEMENT_CLASS(of);
    element_class->change_state = change_state;
    gst_element_class_add_static_pad_template(element_class, &camera_src);
    gst_element_class_set_static_metadata(element_class, "Double of GStreamer's v4l2src", "Source/Video",
                                          "Test double: a USB camera that is a file and shows a pattern", "jetwatch");
}

static void usb_camera_init(DoubleUsbCamera *self) {
    g_mutex_init(&self->mutex);
    self->device = g_strdup("/dev/video0");
    self->counter = new Counter();
    GstPadTemplate *of = gst_element_class_get_pad_template(GST_ELEMENT_GET_CLASS(self), "src");
    self->src = gst_ghost_pad_new_no_target_from_template("src", of);
    gst_pad_add_probe(self->src, GST_PAD_PROBE_TYPE_BUFFER, picture, self, nullptr);
    gst_element_add_pad(GST_ELEMENT(self), self->src);
}

static gboolean plugin_init(GstPlugin *plugin) { return gst_element_register(plugin, "v4l2src", GST_RANK_PRIMARY, usb_camera_get_type()); }

#define PACKAGE "jetwatch-doubles"
// GStreamer opens no plug-in that was made for a newer one; this one asks for nothing that came after 1.16, which JetPack 5 has.
GST_PLUGIN_DEFINE(1, 16, video4linux2, "Test double of the element of USB cameras", plugin_init, "1.0", "LGPL",
                  "doubles for tests", "https://gstreamer.freedesktop.org")
