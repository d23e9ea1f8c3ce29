// SPDX-License-Identifier: Apache-2.0
// Memory of NVMM: buffers whose bytes are a surface of the double of libnvbufsurface, as `gst_buffer_map` shows them on a Jetson.
#pragma once
#include "../../nvidia_doubles/surface.h"
#include "machine.h"

#define NVMM "memory:NVMM"

// Formats that both sides of a converter take: three-channel RGB is not among them.
#define PLACE_FORMATS "{ I420, NV12, UYVY, YUY2, YVYU, NV16, NV24, P010_10LE, GRAY8, BGRx, RGBA, Y42B, Y444 }"

// The surface of a buffer; null for other memory.
surfaces::Surface *surface_of(GstBuffer *buffer);

// NVIDIA's number of a format; 0 when a surface cannot have it.
uint32_t color_of(GstVideoFormat format);

// Whether caps are those of NVMM.
bool is_nvmm(const GstCaps *caps);

// A pool of `count` surfaces of this format and size, neither more nor less; null when they cannot be had.
GstBufferPool *new_pool(GstCaps *caps, const GstVideoInfo &info, bool is_block, guint count);

// One buffer with a surface of its own.
GstBuffer *new_buffer(const GstVideoInfo &info, bool is_block);

// A buffer's image in rows, whatever its memory; block-linear images are read from and written to their places.
class Rows {
  public:
    Rows() = default;
    Rows(const Rows &) = delete;
    ~Rows() { close(); }
    bool open(GstBuffer *buffer, const GstVideoInfo &info, GstMapFlags flags);
    void close();
    GstVideoFrame frame;

  private:
    bool is_open_ = false, is_written_ = false;
    surfaces::Surface *surface_ = nullptr;
    GstMemory *memory_ = nullptr;
    unsigned char *linear_ = nullptr;
};
