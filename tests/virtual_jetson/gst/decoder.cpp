// SPDX-License-Identifier: Apache-2.0
// See decoder.h.
//
//   sink (ghost) ─► a software decoder, chosen by the caps ─► the part that puts images into NVMM ─► src (ghost)
#include "decoder.h"
#include "vidconv.h"

#include <cstring>

namespace {

const GEnumValue SKIPS[] = {{0, "decode_all", "Decode all frames"},
                            {1, "decode_non_ref", "Decode non-ref frames"},
                            {2, "decode_key", "decode key frames"},
                            {0, nullptr, nullptr}};
const GEnumValue MODES[] = {{0, "auto", "GST_V4L2_IO_AUTO"}, {2, "mmap", "GST_V4L2_IO_MMAP"}, {0, nullptr, nullptr}};

enum Index { MJPEG, EXTRA };

const std::vector<Property> &decoder_table() {
    static const std::vector<Property> all = {
        flag("mjpeg", false),
        count("num-extra-surfaces", 0, 24, 1),
        choice("skip-frames", "DoubleNvDecoderSkip", SKIPS, 0),
        count("drop-frame-interval", 0, 30, 0),
        flag("disable-dpb", false),
        flag("enable-full-frame", false),
        flag("enable-frame-type-reporting", false),
        flag("enable-error-check", false),
        flag("enable-max-performance", false),
        choice("output-io-mode", "DoubleNvDecoderMode", MODES, 0),
        choice("capture-io-mode", "DoubleNvDecoderMode", MODES, 0),
    };
    return all;
}

// Minimum number of buffers of a decoder, without num-extra-surfaces.
constexpr guint kLeastSurfaces = 5;

struct Codec {
    const char *media, *encoding, *engine;
    // The first that is installed is taken.
    const char *decoders[3];
};
const Codec CODECS[] = {
    {"video/x-h264", "H.264", "NVDEC", {"avdec_h264", "openh264dec", nullptr}},
    {"video/x-h265", "H.265", "NVDEC", {"avdec_h265", "libde265dec", nullptr}},
    {"image/jpeg", "JPEG", "NVJPG", {"jpegdec", "avdec_mjpeg", nullptr}},
};

GstStaticPadTemplate decoder_sink = GST_STATIC_PAD_TEMPLATE(
    "sink", GST_PAD_SINK, GST_PAD_ALWAYS,
    GST_STATIC_CAPS("image/jpeg; video/x-h264, stream-format = (string) byte-stream, alignment = (string) au; "
                    "video/x-h265, stream-format = (string) byte-stream, alignment = (string) au"));
GstStaticPadTemplate decoder_src = GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS,
                                                           GST_STATIC_CAPS("video/x-raw(" NVMM "), format = (string) NV12"));
GstStaticPadTemplate jpeg_sink = GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS("image/jpeg"));
GstStaticPadTemplate jpeg_src = GST_STATIC_PAD_TEMPLATE(
    "src", GST_PAD_SRC, GST_PAD_ALWAYS,
    GST_STATIC_CAPS("video/x-raw(" NVMM "), format = (string) I420; video/x-raw, format = (string) I420"));

} // namespace

struct DoubleNvDecoder {
    GstBin base;
    Values *values;
    GstElement *inside, *part;
    GstPad *sink, *src;
    const Codec *codec;
    // Size of the images, and those that are decoded and not given yet.
    int width, height;
    GQueue late;
    bool is_ending, is_broken;
};
struct DoubleNvDecoderClass {
    GstBinClass base;
};

G_DEFINE_TYPE(DoubleNvDecoder, decoder, GST_TYPE_BIN)

typedef DoubleNvDecoder DoubleNvJpegDecoder;
typedef DoubleNvDecoderClass DoubleNvJpegDecoderClass;
G_DEFINE_TYPE(DoubleNvJpegDecoder, jpeg_decoder, decoder_get_type())

static bool is_jpeg_only(DoubleNvDecoder *self) { return G_OBJECT_TYPE(self) == jpeg_decoder_get_type(); }

// How many images the decoder keeps: its pictures leave it when others come, or the end.
static guint late_images() { return static_cast<guint>(std::stoi(file_line("decoder-late", "0"))); }

static GstElement *make_software_decoder(const Codec &codec) {
    for (const char *name : codec.decoders) {
        GstElement *element = name ? gst_element_factory_make(name, nullptr) : nullptr;
        if (!element) continue;
        // One thread gives each image as soon as it is decoded, as the engine does.
        if (g_object_class_find_property(G_OBJECT_GET_CLASS(element), "max-threads")) g_object_set(element, "max-threads", 1, nullptr);
        return element;
    }
    return nullptr;
}

