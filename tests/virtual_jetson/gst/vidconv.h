// nvvidconv's double, and what others are made of: an element that takes an image from one memory to another.
#pragma once
#include "properties.h"
#include "scaler.h"
#include <gst/base/gstbasetransform.h>

// What the element is to be when it works inside of another one.
struct Part {
    // The element that contains it and the engine that does the work there; null for nvvidconv itself.
    const char *element;
    const char *engine;
    // What it gives.
    const char *caps;
    bool gives_block;
    guint buffers;
};

struct DoubleNvVidConv {
    GstBaseTransform base;
    struct State *state;
};
struct DoubleNvVidConvClass {
    GstBaseTransformClass base;
};

GType vidconv_get_type();
// An element of that type that is a part of `owner`.
GstElement *new_part(const Part &part, GstElement *owner);
// What is counted as the source of a part, and which engine does it.
void set_encoding(GstElement *part, const char *encoding, const char *engine);
// How many buffers a part's pool has.
void set_buffers(GstElement *part, guint buffers);
