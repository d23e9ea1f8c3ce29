// SPDX-License-Identifier: Apache-2.0
// Running the double's function: see run.h, and README.md for what it computes.
#include "run.h"

#include <dlfcn.h>

#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

// The text of kernel.ptx, made by the build script.
extern char const jetwatch_double_kernels[];

namespace doubles {

namespace {

float from_half(uint16_t bits) {
    int const exponent = bits >> 10 & 31;
    int const fraction = bits & 1023;
    float const sign = bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 0) {
        return sign * std::ldexp(static_cast<float>(fraction), -24);
    }
    if (exponent == 31) {
        return fraction ? NAN : sign * INFINITY;
    }
    return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

uint16_t to_half(float value) {
    uint16_t const sign = std::signbit(value) ? 0x8000 : 0;
    float const size = std::fabs(value);
    if (std::isnan(value)) {
        return sign | 0x7e00;
    }
    if (size >= 65520.0f) {
        return sign | 0x7c00;
    }
    int exponent = 0;
    std::frexp(size, &exponent);
    // Steps between halfs of this size; below the least normal one they stay the same.
    int const step = size < std::ldexp(1.0f, -14) ? -24 : exponent - 11;
    auto const whole = static_cast<uint32_t>(std::nearbyint(std::ldexp(size, -step)));
    if (step == -24) {
        return static_cast<uint16_t>(sign + whole);
    }
    return static_cast<uint16_t>(sign + (static_cast<uint32_t>(step + 24) << 10) + whole);
}

double value(Step const& step, i64 at) {
    switch (step.input_type) {
    case 0: return reinterpret_cast<float const*>(step.input)[at];
    case 1: return from_half(reinterpret_cast<uint16_t const*>(step.input)[at]);
    case 2: return reinterpret_cast<int8_t const*>(step.input)[at];
    case 3: return reinterpret_cast<int32_t const*>(step.input)[at];
    case 8: return static_cast<double>(reinterpret_cast<int64_t const*>(step.input)[at]);
    default: return reinterpret_cast<uint8_t const*>(step.input)[at];
    }
}

i64 place(Step const& step, i64 picture, i64 channel, i64 y, i64 x) {
    return picture * step.stride_picture + channel / step.block * step.stride_block + y * step.stride_row
        + x * step.stride_pixel + channel % step.block;
}

i64 rounded(double wide, i64 least, i64 most) {
    i64 const whole = std::llrint(wide);
    return whole < least ? least : whole > most ? most : whole;
}

void put(Step const& step, i64 at, double wide) {
    switch (step.output_type) {
    case 0: reinterpret_cast<float*>(step.output)[at] = static_cast<float>(wide); return;
    case 1: reinterpret_cast<uint16_t*>(step.output)[at] = to_half(static_cast<float>(wide)); return;
    case 2: reinterpret_cast<int8_t*>(step.output)[at] = static_cast<int8_t>(rounded(wide, -128, 127)); return;
    case 3: reinterpret_cast<int32_t*>(step.output)[at] = static_cast<int32_t>(rounded(wide, INT32_MIN, INT32_MAX)); return;
    case 4: reinterpret_cast<uint8_t*>(step.output)[at] = rounded(wide, 0, 1) != 0; return;
    case 8: reinterpret_cast<int64_t*>(step.output)[at] = rounded(wide, -(1LL << 62), 1LL << 62); return;
    default: reinterpret_cast<uint8_t*>(step.output)[at] = static_cast<uint8_t>(rounded(wide, 0, 255)); return;
    }
}

void cells(Step const& step) {
    i64 const across = step.width / kCell;
    i64 const count = step.elements / 5;
    for (i64 picture = 0; picture < step.pictures; ++picture) {
        for (i64 cell = 0; cell < count; ++cell) {
            i64 const left = cell % across * kCell;
            i64 const top = cell / across * kCell;
            double sum = 0;
            for (i64 y = top; y < top + kCell; ++y) {
                for (i64 x = left; x < left + kCell; ++x) {
                    sum += value(step, place(step, picture, 0, y, x));
                }
            }
            i64 const at = picture * step.elements + cell;
            put(step, at, static_cast<double>(left) + kCell / 2);
            put(step, at + count, static_cast<double>(top) + kCell / 2);
            put(step, at + 2 * count, kCell);
            put(step, at + 3 * count, kCell);
            put(step, at + 4 * count, sum / (kCell * kCell) / 255.0);
        }
    }
}

void means(Step const& step) {
    i64 const count = step.channels * step.height * step.width;
    for (i64 picture = 0; picture < step.pictures; ++picture) {
        double sum = 0;
        for (i64 channel = 0; channel < step.channels; ++channel) {
            for (i64 y = 0; y < step.height; ++y) {
                for (i64 x = 0; x < step.width; ++x) {
                    sum += value(step, place(step, picture, channel, y, x));
                }
            }
        }
        double const mean = sum / static_cast<double>(count);
        for (i64 at = 0; at < step.elements; ++at) {
            put(step, picture * step.elements + at, mean * static_cast<double>(at % 7 + 1));
        }
    }
}

extern "C" void run_job(void* job) {
    run_on_host(*static_cast<Job const*>(job));
}

// The few functions of libcuda that are needed, with CUDA's own numbers.
class Cuda {
public:
    Cuda() {
        for (char const* name : {"libcuda.so.1", "libcuda.so"}) {
            m_library = dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
            if (m_library != nullptr) {
                break;
            }
        }
        if (m_library == nullptr) {
            return;
        }
        is_double = dlsym(m_library, "jetwatch_cuda_double") != nullptr;
        find(launch_host, "cuLaunchHostFunc");
        find(launch_kernel, "cuLaunchKernel");
        find(synchronize, "cuStreamSynchronize");
        find(capturing, "cuStreamIsCapturing");
        find(load_module, "cuModuleLoadData");
        find(get_function, "cuModuleGetFunction");
        find(current, "cuCtxGetCurrent");
        find(make_current, "cuCtxSetCurrent");
        find(retain, "cuDevicePrimaryCtxRetain");
        find(attribute, "cuPointerGetAttribute");
        find(range, "cuMemGetAddressRange_v2");
        find(to_host, "cuMemcpyDtoH_v2");
    }

