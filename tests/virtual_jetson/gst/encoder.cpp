// SPDX-License-Identifier: Apache-2.0
// See encoder.h.
//
//   sink (ghost) ─► the part that takes images out of NVMM ─► jpegenc or x264enc ─► src (ghost)
#include "encoder.h"
#include "vidconv.h"

#include <algorithm>

namespace {

const GEnumValue METHODS[] = {{0, "islow", "Slow but accurate integer algorithm"},
                              {1, "ifast", "Faster, less accurate integer method"},
                              {2, "float", "Floating-point: accurate, fast on fast HW"},
                              {0, nullptr, nullptr}};
const GEnumValue RATES[] = {{0, "GST_V4L2_VIDENC_VARIABLE_BITRATE", "variable_bitrate"},
                            {1, "GST_V4L2_VIDENC_CONSTANT_BITRATE", "constant_bitrate"},
                            {0, nullptr, nullptr}};
const GEnumValue PRESETS[] = {{0, "Disable HW-Preset", "DisablePreset"}, {1, "UltraFastPreset for high perf", "UltraFastPreset"},
                              {2, "FastPreset", "FastPreset"},           {3, "MediumPreset", "MediumPreset"},
                              {4, "SlowPreset", "SlowPreset"},           {0, nullptr, nullptr}};

enum JpegIndex { QUALITY, METHOD };
enum H264Index { RATE, BITRATE, PEAK, INTRA, IDR };

const std::vector<Property> &jpeg_table() {
    static const std::vector<Property> all = {
        number("quality", 0, 100, 85),
        choice("idct-method", "DoubleNvJpegMethod", METHODS, 1),
    };
    return all;
}

const std::vector<Property> &h264_table() {
    static const std::vector<Property> all = {
        choice("control-rate", "DoubleNvEncoderRate", RATES, 1),
        count("bitrate", 0, G_MAXUINT, 4000000),
        count("peak-bitrate", 0, G_MAXUINT, 0),
        count("iframeinterval", 0, G_MAXUINT, 30),
        count("idrinterval", 0, G_MAXUINT, 256),
        choice("preset-level", "DoubleNvEncoderPreset", PRESETS, 1),
        count("vbv-size", 0, G_MAXUINT, 4000000),
        flag("ratecontrol-enable", true),
        flag("maxperf-enable", false),
        flag("insert-sps-pps", false),
        flag("insert-aud", false),
        flag("insert-vui", false),
        count("num-B-Frames", 0, 2, 0),
        count("num-Ref-Frames", 0, 8, 1),
    };
    return all;
}

void set_up_jpeg(GstElement *inside, Values &values) { g_object_set(inside, "quality", values.as_int(QUALITY), nullptr); }

// The limit of a variable bit rate is its peak: 1.2 times the bit rate where it is not set, and never below that.
void set_up_h264(GstElement *inside, Values &values) {
    guint bits = values.as_count(BITRATE), peak = values.as_count(PEAK);
    if (values.as_int(RATE) == 0) bits = peak ? std::max(peak, bits) : static_cast<guint>(1.2 * bits);
    guint intra = values.as_count(INTRA), idr = values.as_count(IDR);
    guint distance = intra && idr ? std::min(intra, idr) : std::max(intra, idr);
    g_object_set(inside, "bitrate", std::max(bits / 1000, 1U), "key-int-max", std::min<guint>(distance, G_MAXINT), "byte-stream", TRUE, "threads", 1, nullptr);
    gst_util_set_object_arg(G_OBJECT(inside), "speed-preset", "ultrafast");
    gst_util_set_object_arg(G_OBJECT(inside), "tune", "zerolatency");
}

} // namespace

// What one of the encoders is.
struct Kind {
    const char *element, *engine, *encoding, *software;
    const std::vector<Property> &(*table)();
    void (*set_up)(GstElement *inside, Values &values);
    // File of the machine's state that ends it in an error, and the error.
    const char *broken, *error;
};

static const Kind JPEG = {"nvjpegenc", "NVJPG", "JPEG", "jpegenc", jpeg_table, set_up_jpeg, "nvjpg-broken", "NvJpegEncoder failed"};
static const Kind H264 = {"nvv4l2h264enc", "NVENC", "H.264", "x264enc", h264_table, set_up_h264, "nvenc-broken", "Failed to process frame."};

struct DoubleNvEncoder {
    GstBin base;
    Values *values;
    GstElement *part, *inside;
    GstPad *sink;
    Counter *counter;
    GstVideoInfo info;
    bool is_nvmm;
    // Images that an engine has taken and does not give back.
    GstBufferList *kept;
};
struct DoubleNvEncoderClass {
    GstBinClass base;
    const Kind *kind;
};

G_DEFINE_ABSTRACT_TYPE(DoubleNvEncoder, encoder, GST_TYPE_BIN)

typedef DoubleNvEncoder DoubleNvJpegEnc;
typedef DoubleNvEncoderClass DoubleNvJpegEncClass;
G_DEFINE_TYPE(DoubleNvJpegEnc, jpeg_encoder, encoder_get_type())