static bool set_codec(DoubleNvDecoder *self, const GstCaps *caps) {
    const char *media = gst_structure_get_name(gst_caps_get_structure(caps, 0));
    const Codec *wanted = nullptr;
    for (const Codec &codec : CODECS)
        if (!strcmp(codec.media, media)) wanted = &codec;
    if (!wanted) return false;
    bool is_jpeg = !strcmp(media, "image/jpeg");
    if (is_jpeg && !is_jpeg_only(self) && !self->values->as_bool(MJPEG)) {
        GST_ELEMENT_ERROR(self, STREAM, WRONG_TYPE, ("JPEG needs mjpeg=1"), (nullptr));
        return false;
    }
    int width = 0, height = 0;
    gst_structure_get_int(gst_caps_get_structure(caps, 0), "width", &width);
    gst_structure_get_int(gst_caps_get_structure(caps, 0), "height", &height);
    bool is_other_size = self->codec && (width != self->width || height != self->height);
    self->width = width;
    self->height = height;
    if (is_other_size && has_file("decoder-of-one-size")) {
        self->is_broken = true;
        GST_ELEMENT_ERROR(self, RESOURCE, FAILED, ("Failed to process frame."), ("Maybe be due to not enough memory or failing driver"));
        return false;
    }
    if (self->codec == wanted) return true;
    if (self->inside) {
        gst_ghost_pad_set_target(GST_GHOST_PAD(self->sink), nullptr);
        gst_element_set_state(self->inside, GST_STATE_NULL);
        gst_bin_remove(GST_BIN(self), self->inside);
    }
    self->inside = make_software_decoder(*wanted);
    if (!self->inside) {
        GST_ELEMENT_ERROR(self, CORE, MISSING_PLUGIN, ("the double finds no software decoder for %s", wanted->encoding), (nullptr));
        return false;
    }
    set_encoding(self->part, wanted->encoding, wanted->engine);
    if (!is_jpeg_only(self)) set_buffers(self->part, kLeastSurfaces + static_cast<guint>(self->values->as_int(EXTRA)) + late_images());
    gst_bin_add(GST_BIN(self), self->inside);
    GstPad *target = gst_element_get_static_pad(self->inside, "sink");
    bool is_linked = gst_element_link(self->inside, self->part) && gst_ghost_pad_set_target(GST_GHOST_PAD(self->sink), target);
    gst_object_unref(target);
    gst_element_sync_state_with_parent(self->inside);
    self->codec = wanted;
    return is_linked;
}

static gboolean sink_event(GstPad *pad, GstObject *parent, GstEvent *event) {
    if (GST_EVENT_TYPE(event) == GST_EVENT_CAPS) {
        GstCaps *caps = nullptr;
        gst_event_parse_caps(event, &caps);
        if (!set_codec(reinterpret_cast<DoubleNvDecoder *>(parent), caps)) {
            gst_event_unref(event);
            return FALSE;
        }
    }
    return gst_pad_event_default(pad, parent, event);
}

// The decoder inside may take more than the one that this is a double of.
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

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *) { reinterpret_cast<DoubleNvDecoder *>(object)->values->set(id, value); }
static void get_property(GObject *object, guint id, GValue *value, GParamSpec *) { reinterpret_cast<DoubleNvDecoder *>(object)->values->give(id, value); }

static void finalize(GObject *object) {
    DoubleNvDecoder *self = reinterpret_cast<DoubleNvDecoder *>(object);
    g_queue_clear_full(&self->late, reinterpret_cast<GDestroyNotify>(gst_buffer_unref));
    delete self->values;
    G_OBJECT_CLASS(decoder_parent_class)->finalize(object);
}

// Each image, which the one that leaves the decoder replaces.
static GstPadProbeReturn decoded(GstPad *, GstPadProbeInfo *info, gpointer data) {
    DoubleNvDecoder *self = static_cast<DoubleNvDecoder *>(data);
    if (self->is_broken || has_file("decoder-silent")) return GST_PAD_PROBE_DROP;
    guint late = late_images();
    if (self->is_ending || !late) return GST_PAD_PROBE_OK;
    g_queue_push_tail(&self->late, gst_buffer_ref(GST_PAD_PROBE_INFO_BUFFER(info)));
    if (g_queue_get_length(&self->late) <= late) return GST_PAD_PROBE_DROP;
    gst_buffer_unref(GST_PAD_PROBE_INFO_BUFFER(info));
    GST_PAD_PROBE_INFO_DATA(info) = g_queue_pop_head(&self->late);
    return GST_PAD_PROBE_OK;
}

