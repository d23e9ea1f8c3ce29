// SPDX-License-Identifier: Apache-2.0
// A libnvbufsurface for machines that are no Jetson: images of NVMM in the host's memory.
//
// Surfaces are of the kind that Jetson's elements hand on: one image in a surface array, with a descriptor, without an address
// until it is mapped. Block-linear images are swizzled as on the Xavier, so that reading them as rows gives garbage.
// Errors that NVIDIA documents return -1; use of a destroyed surface ends the process.
//
// Environment: JETWATCH_DOUBLE_SURFACE_FAIL (NAME[:CALLS BEFORE]: this function returns -1), JETWATCH_DOUBLE_COUNTS (set: prints at
// the end what is still there, and how often EGL images were made).
#include "surface.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace surfaces;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Rows begin at multiples of 256 bytes, planes on pages of their own.
constexpr uint32_t kPitchStep = 256, kPlaneStep = 4096;

[[noreturn]] void wrong(const char *call, const char *what) {
    fprintf(stderr, "double: libnvbufsurface: %s: %s\n", call, what);
    abort();
}

struct World {
    std::mutex mutex;
    // A plain list: the tables of newer compilers need a newer library of C++ than Ubuntu 20.04 and Debian 11 have.
    std::vector<const Surface *> alive;
    uint64_t images = 0, made_images = 0;
    std::map<std::string, uint64_t> calls;

    ~World() {
        if (getenv("JETWATCH_DOUBLE_COUNTS"))
            fprintf(stderr, "double: libnvbufsurface: alive: surfaces=%zu images=%llu made images=%llu\n", alive.size(),
                    static_cast<unsigned long long>(images), static_cast<unsigned long long>(made_images));
    }
};

World &world() {
    static World world;
    return world;
}

bool asked_to_fail(const char *call) {
    static const std::string text = getenv("JETWATCH_DOUBLE_SURFACE_FAIL") ? getenv("JETWATCH_DOUBLE_SURFACE_FAIL") : "";
    size_t colon = text.find(':');
    if (text.empty() || text.substr(0, colon) != call) return false;
    uint64_t before = colon == std::string::npos ? 0 : strtoull(text.c_str() + colon + 1, nullptr, 10);
    return world().calls[call]++ >= before;
}

bool is_alive(const Surface *surface) {
    const std::vector<const Surface *> &alive = world().alive;
    return std::find(alive.begin(), alive.end(), surface) != alive.end();
}

#define ENTER(surface)                                                                                                  \
    std::lock_guard<std::mutex> lock(world().mutex);                                                                    \
    if (!(surface)) return -1;                                                                                          \
    if (!is_alive(surface)) wrong(__func__, "no surface, or one that was destroyed");                        \
    if (asked_to_fail(__func__)) return -1

struct Shape {
    uint32_t planes;
    // By plane: how often width and height are halved, and bytes of a place.
    struct {
        uint32_t across, down, bytes;
    } plane[3];
};

bool shape_of(uint32_t color, Shape *shape) {
    switch (color) {
    case kGray8: *shape = {1, {{0, 0, 1}}}; return true;
    case kI420: *shape = {3, {{0, 0, 1}, {1, 1, 1}, {1, 1, 1}}}; return true;
    case kNv12:
    case kNv12Full:
    case kNv12Hd: *shape = {2, {{0, 0, 1}, {1, 1, 2}}}; return true;
    case kNv12Ten: *shape = {2, {{0, 0, 2}, {1, 1, 4}}}; return true;
    case kUyvy:
    case kYuyv:
    case kYvyu: *shape = {1, {{0, 0, 2}}}; return true;
    case kY444: *shape = {3, {{0, 0, 1}, {0, 0, 1}, {0, 0, 1}}}; return true;
    case kY42b: *shape = {3, {{0, 0, 1}, {1, 0, 1}, {1, 0, 1}}}; return true;
    case kNv16: *shape = {2, {{0, 0, 1}, {1, 0, 2}}}; return true;
    case kNv24: *shape = {2, {{0, 0, 1}, {0, 0, 2}}}; return true;
    case kRgba:
    case kBgrx: *shape = {1, {{0, 0, 4}}}; return true;
    default: return false;
    }
}

uint32_t up(uint32_t number, uint32_t step) { return (number + step - 1) / step * step; }

unsigned char *memory_of(const Picture &picture) { return static_cast<unsigned char *>(picture.spare[0]); }

} // namespace

