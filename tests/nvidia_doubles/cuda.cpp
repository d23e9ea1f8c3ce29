// SPDX-License-Identifier: Apache-2.0
// A libcuda for machines without a GPU: the driver's functions that jetwatch calls, on the host's memory.
//
// It does what NVIDIA documents: it checks arguments and handles, runs streams in order and at once, records graphs and
// replays them, and runs jetwatch's kernels from the source of which their PTX is made. Where the real library's behavior is
// undefined (a handle that was destroyed), it prints a message and aborts. The name of its GPU shows that it is a double.
//
// Environment: JETWATCH_DOUBLE_DRIVER (11040), JETWATCH_DOUBLE_GPUS (1), JETWATCH_DOUBLE_INTEGRATED (0),
// JETWATCH_DOUBLE_GPU_BYTES (2^30, page-locked memory counts too), JETWATCH_DOUBLE_FAIL (CALL:CODE[:CALLS BEFORE]),
// JETWATCH_DOUBLE_COUNTS (set: prints at the end what is still alive). EGL images are those of the double of libnvbufsurface.
#include <atomic>
#include <cctype>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "../../src/appliance/nvidia/cuda/preprocess.cu"
#include "surface.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// CUDA's numbers.
enum Code : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    UNSUPPORTED_PTX_VERSION = 222,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    MISALIGNED_ADDRESS = 716,
    STREAM_CAPTURE_UNSUPPORTED = 900,
    STREAM_CAPTURE_INVALIDATED = 901,
    STREAM_CAPTURE_UNMATCHED = 903,
    CAPTURED_EVENT = 907,
    STREAM_CAPTURE_WRONG_THREAD = 908,
};

[[noreturn]] void wrong(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("double: libcuda: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("\n", stderr);
    va_end(arguments);
    abort();
}

u64 setting(const char *name, u64 otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, nullptr, 10) : otherwise;
}

using Operation = std::function<int()>;

enum class Kind { Context, Stream, Event, Graph, GraphExec, Module, Function, Resource };
const char *const KIND_NAMES[] = {"contexts", "streams", "events", "graphs", "graph launches", "modules"};

struct Object {
    Kind kind;
};
struct Context : Object {
    int retained = 0;
};
struct Stream : Object {
    bool is_recording = false, is_spoiled = false;
    std::thread::id recorder;
    std::vector<Operation> recorded;
};
struct Event : Object {
    enum State { Fresh, Reached, Captured, Pending } state = Fresh;
    bool has_time = true;
    u64 at = 0;
};
struct Graph : Object {
    std::vector<Operation> operations;
};
struct Kernel {
    const char *name;
    void (*run)(void **parameters);
    size_t bytes;
};
struct Function : Object {
    const Kernel *kernel;
};
struct Module : Object {
    std::vector<Function *> functions;
};

// An EGL image that is registered: its memory is the GPU's for so long.
struct Resource : Object {
    const surfaces::EglImage *image = nullptr;
    u64 address = 0;
};

struct Range {
    u64 begin, bytes;
    bool is_host;
};

struct World {
    std::recursive_mutex mutex;
    std::unordered_map<const void *, Kind> objects;
    std::map<u64, Range> memory;
    u64 used = 0;
    bool is_initialized = false;
    Context *primary = nullptr;
    // An error that a kernel left behind: every later call returns it.
    std::atomic<int> sticky{SUCCESS};
    // Grows with every change of `memory`, so that remembered ranges are forgotten.
    std::atomic<u64> generation{1};
    std::unordered_map<std::string, u64> calls;
    u64 registered = 0, registrations = 0;

