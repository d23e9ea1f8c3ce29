// SPDX-License-Identifier: Apache-2.0
// See vidconv.h. What nvvidconv does, refuses and has as properties: README.md names the sources.
#include "vidconv.h"

#include <cstring>

namespace {

const GEnumValue FLIPS[] = {{0, "none", "none"},
                            {1, "counterclockwise", "counterclockwise"},
                            {2, "rotate-180", "rotate-180"},
                            {3, "clockwise", "clockwise"},
                            {4, "horizontal-flip", "horizontal-flip"},
                            {5, "upper-right-diagonal", "upper-right-diagonal"},
                            {6, "vertical-flip", "vertical-flip"},
                            {7, "upper-left-diagonal", "upper-left-diagonal"},
                            {0, nullptr, nullptr}};
const GEnumValue METHODS[] = {{0, "Nearest", "Nearest"}, {1, "Bilinear", "Bilinear"}, {2, "5-Tap", "5-Tap"}, {3, "10-Tap", "10-Tap"},
                              {4, "Smart", "Smart"},     {5, "Nicest", "Nicest"},     {0, nullptr, nullptr}};
const GEnumValue ENGINES[] = {{0, "Default", "Default"}, {1, "GPU", "GPU"}, {2, "VIC", "VIC"}, {0, nullptr, nullptr}};
const GEnumValue MEMORIES[] = {{0, "nvbuf-mem-default", "nvbuf-mem-default"},
                               {1, "nvbuf-mem-cuda-pinned", "nvbuf-mem-cuda-pinned"},
                               {2, "nvbuf-mem-cuda-device", "nvbuf-mem-cuda-device"},
                               {3, "nvbuf-mem-cuda-unified", "nvbuf-mem-cuda-unified"},
                               {4, "nvbuf-mem-surface-array", "nvbuf-mem-surface-array"},
                               {0, nullptr, nullptr}};

enum Index { SILENT, FLIP, BUFFERS, METHOD, LEFT, RIGHT, TOP, BOTTOM, BLOCK, ENGINE, MEMORY };

const std::vector<Property> &table() {
    static const std::vector<Property> all = {
        flag("silent", false),
        choice("flip-method", "DoubleNvVidConvFlip", FLIPS, 0),
        count("output-buffers", 1, G_MAXUINT, 4),
        choice("interpolation-method", "DoubleNvVidConvInterpolation", METHODS, 0),
        number("left", 0, G_MAXINT, 0),
        number("right", 0, G_MAXINT, 0),
        number("top", 0, G_MAXINT, 0),
        number("bottom", 0, G_MAXINT, 0),
        flag("bl-output", true),
        choice("compute-hw", "DoubleNvVidConvComputeHw", ENGINES, 0),
        choice("nvbuf-memory-type", "DoubleNvVidConvMemory", MEMORIES, 0),
    };
    return all;
}

#define PLACES "video/x-raw(" NVMM "), format = (string) " PLACE_FORMATS "; video/x-raw, format = (string) " PLACE_FORMATS
GstStaticPadTemplate sink_template = GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS(PLACES));
GstStaticPadTemplate src_template = GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS(PLACES));

} // namespace

G_DEFINE_TYPE(DoubleNvVidConv, vidconv, GST_TYPE_BASE_TRANSFORM)

struct State {
    explicit State(GObjectClass *of) : values(of, table().size()) {}
    Values values;
    Part part = {};
    GstElement *owner = nullptr;
    std::string encoding;
    GstVideoInfo from, to;
    bool from_nvmm = false, to_nvmm = false, to_block = false, on_gpu = false, is_counted = false;
    std::string refusal;
    Scaler scaler;
    Counter counter;
};

static State *state_of(gpointer self) { return static_cast<DoubleNvVidConv *>(self)->state; }

// Any size in one of the memories, or, of a decoder, the size that it decodes, with its colors.
static void append_place(GstCaps *caps, const GstStructure *of, bool nvmm, bool scales) {
    GstStructure *structure = gst_structure_copy(of);
    if (scales) gst_structure_set(structure, "width", GST_TYPE_INT_RANGE, 1, G_MAXINT, "height", GST_TYPE_INT_RANGE, 1, G_MAXINT, nullptr);
    if (scales) gst_structure_remove_field(structure, "colorimetry");
    gst_structure_remove_fields(structure, "format", "chroma-site", "interlace-mode", nullptr);
    gst_caps_append_structure_full(caps, structure, nvmm ? gst_caps_features_new(NVMM, nullptr) : nullptr);
}

