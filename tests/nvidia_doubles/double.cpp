// SPDX-License-Identifier: Apache-2.0
// Shared by all parts of the double: see double.h.
#include "double.h"

#include <cinttypes>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>

namespace doubles {

void wrong(char const* format, ...) noexcept {
    va_list arguments;
    va_start(arguments, format);
    std::fputs("double: ", stderr);
    std::vfprintf(stderr, format, arguments);
    std::fputs("\n", stderr);
    std::fflush(stderr);
    va_end(arguments);
    std::abort();
}

void not_served(char const* method) noexcept {
    // Shown as the user knows it: VRuntime is the inner side of IRuntime.
    bool const is_inner = method[0] == 'V';
    wrong("%s%s is not served by the double", is_inner ? "I" : "", is_inner ? method + 1 : method);
}

void past_the_end(char const* kind, int slot, int slots) noexcept {
    wrong("slot %d of %s was called, which has %d slots in TensorRT%s %d.%d.%d", slot, kind, slots,
        DOUBLE_RTX ? "-RTX" : "", NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR, NV_TENSORRT_PATCH);
}

std::string text(char const* format, ...) {
    va_list arguments;
    va_list again;
    va_start(arguments, format);
    va_copy(again, arguments);
    std::string out(static_cast<size_t>(std::vsnprintf(nullptr, 0, format, arguments)), '\0');
    std::vsnprintf(&out[0], out.size() + 1, format, again);
    va_end(again);
    va_end(arguments);
    return out;
}

namespace {

struct Counted {
    long made = 0;
    long deleted = 0;
};

struct Register {
    std::mutex mutex;
    std::unordered_map<void const*, char const*> living;
    std::unordered_map<void const*, char const*> dead;
    std::map<std::string, Counted> counts;

