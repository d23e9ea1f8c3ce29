// Functions that preprocess.cu needs from its compiler: indices, memory accesses, and arithmetic that is rounded the same everywhere.
//
// Three compilers read it: clang without a CUDA toolkit (make-ptx), nvcc (to compare with), and any C++ compiler, for a
// libcuda that runs on the CPU; that one sets the indices in `jetwatch_place` before each call of a kernel.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// 16 bytes of one memory access.
struct Words {
    u32 word[4];
};

#if defined(__CUDACC__) && !defined(__clang__)

#include <cuda_fp16.h>

#define KERNEL extern "C" __global__ void
#define INLINE static __device__ __forceinline__

INLINE u32 block_x() { return blockIdx.x; }
INLINE u32 block_y() { return blockIdx.y; }
INLINE u32 thread_x() { return threadIdx.x; }
INLINE u32 block_threads() { return blockDim.x; }
INLINE Words load_words(u64 address) {
    uint4 loaded = __ldg(reinterpret_cast<const uint4 *>(address));
    return {{loaded.x, loaded.y, loaded.z, loaded.w}};
}
INLINE u32 load_u32(u64 address) { return __ldg(reinterpret_cast<const u32 *>(address)); }
INLINE u32 load_u8(u64 address) { return __ldg(reinterpret_cast<const u8 *>(address)); }
INLINE void store_words(u64 address, Words words) {
    *reinterpret_cast<uint4 *>(address) = make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]);
}
INLINE void store_u32(u64 address, u32 value) { *reinterpret_cast<u32 *>(address) = value; }
INLINE void store_u16(u64 address, u32 value) { *reinterpret_cast<u16 *>(address) = static_cast<u16>(value); }
INLINE void store_u8(u64 address, u32 value) { *reinterpret_cast<u8 *>(address) = static_cast<u8>(value); }
INLINE float subtract(float a, float b) { return __fsub_rn(a, b); }
INLINE float multiply(float a, float b) { return __fmul_rn(a, b); }
INLINE float round_even(float value) { return rintf(value); }
INLINE u32 float_bits(float value) { return __float_as_uint(value); }
INLINE u32 half_bits(float value) { return __half_as_ushort(__float2half_rn(value)); }
INLINE u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

#elif defined(__CUDA__)

#define KERNEL extern "C" __attribute__((global)) void
#define INLINE static __attribute__((device, always_inline))
#define GLOBAL __attribute__((address_space(1)))

typedef u32 u32x4 __attribute__((ext_vector_type(4)));

INLINE u32 block_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
INLINE u32 block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
INLINE u32 thread_x() { return __nvvm_read_ptx_sreg_tid_x(); }
INLINE u32 block_threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
INLINE Words load_words(u64 address) {
    u32x4 loaded = __nvvm_ldg_ui4((const u32x4 *)address);
    return {{loaded.x, loaded.y, loaded.z, loaded.w}};
}
INLINE u32 load_u32(u64 address) { return __nvvm_ldg_ui((const u32 *)address); }
INLINE u32 load_u8(u64 address) { return __nvvm_ldg_uc((const u8 *)address); }
INLINE void store_words(u64 address, Words words) {
    *(GLOBAL u32x4 *)address = u32x4{words.word[0], words.word[1], words.word[2], words.word[3]};
}
INLINE void store_u32(u64 address, u32 value) { *(GLOBAL u32 *)address = value; }
INLINE void store_u16(u64 address, u32 value) { *(GLOBAL u16 *)address = (u16)value; }
INLINE void store_u8(u64 address, u32 value) { *(GLOBAL u8 *)address = (u8)value; }
INLINE float subtract(float a, float b) { return __nvvm_add_rn_f(a, -b); }
INLINE float multiply(float a, float b) { return __nvvm_mul_rn_f(a, b); }
INLINE float round_even(float value) { return __builtin_rintf(value); }
INLINE u32 float_bits(float value) { return __builtin_bit_cast(u32, value); }
INLINE u32 half_bits(float value) { return (u16)__nvvm_f2h_rn(value); }
INLINE u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

#else

#include <chrono>
#include <cmath>
#include <cstring>

#define KERNEL static void
#define INLINE static inline

// Indices of the running thread.
struct Place {
    u32 block_x, block_y, thread_x, block_threads;
};
static thread_local Place jetwatch_place;

INLINE u32 block_x() { return jetwatch_place.block_x; }
INLINE u32 block_y() { return jetwatch_place.block_y; }
INLINE u32 thread_x() { return jetwatch_place.thread_x; }
INLINE u32 block_threads() { return jetwatch_place.block_threads; }
// Set by the host code that runs kernels: checks for accesses that a device would refuse.
static void check_access(u64 address, u32 bytes);
template <class T> INLINE T load(u64 address) {
    check_access(address, sizeof(T));
    T value;
    memcpy(&value, reinterpret_cast<const void *>(address), sizeof value);
    return value;
}
template <class T> INLINE void store(u64 address, T value) {
    check_access(address, sizeof(T));
    memcpy(reinterpret_cast<void *>(address), &value, sizeof value);
}
INLINE Words load_words(u64 address) { return load<Words>(address); }
INLINE u32 load_u32(u64 address) { return load<u32>(address); }
INLINE u32 load_u8(u64 address) { return load<u8>(address); }
INLINE void store_words(u64 address, Words words) { store(address, words); }
INLINE void store_u32(u64 address, u32 value) { store(address, value); }
INLINE void store_u16(u64 address, u32 value) { store(address, static_cast<u16>(value)); }
INLINE void store_u8(u64 address, u32 value) { store(address, static_cast<u8>(value)); }
INLINE float subtract(float a, float b) { return a - b; }
INLINE float multiply(float a, float b) { return a * b; }
INLINE float round_even(float value) { return std::nearbyintf(value); }
INLINE u32 float_bits(float value) {
    u32 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
// Rounded to the nearest half-precision number, ties to even. Not every C++ compiler has the type.
INLINE u32 half_bits(float value) {
    u32 bits = float_bits(value);
    u32 sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return sign | 0x7fff;      // NaN
    if (rest >= 0x477ff000) return sign | 0x7c00;     // rounds to infinity
    if (rest < 0x38800000) {                          // subnormal: counted in units of 2^-24
        float magnitude;
        memcpy(&magnitude, &rest, sizeof magnitude);
        return sign | static_cast<u32>(std::nearbyintf(magnitude * 16777216.0f));
    }
    u32 rounded = rest + 0xfff + (rest >> 13 & 1);
    return sign | ((rounded >> 13) - (112u << 10));
}
INLINE u64 nanoseconds() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

#endif