    ~World() {
        if (!getenv("JETWATCH_DOUBLE_COUNTS")) return;
        size_t counts[6] = {};
        for (auto &[_, kind] : objects)
            if (kind != Kind::Function && kind != Kind::Resource) counts[static_cast<int>(kind)]++;
        fputs("double: libcuda: alive:", stderr);
        for (int kind = 0; kind < 6; kind++) fprintf(stderr, " %s=%zu", KIND_NAMES[kind], counts[kind]);
        fprintf(stderr, " memory=%zu bytes=%llu\n", memory.size(), used);
        if (registrations) fprintf(stderr, "double: libcuda: EGL images: registered=%llu ever=%llu\n", registered, registrations);
    }
};

World &world() {
    static World world;
    return world;
}
using Lock = std::lock_guard<std::recursive_mutex>;

thread_local Context *current = nullptr;
thread_local int recordings = 0;
thread_local int fault = SUCCESS;
thread_local Range nearest[4] = {};
thread_local u64 nearest_generation = 0;

// The error of JETWATCH_DOUBLE_FAIL, if this call is the one.
int asked_failure(const char *call) {
    static const std::string text = getenv("JETWATCH_DOUBLE_FAIL") ? getenv("JETWATCH_DOUBLE_FAIL") : "";
    size_t colon = text.find(':');
    if (colon == std::string::npos || text.compare(0, colon, call) != 0) return SUCCESS;
    char *rest = nullptr;
    int code = static_cast<int>(strtol(text.c_str() + colon + 1, &rest, 10));
    u64 before = *rest == ':' ? strtoull(rest + 1, nullptr, 10) : 0;
    return world().calls[call]++ >= before ? code : SUCCESS;
}

// The first checks of every call. `needs_context`: whether a context must be current.
int enter(const char *call, bool needs_context) {
    if (int code = asked_failure(call)) return code;
    if (!world().is_initialized) return NOT_INITIALIZED;
    if (int code = world().sticky) return code;
    if (needs_context && !current) return INVALID_CONTEXT;
    if (needs_context && !world().objects.count(current)) wrong("%s: the current context was released", call);
    return SUCCESS;
}

#define ENTER(needs_context)                                                                                            \
    Lock lock(world().mutex);                                                                                           \
    if (int code = enter(__func__, needs_context)) return code
// What may not be done while this thread records a stream.
#define NOT_RECORDING()                                                                                                 \
    if (recordings > 0) return STREAM_CAPTURE_UNSUPPORTED

template <class T> T *make(Kind kind) {
    T *object = new T();
    object->kind = kind;
    world().objects[object] = kind;
    return object;
}

template <class T> T *check(const char *call, void *handle, Kind kind) {
    auto found = world().objects.find(handle);
    if (found == world().objects.end()) wrong("%s: %p is no handle, or one that was destroyed", call, handle);
    if (found->second != kind) wrong("%s: %p is a handle of another kind", call, handle);
    return static_cast<T *>(handle);
}
#define CHECK(T, handle) check<T>(__func__, handle, Kind::T)

template <class T> void destroy(T *object) {
    world().objects.erase(object);
    delete object;
}

const Range *range_of(u64 address) {
    auto next = world().memory.upper_bound(address);
    if (next == world().memory.begin()) return nullptr;
    const Range &range = std::prev(next)->second;
    return address - range.begin < range.bytes ? &range : nullptr;
}

// Whether a copy may access these bytes. Unknown memory counts as ordinary host memory.
bool may_copy(u64 address, u64 bytes) {
    const Range *range = range_of(address);
    return range ? address - range->begin + bytes <= range->bytes : address > 4096;
}

// Runs an operation now, or records it.
int put(const char *call, void *stream_handle, Operation operation) {
    Stream *stream = check<Stream>(call, stream_handle, Kind::Stream);
    if (!stream->is_recording) return operation();
    if (stream->is_spoiled) return STREAM_CAPTURE_INVALIDATED;
    if (stream->recorder != std::this_thread::get_id()) return STREAM_CAPTURE_WRONG_THREAD;
    stream->recorded.push_back(std::move(operation));
    return SUCCESS;
}