EXPORT int NvBufSurfaceCreate(Surface **surface, uint32_t batch, CreateParameters *parameters) {
    std::lock_guard<std::mutex> lock(world().mutex);
    Shape shape;
    if (!surface || batch != 1 || !parameters || !parameters->width || !parameters->height) return -1;
    if (parameters->layout > kBlock || !shape_of(parameters->color, &shape) || asked_to_fail(__func__)) return -1;
    if (parameters->memory_type != kDefault && parameters->memory_type != kSurfaceArray) return -1;
    Picture *picture = new Picture();
    picture->width = parameters->width;
    picture->height = parameters->height;
    picture->color = parameters->color;
    picture->layout = parameters->layout;
    Planes &planes = picture->planes;
    planes.count = shape.planes;
    for (uint32_t plane = 0; plane < shape.planes; plane++) {
        auto &of = shape.plane[plane];
        planes.width[plane] = (parameters->width + of.across) >> of.across;
        planes.height[plane] = (parameters->height + of.down) >> of.down;
        planes.pitch[plane] = up(planes.width[plane] * of.bytes, kPitchStep);
        planes.offset[plane] = picture->bytes;
        uint32_t rows = parameters->layout == kBlock ? up(planes.height[plane], kBlockRows) : planes.height[plane];
        planes.bytes[plane] = up(planes.pitch[plane] * rows, kPlaneStep);
        planes.pixel_bytes[plane] = of.bytes;
        picture->bytes += planes.bytes[plane];
    }
    picture->pitch = planes.pitch[0];
    int descriptor = memfd_create("double of a dmabuf", MFD_CLOEXEC);
    void *memory = MAP_FAILED;
    if (descriptor >= 0 && ftruncate(descriptor, picture->bytes) == 0)
        memory = mmap(nullptr, picture->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory == MAP_FAILED) {
        if (descriptor >= 0) close(descriptor);
        delete picture;
        return -1;
    }
    picture->descriptor = static_cast<uint64_t>(descriptor);
    picture->spare[0] = memory;
    Surface *made = new Surface();
    made->batch = 1;
    made->memory_type = kSurfaceArray;
    made->pictures = picture;
    world().alive.push_back(made);
    *surface = made;
    return 0;
}

EXPORT int NvBufSurfaceDestroy(Surface *surface) {
    ENTER(surface);
    Picture *picture = surface->pictures;
    if (picture->mapped.egl_image) wrong(__func__, "the surface still has an EGL image");
    munmap(memory_of(*picture), picture->bytes);
    close(static_cast<int>(picture->descriptor));
    std::vector<const Surface *> &alive = world().alive;
    alive.erase(std::find(alive.begin(), alive.end(), surface));
    delete picture;
    delete surface;
    return 0;
}

EXPORT int NvBufSurfaceMap(Surface *surface, int index, int plane, int how) {
    ENTER(surface);
    Picture &picture = surface->pictures[0];
    if (index > 0 || plane >= static_cast<int>(picture.planes.count) || how < 0 || how > 2) return -1;
    for (int each = 0; each < static_cast<int>(picture.planes.count); each++)
        if (plane < 0 || plane == each) picture.mapped.address[each] = memory_of(picture) + picture.planes.offset[each];
    return 0;
}

EXPORT int NvBufSurfaceUnMap(Surface *surface, int index, int plane) {
    ENTER(surface);
    if (index > 0 || plane >= static_cast<int>(kPlanes)) return -1;
    for (int each = 0; each < static_cast<int>(kPlanes); each++)
        if (plane < 0 || plane == each) surface->pictures[0].mapped.address[each] = nullptr;
    return 0;
}

EXPORT int NvBufSurfaceSyncForCpu(Surface *surface, int index, int) {
    ENTER(surface);
    return index > 0 ? -1 : 0;
}

EXPORT int NvBufSurfaceSyncForDevice(Surface *surface, int index, int) {
    ENTER(surface);
    return index > 0 ? -1 : 0;
}

EXPORT int NvBufSurfaceMapEglImage(Surface *surface, int index) {
    ENTER(surface);
    if (index > 0 || surface->memory_type != kSurfaceArray) return -1;
    Picture &picture = surface->pictures[0];
    if (picture.mapped.egl_image) return 0;
    EglImage *image = new EglImage{EglImage::kMark, memory_of(picture), picture.bytes,  picture.width,
                                   picture.height,  picture.color,      picture.layout, picture.planes};
    picture.mapped.egl_image = image;
    world().images++;
    world().made_images++;
    return 0;
}

EXPORT int NvBufSurfaceUnMapEglImage(Surface *surface, int index) {
    ENTER(surface);
    Picture &picture = surface->pictures[0];
    EglImage *image = static_cast<EglImage *>(picture.mapped.egl_image);
    if (index > 0 || !image) return -1;
    // Memory of dead images is kept, so that a late use is found.
    image->mark = 0;
    picture.mapped.egl_image = nullptr;
    world().images--;
    return 0;
}
