// SPDX-License-Identifier: Apache-2.0
// nvvidconv's double, and the base of others: an element that takes an image from one memory to another.
#pragma once
#include "properties.h"
#include "scaler.h"
#include <gst/base/gstbasetransform.h>

// Configuration of the element inside of another one.
struct Part {
    // The element that contains it and the engine that does the work there; null for nvvidconv itself. Without an engine the element
    // counts.
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
// The counted source of a part, and its engine.
void set_encoding(GstElement *part, const char *encoding, const char *engine);
// How many buffers a part's pool has.
void set_buffers(GstElement *part, guint buffers);