typedef DoubleNvEncoder DoubleNvH264Enc;
typedef DoubleNvEncoderClass DoubleNvH264EncClass;
G_DEFINE_TYPE(DoubleNvH264Enc, h264_encoder, encoder_get_type())

static const Kind &kind_of(gpointer self) { return *G_TYPE_INSTANCE_GET_CLASS(self, encoder_get_type(), DoubleNvEncoderClass)->kind; }

static gboolean sink_event(GstPad *pad, GstObject *parent, GstEvent *event) {
    DoubleNvEncoder *self = reinterpret_cast<DoubleNvEncoder *>(parent);
    if (GST_EVENT_TYPE(event) == GST_EVENT_CAPS) {
        GstCaps *caps = nullptr;
        gst_event_parse_caps(event, &caps);
        GstCaps *possible = gst_pad_get_pad_template_caps(pad);
        bool is_taken = gst_caps_is_subset(caps, possible) && gst_video_info_from_caps(&self->info, caps);
        gst_caps_unref(possible);
        if (!is_taken) {
            gst_event_unref(event);
            return FALSE;
        }
        self->is_nvmm = is_nvmm(caps);
        const Kind &kind = kind_of(self);
        self->counter->set_to_encoded(kind.element, GST_OBJECT_NAME(self), kind.engine, Place{self->info, self->is_nvmm, false}, kind.encoding);
    } else if (GST_EVENT_TYPE(event) == GST_EVENT_EOS) {
        self->counter->flush();
        if (has_file("nvenc-without-end") && &kind_of(self) == &H264) {
            gst_event_unref(event);
            return TRUE;
        }
    }
    return gst_pad_event_default(pad, parent, event);
}

// The part inside takes more than the one that this is a double of.
static gboolean sink_query(GstPad *pad, GstObject *parent, GstQuery *query) {
    GstCaps *possible = gst_pad_get_pad_template_caps(pad), *caps = nullptr;
    gboolean is_done = TRUE;
    if (GST_QUERY_TYPE(query) == GST_QUERY_CAPS) {
        gst_query_parse_caps(query, &caps);
        GstCaps *result = caps ? gst_caps_intersect_full(caps, possible, GST_CAPS_INTERSECT_FIRST) : gst_caps_ref(possible);
        gst_query_set_caps_result(query, result);
        gst_caps_unref(result);
    } else if (GST_QUERY_TYPE(query) == GST_QUERY_ACCEPT_CAPS) {
        gst_query_parse_accept_caps(query, &caps);
        gst_query_set_accept_caps_result(query, gst_caps_is_subset(caps, possible));
    } else {
        is_done = gst_pad_query_default(pad, parent, query);
    }
    gst_caps_unref(possible);
    return is_done;
}

// Each image that comes. An engine that hangs takes all that it can get.
static GstPadProbeReturn taken(GstPad *, GstPadProbeInfo *info, gpointer data) {
    DoubleNvEncoder *self = static_cast<DoubleNvEncoder *>(data);
    if (!has_file("nvenc-silent")) return GST_PAD_PROBE_OK;
    gst_buffer_list_add(self->kept, gst_buffer_ref(GST_PAD_PROBE_INFO_BUFFER(info)));
    return GST_PAD_PROBE_DROP;
}

// Each picture that was encoded. The machine's state may say that the engine fails.
static GstPadProbeReturn encoded(GstPad *, GstPadProbeInfo *, gpointer data) {
    DoubleNvEncoder *self = static_cast<DoubleNvEncoder *>(data);
    const Kind &kind = kind_of(self);
    if (has_file(kind.broken)) {
        GST_ELEMENT_ERROR(self, LIBRARY, ENCODE, ("%s", kind.error), ("%s", kind.broken));
        return GST_PAD_PROBE_DROP;
    }
    self->counter->frame();
    return GST_PAD_PROBE_OK;
}

static GstStateChangeReturn change_state(GstElement *element, GstStateChange change) {
    DoubleNvEncoder *self = reinterpret_cast<DoubleNvEncoder *>(element);
    bool is_h264 = &kind_of(self) == &H264;
    // NVIDIA's plug-in has the element on each machine; the device is opened here.
    if (change == GST_STATE_CHANGE_NULL_TO_READY && is_h264 && has_file("nvenc-missing")) {
        GST_ELEMENT_ERROR(self, RESOURCE, SETTINGS,
                          ("Error getting capabilities for device '/dev/v4l2-nvenc': It isn't a v4l2 driver. Check if it is a v4l1 driver."),
                          ("nvenc-missing"));
        return GST_STATE_CHANGE_FAILURE;
    }
    // What comes before it may wait for an image.
    guint kept = gst_buffer_list_length(self->kept);
    if (change == GST_STATE_CHANGE_PAUSED_TO_READY && kept) gst_buffer_list_remove(self->kept, 0, kept);
    return GST_ELEMENT_CLASS(encoder_parent_class)->change_state(element, change);
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *) {
    DoubleNvEncoder *self = reinterpret_cast<DoubleNvEncoder *>(object);
    self->values->set(id, value);
    if (self->inside) kind_of(self).set_up(self->inside, *self->values);
}
static void get_property(GObject *object, guint id, GValue *value, GParamSpec *) { reinterpret_cast<DoubleNvEncoder *>(object)->values->give(id, value); }