template <class Job, void (*kernel)(Job)> void run_kernel(void **parameters) {
    Job job;
    memcpy(&job, parameters[0], sizeof job);
    kernel(job);
}

const Kernel KERNELS[] = {
    {"jetwatch_bgrx_float", run_kernel<Job, jetwatch_bgrx_float>, sizeof(Job)},
    {"jetwatch_bgrx_half", run_kernel<Job, jetwatch_bgrx_half>, sizeof(Job)},
    {"jetwatch_bgrx_byte", run_kernel<Job, jetwatch_bgrx_byte>, sizeof(Job)},
    {"jetwatch_nv12_float", run_kernel<Job, jetwatch_nv12_float>, sizeof(Job)},
    {"jetwatch_nv12_half", run_kernel<Job, jetwatch_nv12_half>, sizeof(Job)},
    {"jetwatch_nv12_byte", run_kernel<Job, jetwatch_nv12_byte>, sizeof(Job)},
    {"jetwatch_pause", run_kernel<u64, jetwatch_pause>, sizeof(u64)},
};

struct Named {
    int code;
    const char *name, *text;
};
const Named NAMES[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX is of a version that is not supported"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture was not begun in this stream"},
    {CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "the capture belongs to another thread"},
};

int name(int code, const char **text, const char *Named::*which) {
    if (!text) return INVALID_VALUE;
    *text = nullptr;
    for (const Named &named : NAMES) {
        if (named.code == code) {
            *text = named.*which;
            return SUCCESS;
        }
    }
    return INVALID_VALUE;
}

int allocate(u64 bytes, bool is_host, u64 *address) {
    World &at = world();
    u64 total = setting("JETWATCH_DOUBLE_GPU_BYTES", 1u << 30);
    if (bytes > total - at.used) return OUT_OF_MEMORY;
    u64 rounded = (bytes + 511) / 512 * 512;
    void *memory = aligned_alloc(512, rounded);
    if (!memory) return OUT_OF_MEMORY;
    // The contents of new memory are undefined.
    memset(memory, 0xa5, rounded);
    *address = reinterpret_cast<u64>(memory);
    at.memory[*address] = {*address, bytes, is_host};
    at.used += bytes;
    at.generation++;
    return SUCCESS;
}

int release(u64 address, bool is_host) {
    World &at = world();
    auto found = at.memory.find(address);
    if (found == at.memory.end() || found->second.is_host != is_host) return INVALID_VALUE;
    at.used -= found->second.bytes;
    at.memory.erase(found);
    at.generation++;
    free(reinterpret_cast<void *>(address));
    return SUCCESS;
}

int launch(const Kernel *kernel, u32 columns, u32 rows, u32 threads, std::vector<char> parameter) {
    void *parameters[] = {parameter.data()};
    fault = SUCCESS;
    // The pause keeps a whole GPU busy; here one thread of it is enough.
    if (!strcmp(kernel->name, "jetwatch_pause")) columns = rows = threads = 1;
    for (u32 y = 0; y < rows; y++)
        for (u32 x = 0; x < columns; x++)
            for (u32 thread = 0; thread < threads; thread++) {
                jetwatch_place = {x, y, thread, threads};
                kernel->run(parameters);
                if (fault != SUCCESS) {
                    // A real GPU reports it later, at the next call.
                    world().sticky = fault;
                    return SUCCESS;
                }
            }
    return SUCCESS;
}

// Number behind `directive` in PTX, times 10 for one digit behind a point.
int directive(const std::string &ptx, const char *directive) {
    size_t at = ptx.find(directive);
    if (at == std::string::npos) return -1;
    int number = 0;
    for (at += strlen(directive); at < ptx.size() && (isdigit(ptx[at]) || ptx[at] == '.'); at++)
        if (isdigit(ptx[at])) number = number * 10 + (ptx[at] - '0');
    return number;
}

