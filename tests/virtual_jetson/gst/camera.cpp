// SPDX-License-Identifier: Apache-2.0
// See camera.h. Files of the virtual machine that matter here:
//
// - `nvargus-daemon`: Argus's daemon runs. Without it no sensor opens.
// - `sensors`: how many there are; 2 without the file.
// - `argus-wedged`: frames stop. Its contents select how: `silent`, or `timeout` (also when empty), which ends in an error.
#include "camera.h"
#include "nvmm.h"
#include "properties.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gst/base/gstpushsrc.h>

namespace {

const GEnumValue WHITE[] = {{0, "GST_NVCAM_WB_MODE_OFF", "off"},
                            {1, "GST_NVCAM_WB_MODE_AUTO", "auto"},
                            {2, "GST_NVCAM_WB_MODE_INCANDESCENT", "incandescent"},
                            {3, "GST_NVCAM_WB_MODE_FLUORESCENT", "fluorescent"},
                            {4, "GST_NVCAM_WB_MODE_WARM_FLUORESCENT", "warm-fluorescent"},
                            {5, "GST_NVCAM_WB_MODE_DAYLIGHT", "daylight"},
                            {6, "GST_NVCAM_WB_MODE_CLOUDY_DAYLIGHT", "cloudy-daylight"},
                            {7, "GST_NVCAM_WB_MODE_TWILIGHT", "twilight"},
                            {8, "GST_NVCAM_WB_MODE_SHADE", "shade"},
                            {9, "GST_NVCAM_WB_MODE_MANUAL", "manual"},
                            {0, nullptr, nullptr}};
const GEnumValue NOISE[] = {{0, "GST_NVCAM_NR_OFF", "NoiseReduction_Off"},
                            {1, "GST_NVCAM_NR_FAST", "NoiseReduction_Fast"},
                            {2, "GST_NVCAM_NR_HIGHQUALITY", "NoiseReduction_HighQuality"},
                            {0, nullptr, nullptr}};
const GEnumValue EDGES[] = {{0, "GST_NVCAM_EE_OFF", "EdgeEnhancement_Off"},
                            {1, "GST_NVCAM_EE_FAST", "EdgeEnhancement_Fast"},
                            {2, "GST_NVCAM_EE_HIGHQUALITY", "EdgeEnhancement_HighQuality"},
                            {0, nullptr, nullptr}};
const GEnumValue BANDING[] = {{0, "GST_NVCAM_AEANTIBANDING_OFF", "AeAntibandingMode_Off"},
                              {1, "GST_NVCAM_AEANTIBANDING_AUTO", "AeAntibandingMode_Auto"},
                              {2, "GST_NVCAM_AEANTIBANDING_50HZ", "AeAntibandingMode_50HZ"},
                              {3, "GST_NVCAM_AEANTIBANDING_60HZ", "AeAntibandingMode_60HZ"},
                              {0, nullptr, nullptr}};

enum Index { SENSOR, MODE };

const std::vector<Property> &argus_table() {
    static const std::vector<Property> all = {
        number("sensor-id", 0, 255, 0),
        number("sensor-mode", -1, 255, -1),
        choice("wbmode", "DoubleNvArgusWhiteBalance", WHITE, 1),
        real("saturation", 0, 2, 1),
        words("exposuretimerange", nullptr),
        words("gainrange", nullptr),
        words("ispdigitalgainrange", nullptr),
        real("tnr-strength", -1, 1, -1),
        choice("tnr-mode", "DoubleNvArgusNoise", NOISE, 1),
        real("ee-strength", -1, 1, -1),
        choice("ee-mode", "DoubleNvArgusEdges", EDGES, 1),
        choice("aeantibanding", "DoubleNvArgusBanding", BANDING, 1),
        real("exposurecompensation", -2, 2, 0),
        flag("aelock", false),
        words("aeregion", nullptr),
        flag("awblock", false),
        number("timeout", 0, G_MAXINT, 0),
        flag("bufapi-version", false),
        flag("silent", true),
    };
    return all;
}

const std::vector<Property> &v4l2_table() {
    static const std::vector<Property> all = {
        words("device", "/dev/video0"),
        count("cap-buffers", 4, 32, 4),
        flag("bufapi-version", false),
        flag("silent", true),
    };
    return all;
}

struct SensorMode {
    int width, height, frames;
};
// The modes of a sensor that is sold with Jetsons.
const SensorMode MODES[] = {{3264, 2464, 21}, {3264, 1848, 28}, {1920, 1080, 30}, {1640, 1232, 30}, {1280, 720, 60}};

#define SIZES "width = (int) [ 1, MAX ], height = (int) [ 1, MAX ], framerate = (fraction) [ 0, MAX ]"
GstStaticPadTemplate argus_src =
    GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS("video/x-raw(" NVMM "), format = (string) NV12, " SIZES));
