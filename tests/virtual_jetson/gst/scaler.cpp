// SPDX-License-Identifier: Apache-2.0
// See scaler.h.
#include "scaler.h"

#include <cstring>

namespace {

constexpr int kMostTimes = 16, kLeastSide = 16;

GstVideoResamplerMethod method_of(int interpolation) {
    switch (interpolation) {
    case 0: return GST_VIDEO_RESAMPLER_METHOD_NEAREST;
    case 1: return GST_VIDEO_RESAMPLER_METHOD_LINEAR;
    case 2: return GST_VIDEO_RESAMPLER_METHOD_CUBIC;
    default: return GST_VIDEO_RESAMPLER_METHOD_LANCZOS;
    }
}

// Bytes that stay together in a plane; 0 where pixels share them, so that it cannot be flipped.
int unit_of(const GstVideoInfo &info, guint plane) {
    switch (GST_VIDEO_INFO_FORMAT(&info)) {
    case GST_VIDEO_FORMAT_NV12:
    case GST_VIDEO_FORMAT_NV24: return plane ? 2 : 1;
    case GST_VIDEO_FORMAT_P010_10LE: return plane ? 4 : 2;
    case GST_VIDEO_FORMAT_BGRx:
    case GST_VIDEO_FORMAT_RGBA: return 4;
    case GST_VIDEO_FORMAT_I420:
    case GST_VIDEO_FORMAT_GRAY8:
    case GST_VIDEO_FORMAT_Y444: return 1;
    default: return 0;
    }
}

void flip_plane(const GstVideoFrame *from, GstVideoFrame *to, guint plane, int flip) {
    int unit = unit_of(to->info, plane);
    // Planes with one component's samples, or two next to each other: the first component determines the plane's size.
    guint component = plane;
    int width = GST_VIDEO_FRAME_COMP_WIDTH(to, component), height = GST_VIDEO_FRAME_COMP_HEIGHT(to, component);
    int source_width = GST_VIDEO_FRAME_COMP_WIDTH(from, component), source_height = GST_VIDEO_FRAME_COMP_HEIGHT(from, component);
    const char *source = static_cast<const char *>(from->data[plane]);
    char *target = static_cast<char *>(to->data[plane]);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            int column = x, row = y;
            switch (flip) {
            case 1: column = source_width - 1 - y, row = x; break;
            case 2: column = source_width - 1 - x, row = source_height - 1 - y; break;
            case 3: column = y, row = source_height - 1 - x; break;
            case 4: column = source_width - 1 - x; break;
            case 5: column = source_width - 1 - y, row = source_height - 1 - x; break;
            case 6: row = source_height - 1 - y; break;
            case 7: column = y, row = x; break;
            default: break;
            }
            memcpy(target + static_cast<ptrdiff_t>(y) * to->info.stride[plane] + x * unit,
                   source + static_cast<ptrdiff_t>(row) * from->info.stride[plane] + column * unit, static_cast<size_t>(unit));
        }
}

} // namespace

std::string vic_refusal(const Scaling &scaling) {
    int width = GST_VIDEO_INFO_WIDTH(&scaling.to), height = GST_VIDEO_INFO_HEIGHT(&scaling.to);
    if (is_turned(scaling.flip)) std::swap(width, height);
    auto text = [&](const char *why) {
        return std::to_string(scaling.width) + "x" + std::to_string(scaling.height) + " to " + std::to_string(width) + "x" +
               std::to_string(height) + ": " + why;
    };
    if (scaling.width < kLeastSide || scaling.height < kLeastSide || width < kLeastSide || height < kLeastSide)
        return text("the VIC takes and gives nothing smaller than 16x16");
    if (scaling.width > width * kMostTimes || width > scaling.width * kMostTimes || scaling.height > height * kMostTimes ||
        height > scaling.height * kMostTimes)
        return text("the VIC scales by 16 at most");
    return "";
}

