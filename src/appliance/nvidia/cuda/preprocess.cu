// Images to the network's input tensor: padding, plane order, normalization and element type, one launch per batch.
//
// The tensor is [batch, 3, height, width]; every element is written. A thread writes 16 bytes of each plane: 4 pixels as
// 32-bit floats, 8 as 16-bit floats, 16 as bytes. Arithmetic is rounded after each step, so that 32-bit floats equal those
// that the CPU writes, bit for bit; NV12 becomes RGB in integers for the same reason.
//
// preprocess.rs has the Rust side of `Picture` (`ImageEntry`) and `Job` (`KernelParams`); make-ptx compiles this file to
// preprocess.ptx.
#include "intrinsics.h"

// One image of the batch: 48 bytes, 16-byte aligned.
struct Picture {
    u64 pixels;       // address of the first BGRx pixel, or of the first luma byte
    u64 chroma;       // NV12: address of the first pair of chroma bytes
    u32 pitch;        // bytes from one row to the next
    u32 chroma_pitch; // NV12: the same for chroma rows
    u32 width;        // pixels in a row
    u32 height;       // rows
    u32 left;         // column of the tensor at which the image begins
    u32 top;          // row of the tensor at which it begins
    u32 unused[2];
};

// Parameters for the whole batch.
struct Job {
    u64 pictures;     // address of the batch's array of Picture
    u64 output;       // address of the tensor, 16-byte aligned
    u32 width;        // of the tensor
    u32 height;
    u32 groups;       // a group is 16 bytes of each plane
    u32 whole;        // whether no thread's pixels go beyond a row
    u32 shift[3];     // which byte of a BGRx word each plane takes, in bits
    float mean[3];    // value = (byte - mean) * scale
    float scale[3];
    float padding[3]; // value outside of the image
    float quantum;    // bytes only: written is value * quantum, rounded, from low to high
    float low;
    float high;
    int luma;         // NV12, in units of 2^-16: what a step of luma, of V for red, of U and V for green, of U for blue adds
    int v_to_red;
    int u_to_green;
    int v_to_green;
    int u_to_blue;
};

struct AsFloat {
    static const int PIXELS_PER_WORD = 1;
    INLINE u32 encode(const Job &, float value) { return float_bits(value); }
    INLINE void store(u64 plane, u64 index, u32 bits) { store_u32(plane + 4 * index, bits); }
};

struct AsHalf {
    static const int PIXELS_PER_WORD = 2;
    INLINE u32 encode(const Job &, float value) { return half_bits(value); }
    INLINE void store(u64 plane, u64 index, u32 bits) { store_u16(plane + 2 * index, bits); }
};

struct AsByte {
    static const int PIXELS_PER_WORD = 4;
    INLINE u32 encode(const Job &job, float value) {
        float rounded = round_even(multiply(value, job.quantum));
        rounded = rounded < job.low ? job.low : rounded;
        rounded = rounded > job.high ? job.high : rounded;
        return static_cast<u32>(static_cast<int>(rounded)) & 0xff;
    }
    INLINE void store(u64 plane, u64 index, u32 bits) { store_u8(plane + index, bits); }
};

struct Bgrx {
    INLINE u32 pixel(const Job &, const Picture &picture, u32 x, u32 y) {
        return load_u32(picture.pixels + static_cast<u64>(y) * picture.pitch + 4 * x);
    }
    // Pixels x to x + COUNT - 1 of row y, all inside the image; false if they need more than a few accesses.
    template <int COUNT> INLINE bool pixels(const Job &, const Picture &picture, u32 x, u32 y, u32 *into) {
        u64 address = picture.pixels + static_cast<u64>(y) * picture.pitch + 4 * x;
        if (address % 16 == 0) {
#pragma unroll
            for (int quad = 0; quad < COUNT / 4; quad++) {
                Words words = load_words(address + 16 * quad);
#pragma unroll
                for (int i = 0; i < 4; i++) into[4 * quad + i] = words.word[i];
            }
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i++) into[i] = load_u32(address + 4 * i);
        }
        return true;
    }
};

struct Nv12 {
    INLINE u32 clamped(int value) {
        value = (value + 32768) >> 16;
        value = value < 0 ? 0 : value;
        return static_cast<u32>(value > 255 ? 255 : value);
    }
    INLINE u32 convert(const Job &job, u32 luma, u32 u_byte, u32 v_byte) {
        int y = job.luma * (static_cast<int>(luma) - 16);
        int u = static_cast<int>(u_byte) - 128, v = static_cast<int>(v_byte) - 128;
        u32 red = clamped(y + job.v_to_red * v);
        u32 green = clamped(y + job.u_to_green * u + job.v_to_green * v);
        u32 blue = clamped(y + job.u_to_blue * u);
        return blue | green << 8 | red << 16;
    }
    INLINE u32 pixel(const Job &job, const Picture &picture, u32 x, u32 y) {
        u64 chroma = picture.chroma + static_cast<u64>(y / 2) * picture.chroma_pitch + (x & ~1u);
        u32 luma = load_u8(picture.pixels + static_cast<u64>(y) * picture.pitch + x);
        return convert(job, luma, load_u8(chroma), load_u8(chroma + 1));
    }
    template <int COUNT> INLINE bool pixels(const Job &job, const Picture &picture, u32 x, u32 y, u32 *into) {
        u64 luma = picture.pixels + static_cast<u64>(y) * picture.pitch + x;
        u64 chroma = picture.chroma + static_cast<u64>(y / 2) * picture.chroma_pitch + x;
        if ((luma | chroma) % 4 != 0 || x % 2 != 0) return false;
#pragma unroll
        for (int quad = 0; quad < COUNT / 4; quad++) {
            u32 four = load_u32(luma + 4 * quad), pairs = load_u32(chroma + 4 * quad);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                u32 pair = pairs >> (i / 2 * 16);
                into[4 * quad + i] = convert(job, four >> (8 * i) & 0xff, pair & 0xff, pair >> 8 & 0xff);
            }
        }
        return true;
    }
};