    bool is_there() const { return m_library != nullptr; }

    bool is_double = false;
    int (*launch_host)(void*, void (*)(void*), void*) = nullptr;
    int (*launch_kernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**)
        = nullptr;
    int (*synchronize)(void*) = nullptr;
    int (*capturing)(void*, int*) = nullptr;
    int (*load_module)(void**, void const*) = nullptr;
    int (*get_function)(void**, void*, char const*) = nullptr;
    int (*current)(void**) = nullptr;
    int (*make_current)(void*) = nullptr;
    int (*retain)(void**, int) = nullptr;
    int (*attribute)(void*, int, u64) = nullptr;
    int (*range)(u64*, size_t*, u64) = nullptr;
    int (*to_host)(void*, u64, size_t) = nullptr;

    void* cells = nullptr;
    void* mean = nullptr;
    void* spin = nullptr;

private:
    template <class Function>
    void find(Function& function, char const* name) {
        function = reinterpret_cast<Function>(dlsym(m_library, name));
        // A double of libcuda serves what jetwatch calls, and cuLaunchHostFunc; a real one has them all.
        if (function == nullptr && !is_double) {
            wrong("the libcuda of this process has no %s", name);
        }
    }

    void* m_library = nullptr;
};

// Looked for again as long as there is none: libcuda may be opened later than TensorRT.
Cuda& cuda() {
    static std::mutex mutex;
    static Cuda* found = nullptr;
    std::lock_guard<std::mutex> const lock(mutex);
    if (found == nullptr || !found->is_there()) {
        delete found;
        found = new Cuda;
    }
    return *found;
}

bool is_good(int code, char const* call, std::string& problem) {
    if (code == 0) {
        return true;
    }
    problem = text("Cuda Runtime (%s failed with code %d)", call, code);
    return false;
}

// The vendor's library takes the device's primary context where a thread has none.
bool enter_context(std::string& problem) {
    Cuda& at = cuda();
    if (at.current == nullptr || at.retain == nullptr || at.make_current == nullptr) {
        return true;
    }
    void* context = nullptr;
    if (!is_good(at.current(&context), "cuCtxGetCurrent", problem)) {
        return false;
    }
    if (context != nullptr) {
        return true;
    }
    return is_good(at.retain(&context, 0), "cuDevicePrimaryCtxRetain", problem)
        && is_good(at.make_current(context), "cuCtxSetCurrent", problem);
}

bool load_kernels(std::string& problem) {
    static std::mutex mutex;
    std::lock_guard<std::mutex> const lock(mutex);
    Cuda& at = cuda();
    if (at.spin != nullptr) {
        return true;
    }
    void* module = nullptr;
    return is_good(at.load_module(&module, jetwatch_double_kernels), "cuModuleLoadData", problem)
        && is_good(at.get_function(&at.cells, module, "jetwatch_double_cells"), "cuModuleGetFunction", problem)
        && is_good(at.get_function(&at.mean, module, "jetwatch_double_mean"), "cuModuleGetFunction", problem)
        && is_good(at.get_function(&at.spin, module, "jetwatch_double_spin"), "cuModuleGetFunction", problem);
}

} // namespace

void lay_out(Step& step, std::vector<int64_t> const& sizes) {
    // Fewer than three sizes behind the batch count as rows of one channel.
    size_t const rank = sizes.size();
    step.pictures = rank == 0 ? 1 : sizes[0];
    step.channels = 1;
    for (size_t axis = 1; axis + 2 < rank; ++axis) {
        step.channels *= sizes[axis];
    }
    step.height = rank > 2 ? sizes[rank - 2] : 1;
    step.width = rank > 1 ? sizes[rank - 1] : 1;
    step.block = 1;
    step.stride_pixel = 1;
    step.stride_row = step.width;
    step.stride_block = step.height * step.width;
    step.stride_picture = step.channels * step.stride_block;
}

int64_t elements(std::vector<int64_t> const& sizes) {
    Step step{};
    lay_out(step, sizes);
    return step.pictures * step.stride_picture;
}

void run_on_host(Job const& job) {
    if (job.is_dead) {
        wrong("work of an execution context runs that was deleted before");
    }
    if (job.nanoseconds != 0) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(job.nanoseconds));
    }
    for (Step const& step : job.steps) {
        step.is_cells ? cells(step) : means(step);
    }
}