bool Scaler::set(const Scaling &scaling) {
    clear();
    scaling_ = scaling;
    upright_info_ = scaling.to;
    if (scaling.flip) {
        for (guint plane = 0; plane < GST_VIDEO_INFO_N_PLANES(&scaling.to); plane++)
            if (!unit_of(scaling.to, plane)) return false;
        int width = GST_VIDEO_INFO_WIDTH(&scaling.to), height = GST_VIDEO_INFO_HEIGHT(&scaling.to);
        if (is_turned(scaling.flip)) std::swap(width, height);
        gst_video_info_set_format(&upright_info_, GST_VIDEO_INFO_FORMAT(&scaling.to), static_cast<guint>(width), static_cast<guint>(height));
        upright_info_.colorimetry = scaling.to.colorimetry;
        upright_ = gst_buffer_new_allocate(nullptr, GST_VIDEO_INFO_SIZE(&upright_info_), nullptr);
    }
    GstVideoInfo from = scaling.from;
    from.fps_n = upright_info_.fps_n = 0;
    from.fps_d = upright_info_.fps_d = 1;
    // The engines ignore the chroma siting.
    from.chroma_site = upright_info_.chroma_site;
    from.interlace_mode = upright_info_.interlace_mode = GST_VIDEO_INTERLACE_MODE_PROGRESSIVE;
    GstStructure *options = gst_structure_new(
        "options", GST_VIDEO_CONVERTER_OPT_SRC_X, G_TYPE_INT, scaling.left, GST_VIDEO_CONVERTER_OPT_SRC_Y, G_TYPE_INT, scaling.top,
        GST_VIDEO_CONVERTER_OPT_SRC_WIDTH, G_TYPE_INT, scaling.width, GST_VIDEO_CONVERTER_OPT_SRC_HEIGHT, G_TYPE_INT, scaling.height,
        GST_VIDEO_CONVERTER_OPT_RESAMPLER_METHOD, GST_TYPE_VIDEO_RESAMPLER_METHOD, method_of(scaling.interpolation), nullptr);
    // Bilinear is taken for what it is in its plainest form, and in videoscale: four neighbors, however small the image becomes.
    if (scaling.interpolation == 1) gst_structure_set(options, GST_VIDEO_RESAMPLER_OPT_MAX_TAPS, G_TYPE_INT, 2, nullptr);
    GstVideoInfo target = upright_info_;
    exact_info_ = upright_info_;
    if (GST_VIDEO_INFO_IS_YUV(&from) && GST_VIDEO_INFO_IS_RGB(&upright_info_) &&
        gst_video_color_matrix_get_Kr_Kb(from.colorimetry.matrix, &red_, &blue_)) {
        gst_video_info_set_format(&exact_info_, GST_VIDEO_FORMAT_AYUV, static_cast<guint>(upright_info_.width), static_cast<guint>(upright_info_.height));
        exact_info_.colorimetry = from.colorimetry;
        exact_info_.chroma_site = from.chroma_site;
        exact_info_.fps_n = 0, exact_info_.fps_d = 1;
        exact_ = gst_buffer_new_allocate(nullptr, GST_VIDEO_INFO_SIZE(&exact_info_), nullptr);
        target = exact_info_;
    }
    converter_ = gst_video_converter_new(&from, &target, options);
    return converter_ != nullptr;
}

void Scaler::convert(GstVideoFrame *from, GstVideoFrame *to) {
    GstVideoFrame yuv;
    if (!exact_) {
        gst_video_converter_frame(converter_, from, to);
    } else if (gst_video_frame_map(&yuv, &exact_info_, exact_, GST_MAP_READWRITE)) {
        gst_video_converter_frame(converter_, from, &yuv);
        color(&yuv, to);
        gst_video_frame_unmap(&yuv);
    }
}

// By the definition of the matrix. GStreamer's factors have 8 bits, which gives up to 4 levels more or less.
void Scaler::color(const GstVideoFrame *yuv, GstVideoFrame *rgb) const {
    int offset[4], scale[4];
    gst_video_color_range_offsets(yuv->info.colorimetry.range, yuv->info.finfo, offset, scale);
    auto level = [](double value) { return static_cast<guint8>(value <= 0 ? 0 : value >= 1 ? 255 : value * 255 + 0.5); };
    for (int y = 0; y < yuv->info.height; y++) {
        const guint8 *source = static_cast<const guint8 *>(yuv->data[0]) + static_cast<ptrdiff_t>(y) * yuv->info.stride[0];
        guint8 *target = static_cast<guint8 *>(rgb->data[0]) + static_cast<ptrdiff_t>(y) * rgb->info.stride[0];
        for (int x = 0; x < yuv->info.width; x++, source += 4, target += 4) {
            double value[3];
            for (int part = 0; part < 3; part++) value[part] = double(source[part + 1] - offset[part]) / scale[part];
            double red = value[0] + 2 * (1 - red_) * value[2], blue = value[0] + 2 * (1 - blue_) * value[1];
            memset(target, 255, 4);
            target[GST_VIDEO_FRAME_COMP_POFFSET(rgb, 0)] = level(red);
            target[GST_VIDEO_FRAME_COMP_POFFSET(rgb, 1)] = level((value[0] - red_ * red - blue_ * blue) / (1 - red_ - blue_));
            target[GST_VIDEO_FRAME_COMP_POFFSET(rgb, 2)] = level(blue);
        }
    }
}

void Scaler::run(GstVideoFrame *from, GstVideoFrame *to) {
    if (!upright_) {
        convert(from, to);
        return;
    }
    GstVideoFrame upright;
    if (!gst_video_frame_map(&upright, &upright_info_, upright_, GST_MAP_READWRITE)) return;
    convert(from, &upright);
    for (guint plane = 0; plane < GST_VIDEO_FRAME_N_PLANES(to); plane++) flip_plane(&upright, to, plane, scaling_.flip);
    gst_video_frame_unmap(&upright);
}

void Scaler::clear() {
    if (converter_) gst_video_converter_free(converter_);
    converter_ = nullptr;
    gst_clear_buffer(&upright_);
    gst_clear_buffer(&exact_);
}