    ~Register() {
        if (std::getenv("JETWATCH_DOUBLE_COUNTS") == nullptr) {
            return;
        }
        for (auto const& [kind, counted] : counts) {
            std::fprintf(stderr, "double: count %s made=%ld deleted=%ld alive=%ld\n", kind.c_str(), counted.made,
                counted.deleted, counted.made - counted.deleted);
        }
        std::fflush(stderr);
    }
};

Register& book() {
    static Register book;
    return book;
}

// Stands where a deleted object stood.
#define GRAVE_SLOT(number) virtual void slot_##number() noexcept { used(number); }
#define GRAVE_SLOTS_10(tens)                                                                    \
    GRAVE_SLOT(tens##0) GRAVE_SLOT(tens##1) GRAVE_SLOT(tens##2) GRAVE_SLOT(tens##3)             \
    GRAVE_SLOT(tens##4) GRAVE_SLOT(tens##5) GRAVE_SLOT(tens##6) GRAVE_SLOT(tens##7)             \
    GRAVE_SLOT(tens##8) GRAVE_SLOT(tens##9)
class Grave {
public:
    GRAVE_SLOTS_10()
    GRAVE_SLOTS_10(1)
    GRAVE_SLOTS_10(2)
    GRAVE_SLOTS_10(3)
    GRAVE_SLOTS_10(4)
    GRAVE_SLOTS_10(5)
    GRAVE_SLOTS_10(6)
    GRAVE_SLOTS_10(7)
    GRAVE_SLOTS_10(8)

private:
    [[noreturn]] void used(int slot) noexcept {
        char const* kind = "an object";
        auto const found = book().dead.find(this);
        if (found != book().dead.end()) {
            kind = found->second;
        }
        wrong("%s at %p was used after it was deleted (slot %d)", kind, static_cast<void*>(this), slot);
    }
};

} // namespace

void born(void const* object, char const* kind) {
    std::lock_guard<std::mutex> const lock(book().mutex);
    book().living[object] = kind;
}

void died(void const* object, char const* kind) {
    std::lock_guard<std::mutex> const lock(book().mutex);
    if (book().living.erase(object) == 0) {
        wrong("%s at %p was deleted, but there was none", kind, object);
    }
    book().dead[object] = kind;
}

bool lives(void const* object, char const* kind) {
    std::lock_guard<std::mutex> const lock(book().mutex);
    auto const found = book().living.find(object);
    return found != book().living.end() && std::strcmp(found->second, kind) == 0;
}

void must_live(void const* object, char const* kind, char const* where) {
    std::lock_guard<std::mutex> const lock(book().mutex);
    auto const found = book().living.find(object);
    if (found != book().living.end() && std::strcmp(found->second, kind) == 0) {
        return;
    }
    if (found != book().living.end()) {
        wrong("%s: needs a living %s and got %s at %p", where, kind, found->second, object);
    }
    auto const dead = book().dead.find(object);
    if (dead != book().dead.end()) {
        wrong("%s: needs a living %s and got %s at %p, which was deleted", where, kind, dead->second, object);
    }
    wrong("%s: needs a living %s and got %p, which is no object of ours", where, kind, object);
}

void count_made(char const* kind) {
    std::lock_guard<std::mutex> const lock(book().mutex);
    book().counts[kind].made += 1;
}

void count_deleted(char const* kind) {
    std::lock_guard<std::mutex> const lock(book().mutex);
    book().counts[kind].deleted += 1;
}

void bury(void* memory) noexcept {
    new (memory) Grave;
}

std::string setting(char const* name, char const* otherwise) {
    std::string const variable = std::string("JETWATCH_DOUBLE_") + name;
    char const* value = std::getenv(variable.c_str());
    return value == nullptr ? otherwise : value;
}

int number(char const* name, int otherwise) {
    std::string const value = setting(name);
    if (value.empty()) {
        return otherwise;
    }
    char* end = nullptr;
    long const found = std::strtol(value.c_str(), &end, 10);
    if (*end != '\0') {
        wrong("JETWATCH_DOUBLE_%s is no number: %s", name, value.c_str());
    }
    return static_cast<int>(found);
}

bool shall_fail(char const* what) {
    std::string const list = "," + setting("FAIL") + ",";
    return list.find("," + std::string(what) + ",") != std::string::npos;
}

#if DOUBLE_VERSIONED_CALLBACKS
void must_be(nvinfer1::IVersionedInterface const* callback, char const* kind, int32_t major) {
    auto const language = callback->getAPILanguage();
    if (language != nvinfer1::APILanguage::kCPP) {
        wrong("%s: getAPILanguage answers %d and not 0 (C++)", kind, static_cast<int>(language));
    }
    nvinfer1::InterfaceInfo const info = callback->getInterfaceInfo();
    if (info.kind == nullptr || std::strcmp(info.kind, kind) != 0 || info.major != major || info.minor != 0) {
        wrong("getInterfaceInfo answers %s %d.%d and not %s %d.0", info.kind == nullptr ? "null" : info.kind,
            info.major, info.minor, kind, major);
    }
}
#endif

Voice::Voice(nvinfer1::ILogger* logger) : m_logger(logger) {
    if (logger == nullptr) {
        wrong("an object was made without a logger");
    }
}

Voice::Voice(Voice const& other) : m_logger(other.m_logger) {
    set_recorder(other.m_recorder);
}

Voice::~Voice() {
    set_recorder(nullptr);
}

void Voice::log(Severity severity, std::string const& message) const {
    if (number("LOG_THREAD", 0) != 0) {
        std::thread([&] { m_logger->log(severity, message.c_str()); }).join();
    } else {
        m_logger->log(severity, message.c_str());
    }
}

void Voice::error(ErrorCode code, std::string const& message) const {
    log(code == ErrorCode::kINTERNAL_ERROR ? Severity::kINTERNAL_ERROR : Severity::kERROR,
        text("%d: %s", static_cast<int>(code), message.c_str()));
    if (m_recorder != nullptr) {
        // The vendor cuts what is too long for a recorder.
        m_recorder->reportError(
            code, message.substr(0, nvinfer1::IErrorRecorder::kMAX_DESC_LENGTH).c_str());
    }
}

void Voice::set_recorder(nvinfer1::IErrorRecorder* recorder) {
    if (m_recorder != nullptr) {
        m_recorder->decRefCount();
    }
    m_recorder = recorder;
    if (m_recorder != nullptr) {
#if DOUBLE_VERSIONED_CALLBACKS
        must_be(m_recorder, "IErrorRecorder", 1);
#endif
        m_recorder->incRefCount();
    }
}

void Voice::log_all(char const* who) const {
    if (number("LOG_ALL", 0) == 0) {
        return;
    }
    log(Severity::kVERBOSE, text("%s: a verbose message", who));
    log(Severity::kINFO, text("%s: an information", who));
    log(Severity::kWARNING, text("%s: a warning", who));
    log(Severity::kERROR, text("%s: an error", who));
    log(Severity::kINTERNAL_ERROR, text("%s: an internal error", who));
}

std::string name_argument(char const* name, char const* where) {
    if (name == nullptr) {
        wrong("%s: the name is null", where);
    }
    size_t const length = strnlen(name, 4096);
    if (length == 4096) {
        wrong("%s: the name does not end within 4096 bytes", where);
    }
    return std::string(name, length);
}

Dims dims_argument(Dims const& dims, char const* where) {
    // A caller that hands over the wrong thing makes an impossible reference.
    uintptr_t const address = reinterpret_cast<uintptr_t>(&dims);
    if (address < 4096 || address % alignof(Dims) != 0) {
        wrong("%s: the dimensions lie at %#zx", where, static_cast<size_t>(address));
    }
    if (dims.nbDims < 0 || dims.nbDims > Dims::MAX_DIMS) {
        wrong("%s: there are %d dimensions", where, dims.nbDims);
    }
    for (int32_t axis = 0; axis < dims.nbDims; ++axis) {
        int64_t const size = dims.d[axis];
        if (size < -1 || size > (int64_t{1} << 30)) {
            wrong("%s: dimension %d is %" PRId64, where, axis, size);
        }
    }
    return dims;
}

std::string shown(Dims const& dims) {
    std::string out = "[";
    for (int32_t axis = 0; axis < dims.nbDims; ++axis) {
        out += (axis == 0 ? "" : ",") + std::to_string(dims.d[axis]);
    }
    return out + "]";
}

std::vector<int64_t> sizes(Dims const& dims) {
    return std::vector<int64_t>(dims.d, dims.d + dims.nbDims);
}

Dims to_dims(std::vector<int64_t> const& sizes) {
    Dims dims{};
    dims.nbDims = static_cast<int32_t>(sizes.size());
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
        dims.d[axis] = static_cast<decltype(dims.d[0] + 0)>(sizes[axis]);
    }
    return dims;
}

int64_t bytes_of(nvinfer1::DataType type) {
    using nvinfer1::DataType;
    switch (type) {
    case DataType::kFLOAT:
    case DataType::kINT32: return 4;
    case DataType::kHALF: return 2;
    case DataType::kINT8:
    case DataType::kUINT8:
    case DataType::kBOOL: return 1;
#if DOUBLE_API >= 1000
    case DataType::kINT64: return 8;
#endif
    default: wrong("tensors of type %s are not served by the double", known(type, "a tensor", "DataType"));
    }
}

} // namespace doubles