bool has_libcuda() {
    return cuda().is_there();
}

bool prepare_device(std::string& problem) {
    Cuda& at = cuda();
    if (!at.is_there()) {
        return true;
    }
    if (!enter_context(problem)) {
        return false;
    }
    return at.is_double || load_kernels(problem);
}

bool launch(Job const& job, cudaStream_t stream, std::string& problem) {
    Cuda& at = cuda();
    if (!at.is_there()) {
        run_on_host(job);
        return true;
    }
    if (!prepare_device(problem)) {
        return false;
    }
    if (at.is_double) {
        return is_good(at.launch_host(stream, run_job, const_cast<Job*>(&job)), "cuLaunchHostFunc", problem);
    }
    if (job.nanoseconds != 0) {
        u64 nanoseconds = job.nanoseconds;
        void* arguments[] = {&nanoseconds};
        int const code = at.launch_kernel(at.spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
        if (!is_good(code, "cuLaunchKernel", problem)) {
            return false;
        }
    }
    for (Step step : job.steps) {
        void* arguments[] = {&step};
        unsigned const across = step.is_cells ? static_cast<unsigned>(step.elements / 5) : 1;
        int const code = at.launch_kernel(step.is_cells ? at.cells : at.mean, across,
            static_cast<unsigned>(step.pictures), 1, step.is_cells ? 32 : 256, 1, 1, 0, stream, arguments, nullptr);
        if (!is_good(code, "cuLaunchKernel", problem)) {
            return false;
        }
    }
    return true;
}

bool wait_for(cudaStream_t stream) {
    Cuda& at = cuda();
    if (at.capturing != nullptr) {
        int state = 0;
        if (at.capturing(stream, &state) != 0 || state != 0) {
            return false;
        }
    }
    return at.synchronize == nullptr || at.synchronize(stream) == 0;
}

bool can_hold(void const* address, int64_t bytes, std::string& problem) {
    Cuda& at = cuda();
    u64 const begin = reinterpret_cast<u64>(address);
    if (at.attribute != nullptr && enter_context(problem)) {
        // CU_POINTER_ATTRIBUTE_MEMORY_TYPE: host 1, device 2, managed 4 in a bit of its own.
        unsigned kind = 0;
        if (at.attribute(&kind, 2, begin) != 0 || kind == 0) {
            problem = text("%p is no memory that CUDA knows", address);
            return false;
        }
    }
    u64 base = 0;
    size_t size = 0;
    // Not every kind of memory has a known range.
    if (at.range != nullptr && at.range(&base, &size, begin) == 0 && begin + static_cast<u64>(bytes) > base + size) {
        problem = text("%p has %llu bytes left and %lld are needed", address, base + size - begin,
            static_cast<long long>(bytes));
        return false;
    }
    return true;
}

void copy_to_host(void* to, void const* from, size_t bytes) {
    Cuda& at = cuda();
    if (!at.is_there() || at.is_double) {
        std::memcpy(to, from, bytes);
        return;
    }
    std::string problem;
    if (!enter_context(problem) || at.to_host(to, reinterpret_cast<u64>(from), bytes) != 0) {
        wrong("%zu bytes at %p cannot be copied from the device", bytes, from);
    }
}

} // namespace doubles
