// SPDX-License-Identifier: Apache-2.0
// See nvmm.h.
#include "nvmm.h"

#include <cstring>

using namespace surfaces;

namespace {

struct Memory {
    GstMemory base;
    Surface *surface;
    // Elements of two pipelines may read one image at once; the addresses are those of the surface, and the last one takes them away.
    GMutex mutex;
    guint users;
};

struct DoubleNvmmAllocator {
    GstAllocator base;
};
struct DoubleNvmmAllocatorClass {
    GstAllocatorClass base;
};
G_DEFINE_TYPE(DoubleNvmmAllocator, nvmm_allocator, GST_TYPE_ALLOCATOR)

constexpr const char *kType = "double of NVMM";

gpointer map_memory(GstMemory *memory, gsize, GstMapFlags) { return reinterpret_cast<Memory *>(memory)->surface; }
void unmap_memory(GstMemory *) {}

GstMemory *refuse_share(GstMemory *, gssize, gssize) { return nullptr; }

void free_memory(GstAllocator *, GstMemory *base) {
    Memory *memory = reinterpret_cast<Memory *>(base);
    NvBufSurfaceDestroy(memory->surface);
    g_mutex_clear(&memory->mutex);
    g_free(memory);
}

void nvmm_allocator_class_init(DoubleNvmmAllocatorClass *of) { of->base.free = free_memory; }

void nvmm_allocator_init(DoubleNvmmAllocator *self) {
    self->base.mem_type = kType;
    self->base.mem_map = map_memory;
    self->base.mem_unmap = unmap_memory;
    self->base.mem_share = refuse_share;
    GST_OBJECT_FLAG_SET(self, GST_ALLOCATOR_FLAG_CUSTOM_ALLOC);
}

GstAllocator *allocator() {
    static GstAllocator *one = [] {
        auto *made = static_cast<GstAllocator *>(g_object_new(nvmm_allocator_get_type(), nullptr));
        gst_object_ref_sink(made);
        GST_OBJECT_FLAG_SET(made, GST_OBJECT_FLAG_MAY_BE_LEAKED);
        return made;
    }();
    return one;
}

struct DoubleNvmmPool {
    GstBufferPool base;
    GstVideoInfo info;
    bool is_block;
};
struct DoubleNvmmPoolClass {
    GstBufferPoolClass base;
};
G_DEFINE_TYPE(DoubleNvmmPool, nvmm_pool, GST_TYPE_BUFFER_POOL)

GstFlowReturn make_buffer(GstBufferPool *pool, GstBuffer **buffer, GstBufferPoolAcquireParams *) {
    DoubleNvmmPool *self = reinterpret_cast<DoubleNvmmPool *>(pool);
    *buffer = new_buffer(self->info, self->is_block);
    return *buffer ? GST_FLOW_OK : GST_FLOW_ERROR;
}

void nvmm_pool_class_init(DoubleNvmmPoolClass *of) { of->base.alloc_buffer = make_buffer; }
void nvmm_pool_init(DoubleNvmmPool *) {}

bool take_addresses(Memory *memory, bool is_written) {
    g_mutex_lock(&memory->mutex);
    bool is_done = NvBufSurfaceMap(memory->surface, 0, -1, is_written ? 2 : 0) == 0 && NvBufSurfaceSyncForCpu(memory->surface, 0, -1) == 0;
    if (is_done) memory->users++;
    g_mutex_unlock(&memory->mutex);
    return is_done;
}

void leave_addresses(Memory *memory) {
    g_mutex_lock(&memory->mutex);
    NvBufSurfaceSyncForDevice(memory->surface, 0, -1);
    if (--memory->users == 0) NvBufSurfaceUnMap(memory->surface, 0, -1);
    g_mutex_unlock(&memory->mutex);
}

// Goes through the bytes of a plane, 16 at a time: these lie together in both layouts.
template <class Move> void each_group(const Planes &planes, guint plane, Move move) {
    for (size_t y = 0; y < planes.height[plane]; y++)
        for (size_t x = 0; x < planes.pitch[plane]; x += 16)
            move(y * planes.pitch[plane] + x, block_place(planes.pitch[plane], x, y));
}

} // namespace

static Memory *memory_of(GstBuffer *buffer) {
    GstMemory *memory = gst_buffer_n_memory(buffer) == 1 ? gst_buffer_peek_memory(buffer, 0) : nullptr;
    return memory && gst_memory_is_type(memory, kType) ? reinterpret_cast<Memory *>(memory) : nullptr;
}

Surface *surface_of(GstBuffer *buffer) {
    Memory *memory = memory_of(buffer);
    return memory ? memory->surface : nullptr;
}

