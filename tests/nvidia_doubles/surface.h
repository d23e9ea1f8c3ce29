// SPDX-License-Identifier: Apache-2.0
// Shared by the double of libnvbufsurface and its users: the layout of a surface in L4T 35 and 36, and its EGL image.
//
// The names of functions and the places of fields are NVIDIA's, because callers meet them so; all else here is our own. Checks at the
// end of the file pin each place that the daemon counts on.
#pragma once
#include <cstddef>
#include <cstdint>

namespace surfaces {

constexpr uint32_t kPlanes = 4;

enum Color : uint32_t {
    kGray8 = 1,
    kI420 = 2,
    kNv12 = 6,
    kNv12Full = 7,
    kUyvy = 10,
    kYuyv = 14,
    kYvyu = 16,
    kY444 = 18,
    kRgba = 19,
    kBgrx = 24,
    kNv12Ten = 29,
    kNv12Hd = 33,
    kY42b = 49,
    kNv16 = 53,
    kNv24 = 55,
};
enum Layout : uint32_t { kPitch = 0, kBlock = 1 };
enum MemoryType : uint32_t { kDefault = 0, kSurfaceArray = 4 };

struct Planes {
    uint32_t count;
    uint32_t width[kPlanes], height[kPlanes], pitch[kPlanes], offset[kPlanes], bytes[kPlanes], pixel_bytes[kPlanes];
    void *spare[4 * kPlanes];
};

struct Mapped {
    void *address[kPlanes];
    void *egl_image;
    void *spare[4];
};

struct Picture {
    uint32_t width, height, pitch;
    uint32_t color, layout;
    uint64_t descriptor;
    uint32_t bytes;
    void *data;
    Planes planes;
    Mapped mapped;
    void *extra;
    void *spare[3];
};

struct Surface {
    uint32_t gpu, batch, filled;
    bool is_contiguous;
    uint32_t memory_type;
    Picture *pictures;
    void *spare[4];
};

struct CreateParameters {
    uint32_t gpu, width, height, size;
    bool is_contiguous;
    uint32_t color, layout, memory_type;
};

static_assert(sizeof(Surface) == 64 && offsetof(Surface, memory_type) == 16 && offsetof(Surface, pictures) == 24);
static_assert(sizeof(Picture) == 384 && offsetof(Picture, descriptor) == 24 && offsetof(Picture, planes) == 48);
static_assert(offsetof(Picture, mapped) == 280 && offsetof(Picture, mapped.egl_image) == 312 && offsetof(Picture, extra) == 352);
static_assert(sizeof(Planes) == 232 && sizeof(Mapped) == 72);

// What an EGL image of this double points at; the double of libcuda knows it by its mark.
struct EglImage {
    static constexpr uint64_t kMark = 0x6a65747761746368;
    uint64_t mark;
    unsigned char *memory;
    uint64_t bytes;
    uint32_t width, height, color, layout;
    Planes planes;
};

// Where byte `x` of row `y` of a block-linear plane lies: groups of 64 bytes by 8 rows, 16 groups to a block, one below the other.
inline size_t block_place(size_t pitch, size_t x, size_t y) {
    constexpr size_t kBlockRows = 128;
    size_t block = (y / kBlockRows) * (pitch / 64) + x / 64;
    size_t group = block * 16 + (y % kBlockRows) / 8;
    return group * 512 + ((x % 64) / 32) * 256 + ((y % 8) / 2) * 64 + ((x % 32) / 16) * 32 + (y % 2) * 16 + x % 16;
}
constexpr size_t kBlockRows = 128;

} // namespace surfaces

extern "C" {
int NvBufSurfaceCreate(surfaces::Surface **surface, uint32_t batch, surfaces::CreateParameters *parameters);
int NvBufSurfaceDestroy(surfaces::Surface *surface);
int NvBufSurfaceMap(surfaces::Surface *surface, int index, int plane, int how);
int NvBufSurfaceUnMap(surfaces::Surface *surface, int index, int plane);
int NvBufSurfaceSyncForCpu(surfaces::Surface *surface, int index, int plane);
int NvBufSurfaceSyncForDevice(surfaces::Surface *surface, int index, int plane);
int NvBufSurfaceMapEglImage(surfaces::Surface *surface, int index);
int NvBufSurfaceUnMapEglImage(surfaces::Surface *surface, int index);
}