static void finalize(GObject *object) {
    DoubleNvEncoder *self = reinterpret_cast<DoubleNvEncoder *>(object);
    self->counter->flush();
    delete self->counter;
    delete self->values;
    gst_buffer_list_unref(self->kept);
    G_OBJECT_CLASS(encoder_parent_class)->finalize(object);
}

static void constructed(GObject *object) {
    DoubleNvEncoder *self = reinterpret_cast<DoubleNvEncoder *>(object);
    G_OBJECT_CLASS(encoder_parent_class)->constructed(object);
    const Kind &kind = kind_of(self);
    self->values = new Values(G_OBJECT_GET_CLASS(object), kind.table().size());
    const Part part = {kind.element, nullptr, "video/x-raw, format = (string) I420", false, 4};
    self->part = new_part(part, GST_ELEMENT(self));
    self->inside = gst_element_factory_make(kind.software, nullptr);
    gst_bin_add(GST_BIN(self), self->part);
    GstElementClass *of = GST_ELEMENT_GET_CLASS(self);
    GstPad *target = gst_element_get_static_pad(self->part, "sink");
    self->sink = gst_ghost_pad_new_from_template("sink", target, gst_element_class_get_pad_template(of, "sink"));
    gst_object_unref(target);
    gst_pad_set_event_function(self->sink, sink_event);
    gst_pad_set_query_function(self->sink, sink_query);
    if (&kind == &H264) gst_pad_add_probe(self->sink, GST_PAD_PROBE_TYPE_BUFFER, taken, self, nullptr);
    gst_element_add_pad(GST_ELEMENT(self), self->sink);
    if (!self->inside) return;
    kind.set_up(self->inside, *self->values);
    gst_bin_add(GST_BIN(self), self->inside);
    gst_element_link(self->part, self->inside);
    target = gst_element_get_static_pad(self->inside, "src");
    gst_pad_add_probe(target, GST_PAD_PROBE_TYPE_BUFFER, encoded, self, nullptr);
    gst_element_add_pad(GST_ELEMENT(self), gst_ghost_pad_new_from_template("src", target, gst_element_class_get_pad_template(of, "src")));
    gst_object_unref(target);
}

static void encoder_class_init(DoubleNvEncoderClass *of) {
    GObjectClass *object_class = G_OBJECT_CLASS(of);
    object_class->finalize = finalize;
    object_class->constructed = constructed;
    GST_ELEMENT_CLASS(of)->change_state = change_state;
}

static void encoder_init(DoubleNvEncoder *self) {
    self->counter = new Counter();
    self->kept = gst_buffer_list_new();
}

// `sink` and `src` are the caps of the pads.
static void describe(DoubleNvEncoderClass *of, const Kind &kind, const char *sink, const char *src, const char *media) {
    GstElementClass *element_class = GST_ELEMENT_CLASS(of);
    of->kind = &kind;
    // A class does not inherit these two.
    G_OBJECT_CLASS(of)->set_property = set_property;
    G_OBJECT_CLASS(of)->get_property = get_property;
    install_properties(G_OBJECT_CLASS(of), kind.table());
    for (GstPadDirection direction : {GST_PAD_SINK, GST_PAD_SRC}) {
        bool is_sink = direction == GST_PAD_SINK;
        GstCaps *caps = gst_caps_from_string(is_sink ? sink : src);
        gst_element_class_add_pad_template(element_class, gst_pad_template_new(is_sink ? "sink" : "src", direction, GST_PAD_ALWAYS, caps));
        gst_caps_unref(caps);
    }
    std::string name = std::string("Double of NVIDIA's ") + kind.element, text = std::string("Test double: encodes on the CPU what a Jetson encodes on ") + kind.engine;
    gst_element_class_set_metadata(element_class, name.c_str(), media, text.c_str(), "jetwatch");
}

static void jpeg_encoder_class_init(DoubleNvJpegEncClass *of) {
    describe(of, JPEG, "video/x-raw(" NVMM "), format = (string) { I420, NV12 }; video/x-raw, format = (string) { I420, YV12, YUY2, UYVY, Y42B, Y444 }",
             "image/jpeg", "Codec/Encoder/Image");
}

static void jpeg_encoder_init(DoubleNvJpegEnc *) {}

static void h264_encoder_class_init(DoubleNvH264EncClass *of) {
    describe(of, H264,
             "video/x-raw(" NVMM "), width = (int) [ 1, MAX ], height = (int) [ 1, MAX ], format = (string) { I420, NV12, P010_10LE, NV24 }, "
             "framerate = (fraction) [ 0, MAX ]",
             "video/x-h264, stream-format = (string) byte-stream, alignment = (string) au", "Codec/Encoder/Video");
}

static void h264_encoder_init(DoubleNvH264Enc *) {}