int load(void **module, const char *image, char *log, size_t log_bytes) {
    if (!module || !image) return INVALID_VALUE;
    std::string ptx = image;
    auto refuse = [&](const std::string &reason, int code) {
        if (log && log_bytes) snprintf(log, log_bytes, "ptxas application ptx input; %s", reason.c_str());
        return code;
    };
    int version = directive(ptx, "\n.version "), target = directive(ptx, "\n.target sm_");
    if (version < 0 || target < 0) return refuse("no .version or no .target", INVALID_PTX);
    // CUDA 11.4 takes PTX 7.4, and each later minor version one more; PTX 8 came with CUDA 12.
    int driver = static_cast<int>(setting("JETWATCH_DOUBLE_DRIVER", 11040));
    int newest = (driver / 1000 - 4) * 10 + driver % 1000 / 10;
    if (version > newest) return refuse("Unsupported .version " + std::to_string(version), UNSUPPORTED_PTX_VERSION);
    if (target > 72) return refuse("sm_" + std::to_string(target) + " is newer than this GPU", INVALID_PTX);
    Module *made = make<Module>(Kind::Module);
    for (const Kernel &kernel : KERNELS) {
        std::string entry = std::string(".entry ") + kernel.name + "(";
        if (ptx.find(entry) == std::string::npos) continue;
        Function *function = make<Function>(Kind::Function);
        function->kernel = &kernel;
        made->functions.push_back(function);
    }
    *module = made;
    return SUCCESS;
}

} // namespace

static void check_access(u64 address, u32 bytes) {
    if (nearest_generation != world().generation) {
        for (Range &range : nearest) range = {};
        nearest_generation = world().generation;
    }
    bool is_known = false;
    for (const Range &range : nearest) is_known |= address - range.begin < range.bytes && address - range.begin + bytes <= range.bytes;
    if (!is_known) {
        Lock lock(world().mutex);
        const Range *range = range_of(address);
        // The kernel cannot continue: its next access would be outside of memory.
        if (!range || address - range->begin + bytes > range->bytes)
            wrong("%u bytes at %#llx are not in the GPU's memory: CUDA_ERROR_ILLEGAL_ADDRESS", bytes, address);
        static thread_local int next = 0;
        nearest[next++ % 4] = *range;
    }
    if (address % bytes != 0) fault = MISALIGNED_ADDRESS;
}

// Marks the library as a double.
EXPORT int jetwatch_cuda_double() { return 1; }

EXPORT int cuDriverGetVersion(int *version) {
    Lock lock(world().mutex);
    if (int code = asked_failure(__func__)) return code;
    if (!version) return INVALID_VALUE;
    *version = static_cast<int>(setting("JETWATCH_DOUBLE_DRIVER", 11040));
    return SUCCESS;
}

EXPORT int cuInit(u32 flags) {
    Lock lock(world().mutex);
    if (int code = asked_failure(__func__)) return code;
    if (flags) return INVALID_VALUE;
    if (setting("JETWATCH_DOUBLE_GPUS", 1) == 0) return NO_DEVICE;
    world().is_initialized = true;
    return SUCCESS;
}

EXPORT int cuGetErrorName(int code, const char **text) { return name(code, text, &Named::name); }
EXPORT int cuGetErrorString(int code, const char **text) { return name(code, text, &Named::text); }