GstStaticPadTemplate v4l2_src =
    GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS("video/x-raw(" NVMM "), format = (string) UYVY, " SIZES));

constexpr guint kBuffers = 8;
// How long Argus waits for a frame that does not come.
constexpr gint64 kArgusTimeout = 2 * G_TIME_SPAN_SECOND;

} // namespace

struct DoubleCamera {
    GstPushSrc base;
    Values *values;
    Counter *counter;
    GstVideoInfo info;
    GMutex mutex;
    GCond changed;
    gboolean is_flushing;
    guint64 frames;
    GstClockTime first;
};
struct DoubleCameraClass {
    GstPushSrcClass base;
};
typedef DoubleCamera DoubleArgusCamera;
typedef DoubleCameraClass DoubleArgusCameraClass;
typedef DoubleCamera DoubleV4l2Camera;
typedef DoubleCameraClass DoubleV4l2CameraClass;

static GType camera_get_type();
G_DEFINE_ABSTRACT_TYPE(DoubleCamera, camera, GST_TYPE_PUSH_SRC)
G_DEFINE_TYPE(DoubleArgusCamera, argus_camera, camera_get_type())
G_DEFINE_TYPE(DoubleV4l2Camera, v4l2_camera, camera_get_type())

static bool is_argus(DoubleCamera *self) { return G_OBJECT_TYPE(self) == argus_camera_get_type(); }

// The error of the camera, with the text of the real element; null if it opens.
static const char *why_closed(DoubleCamera *self) {
    if (!is_argus(self)) return nullptr;
    if (has_folder() && !has_file("nvargus-daemon"))
        return "(Argus) Error FileOperationFailed: Connecting to nvargus-daemon failed: No such file or directory";
    int sensors = atoi(file_line("sensors", "2").c_str());
    if (sensors == 0) return "No cameras available";
    if (self->values->as_int(SENSOR) >= sensors) return "Invalid camera device specified";
    if (self->values->as_int(MODE) >= static_cast<int>(G_N_ELEMENTS(MODES))) return "Invalid sensor mode specified";
    return nullptr;
}

static GstCaps *fixate(GstBaseSrc *base, GstCaps *caps) {
    DoubleCamera *self = reinterpret_cast<DoubleCamera *>(base);
    int mode = is_argus(self) ? self->values->as_int(MODE) : 4;
    // Without a choice the sensor's mode of the usual size.
    const SensorMode &wanted = MODES[mode >= 0 && mode < static_cast<int>(G_N_ELEMENTS(MODES)) ? mode : 2];
    caps = gst_caps_make_writable(gst_caps_truncate(caps));
    GstStructure *structure = gst_caps_get_structure(caps, 0);
    gst_structure_fixate_field_nearest_int(structure, "width", wanted.width);
    gst_structure_fixate_field_nearest_int(structure, "height", wanted.height);
    gst_structure_fixate_field_nearest_fraction(structure, "framerate", wanted.frames, 1);
    return gst_caps_fixate(caps);
}

static gboolean set_caps(GstBaseSrc *base, GstCaps *caps) {
    DoubleCamera *self = reinterpret_cast<DoubleCamera *>(base);
    if (!gst_video_info_from_caps(&self->info, caps)) return FALSE;
    Place to = {self->info, true, is_argus(self)};
    self->counter->set_encoded(is_argus(self) ? "nvarguscamerasrc" : "nvv4l2camerasrc", GST_OBJECT_NAME(self), is_argus(self) ? "ISP" : "CPU",
                               is_argus(self) ? "Bayer" : "UYVY", to);
    return TRUE;
}

static gboolean decide_allocation(GstBaseSrc *base, GstQuery *query) {
    DoubleCamera *self = reinterpret_cast<DoubleCamera *>(base);
    GstCaps *caps = nullptr;
    gst_query_parse_allocation(query, &caps, nullptr);
    GstVideoInfo info;
    if (!caps || !gst_video_info_from_caps(&info, caps)) return FALSE;
    GstBufferPool *pool = new_pool(caps, info, is_argus(self), kBuffers);
    if (!pool) return FALSE;
    while (gst_query_get_n_allocation_pools(query) > 0) gst_query_remove_nth_allocation_pool(query, 0);
    gst_query_add_allocation_pool(query, pool, sizeof(surfaces::Surface), kBuffers, kBuffers);
    gst_object_unref(pool);
    return TRUE;
}

