// The double's function on a GPU: the same as run_on_host in run.cpp. make-ptx makes kernel.ptx of it.
//
// Read by clang without a CUDA toolkit, so the few intrinsics are written here.
#include "kernel.h"

#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE static __attribute__((device))
#define SHARED __attribute__((shared))

using doubles::i64;
using doubles::kCell;
using doubles::Step;
using doubles::u64;

DEVICE double value(Step const& step, i64 at) {
    switch (step.input_type) {
    case 0: return reinterpret_cast<float const*>(step.input)[at];
    case 1: {
        unsigned short const bits = reinterpret_cast<unsigned short const*>(step.input)[at];
        float wide;
        asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
        return wide;
    }
    case 2: return reinterpret_cast<signed char const*>(step.input)[at];
    case 3: return reinterpret_cast<int const*>(step.input)[at];
    case 8: return static_cast<double>(reinterpret_cast<i64 const*>(step.input)[at]);
    default: return reinterpret_cast<unsigned char const*>(step.input)[at];
    }
}

DEVICE i64 place(Step const& step, i64 picture, i64 channel, i64 y, i64 x) {
    return picture * step.stride_picture + channel / step.block * step.stride_block + y * step.stride_row
        + x * step.stride_pixel + channel % step.block;
}

DEVICE i64 rounded(double wide, i64 least, i64 most) {
    i64 whole;
    asm("cvt.rni.s64.f64 %0, %1;" : "=l"(whole) : "d"(wide));
    return whole < least ? least : whole > most ? most : whole;
}

DEVICE void put(Step const& step, i64 at, double wide) {
    switch (step.output_type) {
    case 0: reinterpret_cast<float*>(step.output)[at] = static_cast<float>(wide); return;
    case 1: {
        unsigned short bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(static_cast<float>(wide)));
        reinterpret_cast<unsigned short*>(step.output)[at] = bits;
        return;
    }
    case 2: reinterpret_cast<signed char*>(step.output)[at] = static_cast<signed char>(rounded(wide, -128, 127)); return;
    case 3: reinterpret_cast<int*>(step.output)[at] = static_cast<int>(rounded(wide, -2147483648LL, 2147483647LL)); return;
    case 4: reinterpret_cast<unsigned char*>(step.output)[at] = rounded(wide, 0, 1) != 0; return;
    case 8: reinterpret_cast<i64*>(step.output)[at] = rounded(wide, -(1LL << 62), 1LL << 62); return;
    default: reinterpret_cast<unsigned char*>(step.output)[at] = static_cast<unsigned char>(rounded(wide, 0, 255)); return;
    }
}

// The sum over all threads of a block of up to 256 threads, valid in thread 0.
DEVICE double summed(double own) {
    static SHARED double parts[256];
    int const thread = __nvvm_read_ptx_sreg_tid_x();
    int const threads = __nvvm_read_ptx_sreg_ntid_x();
    parts[thread] = own;
    __syncthreads();
    for (int half = threads / 2; half > 0; half /= 2) {
        if (thread < half) {
            parts[thread] += parts[thread + half];
        }
        __syncthreads();
    }
    return parts[0];
}

// Block (cell, picture) of 32 threads: each sums a column of the cell, thread 0 writes the box.
KERNEL jetwatch_double_cells(Step step) {
    i64 const cell = __nvvm_read_ptx_sreg_ctaid_x();
    i64 const picture = __nvvm_read_ptx_sreg_ctaid_y();
    i64 const across = step.width / kCell;
    i64 const left = cell % across * kCell;
    i64 const top = cell / across * kCell;
    i64 const x = left + __nvvm_read_ptx_sreg_tid_x();
    double own = 0;
    for (i64 y = top; y < top + kCell; ++y) {
        own += value(step, place(step, picture, 0, y, x));
    }
    double const sum = summed(own);
    if (__nvvm_read_ptx_sreg_tid_x() == 0) {
        i64 const cells = step.elements / 5;
        i64 const at = picture * step.elements + cell;
        put(step, at, static_cast<double>(left) + kCell / 2);
        put(step, at + cells, static_cast<double>(top) + kCell / 2);
        put(step, at + 2 * cells, kCell);
        put(step, at + 3 * cells, kCell);
        put(step, at + 4 * cells, sum / (kCell * kCell) / 255.0);
    }
}

// Block (0, picture) of 256 threads: the mean of the picture, then all of its outputs.
KERNEL jetwatch_double_mean(Step step) {
    i64 const picture = __nvvm_read_ptx_sreg_ctaid_y();
    i64 const thread = __nvvm_read_ptx_sreg_tid_x();
    i64 const threads = __nvvm_read_ptx_sreg_ntid_x();
    i64 const count = step.channels * step.height * step.width;
    double own = 0;
    for (i64 at = thread; at < count; at += threads) {
        i64 const x = at % step.width;
        i64 const y = at / step.width % step.height;
        own += value(step, place(step, picture, at / step.width / step.height, y, x));
    }
    double const mean = summed(own) / static_cast<double>(count);
    for (i64 at = thread; at < step.elements; at += threads) {
        put(step, picture * step.elements + at, mean * static_cast<double>(at % 7 + 1));
    }
}

// One for all streams of the process: a network that fills the GPU runs alone too.
static __attribute__((device)) int in_use;

// One thread that holds the GPU for so long.
KERNEL jetwatch_double_spin(u64 nanoseconds) {
    int taken;
    do {
        asm volatile("atom.cas.b32 %0, [%1], 0, 1;" : "=r"(taken) : "l"(&in_use) : "memory");
    } while (taken != 0);
    u64 begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < nanoseconds);
    asm volatile("st.volatile.u32 [%0], 0;" ::"l"(&in_use) : "memory");
}