static GstCaps *transform_caps(GstBaseTransform *base, GstPadDirection direction, GstCaps *caps, GstCaps *filter) {
    State *state = state_of(base);
    GstCaps *result = gst_caps_new_empty();
    for (guint i = 0; i < gst_caps_get_size(caps); i++) {
        GstCapsFeatures *features = gst_caps_get_features(caps, i);
        const GstStructure *of = gst_caps_get_structure(caps, i);
        append_place(result, of, true, !state->part.element);
        // One side must be NVMM; only a part takes images from the software decoder's memory to the system's.
        if (state->part.element || (features && gst_caps_features_contains(features, NVMM))) append_place(result, of, false, !state->part.element);
    }
    GstCaps *possible = gst_static_pad_template_get_caps(direction == GST_PAD_SINK ? &src_template : &sink_template);
    if (state->part.element && direction == GST_PAD_SINK) {
        gst_caps_unref(possible);
        possible = gst_caps_from_string(state->part.caps);
    }
    GstCaps *cut = gst_caps_intersect_full(result, possible, GST_CAPS_INTERSECT_FIRST);
    gst_caps_unref(result);
    gst_caps_unref(possible);
    if (filter) {
        result = gst_caps_intersect_full(filter, cut, GST_CAPS_INTERSECT_FIRST);
        gst_caps_unref(cut);
        cut = result;
    }
    return cut;
}

static GstCaps *fixate_caps(GstBaseTransform *base, GstPadDirection, GstCaps *caps, GstCaps *others) {
    State *state = state_of(base);
    const GstStructure *from = gst_caps_get_structure(caps, 0);
    others = gst_caps_make_writable(gst_caps_truncate(others));
    GstStructure *to = gst_caps_get_structure(others, 0);
    int width = 0, height = 0;
    gst_structure_get_int(from, "width", &width);
    gst_structure_get_int(from, "height", &height);
    if (!state->part.element && is_turned(state->values.as_int(FLIP))) std::swap(width, height);
    if (const char *format = gst_structure_get_string(from, "format")) gst_structure_fixate_field_string(to, "format", format);
    gst_structure_fixate_field_nearest_int(to, "width", width);
    gst_structure_fixate_field_nearest_int(to, "height", height);
    return gst_caps_fixate(others);
}

// The crop, which is given by its edges; nothing set is all of the image. False when it is not inside.
static bool set_crop(State *state, Scaling *scaling) {
    int left = state->values.as_int(LEFT), right = state->values.as_int(RIGHT);
    int top = state->values.as_int(TOP), bottom = state->values.as_int(BOTTOM);
    scaling->left = scaling->top = 0;
    scaling->width = GST_VIDEO_INFO_WIDTH(&state->from);
    scaling->height = GST_VIDEO_INFO_HEIGHT(&state->from);
    if (!left && !right && !top && !bottom) return true;
    if (left >= right || top >= bottom || right > scaling->width || bottom > scaling->height) return false;
    scaling->left = left;
    scaling->top = top;
    scaling->width = right - left;
    scaling->height = bottom - top;
    return true;
}

// nvvidconv chooses the kind of a surface by the pixel format alone, for images that it uploads and for those that it writes: BT.601
// with limited range. Only surfaces of other elements have their own colors.
static void set_colors(GstVideoInfo *info, const GstCaps *caps, bool is_foreign_surface) {
    bool is_told = gst_structure_has_field(gst_caps_get_structure(caps, 0), "colorimetry");
    if (GST_VIDEO_INFO_IS_YUV(info) && !(is_foreign_surface && is_told)) gst_video_colorimetry_from_string(&info->colorimetry, GST_VIDEO_COLORIMETRY_BT601);
}