INLINE Picture load_picture(u64 address) {
    Words first = load_words(address), second = load_words(address + 16), third = load_words(address + 32);
    Picture picture;
    picture.pixels = first.word[0] | static_cast<u64>(first.word[1]) << 32;
    picture.chroma = first.word[2] | static_cast<u64>(first.word[3]) << 32;
    picture.pitch = second.word[0];
    picture.chroma_pitch = second.word[1];
    picture.width = second.word[2];
    picture.height = second.word[3];
    picture.left = third.word[0];
    picture.top = third.word[1];
    return picture;
}

// The element of one plane: from the pixel, or padding.
template <class Element> INLINE u32 number(const Job &job, int plane, bool inside, u32 pixel) {
    float byte = static_cast<float>(static_cast<int>(pixel >> job.shift[plane] & 0xff));
    float value = multiply(subtract(byte, job.mean[plane]), job.scale[plane]);
    return Element::encode(job, inside ? value : job.padding[plane]);
}

// Writes `count` elements of each plane one by one, starting at element `at`: for edges and odd widths.
template <class Format, class Element>
INLINE void one_by_one(const Job &job, const Picture &picture, u64 output, u64 plane_bytes, u32 at, u32 count) {
#pragma unroll 1
    for (u32 i = at; i < at + count; i++) {
        u32 y = i / job.width, x = i - y * job.width;
        u32 column = x - picture.left, row = y - picture.top;
        bool inside = row < picture.height && column < picture.width;
        u32 pixel = inside ? Format::pixel(job, picture, column, row) : 0;
#pragma unroll
        for (int plane = 0; plane < 3; plane++)
            Element::store(output + plane * plane_bytes, i, number<Element>(job, plane, inside, pixel));
    }
}

// One thread's share: GROUPS times 16 bytes of each plane, a block's width apart, so that neighboring threads access
// neighboring memory. All loads are issued before the first store.
template <class Format, class Element, int GROUPS> INLINE void preprocess(const Job &job) {
    const int PER_WORD = Element::PIXELS_PER_WORD, COUNT = 4 * PER_WORD, BITS = 32 / PER_WORD;
    u32 first = block_x() * block_threads() * GROUPS + thread_x();
    if (first >= job.groups) return;
    Picture picture = load_picture(job.pictures + sizeof(Picture) * static_cast<u64>(block_y()));
    u32 plane_len = job.width * job.height;
    u64 plane_bytes = static_cast<u64>(plane_len) * (4 / PER_WORD);
    u64 output = job.output + 3 * plane_bytes * block_y();

    u32 pixels[GROUPS][COUNT];
    bool within[GROUPS], fast[GROUPS];
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        u32 at = (first + group * block_threads()) * COUNT;
        u32 y = at / job.width, x = at - y * job.width;
        // Left of the image or above it, these wrap to values beyond any size.
        u32 column = x - picture.left, row = y - picture.top;
        bool in_row = row < picture.height;
        bool apart = !in_row || x >= picture.left + picture.width || x + COUNT <= picture.left;
        within[group] = in_row && column < picture.width && picture.width - column >= COUNT;
        fast[group] = job.whole != 0 && (within[group] || apart);
        if (fast[group] && within[group]) {
            fast[group] = Format::template pixels<COUNT>(job, picture, column, row, pixels[group]);
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i++) pixels[group][i] = 0;
        }
    }
#pragma unroll
    for (int group = 0; group < GROUPS; group++) {
        u32 index = first + group * block_threads();
        if (index >= job.groups) return;
        if (!fast[group]) {
            u32 at = index * COUNT, count = plane_len - at < COUNT ? plane_len - at : COUNT;
            one_by_one<Format, Element>(job, picture, output, plane_bytes, at, count);
            continue;
        }
        u64 address = output + 16 * static_cast<u64>(index);
#pragma unroll
        for (int plane = 0; plane < 3; plane++) {
            Words words;
#pragma unroll
            for (int word = 0; word < 4; word++) {
                u32 bits = 0;
#pragma unroll
                for (int i = 0; i < PER_WORD; i++) {
                    u32 pixel = pixels[group][word * PER_WORD + i];
                    bits |= number<Element>(job, plane, within[group], pixel) << (i * BITS % 32);
                }
                words.word[word] = bits;
            }
            store_words(address + plane * plane_bytes, words);
        }
    }
}

KERNEL jetwatch_bgrx_float(Job job) { preprocess<Bgrx, AsFloat, 1>(job); }
KERNEL jetwatch_bgrx_half(Job job) { preprocess<Bgrx, AsHalf, 1>(job); }
KERNEL jetwatch_bgrx_byte(Job job) { preprocess<Bgrx, AsByte, 1>(job); }
KERNEL jetwatch_nv12_float(Job job) { preprocess<Nv12, AsFloat, 1>(job); }
KERNEL jetwatch_nv12_half(Job job) { preprocess<Nv12, AsHalf, 1>(job); }
KERNEL jetwatch_nv12_byte(Job job) { preprocess<Nv12, AsByte, 1>(job); }

// Does nothing for a given time: replaces a network, to measure everything around it.
KERNEL jetwatch_pause(u64 duration) {
    u64 begin = nanoseconds();
    while (nanoseconds() - begin < duration) {
    }
}