uint32_t color_of(GstVideoFormat format) {
    switch (format) {
    case GST_VIDEO_FORMAT_GRAY8: return kGray8;
    case GST_VIDEO_FORMAT_I420: return kI420;
    case GST_VIDEO_FORMAT_NV12: return kNv12;
    case GST_VIDEO_FORMAT_UYVY: return kUyvy;
    case GST_VIDEO_FORMAT_YUY2: return kYuyv;
    case GST_VIDEO_FORMAT_YVYU: return kYvyu;
    case GST_VIDEO_FORMAT_NV16: return kNv16;
    case GST_VIDEO_FORMAT_NV24: return kNv24;
    case GST_VIDEO_FORMAT_P010_10LE: return kNv12Ten;
    case GST_VIDEO_FORMAT_BGRx: return kBgrx;
    case GST_VIDEO_FORMAT_RGBA: return kRgba;
    case GST_VIDEO_FORMAT_Y42B: return kY42b;
    case GST_VIDEO_FORMAT_Y444: return kY444;
    default: return 0;
    }
}

bool is_nvmm(const GstCaps *caps) {
    GstCapsFeatures *features = gst_caps_get_size(caps) ? gst_caps_get_features(caps, 0) : nullptr;
    return features && gst_caps_features_contains(features, NVMM);
}

GstBuffer *new_buffer(const GstVideoInfo &info, bool is_block) {
    CreateParameters parameters = {};
    parameters.width = static_cast<uint32_t>(GST_VIDEO_INFO_WIDTH(&info));
    parameters.height = static_cast<uint32_t>(GST_VIDEO_INFO_HEIGHT(&info));
    parameters.color = color_of(GST_VIDEO_INFO_FORMAT(&info));
    parameters.layout = is_block ? kBlock : kPitch;
    Surface *surface = nullptr;
    if (NvBufSurfaceCreate(&surface, 1, &parameters) != 0) return nullptr;
    surface->filled = 1;
    Memory *memory = g_new0(Memory, 1);
    gst_memory_init(GST_MEMORY_CAST(memory), GST_MEMORY_FLAG_NO_SHARE, allocator(), nullptr, sizeof(Surface), 0, 0, sizeof(Surface));
    memory->surface = surface;
    g_mutex_init(&memory->mutex);
    GstBuffer *buffer = gst_buffer_new();
    gst_buffer_append_memory(buffer, GST_MEMORY_CAST(memory));
    return buffer;
}

GstBufferPool *new_pool(GstCaps *caps, const GstVideoInfo &info, bool is_block, guint count) {
    auto *pool = static_cast<GstBufferPool *>(g_object_new(nvmm_pool_get_type(), nullptr));
    gst_object_ref_sink(pool);
    reinterpret_cast<DoubleNvmmPool *>(pool)->info = info;
    reinterpret_cast<DoubleNvmmPool *>(pool)->is_block = is_block;
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, caps, sizeof(Surface), count, count);
    if (gst_buffer_pool_set_config(pool, config)) return pool;
    gst_object_unref(pool);
    return nullptr;
}

bool Rows::open(GstBuffer *buffer, const GstVideoInfo &info, GstMapFlags flags) {
    close();
    surface_ = surface_of(buffer);
    is_written_ = flags & GST_MAP_WRITE;
    if (!surface_) {
        // Before GStreamer 1.20 it wants to be able to write there.
        GstVideoInfo copy = info;
        is_open_ = gst_video_frame_map(&frame, &copy, buffer, flags);
        return is_open_;
    }
    const Picture &picture = surface_->pictures[0];
    bool fits = picture.width == static_cast<uint32_t>(GST_VIDEO_INFO_WIDTH(&info)) &&
                picture.height == static_cast<uint32_t>(GST_VIDEO_INFO_HEIGHT(&info)) &&
                picture.color == color_of(GST_VIDEO_INFO_FORMAT(&info));
    if (!fits || !take_addresses(memory_of(buffer), is_written_)) return false;
    memory_ = gst_memory_ref(gst_buffer_peek_memory(buffer, 0));
    memset(&frame, 0, sizeof frame);
    frame.info = info;
    if (picture.layout == kBlock) linear_ = static_cast<unsigned char *>(g_malloc0(picture.bytes));
    for (guint plane = 0; plane < picture.planes.count; plane++) {
        unsigned char *memory = static_cast<unsigned char *>(picture.mapped.address[plane]);
        unsigned char *rows = linear_ ? linear_ + picture.planes.offset[plane] : memory;
        if (linear_ && (flags & GST_MAP_READ))
            each_group(picture.planes, plane, [&](size_t row, size_t block) { memcpy(rows + row, memory + block, 16); });
        frame.data[plane] = rows;
        frame.info.stride[plane] = static_cast<gint>(picture.planes.pitch[plane]);
        frame.info.offset[plane] = picture.planes.offset[plane];
    }
    is_open_ = true;
    return true;
}

void Rows::close() {
    if (!is_open_) return;
    is_open_ = false;
    if (!surface_) {
        gst_video_frame_unmap(&frame);
        return;
    }
    const Picture &picture = surface_->pictures[0];
    for (guint plane = 0; linear_ && is_written_ && plane < picture.planes.count; plane++) {
        unsigned char *memory = static_cast<unsigned char *>(picture.mapped.address[plane]);
        const unsigned char *rows = linear_ + picture.planes.offset[plane];
        each_group(picture.planes, plane, [&](size_t row, size_t block) { memcpy(memory + block, rows + row, 16); });
    }
    g_free(linear_);
    linear_ = nullptr;
    leave_addresses(reinterpret_cast<Memory *>(memory_));
    gst_memory_unref(memory_);
}