static gboolean set_caps(GstBaseTransform *base, GstCaps *from, GstCaps *to) {
    State *state = state_of(base);
    if (!gst_video_info_from_caps(&state->from, from) || !gst_video_info_from_caps(&state->to, to)) return FALSE;
    state->from_nvmm = is_nvmm(from);
    state->to_nvmm = is_nvmm(to);
    bool is_part = state->part.element != nullptr;
    if (!is_part) {
        set_colors(&state->from, from, state->from_nvmm);
        set_colors(&state->to, to, false);
    }
    Scaling scaling = {};
    scaling.from = state->from;
    scaling.to = state->to;
    scaling.interpolation = is_part ? 0 : state->values.as_int(METHOD);
    scaling.flip = is_part ? 0 : state->values.as_int(FLIP);
    bool on_gpu = !is_part && state->values.as_int(ENGINE) == 1;
    if (!set_crop(state, &scaling)) {
        GST_ELEMENT_ERROR(base, STREAM, FORMAT, ("the crop is outside of the picture"), ("of %" GST_PTR_FORMAT, from));
        return FALSE;
    }
    bool is_nv12 = GST_VIDEO_INFO_FORMAT(&state->to) == GST_VIDEO_FORMAT_NV12;
    state->to_block = state->to_nvmm && is_nv12 && (is_part ? state->part.gives_block : state->values.as_bool(BLOCK));
    state->refusal = is_part || on_gpu ? "" : vic_refusal(scaling);
    bool is_whole = scaling.width == GST_VIDEO_INFO_WIDTH(&state->from) && scaling.height == GST_VIDEO_INFO_HEIGHT(&state->from);
    gst_base_transform_set_passthrough(base, !is_part && is_whole && !scaling.flip && gst_caps_is_equal(from, to));
    if (!state->scaler.set(scaling)) {
        GST_ELEMENT_ERROR(base, CORE, NEGOTIATION, ("this conversion is not to be had"), ("%" GST_PTR_FORMAT " to %" GST_PTR_FORMAT, from, to));
        return FALSE;
    }
    state->counter.flush();
    state->is_counted = false;
    state->on_gpu = on_gpu;
    return TRUE;
}

// Reports the counted layout when the first image arrives.
static void begin_counting(GstBaseTransform *base, State *state, GstBuffer *in) {
    surfaces::Surface *surface = surface_of(in);
    bool from_block = surface && surface->pictures[0].layout == surfaces::kBlock;
    Place from = {state->from, state->from_nvmm, from_block}, to = {state->to, state->to_nvmm, state->to_block};
    if (state->part.element && !state->part.engine)
        ; // Its owner counts.
    else if (state->part.element)
        state->counter.set_encoded(state->part.element, GST_OBJECT_NAME(state->owner), state->part.engine, state->encoding.c_str(), to);
    else
        state->counter.set("nvvidconv", GST_OBJECT_NAME(base), state->on_gpu ? "GPU" : "VIC", from, to);
    state->is_counted = true;
}

static gboolean unit_size(GstBaseTransform *, GstCaps *caps, gsize *size) {
    GstVideoInfo info;
    if (!gst_video_info_from_caps(&info, caps)) return FALSE;
    *size = is_nvmm(caps) ? sizeof(surfaces::Surface) : GST_VIDEO_INFO_SIZE(&info);
    return TRUE;
}

static gboolean decide_allocation(GstBaseTransform *base, GstQuery *query) {
    State *state = state_of(base);
    GstCaps *caps = nullptr;
    gst_query_parse_allocation(query, &caps, nullptr);
    if (!caps || !is_nvmm(caps)) {
        // A foreign pool may hold memory that this element does not know; ordinary memory is used.
        while (gst_query_get_n_allocation_pools(query) > 0) gst_query_remove_nth_allocation_pool(query, 0);
        return GST_BASE_TRANSFORM_CLASS(vidconv_parent_class)->decide_allocation(base, query);
    }
    GstVideoInfo info;
    if (!gst_video_info_from_caps(&info, caps)) return FALSE;
    guint buffers = state->part.element ? state->part.buffers : static_cast<guint>(state->values.as_int(BUFFERS));
    GstBufferPool *pool = new_pool(caps, info, state->to_block, buffers);
    if (!pool) return FALSE;
    while (gst_query_get_n_allocation_pools(query) > 0) gst_query_remove_nth_allocation_pool(query, 0);
    gst_query_add_allocation_pool(query, pool, sizeof(surfaces::Surface), buffers, buffers);
    gst_object_unref(pool);
    return TRUE;
}