// The end, which has not come to the element's own pad yet: what is left goes first.
static GstPadProbeReturn ends(GstPad *, GstPadProbeInfo *info, gpointer data) {
    DoubleNvDecoder *self = static_cast<DoubleNvDecoder *>(data);
    if (GST_EVENT_TYPE(GST_PAD_PROBE_INFO_EVENT(info)) != GST_EVENT_EOS) return GST_PAD_PROBE_OK;
    self->is_ending = true;
    while (!g_queue_is_empty(&self->late)) gst_pad_push(self->src, static_cast<GstBuffer *>(g_queue_pop_head(&self->late)));
    self->is_ending = false;
    return has_file("decoder-without-end") ? GST_PAD_PROBE_DROP : GST_PAD_PROBE_OK;
}

// NVIDIA's plug-in has the element on each machine; the device is opened here.
static GstStateChangeReturn change_state(GstElement *element, GstStateChange change) {
    if (change == GST_STATE_CHANGE_NULL_TO_READY && has_file("decoder-missing")) {
        GST_ELEMENT_ERROR(element, RESOURCE, NOT_FOUND, ("Cannot identify device '/dev/v4l2-nvdec'."), ("decoder-missing"));
        return GST_STATE_CHANGE_FAILURE;
    }
    return GST_ELEMENT_CLASS(decoder_parent_class)->change_state(element, change);
}

static void constructed(GObject *object) {
    DoubleNvDecoder *self = reinterpret_cast<DoubleNvDecoder *>(object);
    G_OBJECT_CLASS(decoder_parent_class)->constructed(object);
    bool jpeg_only = is_jpeg_only(self);
    const Part part = {jpeg_only ? "nvjpegdec" : "nvv4l2decoder", "", jpeg_only ? jpeg_src.static_caps.string : decoder_src.static_caps.string, !jpeg_only, kLeastSurfaces + 1};
    self->part = new_part(part, GST_ELEMENT(self));
    gst_bin_add(GST_BIN(self), self->part);
    GstElementClass *of = GST_ELEMENT_GET_CLASS(self);
    self->sink = gst_ghost_pad_new_no_target_from_template("sink", gst_element_class_get_pad_template(of, "sink"));
    gst_pad_set_event_function(self->sink, sink_event);
    gst_pad_set_query_function(self->sink, sink_query);
    gst_element_add_pad(GST_ELEMENT(self), self->sink);
    GstPad *target = gst_element_get_static_pad(self->part, "src");
    self->src = gst_ghost_pad_new_from_template("src", target, gst_element_class_get_pad_template(of, "src"));
    gst_pad_add_probe(self->src, GST_PAD_PROBE_TYPE_BUFFER, decoded, self, nullptr);
    gst_pad_add_probe(target, GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM, ends, self, nullptr);
    gst_element_add_pad(GST_ELEMENT(self), self->src);
    gst_object_unref(target);
}

static void decoder_class_init(DoubleNvDecoderClass *of) {
    GObjectClass *object_class = G_OBJECT_CLASS(of);
    GstElementClass *element_class = GST_ELEMENT_CLASS(of);
    object_class->set_property = set_property;
    object_class->get_property = get_property;
    object_class->finalize = finalize;
    object_class->constructed = constructed;
    element_class->change_state = change_state;
    install_properties(object_class, decoder_table(), has_file("decoder-without-mjpeg") ? "mjpeg" : "");
    gst_element_class_add_static_pad_template(element_class, &decoder_sink);
    gst_element_class_add_static_pad_template(element_class, &decoder_src);
    gst_element_class_set_static_metadata(element_class, "Double of NVIDIA's nvv4l2decoder", "Codec/DoubleNvDecoder/Video",
                                          "Test double: decodes on the CPU what a Jetson decodes on NVDEC", "jetwatch");
}

static void decoder_init(DoubleNvDecoder *self) {
    self->values = new Values(G_OBJECT_CLASS(g_type_class_peek(decoder_get_type())), decoder_table().size());
    g_queue_init(&self->late);
}

static void jpeg_decoder_class_init(DoubleNvJpegDecoderClass *of) {
    GstElementClass *element_class = GST_ELEMENT_CLASS(of);
    gst_element_class_add_static_pad_template(element_class, &jpeg_sink);
    gst_element_class_add_static_pad_template(element_class, &jpeg_src);
    gst_element_class_set_static_metadata(element_class, "Double of NVIDIA's nvjpegdec", "Codec/DoubleNvDecoder/Image",
                                          "Test double: decodes on the CPU what a Jetson decodes on NVJPG", "jetwatch");
}

static void jpeg_decoder_init(DoubleNvJpegDecoder *) {}

