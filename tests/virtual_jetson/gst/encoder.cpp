// SPDX-License-Identifier: Apache-2.0
// See encoder.h.
//
//   sink (ghost) ─► the part that takes images out of NVMM ─► jpegenc ─► src (ghost)
#include "encoder.h"
#include "vidconv.h"

namespace {

const GEnumValue METHODS[] = {{0, "islow", "Slow but accurate integer algorithm"},
                              {1, "ifast", "Faster, less accurate integer method"},
                              {2, "float", "Floating-point: accurate, fast on fast HW"},
                              {0, nullptr, nullptr}};

enum Index { QUALITY, METHOD };

const std::vector<Property> &table() {
    static const std::vector<Property> all = {
        number("quality", 0, 100, 85),
        choice("idct-method", "DoubleNvJpegMethod", METHODS, 1),
    };
    return all;
}

GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE(
    "sink", GST_PAD_SINK, GST_PAD_ALWAYS,
    GST_STATIC_CAPS("video/x-raw(" NVMM "), format = (string) { I420, NV12 }; video/x-raw, format = (string) { I420, YV12, YUY2, UYVY, Y42B, Y444 }"));
GstStaticPadTemplate src_template = GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS("image/jpeg"));

} // namespace

struct DoubleNvJpegEnc {
    GstBin base;
    Values *values;
    GstElement *part, *inside;
    GstPad *sink;
    Counter *counter;
    GstVideoInfo info;
    bool is_nvmm;
};
struct DoubleNvJpegEncClass {
    GstBinClass base;
};

G_DEFINE_TYPE(DoubleNvJpegEnc, jpeg_encoder, GST_TYPE_BIN)

static gboolean sink_event(GstPad *pad, GstObject *parent, GstEvent *event) {
    DoubleNvJpegEnc *self = reinterpret_cast<DoubleNvJpegEnc *>(parent);
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
        self->counter->set_to_encoded("nvjpegenc", GST_OBJECT_NAME(self), "NVJPG", Place{self->info, self->is_nvmm, false}, "JPEG");
    } else if (GST_EVENT_TYPE(event) == GST_EVENT_EOS) {
        self->counter->flush();
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

// Each picture that was encoded. The machine's state may say that the engine fails.
static GstPadProbeReturn encoded(GstPad *, GstPadProbeInfo *, gpointer data) {
    DoubleNvJpegEnc *self = static_cast<DoubleNvJpegEnc *>(data);
    if (has_file("nvjpg-broken")) {
        GST_ELEMENT_ERROR(self, LIBRARY, ENCODE, ("NvJpegEncoder failed"), ("nvjpg-broken"));
        return GST_PAD_PROBE_DROP;
    }
    self->counter->frame();
    return GST_PAD_PROBE_OK;
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *) {
    DoubleNvJpegEnc *self = reinterpret_cast<DoubleNvJpegEnc *>(object);
    self->values->set(id, value);
    if (self->inside) g_object_set(self->inside, "quality", self->values->as_int(QUALITY), nullptr);
}
static void get_property(GObject *object, guint id, GValue *value, GParamSpec *) { reinterpret_cast<DoubleNvJpegEnc *>(object)->values->give(id, value); }

static void finalize(GObject *object) {
    DoubleNvJpegEnc *self = reinterpret_cast<DoubleNvJpegEnc *>(object);
    self->counter->flush();
    delete self->counter;
    delete self->values;
    G_OBJECT_CLASS(jpeg_encoder_parent_class)->finalize(object);
}

static void constructed(GObject *object) {
    DoubleNvJpegEnc *self = reinterpret_cast<DoubleNvJpegEnc *>(object);
    G_OBJECT_CLASS(jpeg_encoder_parent_class)->constructed(object);
    const Part part = {"nvjpegenc", nullptr, "video/x-raw, format = (string) I420", false, 4};
    self->part = new_part(part, GST_ELEMENT(self));
    self->inside = gst_element_factory_make("jpegenc", nullptr);
    gst_bin_add(GST_BIN(self), self->part);
    GstElementClass *of = GST_ELEMENT_GET_CLASS(self);
    GstPad *target = gst_element_get_static_pad(self->part, "sink");
    self->sink = gst_ghost_pad_new_from_template("sink", target, gst_element_class_get_pad_template(of, "sink"));
    gst_object_unref(target);
    gst_pad_set_event_function(self->sink, sink_event);
    gst_pad_set_query_function(self->sink, sink_query);
    gst_element_add_pad(GST_ELEMENT(self), self->sink);
    if (!self->inside) return;
    g_object_set(self->inside, "quality", self->values->as_int(QUALITY), nullptr);
    gst_bin_add(GST_BIN(self), self->inside);
    gst_element_link(self->part, self->inside);
    target = gst_element_get_static_pad(self->inside, "src");
    gst_pad_add_probe(target, GST_PAD_PROBE_TYPE_BUFFER, encoded, self, nullptr);
    gst_element_add_pad(GST_ELEMENT(self), gst_ghost_pad_new_from_template("src", target, gst_element_class_get_pad_template(of, "src")));
    gst_object_unref(target);
}

static void jpeg_encoder_class_init(DoubleNvJpegEncClass *of) {
    GObjectClass *object_class = G_OBJECT_CLASS(of);
    GstElementClass *element_class = GST_ELEMENT_CLASS(of);
    object_class->set_property = set_property;
    object_class->get_property = get_property;
    object_class->finalize = finalize;
    object_class->constructed = constructed;
    install_properties(object_class, table());
    gst_element_class_add_static_pad_template(element_class, &sink_template);
    gst_element_class_add_static_pad_template(element_class, &src_template);
    gst_element_class_set_static_metadata(element_class, "Double of NVIDIA's nvjpegenc", "Codec/Encoder/Image",
                                          "Test double: encodes on the CPU what a Jetson encodes on NVJPG", "jetwatch");
}

static void jpeg_encoder_init(DoubleNvJpegEnc *self) {
    self->values = new Values(G_OBJECT_CLASS(g_type_class_peek(jpeg_encoder_get_type())), table().size());
    self->counter = new Counter();
}