static gboolean propose_allocation(GstBaseTransform *base, GstQuery *decided, GstQuery *query) {
    if (gst_base_transform_is_passthrough(base))
        return GST_BASE_TRANSFORM_CLASS(vidconv_parent_class)->propose_allocation(base, decided, query);
    gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
    return TRUE;
}

static GstFlowReturn transform(GstBaseTransform *base, GstBuffer *in, GstBuffer *out) {
    State *state = state_of(base);
    if (!state->refusal.empty()) {
        GST_ELEMENT_ERROR(base, STREAM, FAILED, ("NvBufSurfTransform failed"), ("%s", state->refusal.c_str()));
        return GST_FLOW_ERROR;
    }
    Rows from, to;
    if (!from.open(in, state->from, GST_MAP_READ) || !to.open(out, state->to, GST_MAP_WRITE)) {
        GST_ELEMENT_ERROR(base, RESOURCE, FAILED, ("a buffer cannot be mapped"), (nullptr));
        return GST_FLOW_ERROR;
    }
    if (!state->is_counted) begin_counting(base, state, in);
    state->scaler.run(&from.frame, &to.frame);
    state->counter.frame();
    return GST_FLOW_OK;
}

static gboolean stop(GstBaseTransform *base) {
    state_of(base)->counter.flush();
    return TRUE;
}

static gboolean sink_event(GstBaseTransform *base, GstEvent *event) {
    if (GST_EVENT_TYPE(event) == GST_EVENT_EOS) state_of(base)->counter.flush();
    return GST_BASE_TRANSFORM_CLASS(vidconv_parent_class)->sink_event(base, event);
}

static void set_property(GObject *object, guint id, const GValue *value, GParamSpec *) {
    state_of(object)->values.set(id, value);
    // Crops and flips may change while it plays.
    gst_base_transform_reconfigure_sink(GST_BASE_TRANSFORM(object));
}

static void get_property(GObject *object, guint id, GValue *value, GParamSpec *) { state_of(object)->values.give(id, value); }

static void finalize(GObject *object) {
    delete state_of(object);
    G_OBJECT_CLASS(vidconv_parent_class)->finalize(object);
}

static void vidconv_class_init(DoubleNvVidConvClass *of) {
    GObjectClass *object_class = G_OBJECT_CLASS(of);
    GstElementClass *element_class = GST_ELEMENT_CLASS(of);
    object_class->set_property = set_property;
    object_class->get_property = get_property;
    object_class->finalize = finalize;
    install_properties(object_class, table());
    gst_element_class_add_static_pad_template(element_class, &sink_template);
    gst_element_class_add_static_pad_template(element_class, &src_template);
    gst_element_class_set_static_metadata(element_class, "Double of NVIDIA's nvvidconv", "Filter/Converter/Video/Scaler",
                                          "Test double: does on the CPU what a Jetson does on the VIC", "jetwatch");
    GstBaseTransformClass *base_class = &of->base;
    base_class->transform_caps = transform_caps;
    base_class->fixate_caps = fixate_caps;
    base_class->set_caps = set_caps;
    base_class->get_unit_size = unit_size;
    base_class->decide_allocation = decide_allocation;
    base_class->propose_allocation = propose_allocation;
    base_class->transform = transform;
    base_class->stop = stop;
    base_class->sink_event = sink_event;
    base_class->passthrough_on_same_caps = FALSE;
}

static void vidconv_init(DoubleNvVidConv *self) { self->state = new State(G_OBJECT_GET_CLASS(self)); }

GstElement *new_part(const Part &part, GstElement *owner) {
    auto *element = GST_ELEMENT(g_object_new(vidconv_get_type(), nullptr));
    state_of(element)->part = part;
    state_of(element)->owner = owner;
    return element;
}

void set_encoding(GstElement *part, const char *encoding, const char *engine) {
    state_of(part)->encoding = encoding;
    state_of(part)->part.engine = engine;
}
void set_buffers(GstElement *part, guint buffers) { state_of(part)->part.buffers = buffers; }
