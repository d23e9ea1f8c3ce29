// SPDX-License-Identifier: Apache-2.0
// What the VIC's double computes: crop, scale, color, flip; and what the VIC refuses.
#pragma once
#include "nvmm.h"

struct Scaling {
    GstVideoInfo from, to;
    // The part of the source that is taken.
    int left, top, width, height;
    // As in the element's property: 0 nearest, 1 bilinear, and better ones.
    int interpolation;
    // As in the element's property: 0 none to 7.
    int flip;
};

// Whether a flip changes width and height.
inline bool is_turned(int flip) { return flip == 1 || flip == 3 || flip == 5 || flip == 7; }

// Why the VIC refuses it; empty if it accepts it.
std::string vic_refusal(const Scaling &scaling);

// Does it, frame by frame.
class Scaler {
  public:
    ~Scaler() { clear(); }
    bool set(const Scaling &scaling);
    void run(GstVideoFrame *from, GstVideoFrame *to);
    void clear();

  private:
    void convert(GstVideoFrame *from, GstVideoFrame *to);
    void color(const GstVideoFrame *yuv, GstVideoFrame *rgb) const;

    Scaling scaling_ = {};
    GstVideoConverter *converter_ = nullptr;
    // The image before its colors are converted, where they are, and the weights of red and blue.
    GstBuffer *exact_ = nullptr;
    GstVideoInfo exact_info_;
    double red_ = 0, blue_ = 0;
    // The image before it is flipped.
    GstBuffer *upright_ = nullptr;
    GstVideoInfo upright_info_;
};