EXPORT int cuDeviceGetCount(int *count) {
    ENTER(false);
    if (!count) return INVALID_VALUE;
    *count = static_cast<int>(setting("JETWATCH_DOUBLE_GPUS", 1));
    return SUCCESS;
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
    ENTER(false);
    if (!device) return INVALID_VALUE;
    if (ordinal < 0 || ordinal >= static_cast<int>(setting("JETWATCH_DOUBLE_GPUS", 1))) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

EXPORT int cuDeviceGetName(char *into, int bytes, int device) {
    ENTER(false);
    if (!into || bytes < 1) return INVALID_VALUE;
    if (device < 0) return INVALID_DEVICE;
    snprintf(into, bytes, "jetwatch's double of a GPU");
    return SUCCESS;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    ENTER(false);
    if (!value) return INVALID_VALUE;
    if (device < 0) return INVALID_DEVICE;
    switch (attribute) {
    case 16: *value = 1; break;
    case 18: *value = static_cast<int>(setting("JETWATCH_DOUBLE_INTEGRATED", 0)); break;
    case 19: case 41: *value = 1; break;
    case 36: case 37: *value = 0; break;
    case 39: *value = 1024; break;
    case 75: *value = 7; break;
    case 76: *value = 2; break;
    default: return INVALID_VALUE;
    }
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
    ENTER(false);
    if (!context) return INVALID_VALUE;
    if (device != 0) return INVALID_DEVICE;
    if (!world().primary) world().primary = make<Context>(Kind::Context);
    world().primary->retained++;
    *context = world().primary;
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
    ENTER(false);
    if (device != 0) return INVALID_DEVICE;
    if (!world().primary) return INVALID_CONTEXT;
    if (--world().primary->retained == 0) {
        destroy(world().primary);
        world().primary = nullptr;
        current = nullptr;
    }
    return SUCCESS;
}

EXPORT int cuCtxSetCurrent(void *context) {
    ENTER(false);
    current = context ? CHECK(Context, context) : nullptr;
    return SUCCESS;
}

EXPORT int cuCtxGetCurrent(void **context) {
    ENTER(false);
    if (!context) return INVALID_VALUE;
    *context = current;
    return SUCCESS;
}

EXPORT int cuMemGetInfo_v2(size_t *available, size_t *total) {
    ENTER(true);
    if (!available || !total) return INVALID_VALUE;
    *total = setting("JETWATCH_DOUBLE_GPU_BYTES", 1u << 30);
    *available = *total - world().used;
    return SUCCESS;
}

EXPORT int cuMemAlloc_v2(u64 *address, size_t bytes) {
    ENTER(true);
    NOT_RECORDING();
    if (!address || !bytes) return INVALID_VALUE;
    return allocate(bytes, false, address);
}

EXPORT int cuMemFree_v2(u64 address) {
    ENTER(true);
    NOT_RECORDING();
    return address ? release(address, false) : SUCCESS;
}

EXPORT int cuMemHostAlloc(void **memory, size_t bytes, u32 flags) {
    ENTER(true);
    NOT_RECORDING();
    if (!memory || !bytes || flags > 7) return INVALID_VALUE;
    return allocate(bytes, true, reinterpret_cast<u64 *>(memory));
}

EXPORT int cuMemFreeHost(void *memory) {
    ENTER(true);
    NOT_RECORDING();
    return release(reinterpret_cast<u64>(memory), true);
}

EXPORT int cuMemHostGetDevicePointer_v2(u64 *address, void *memory, u32 flags) {
    ENTER(true);
    const Range *range = range_of(reinterpret_cast<u64>(memory));
    if (!address || flags || !range || !range->is_host) return INVALID_VALUE;
    *address = reinterpret_cast<u64>(memory);
    return SUCCESS;
}

EXPORT int cuPointerGetAttribute(void *value, int attribute, u64 address) {
    ENTER(false);
    const Range *range = range_of(address);
    // Memory type: 1 is the host's, 2 the GPU's.
    if (!value || attribute != 2 || !range) return INVALID_VALUE;
    *static_cast<u32 *>(value) = range->is_host ? 1 : 2;
    return SUCCESS;
}

EXPORT int cuMemGetAddressRange_v2(u64 *begin, size_t *bytes, u64 address) {
    ENTER(true);
    const Range *range = range_of(address);
    if (!range) return NOT_FOUND;
    if (begin) *begin = range->begin;
    if (bytes) *bytes = range->bytes;
    return SUCCESS;
}

static int copy_now(u64 to, u64 from, size_t bytes) {
    Lock lock(world().mutex);
    if (!may_copy(to, bytes) || !may_copy(from, bytes)) return INVALID_VALUE;
    memmove(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
    return SUCCESS;
}

EXPORT int cuMemcpyAsync(u64 to, u64 from, size_t bytes, void *stream) {
    ENTER(true);
    if (!may_copy(to, bytes) || !may_copy(from, bytes)) return INVALID_VALUE;
    return put(__func__, stream, [=] { return copy_now(to, from, bytes); });
}

EXPORT int cuMemcpyDtoH_v2(void *to, u64 from, size_t bytes) {
    ENTER(true);
    NOT_RECORDING();
    return copy_now(reinterpret_cast<u64>(to), from, bytes);
}

EXPORT int cuStreamCreate(void **stream, u32 flags) {
    ENTER(true);
    if (!stream || flags > 1) return INVALID_VALUE;
    *stream = make<Stream>(Kind::Stream);
    return SUCCESS;
}

EXPORT int cuStreamDestroy_v2(void *handle) {
    ENTER(true);
    Stream *stream = CHECK(Stream, handle);
    if (stream->is_recording) wrong("%s: the stream is still being captured", __func__);
    destroy(stream);
    return SUCCESS;
}

EXPORT int cuStreamSynchronize(void *handle) {
    ENTER(true);
    Stream *stream = CHECK(Stream, handle);
    if (!stream->is_recording) return SUCCESS;
    stream->is_spoiled = true;
    return STREAM_CAPTURE_UNSUPPORTED;
}

EXPORT int cuStreamIsCapturing(void *handle, int *status) {
    ENTER(true);
    if (!status) return INVALID_VALUE;
    Stream *stream = CHECK(Stream, handle);
    *status = stream->is_recording ? stream->is_spoiled ? 2 : 1 : 0;
    return SUCCESS;
}

EXPORT int cuStreamBeginCapture_v2(void *handle, u32 mode) {
    ENTER(true);
    if (mode > 2) return INVALID_VALUE;
    Stream *stream = CHECK(Stream, handle);
    if (stream->is_recording) return INVALID_VALUE;
    stream->is_recording = true;
    stream->is_spoiled = false;
    stream->recorder = std::this_thread::get_id();
    stream->recorded.clear();
    recordings++;
    return SUCCESS;
}

EXPORT int cuStreamEndCapture(void *handle, void **graph) {
    Lock lock(world().mutex);
    // Also where it fails, the capture is over.
    int asked = asked_failure(__func__);
    if (int code = enter("", true)) return code;
    if (!graph) return INVALID_VALUE;
    Stream *stream = CHECK(Stream, handle);
    *graph = nullptr;
    if (!stream->is_recording) return STREAM_CAPTURE_UNMATCHED;
    if (stream->recorder != std::this_thread::get_id()) return STREAM_CAPTURE_WRONG_THREAD;
    stream->is_recording = false;
    recordings--;
    if (asked) return asked;
    if (stream->is_spoiled) return STREAM_CAPTURE_INVALIDATED;
    Graph *made = make<Graph>(Kind::Graph);
    made->operations = std::move(stream->recorded);
    *graph = made;
    return SUCCESS;
}

EXPORT int cuGraphInstantiateWithFlags(void **executable, void *handle, u64 flags) {
    ENTER(true);
    if (!executable || flags) return INVALID_VALUE;
    Graph *made = make<Graph>(Kind::GraphExec);
    made->operations = CHECK(Graph, handle)->operations;
    *executable = made;
    return SUCCESS;
}

EXPORT int cuGraphDestroy(void *handle) {
    ENTER(false);
    destroy(CHECK(Graph, handle));
    return SUCCESS;
}

EXPORT int cuGraphExecDestroy(void *handle) {
    ENTER(false);
    destroy(check<Graph>(__func__, handle, Kind::GraphExec));
    return SUCCESS;
}

EXPORT int cuGraphLaunch(void *handle, void *stream) {
    std::vector<Operation> operations;
    {
        ENTER(true);
        if (CHECK(Stream, stream)->is_recording) return STREAM_CAPTURE_UNSUPPORTED;
        operations = check<Graph>(__func__, handle, Kind::GraphExec)->operations;
    }
    for (const Operation &operation : operations)
        if (int code = operation()) return code;
    return SUCCESS;
}

EXPORT int cuEventCreate(void **event, u32 flags) {
    ENTER(true);
    if (!event || flags > 7) return INVALID_VALUE;
    Event *made = make<Event>(Kind::Event);
    made->has_time = !(flags & 2);
    *event = made;
    return SUCCESS;
}

EXPORT int cuEventDestroy_v2(void *handle) {
    ENTER(true);
    destroy(CHECK(Event, handle));
    return SUCCESS;
}

static int record(const char *call, void *handle, void *stream_handle, u32 flags) {
    Event *event = check<Event>(call, handle, Kind::Event);
    Stream *stream = check<Stream>(call, stream_handle, Kind::Stream);
    if (flags > 1 || (flags == 1 && !stream->is_recording)) return INVALID_VALUE;
    if (stream->is_recording) event->state = flags ? Event::Pending : Event::Captured;
    // An event that only orders the parts of a graph is never reached.
    if (stream->is_recording && !flags) return put(call, stream_handle, [] { return SUCCESS; });
    return put(call, stream_handle, [=] {
        Lock lock(world().mutex);
        Event *reached = check<Event>(call, handle, Kind::Event);
        reached->state = Event::Reached;
        reached->at = nanoseconds();
        return SUCCESS;
    });
}

EXPORT int cuEventRecordWithFlags(void *event, void *stream, u32 flags) {
    ENTER(true);
    return record(__func__, event, stream, flags);
}

EXPORT int cuEventRecord(void *event, void *stream) {
    ENTER(true);
    return record(__func__, event, stream, 0);
}

EXPORT int cuEventSynchronize(void *handle) {
    ENTER(true);
    return CHECK(Event, handle)->state == Event::Captured ? CAPTURED_EVENT : SUCCESS;
}

EXPORT int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
    ENTER(true);
    Event *begin = CHECK(Event, from), *end = CHECK(Event, to);
    if (!milliseconds) return INVALID_VALUE;
    for (Event *event : {begin, end}) {
        if (!event->has_time || event->state == Event::Fresh) return INVALID_HANDLE;
        if (event->state == Event::Captured) return CAPTURED_EVENT;
        if (event->state == Event::Pending) return NOT_READY;
    }
    *milliseconds = static_cast<float>(static_cast<double>(end->at) - static_cast<double>(begin->at)) / 1e6f;
    return SUCCESS;
}

EXPORT int cuModuleLoadDataEx(void **module, const void *image, u32 count, u32 *options, void **values) {
    ENTER(true);
    NOT_RECORDING();
    if (count && (!options || !values)) return INVALID_VALUE;
    char *log = nullptr;
    size_t log_bytes = 0;
    for (u32 i = 0; i < count; i++) {
        if (options[i] == 5) log = static_cast<char *>(values[i]);
        else if (options[i] == 6) log_bytes = reinterpret_cast<size_t>(values[i]);
        else return INVALID_VALUE;
    }
    return load(module, static_cast<const char *>(image), log, log_bytes);
}

EXPORT int cuModuleUnload(void *handle) {
    ENTER(true);
    Module *module = CHECK(Module, handle);
    for (Function *function : module->functions) destroy(function);
    destroy(module);
    return SUCCESS;
}

EXPORT int cuModuleGetFunction(void **function, void *handle, const char *wanted) {
    ENTER(true);
    if (!function || !wanted) return INVALID_VALUE;
    for (Function *candidate : CHECK(Module, handle)->functions) {
        if (!strcmp(candidate->kernel->name, wanted)) {
            *function = candidate;
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

EXPORT int cuLaunchKernel(void *handle, u32 columns, u32 rows, u32 layers, u32 threads, u32 threads_y, u32 threads_z,
                          u32 shared, void *stream, void **parameters, void **extra) {
    const Kernel *kernel;
    {
        ENTER(true);
        kernel = CHECK(Function, handle)->kernel;
        if (!columns || !rows || rows > 65535 || layers != 1 || !threads || threads > 1024) return INVALID_VALUE;
        if (threads_y != 1 || threads_z != 1 || shared || extra || !parameters || !parameters[0]) return INVALID_VALUE;
        CHECK(Stream, stream);
    }
    const char *bytes = static_cast<const char *>(parameters[0]);
    std::vector<char> parameter(bytes, bytes + kernel->bytes);
    return put(__func__, stream, [=] { return launch(kernel, columns, rows, threads, parameter); });
}

EXPORT int cuLaunchHostFunc(void *stream, void (*function)(void *), void *argument) {
    {
        ENTER(true);
        if (!function) return INVALID_VALUE;
        CHECK(Stream, stream);
    }
    return put(__func__, stream, [=] {
        function(argument);
        return SUCCESS;
    });
}

namespace {

// CUDA's description of a registered image, as cudaEGL.h documents it.
struct EglFrame {
    void *planes[3];
    u32 width, height, depth, pitch, plane_count, channels, type, color, element;
};
static_assert(sizeof(EglFrame) == 64 && offsetof(EglFrame, pitch) == 36 && offsetof(EglFrame, type) == 48);
enum : u32 { FRAME_ARRAY = 0, FRAME_PITCH = 1, UNSIGNED_INT8 = 1 };

} // namespace

EXPORT int cuGraphicsEGLRegisterImage(void **resource, void *image_handle, u32 flags) {
    ENTER(true);
    NOT_RECORDING();
    const auto *image = static_cast<const surfaces::EglImage *>(image_handle);
    if (!resource || !image || flags > 2) return INVALID_VALUE;
    if (image->mark != surfaces::EglImage::kMark) wrong("%s: %p is no EGL image, or one that was destroyed", __func__, image_handle);
    Resource *made = make<Resource>(Kind::Resource);
    made->image = image;
    made->address = reinterpret_cast<u64>(image->memory);
    world().memory[made->address] = {made->address, image->bytes, false};
    world().generation++;
    world().registered++;
    world().registrations++;
    *resource = made;
    return SUCCESS;
}

EXPORT int cuGraphicsUnregisterResource(void *handle) {
    ENTER(true);
    NOT_RECORDING();
    Resource *resource = CHECK(Resource, handle);
    if (resource->image->mark != surfaces::EglImage::kMark) wrong("%s: the EGL image was destroyed before", __func__);
    world().memory.erase(resource->address);
    world().generation++;
    world().registered--;
    destroy(resource);
    return SUCCESS;
}

EXPORT int cuGraphicsResourceGetMappedEglFrame(void *frame_pointer, void *handle, u32 index, u32 level) {
    ENTER(true);
    auto *frame = static_cast<EglFrame *>(frame_pointer);
    if (!frame || index || level) return INVALID_VALUE;
    const surfaces::EglImage *image = CHECK(Resource, handle)->image;
    *frame = EglFrame();
    bool is_block = image->layout == surfaces::kBlock;
    for (u32 plane = 0; plane < image->planes.count && plane < 3; plane++)
        // An array's handle is no address.
        frame->planes[plane] = is_block ? handle : image->memory + image->planes.offset[plane];
    frame->width = image->width;
    frame->height = image->height;
    frame->pitch = is_block ? 0 : image->planes.pitch[0];
    frame->plane_count = image->planes.count;
    frame->channels = image->planes.pixel_bytes[0];
    frame->type = is_block ? FRAME_ARRAY : FRAME_PITCH;
    frame->element = UNSIGNED_INT8;
    return SUCCESS;
}