// Waits until it is time for the next frame; false when the element is to stop.
static bool wait_until(DoubleCamera *self, GstClockTime running) {
    GstClock *clock = gst_element_get_clock(GST_ELEMENT(self));
    GstClockTime begin = gst_element_get_base_time(GST_ELEMENT(self));
    if (clock) {
        GstClockTime now = gst_clock_get_time(clock);
        gint64 until = g_get_monotonic_time() + static_cast<gint64>(now < begin + running ? (begin + running - now) / 1000 : 0);
        g_mutex_lock(&self->mutex);
        while (!self->is_flushing && g_cond_wait_until(&self->changed, &self->mutex, until)) continue;
        g_mutex_unlock(&self->mutex);
        gst_object_unref(clock);
    }
    return !self->is_flushing;
}

// A gradient that a bright square crosses.
static void draw(GstVideoFrame *frame, guint64 number) {
    int width = GST_VIDEO_FRAME_WIDTH(frame), height = GST_VIDEO_FRAME_HEIGHT(frame), side = height / 4;
    int left = static_cast<int>(number * 8 % static_cast<guint64>(width)), top = (height - side) / 2;
    bool is_packed = GST_VIDEO_FRAME_FORMAT(frame) == GST_VIDEO_FORMAT_UYVY;
    for (int y = 0; y < height; y++) {
        auto *row = static_cast<guint8 *>(GST_VIDEO_FRAME_PLANE_DATA(frame, 0)) + static_cast<ptrdiff_t>(y) * GST_VIDEO_FRAME_PLANE_STRIDE(frame, 0);
        for (int x = 0; x < width; x++) {
            bool in_square = y >= top && y < top + side && x >= left && x < left + side;
            guint8 luma = in_square ? 235 : static_cast<guint8>(16 + 128 * x / width);
            if (is_packed) row[2 * x] = 128, row[2 * x + 1] = luma;
            else row[x] = luma;
        }
    }
    for (int y = 0; !is_packed && y < (height + 1) / 2; y++)
        memset(static_cast<guint8 *>(GST_VIDEO_FRAME_PLANE_DATA(frame, 1)) + static_cast<ptrdiff_t>(y) * GST_VIDEO_FRAME_PLANE_STRIDE(frame, 1), 128,
               static_cast<size_t>((width + 1) / 2 * 2));
}

// Frames have stopped: waits until the machine is repaired or the element is stopped.
static GstFlowReturn be_wedged(DoubleCamera *self) {
    gint64 since = g_get_monotonic_time();
    while (has_file("argus-wedged")) {
        g_mutex_lock(&self->mutex);
        if (!self->is_flushing) g_cond_wait_until(&self->changed, &self->mutex, g_get_monotonic_time() + 20 * G_TIME_SPAN_MILLISECOND);
        bool is_over = self->is_flushing;
        g_mutex_unlock(&self->mutex);
        if (is_over) return GST_FLOW_FLUSHING;
        if (g_get_monotonic_time() - since > kArgusTimeout && file_line("argus-wedged", "") != "silent") {
            GST_ELEMENT_ERROR(self, STREAM, FAILED, ("TIMEOUT"), ("Argus Error Status"));
            return GST_FLOW_ERROR;
        }
    }
    return GST_FLOW_OK;
}

static GstFlowReturn fill(GstPushSrc *base, GstBuffer *buffer) {
    DoubleCamera *self = reinterpret_cast<DoubleCamera *>(base);
    if (const char *why = why_closed(self)) {
        // The real element only prints this to stderr and then ends its stream.
        fprintf(stderr, "Error generated. gstnvarguscamerasrc.cpp, execute: %s\n", why);
        return GST_FLOW_EOS;
    }
    if (is_argus(self) && has_file("argus-wedged")) {
        GstFlowReturn result = be_wedged(self);
        if (result != GST_FLOW_OK) return result;
    }
    int per = GST_VIDEO_INFO_FPS_N(&self->info), of = GST_VIDEO_INFO_FPS_D(&self->info);
    GstClockTime duration = per > 0 ? gst_util_uint64_scale_int(GST_SECOND, of, per) : GST_SECOND / 30;
    GstClock *clock = gst_element_get_clock(GST_ELEMENT(self));
    if (clock && !GST_CLOCK_TIME_IS_VALID(self->first)) self->first = gst_clock_get_time(clock) - gst_element_get_base_time(GST_ELEMENT(self));
    if (clock) gst_object_unref(clock);
    GstClockTime time = (GST_CLOCK_TIME_IS_VALID(self->first) ? self->first : 0) + self->frames * duration;
    if (!wait_until(self, time)) return GST_FLOW_FLUSHING;
    Rows rows;
    if (!rows.open(buffer, self->info, GST_MAP_WRITE)) return GST_FLOW_ERROR;
    draw(&rows.frame, self->frames);
    GST_BUFFER_PTS(buffer) = time;
    GST_BUFFER_DURATION(buffer) = duration;
    self->frames++;
    self->counter->frame();
    return GST_FLOW_OK;
}

static void set_flushing(DoubleCamera *self, bool is_flushing) {
    g_mutex_lock(&self->mutex);
    self->is_flushing = is_flushing;
    g_cond_broadcast(&self->changed);
    g_mutex_unlock(&self->mutex);
}

static gboolean unlock(GstBaseSrc *base) { return set_flushing(reinterpret_cast<DoubleCamera *>(base), true), TRUE; }
static gboolean unlock_stop(GstBaseSrc *base) { return set_flushing(reinterpret_cast<DoubleCamera *>(base), false), TRUE; }

static gboolean start(GstBaseSrc *base) {
    DoubleCamera *self = reinterpret_cast<DoubleCamera *>(base);
    self->frames = 0;
    self->first = GST_CLOCK_TIME_NONE;
    return TRUE;
}

static gboolean stop(GstBaseSrc *base) { return reinterpret_cast<DoubleCamera *>(base)->counter->flush(), TRUE; }

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *) { reinterpret_cast<DoubleCamera *>(object)->values->set(id, value); }
static void get_property(GObject *object, guint id, GValue *value, GParamSpec *) { reinterpret_cast<DoubleCamera *>(object)->values->give(id, value); }

static void finalize(GObject *object) {
    DoubleCamera *self = reinterpret_cast<DoubleCamera *>(object);
    delete self->values;
    delete self->counter;
    g_mutex_clear(&self->mutex);
    g_cond_clear(&self->changed);
    G_OBJECT_CLASS(camera_parent_class)->finalize(object);
}

static void camera_class_init(DoubleCameraClass *of) {
    GObjectClass *object_class = G_OBJECT_CLASS(of);
    object_class->finalize = finalize;
    GstBaseSrcClass *base_class = GST_BASE_SRC_CLASS(of);
    base_class->fixate = fixate;
    base_class->set_caps = set_caps;
    base_class->decide_allocation = decide_allocation;
    base_class->unlock = unlock;
    base_class->unlock_stop = unlock_stop;
    base_class->start = start;
    base_class->stop = stop;
    of->base.fill = fill;
}

static void camera_init(DoubleCamera *self) {
    self->counter = new Counter();
    g_mutex_init(&self->mutex);
    g_cond_init(&self->changed);
    gst_base_src_set_live(GST_BASE_SRC(self), TRUE);
    gst_base_src_set_format(GST_BASE_SRC(self), GST_FORMAT_TIME);
    gst_base_src_set_blocksize(GST_BASE_SRC(self), sizeof(surfaces::Surface));
}

// These two are not inherited.
static void declare(GObjectClass *object_class, const std::vector<Property> &table) {
    object_class->set_property = set_property;
    object_class->get_property = get_property;
    install_properties(object_class, table);
}

static void argus_camera_class_init(DoubleArgusCameraClass *of) {
    declare(G_OBJECT_CLASS(of), argus_table());
    gst_element_class_add_static_pad_template(GST_ELEMENT_CLASS(of), &argus_src);
    gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(of), "Double of NVIDIA's nvarguscamerasrc", "Video/Capture",
                                          "Test double: a camera on CSI that shows a pattern", "jetwatch");
}

static void argus_camera_init(DoubleArgusCamera *self) {
    self->values = new Values(G_OBJECT_GET_CLASS(self), argus_table().size());
    gst_base_src_set_do_timestamp(GST_BASE_SRC(self), FALSE);
}

static void v4l2_camera_class_init(DoubleV4l2CameraClass *of) {
    declare(G_OBJECT_CLASS(of), v4l2_table());
    gst_element_class_add_static_pad_template(GST_ELEMENT_CLASS(of), &v4l2_src);
    gst_element_class_set_static_metadata(GST_ELEMENT_CLASS(of), "Double of NVIDIA's nvv4l2camerasrc", "Video/Capture",
                                          "Test double: a camera that shows a pattern; it opens no device", "jetwatch");
}

static void v4l2_camera_init(DoubleV4l2Camera *self) { self->values = new Values(G_OBJECT_GET_CLASS(self), v4l2_table().size()); }
