// SPDX-License-Identifier: Apache-2.0
// The double used through NVIDIA's own inline methods, as a C++ program would: `build --check` runs it.
//
// It makes small ONNX files, parses, builds, deserializes and runs them on host memory, compares with the function of
// README.md, tries calls that must be refused, and, in child processes, those that must end the process with a message.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "NvInfer.h"
#include "NvOnnxParser.h"

#ifdef TRT_MAJOR_RTX
#define API 1104
#define RTX 1
#else
#define API (NV_TENSORRT_MAJOR * 100 + NV_TENSORRT_MINOR)
#define RTX 0
#endif

using namespace nvinfer1;

namespace {

int checks = 0;

void expect(bool holds, char const* what, int line) {
    checks += 1;
    if (!holds) {
        std::printf("selfcheck: line %d: this does not hold: %s\n", line, what);
        std::exit(1);
    }
}
#define CHECK(condition) expect(static_cast<bool>(condition), #condition, __LINE__)

// --- interfaces that the user implements ---

class Logger final : public ILogger {
public:
    void log(Severity severity, AsciiChar const* message) noexcept override {
        counts[static_cast<int>(severity)] += 1;
        all += std::string(message) + "\n";
    }
    bool contains(char const* part) const { return all.find(part) != std::string::npos; }

    int counts[5] = {};
    std::string all;
};

class Recorder final : public IErrorRecorder {
public:
    int32_t getNbErrors() const noexcept override { return static_cast<int32_t>(errors.size()); }
    ErrorCode getErrorCode(int32_t index) const noexcept override { return errors.at(static_cast<size_t>(index)).first; }
    ErrorDesc getErrorDesc(int32_t index) const noexcept override {
        return errors.at(static_cast<size_t>(index)).second.c_str();
    }
    bool hasOverflowed() const noexcept override { return false; }
    void clear() noexcept override { errors.clear(); }
    bool reportError(ErrorCode code, ErrorDesc description) noexcept override {
        errors.emplace_back(code, description);
        return true;
    }
    RefCount incRefCount() noexcept override { return ++references; }
    RefCount decRefCount() noexcept override { return --references; }

    /// Clears the errors and returns whether one of them contained this text.
    bool had(char const* part) {
        bool const found = std::any_of(errors.begin(), errors.end(),
            [&](auto const& error) { return error.second.find(part) != std::string::npos; });
        errors.clear();
        return found;
    }

    std::vector<std::pair<ErrorCode, std::string>> errors;
    int references = 0;
};

class LayerTimes final : public IProfiler {
public:
    void reportLayerTime(char const* name, float ms) noexcept override {
        names.push_back(name);
        total += ms;
    }
    std::vector<std::string> names;
    float total = 0;
};

#if API >= 1000
class Monitor final : public IProgressMonitor {
public:
    void phaseStart(char const* name, char const* parent, int32_t steps) noexcept override {
        open.push_back(name);
        nested = nested || parent != nullptr;
        most = std::max(most, steps);
        phases += 1;
    }
    bool stepComplete(char const* name, int32_t) noexcept override {
        in_order = in_order && !open.empty() && open.back() == name;
        return --left > 0;
    }
    void phaseFinish(char const* name) noexcept override {
        in_order = in_order && !open.empty() && open.back() == name;
        open.pop_back();
    }

    std::vector<std::string> open;
    int phases = 0;
    int32_t most = 0;
    int left = 1000;
    bool nested = false;
    bool in_order = true;
};
#endif

#if API < 1100
class Calibrator final : public IInt8EntropyCalibrator2 {
public:
    Calibrator(int32_t batch, int batches, size_t values) : m_batch(batch), m_left(batches), m_values(values, 0.5f) {
        m_values[values / 2] = -127.0f;
    }
    int32_t getBatchSize() const noexcept override { return m_batch; }
    bool getBatch(void* bindings[], char const* names[], int32_t count) noexcept override {
        if (m_left == 0 || count != 1 || std::strcmp(names[0], "images") != 0) {
            return false;
        }
        m_left -= 1;
        given += 1;
        bindings[0] = m_values.data();
        return true;
    }
    void const* readCalibrationCache(std::size_t& length) noexcept override {
        length = cache.size();
        return cache.empty() ? nullptr : cache.data();
    }
    void writeCalibrationCache(void const* data, std::size_t length) noexcept override {
        cache.assign(static_cast<char const*>(data), length);
    }

    std::string cache;
    int given = 0;

private:
    int32_t m_batch;
    int m_left;
    std::vector<float> m_values;
};
#endif

// --- ONNX files ---

std::string varint(uint64_t value) {
    std::string out;
    while (value >= 128) {
        out += static_cast<char>(value | 128);
        value >>= 7;
    }
    return out + static_cast<char>(value);
}
std::string field(int number, std::string const& bytes) {
    return varint(static_cast<uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string field(int number, uint64_t value) {
    return varint(static_cast<uint64_t>(number) << 3) + varint(value);
}
std::string value_info(char const* name, uint64_t type, std::vector<int64_t> const& sizes) {
    std::string shape;
    for (int64_t const size : sizes) {
        shape += field(1, size < 0 ? field(2, std::string("batch")) : field(1, static_cast<uint64_t>(size)));
    }
    return field(1, std::string(name)) + field(2, field(1, field(1, type) + field(2, shape)));
}
std::string node(char const* operation, char const* name, char const* input, char const* output) {
    return field(1, std::string(input)) + field(2, std::string(output)) + field(3, std::string(name))
        + field(4, std::string(operation));
}
struct Onnx {
    std::vector<int64_t> input;
    std::vector<int64_t> output;
    uint64_t input_type = 1;
    bool is_quantized = false;
    bool is_unsupported = false;

    std::string bytes() const {
        std::string graph;
        char const* from = "images";
        if (is_quantized) {
            graph += field(1, node("QuantizeLinear", "q", "images", "quantized"));
            graph += field(1, node("DequantizeLinear", "dq", "quantized", "back"));
            from = "back";
        }
        graph += field(1, node("Conv", "conv1", from, "a"));
        graph += field(1, node("Relu", "relu1", "a", "b"));
        graph += field(1, node(is_unsupported ? "UnsupportedThing" : "Sigmoid", "last", "b", "boxes"));
        graph += field(2, std::string("street"));
        graph += field(11, value_info("images", input_type, input));
        graph += field(12, value_info("boxes", 1, output));
        return field(1, uint64_t{8}) + field(2, std::string("selfcheck")) + field(7, graph)
            + field(8, field(2, uint64_t{17}));
    }
};

// --- helpers ---

template <class Object>
using Held = std::unique_ptr<Object>;

Dims dims(std::vector<int64_t> const& sizes) {
    Dims out{};
    out.nbDims = static_cast<int32_t>(sizes.size());
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
        out.d[axis] = static_cast<std::remove_reference_t<decltype(out.d[0])>>(sizes[axis]);
    }
    return out;
}
bool is(Dims const& a, std::vector<int64_t> const& sizes) {
    return a.nbDims == static_cast<int32_t>(sizes.size()) && std::equal(sizes.begin(), sizes.end(), a.d);
}

/// Memory with TensorRT's alignment.
class Buffer {
public:
    explicit Buffer(size_t bytes) : m_data(std::aligned_alloc(256, (bytes + 255) / 256 * 256)) {
        std::memset(m_data, 0, bytes);
    }
    ~Buffer() { std::free(m_data); }
    Buffer(Buffer const&) = delete;
    void* get() { return m_data; }
    float* floats() { return static_cast<float*>(m_data); }
    uint8_t* octets() { return static_cast<uint8_t*>(m_data); }

private:
    void* m_data;
};

uint32_t network_flags([[maybe_unused]] bool is_strong) {
#if API < 1000
    return 1u << static_cast<int>(NetworkDefinitionCreationFlag::kEXPLICIT_BATCH);
#elif API < 1100
    return is_strong ? 1u << static_cast<int>(NetworkDefinitionCreationFlag::kSTRONGLY_TYPED) : 0;
#else
    return 0;
#endif
}

void prepare([[maybe_unused]] IBuilderConfig& config) {
#if RTX
    CHECK(config.setNbComputeCapabilities(1));
    CHECK(config.setComputeCapability(ComputeCapability::kSM86, 0));
#endif
}

/// Builder, network and config in the order in which they must go.
struct Build {
    explicit Build(Logger& logger, Onnx const& onnx, bool is_strong = true)
        : builder(createInferBuilder(logger)), network(builder->createNetworkV2(network_flags(is_strong))),
          config(builder->createBuilderConfig()) {
        Held<nvonnxparser::IParser> parser(nvonnxparser::createParser(*network, logger));
        std::string const bytes = onnx.bytes();
        CHECK(parser->parse(bytes.data(), bytes.size(), nullptr));
        CHECK(parser->getNbErrors() == 0);
        prepare(*config);
    }

    int32_t add_profile(std::vector<int64_t> const& min, std::vector<int64_t> const& opt, std::vector<int64_t> const& max) {
        IOptimizationProfile* const profile = builder->createOptimizationProfile();
        CHECK(profile->setDimensions("images", OptProfileSelector::kMIN, dims(min)));
        CHECK(profile->setDimensions("images", OptProfileSelector::kOPT, dims(opt)));
        CHECK(profile->setDimensions("images", OptProfileSelector::kMAX, dims(max)));
        CHECK(is(profile->getDimensions("images", OptProfileSelector::kOPT), opt));
        CHECK(profile->isValid());
        return config->addOptimizationProfile(profile);
    }

    std::string plan() {
        Held<IHostMemory> const memory(builder->buildSerializedNetwork(*network, *config));
        if (memory == nullptr) {
            return "";
        }
        return std::string(static_cast<char const*>(memory->data()), memory->size());
    }

    Held<IBuilder> builder;
    Held<INetworkDefinition> network;
    Held<IBuilderConfig> config;
};

IExecutionContext* new_context(ICudaEngine& engine) {
    return engine.createExecutionContext();
}

// --- the parts ---

void check_versions(Logger& logger) {
    CHECK(getInferLibVersion() == NV_TENSORRT_VERSION);
#if API >= 1000
    CHECK(getInferLibMajorVersion() == NV_TENSORRT_MAJOR);
    CHECK(getInferLibMinorVersion() == NV_TENSORRT_MINOR);
    CHECK(getInferLibPatchVersion() == NV_TENSORRT_PATCH);
    CHECK(getInferLibBuildVersion() == NV_TENSORRT_BUILD);
#endif
    CHECK(getNvOnnxParserVersion() == NV_ONNX_PARSER_VERSION);
    CHECK(createInferRuntime_INTERNAL(&logger, 70100) == nullptr);
    CHECK(createInferBuilder_INTERNAL(&logger, 7100) == nullptr);
    CHECK(logger.contains("does not fit this library"));
}

void check_parser(Logger& logger) {
    Held<IBuilder> const builder(createInferBuilder(logger));
    Held<INetworkDefinition> const network(builder->createNetworkV2(network_flags(true)));
    Held<nvonnxparser::IParser> const parser(nvonnxparser::createParser(*network, logger));
    CHECK(!parser->parse("no model", 8, nullptr));
    CHECK(parser->getNbErrors() == 1);
    CHECK(parser->getError(0)->code() == nvonnxparser::ErrorCode::kMODEL_DESERIALIZE_FAILED);
    parser->clearErrors();
    CHECK(parser->getNbErrors() == 0);
    CHECK(!parser->parseFromFile("/nowhere/model.onnx", static_cast<int>(ILogger::Severity::kWARNING)));
    CHECK(std::strstr(parser->getError(0)->desc(), "/nowhere/model.onnx") != nullptr);
    parser->clearErrors();

    std::string const odd = Onnx{{1, 3, 32, 32}, {1, 5, 1}, 1, false, true}.bytes();
    CHECK(!parser->parse(odd.data(), odd.size(), "/nowhere"));
    nvonnxparser::IParserError const* const error = parser->getError(0);
    CHECK(error->code() == nvonnxparser::ErrorCode::kUNSUPPORTED_NODE);
    CHECK(error->node() == 2 && error->line() > 0);
    CHECK(std::strstr(error->desc(), "UnsupportedThing") != nullptr);
    CHECK(std::strlen(error->file()) > 0 && std::strlen(error->func()) > 0);
#if API >= 1000
    CHECK(std::strcmp(error->nodeName(), "last") == 0);
    CHECK(std::strcmp(error->nodeOperator(), "UnsupportedThing") == 0);
    CHECK(error->localFunctionStackSize() == 0);
#endif
    CHECK(parser->supportsOperator("Conv") && !parser->supportsOperator("UnsupportedThing"));

    std::string const good = Onnx{{-1, 3, 64, 96}, {-1, 5, 6}}.bytes();
    std::string const cut = good.substr(0, good.size() - 30);
    CHECK(!parser->parse(cut.data(), cut.size(), nullptr));
    CHECK(parser->parse(good.data(), good.size(), nullptr));
    CHECK(!parser->parse(good.data(), good.size(), nullptr));

    CHECK(network->getNbInputs() == 1 && network->getNbOutputs() == 1 && network->getNbLayers() == 3);
    ITensor* const input = network->getInput(0);
    CHECK(std::strcmp(input->getName(), "images") == 0 && input->getType() == DataType::kFLOAT);
    CHECK(is(input->getDimensions(), {-1, 3, 64, 96}));
    CHECK(input->isNetworkInput() && !input->isNetworkOutput());
    CHECK(std::strcmp(network->getOutput(0)->getName(), "boxes") == 0);
    CHECK(std::strcmp(network->getName(), "street") == 0);
    CHECK(network->getInput(1) == nullptr && network->getOutput(-1) == nullptr);
    ILayer* const layer = network->getLayer(0);
    CHECK(layer->getType() == LayerType::kCONVOLUTION && std::strcmp(layer->getName(), "conv1") == 0);
    CHECK(layer->getNbInputs() == 1 && layer->getInput(0) == input && layer->getNbOutputs() == 1);
    input->setDimensions(dims({2, 3, 64, 96}));
    CHECK(is(input->getDimensions(), {2, 3, 64, 96}));
    input->setAllowedFormats(1u << static_cast<int>(TensorFormat::kHWC));
    CHECK(input->getAllowedFormats() == 1u << static_cast<int>(TensorFormat::kHWC));
#if API < 1100
    input->setType(DataType::kHALF);
    CHECK(input->getType() == DataType::kHALF);
    CHECK(input->setDynamicRange(-1.0f, 1.0f) && input->dynamicRangeIsSet() && input->getDynamicRangeMax() == 1.0f);
    CHECK(!input->setDynamicRange(1.0f, -1.0f));
#endif
}

void check_config(Logger& logger) {
    Held<IBuilder> const builder(createInferBuilder(logger));
    Recorder recorder;
    builder->setErrorRecorder(&recorder);
    CHECK(recorder.references == 1 && builder->getErrorRecorder() == &recorder);
    CHECK(builder->getNbDLACores() == 0 && builder->getLogger() == &logger);
    CHECK(builder->setMaxThreads(2) && builder->getMaxThreads() == 2 && !builder->setMaxThreads(0));
    CHECK(recorder.had("less than 1"));
    Held<IBuilderConfig> const config(builder->createBuilderConfig());
    config->setFlag(BuilderFlag::kGPU_FALLBACK);
    CHECK(config->getFlag(BuilderFlag::kGPU_FALLBACK) && !config->getFlag(BuilderFlag::kDEBUG));
    config->clearFlag(BuilderFlag::kGPU_FALLBACK);
    CHECK(!config->getFlag(BuilderFlag::kGPU_FALLBACK));
    config->setMemoryPoolLimit(MemoryPoolType::kWORKSPACE, 12345678);
    CHECK(config->getMemoryPoolLimit(MemoryPoolType::kWORKSPACE) == 12345678);
    config->setMemoryPoolLimit(MemoryPoolType::kDLA_MANAGED_SRAM, 5000);
    CHECK(logger.contains("power of 2"));
    config->setProfilingVerbosity(ProfilingVerbosity::kDETAILED);
    CHECK(config->getProfilingVerbosity() == ProfilingVerbosity::kDETAILED);
    config->setDefaultDeviceType(DeviceType::kDLA);
    CHECK(config->getDefaultDeviceType() == DeviceType::kDLA);
    config->setDLACore(0);
    CHECK(config->getDLACore() == -1);
    CHECK(config->addOptimizationProfile(nullptr) == -1);
    CHECK(config->getNbOptimizationProfiles() == 0);
#if API >= 806
    config->setBuilderOptimizationLevel(5);
    CHECK(config->getBuilderOptimizationLevel() == 5);
    config->setBuilderOptimizationLevel(6);
    CHECK(config->getBuilderOptimizationLevel() == 5);
#endif
#if API < 1100
    CHECK(builder->platformHasFastFp16() && builder->platformHasFastInt8());
#endif
#if RTX
    CHECK(config->setNbComputeCapabilities(2) && config->getNbComputeCapabilities() == 2);
    CHECK(!config->setComputeCapability(ComputeCapability::kCURRENT, 0));
    CHECK(config->setComputeCapability(ComputeCapability::kSM89, 1));
    CHECK(!config->setComputeCapability(ComputeCapability::kSM89, 2));
    CHECK(config->getComputeCapability(1) == ComputeCapability::kSM89);
#endif
    IOptimizationProfile* const profile = builder->createOptimizationProfile();
    CHECK(profile->setDimensions("images", OptProfileSelector::kMIN, dims({4, 3})));
    CHECK(!profile->setDimensions("images", OptProfileSelector::kOPT, dims({4, 3, 5})));
    CHECK(profile->setDimensions("images", OptProfileSelector::kOPT, dims({4, 3})));
    CHECK(profile->setDimensions("images", OptProfileSelector::kMAX, dims({3, 3})));
    CHECK(!profile->isValid() && config->addOptimizationProfile(profile) == -1);
    builder->setErrorRecorder(nullptr);
    CHECK(recorder.references == 0);
}

void check_builds(Logger& logger) {
    Onnx const onnx{{-1, 3, 64, 96}, {-1, 5, 6}};
    {
        Build build(logger, onnx);
        Recorder recorder;
        build.builder->setErrorRecorder(&recorder);
        CHECK(build.plan().empty());
        CHECK(recorder.had("no optimization profile"));
        CHECK(!build.builder->isNetworkSupported(*build.network, *build.config));
        CHECK(build.add_profile({1, 3, 64, 96}, {2, 3, 64, 96}, {4, 3, 64, 96}) == 0);
        CHECK(build.builder->isNetworkSupported(*build.network, *build.config));

        Held<ITimingCache> const cache(build.config->createTimingCache(nullptr, 0));
        CHECK(build.config->setTimingCache(*cache, false) && build.config->getTimingCache() == cache.get());
        CHECK(!build.plan().empty());
        Held<IHostMemory> const bytes(cache->serialize());
        std::string const once(static_cast<char const*>(bytes->data()), bytes->size());
        CHECK(once.find("conv1") != std::string::npos);
        Held<ITimingCache> const again(build.config->createTimingCache(once.data(), once.size()));
        CHECK(again != nullptr && build.config->setTimingCache(*again, false));
        CHECK(build.config->createTimingCache("no cache", 8) == nullptr);
        std::string other = once;
        other.replace(other.find(' ') + 1, 1, "9");
        Held<ITimingCache> const strange(build.config->createTimingCache(other.data(), other.size()));
        CHECK(strange != nullptr && !build.config->setTimingCache(*strange, false) && !again->combine(*strange, false));
        CHECK(again->combine(*strange, true));
        build.builder->setErrorRecorder(nullptr);

        for (char const* what : {"out-of-memory", "unsupported-layer"}) {
            setenv("JETWATCH_DOUBLE_FAIL", what, 1);
            CHECK(build.plan().empty());
        }
        unsetenv("JETWATCH_DOUBLE_FAIL");
        CHECK(logger.contains("OutOfMemory") && logger.contains("Could not find any implementation for node"));
    }
#if API >= 1000
    {
        Build build(logger, onnx);
        build.add_profile({1, 3, 64, 96}, {2, 3, 64, 96}, {4, 3, 64, 96});
        Monitor monitor;
        build.config->setProgressMonitor(&monitor);
        CHECK(build.config->getProgressMonitor() == &monitor);
        CHECK(!build.plan().empty());
        CHECK(monitor.phases == 2 && monitor.nested && monitor.in_order && monitor.open.empty() && monitor.most == 3);
        monitor.left = 2;
        CHECK(build.plan().empty() && monitor.in_order && monitor.open.empty());
        CHECK(logger.contains("cancelled"));
        build.config->setProgressMonitor(nullptr);
    }
#endif
#if API < 1100
    {
        Build build(logger, onnx, false);
        build.add_profile({1, 3, 64, 96}, {2, 3, 64, 96}, {4, 3, 64, 96});
        build.config->setFlag(BuilderFlag::kINT8);
        CHECK(build.plan().empty() && logger.contains("no scaling factors"));
        Calibrator wrong_batch(3, 1, 3 * 3 * 64 * 96);
        build.config->setInt8Calibrator(&wrong_batch);
        CHECK(build.plan().empty() && wrong_batch.given == 0);
        Calibrator calibrator(2, 3, 2 * 3 * 64 * 96);
        build.config->setInt8Calibrator(&calibrator);
        CHECK(build.config->getInt8Calibrator() == &calibrator);
        CHECK(!build.plan().empty() && calibrator.given == 3);
        // -127 is the largest: a scale of 1.0.
        CHECK(calibrator.cache.find("-EntropyCalibration2\nimages: 3f800000\n") != std::string::npos);
        CHECK(!build.plan().empty() && calibrator.given == 3);
        Calibrator cached(2, 0, 2);
        cached.cache = calibrator.cache;
        build.config->setInt8Calibrator(&cached);
        CHECK(!build.plan().empty());
        build.config->setInt8Calibrator(nullptr);
    }
    {
        // Q/DQ needs the flag on a weakly typed network and forbids it on a strongly typed one.
        Build build(logger, Onnx{{1, 3, 64, 96}, {1, 5, 6}, 1, true}, false);
        CHECK(build.plan().empty());
        build.config->setFlag(BuilderFlag::kINT8);
        CHECK(!build.plan().empty());
    }
#if API >= 1000
    {
        Build build(logger, Onnx{{1, 3, 64, 96}, {1, 5, 6}, 1, true}, true);
        CHECK(!build.plan().empty());
        build.config->setFlag(BuilderFlag::kINT8);
        CHECK(build.plan().empty() && logger.contains("strongly typed"));
    }
#endif
#endif
    setenv("JETWATCH_DOUBLE_DLA_CORES", "2", 1);
    {
        Build build(logger, Onnx{{1, 3, 64, 96}, {1, 5, 6}, 1, true}, false);
#if API < 1100
        build.config->setFlag(BuilderFlag::kINT8);
#endif
        build.config->setDefaultDeviceType(DeviceType::kDLA);
        build.config->setDLACore(1);
        CHECK(build.config->getDLACore() == 1);
        CHECK(build.plan().empty() && logger.contains("DLA does not support networks with Q/DQ"));
    }
    unsetenv("JETWATCH_DOUBLE_DLA_CORES");
}

void check_runtime(Logger& logger, std::string const& plan) {
    Held<IRuntime> const runtime(createInferRuntime(logger));
    Recorder recorder;
    runtime->setErrorRecorder(&recorder);
    CHECK(runtime->getErrorRecorder() == &recorder && runtime->getLogger() == &logger);
    CHECK(runtime->getNbDLACores() == 0 && runtime->setMaxThreads(4) && runtime->getMaxThreads() == 4);
    runtime->setDLACore(0);
    CHECK(recorder.had("no DLA core 0"));
#if API >= 806
    runtime->setEngineHostCodeAllowed(true);
    CHECK(runtime->getEngineHostCodeAllowed());
#endif
    CHECK(runtime->deserializeCudaEngine(nullptr, 5) == nullptr && recorder.had("blob"));
    CHECK(runtime->deserializeCudaEngine("rubbish rubbish", 15) == nullptr && recorder.had("magicTag"));
    CHECK(runtime->deserializeCudaEngine(plan.data(), plan.size() - 1) == nullptr && recorder.had("size"));
    std::string other = plan;
    other[8] = static_cast<char>(other[8] ^ 1);
    CHECK(runtime->deserializeCudaEngine(other.data(), other.size()) == nullptr && recorder.had("stdVersionRead"));
    CHECK(logger.contains("Version tag does not match"));
    other = plan;
    other[plan.size() / 2] = static_cast<char>(other[plan.size() / 2] ^ 1);
    CHECK(runtime->deserializeCudaEngine(other.data(), other.size()) == nullptr && recorder.had("size"));
    setenv("JETWATCH_DOUBLE_CAPABILITY", "8.7", 1);
    CHECK(runtime->deserializeCudaEngine(plan.data(), plan.size()) == nullptr && recorder.had("incompatible device"));
    unsetenv("JETWATCH_DOUBLE_CAPABILITY");
    {
        Held<ICudaEngine> const engine(runtime->deserializeCudaEngine(plan.data(), plan.size()));
        CHECK(engine != nullptr && engine->getErrorRecorder() == &recorder && recorder.references == 2);
        Held<IExecutionContext> const context(new_context(*engine));
        CHECK(context != nullptr && context->getErrorRecorder() == &recorder && recorder.references == 3);
        setenv("JETWATCH_DOUBLE_FAIL", "context", 1);
        CHECK(new_context(*engine) == nullptr && recorder.had("OutOfMemory"));
        unsetenv("JETWATCH_DOUBLE_FAIL");
    }
    CHECK(recorder.references == 1);
    runtime->setErrorRecorder(nullptr);
}

void check_engine(ICudaEngine& engine) {
    CHECK(engine.getNbIOTensors() == 2);
    CHECK(std::strcmp(engine.getIOTensorName(0), "images") == 0 && std::strcmp(engine.getIOTensorName(1), "boxes") == 0);
    CHECK(engine.getIOTensorName(2) == nullptr);
    CHECK(is(engine.getTensorShape("images"), {-1, 3, 64, 96}) && is(engine.getTensorShape("boxes"), {-1, 5, 6}));
    CHECK(engine.getTensorShape("nothing").nbDims == -1);
    CHECK(engine.getTensorDataType("images") == DataType::kFLOAT);
    CHECK(engine.getTensorIOMode("images") == TensorIOMode::kINPUT);
    CHECK(engine.getTensorIOMode("boxes") == TensorIOMode::kOUTPUT);
    CHECK(engine.getTensorIOMode("nothing") == TensorIOMode::kNONE);
    CHECK(engine.getTensorFormat("images") == TensorFormat::kLINEAR);
    CHECK(engine.getTensorLocation("images") == TensorLocation::kDEVICE);
    CHECK(engine.getTensorVectorizedDim("images") == -1 && engine.getTensorComponentsPerElement("images") == -1
        && engine.getTensorBytesPerComponent("images") == -1);
    CHECK(std::strlen(engine.getTensorFormatDesc("images")) > 0);
    CHECK(!engine.isShapeInferenceIO("images"));
    CHECK(is(engine.getProfileShape("images", 0, OptProfileSelector::kMIN), {1, 3, 64, 96}));
    CHECK(is(engine.getProfileShape("images", 0, OptProfileSelector::kOPT), {2, 3, 64, 96}));
    CHECK(is(engine.getProfileShape("images", 1, OptProfileSelector::kMAX), {4, 3, 64, 96}));
    CHECK(engine.getProfileShape("images", 2, OptProfileSelector::kMAX).nbDims == -1);
    CHECK(engine.getNbOptimizationProfiles() == 2 && engine.getNbLayers() == 1);
    CHECK(std::strcmp(engine.getName(), "street") == 0);
    CHECK(engine.getProfilingVerbosity() == ProfilingVerbosity::kDETAILED && !engine.isRefittable());
#if API < 1100
    CHECK(engine.getDeviceMemorySize() > 0 && !engine.hasImplicitBatchDimension());
#endif
#if API >= 1003
    CHECK(engine.getDeviceMemorySizeV2() > 0);
#endif
#if API >= 806
    CHECK(engine.getTensorFormat("images", 1) == TensorFormat::kLINEAR);
#endif
    Held<IHostMemory> const again(engine.serialize());
    CHECK(again->size() > 100 && again->type() == DataType::kINT8);
    Held<IEngineInspector> const inspector(engine.createEngineInspector());
    std::string const all = inspector->getEngineInformation(LayerInformationFormat::kJSON);
    CHECK(all.find("{\"Layers\": [{\"Name\": \"conv1 + relu1 + last\"") == 0);
    CHECK(all.find("\"Bindings\": [\"images\",\"boxes\"]}") != std::string::npos);
    CHECK(std::strstr(inspector->getLayerInformation(0, LayerInformationFormat::kONELINE), "conv1") != nullptr);
    CHECK(inspector->getLayerInformation(1, LayerInformationFormat::kJSON) == nullptr);
}

void fill(float* values, size_t count) {
    for (size_t at = 0; at < count; ++at) {
        values[at] = static_cast<float>(at * 7919 % 256);
    }
}

/// The boxes of README.md for images of [3, 64, 96].
void compare_boxes(std::function<double(size_t)> const& value, float const* boxes, size_t pictures) {
    bool all_right = true;
    for (size_t picture = 0; picture < pictures; ++picture) {
        for (size_t cell = 0; cell < 6; ++cell) {
            size_t const left = cell % 3 * 32;
            size_t const top = cell / 3 * 32;
            double sum = 0;
            for (size_t y = top; y < top + 32; ++y) {
                for (size_t x = left; x < left + 32; ++x) {
                    sum += value(picture * 3 * 64 * 96 + y * 96 + x);
                }
            }
            float const wanted[5] = {static_cast<float>(left + 16), static_cast<float>(top + 16), 32, 32,
                static_cast<float>(sum / 1024 / 255)};
            for (size_t row = 0; row < 5; ++row) {
                all_right = all_right && std::fabs(boxes[picture * 30 + row * 6 + cell] - wanted[row]) <= 1e-6f * wanted[row];
            }
        }
    }
    CHECK(all_right);
}

void check_context(ICudaEngine& engine) {
    Held<IExecutionContext> const context(new_context(engine));
    CHECK(&context->getEngine() == &engine && context->getOptimizationProfile() == 0);
    char const* missing[2] = {};
    CHECK(context->inferShapes(2, missing) == 1 && std::strcmp(missing[0], "images") == 0);
    CHECK(context->inferShapes(1, nullptr) == -1 && !context->allInputDimensionsSpecified());
    CHECK(is(context->getTensorShape("images"), {-1, 3, 64, 96}));
    CHECK(!context->setInputShape("images", dims({5, 3, 64, 96})) && !context->setInputShape("images", dims({1, 3, 64, 97}))
        && !context->setInputShape("images", dims({1, 3, 64})) && !context->setInputShape("boxes", dims({1, 5, 6}))
        && !context->setInputShape("nothing", dims({1})));
    CHECK(!context->enqueueV3(nullptr));
    CHECK(context->setInputShape("images", dims({3, 3, 64, 96})));
    CHECK(context->inferShapes(0, nullptr) == 0 && context->allInputDimensionsSpecified());
    CHECK(is(context->getTensorShape("boxes"), {3, 5, 6}) && is(context->getTensorStrides("boxes"), {30, 6, 1}));
    CHECK(!context->enqueueV3(nullptr));

    size_t const count = 3 * 3 * 64 * 96;
    Buffer input(count * 4);
    Buffer output(3 * 30 * 4);
    fill(input.floats(), count);
    CHECK(!context->setTensorAddress("images", input.octets() + 4) && !context->setTensorAddress("nothing", input.get()));
    CHECK(!context->setInputTensorAddress("boxes", input.get()));
    CHECK(context->setInputTensorAddress("images", input.get()) && context->setTensorAddress("boxes", output.get()));
    CHECK(context->getTensorAddress("images") == input.get() && context->getOutputTensorAddress("boxes") == output.get());
    CHECK(context->enqueueV3(nullptr));
    compare_boxes([&](size_t at) { return input.floats()[at]; }, output.floats(), 3);

    LayerTimes times;
    context->setProfiler(&times);
    CHECK(context->getProfiler() == &times && context->enqueueV3(nullptr));
    CHECK(times.names.size() == 1 && times.names[0] == "conv1 + relu1 + last" && times.total > 0);
    context->setEnqueueEmitsProfile(false);
    CHECK(context->enqueueV3(nullptr) && times.names.size() == 1);
    CHECK(context->reportToProfiler() && times.names.size() == 2);
    context->setProfiler(nullptr);
    CHECK(!context->reportToProfiler());
    CHECK(context->setInputConsumedEvent(nullptr) && context->getInputConsumedEvent() == nullptr);
    CHECK(context->setNvtxVerbosity(ProfilingVerbosity::kNONE) && context->getNvtxVerbosity() == ProfilingVerbosity::kNONE);
    context->setName("worker");
    CHECK(std::strcmp(context->getName(), "worker") == 0);
    setenv("JETWATCH_DOUBLE_FAIL", "enqueue", 1);
    CHECK(!context->enqueueV3(nullptr));
    unsetenv("JETWATCH_DOUBLE_FAIL");

    // A second context: generation 8 gives it no profile, and none that another context has.
    Held<IExecutionContext> const second(new_context(engine));
#if API < 1000
    CHECK(second->getOptimizationProfile() == -1 && !second->setInputShape("images", dims({1, 3, 64, 96})));
    CHECK(!second->setOptimizationProfileAsync(0, nullptr) && second->setOptimizationProfileAsync(1, nullptr));
#else
    CHECK(second->getOptimizationProfile() == 0);
#endif
    CHECK(!second->setOptimizationProfileAsync(2, nullptr));
    CHECK(second->setInputShape("images", dims({1, 3, 64, 96})));
#if API >= 1000
    Held<IExecutionContext> const bare(engine.createExecutionContext(ExecutionContextAllocationStrategy::kUSER_MANAGED));
    CHECK(bare->setInputShape("images", dims({3, 3, 64, 96})) && bare->setTensorAddress("images", input.get())
        && bare->setTensorAddress("boxes", output.get()) && !bare->enqueueV3(nullptr));
    Buffer memory(4 * 3 * 64 * 96 * 4);
#if API >= 1003
    bare->setDeviceMemoryV2(memory.get(), 4 * 3 * 64 * 96 * 4);
#else
    bare->setDeviceMemory(memory.get());
#endif
    CHECK(bare->enqueueV3(nullptr));
#endif
}

/// A network of other types, formats and outputs, built and run.
void check_other(Logger& logger, Onnx const& onnx, TensorFormat format, bool is_mean, std::function<void(uint8_t*, size_t)> const& put,
    std::function<double(size_t)> const& value) {
    Build build(logger, onnx);
    build.network->getInput(0)->setAllowedFormats(1u << static_cast<int>(format));
    std::string const plan = build.plan();
    CHECK(!plan.empty());
    Held<IRuntime> const runtime(createInferRuntime(logger));
    Held<ICudaEngine> const engine(runtime->deserializeCudaEngine(plan.data(), plan.size()));
    CHECK(engine->getTensorFormat("images") == format);
    bool const is_vectorized = format == TensorFormat::kCHW4;
    CHECK(engine->getTensorVectorizedDim("images") == (is_vectorized ? 1 : -1));
    CHECK(engine->getTensorComponentsPerElement("images") == (is_vectorized ? 4 : -1));
    CHECK(engine->getTensorBytesPerComponent("images") == (is_vectorized ? 1 : -1));
    Held<IExecutionContext> const context(new_context(*engine));
    size_t const count = 3 * 64 * 96;
    Buffer input(count * 4);
    Buffer output(4096);
    put(input.octets(), count);
    CHECK(context->setTensorAddress("images", input.get()) && context->setTensorAddress("boxes", output.get()));
    CHECK(context->enqueueV3(nullptr));
    if (!is_mean) {
        compare_boxes(value, output.floats(), 1);
        return;
    }
    double sum = 0;
    for (size_t at = 0; at < count; ++at) {
        sum += value(at);
    }
    bool all_right = true;
    for (size_t at = 0; at < 20; ++at) {
        float const wanted = static_cast<float>(sum / static_cast<double>(count) * static_cast<double>(at % 7 + 1));
        all_right = all_right && std::fabs(output.floats()[at] - wanted) <= 1e-5f * std::fabs(wanted);
    }
    CHECK(all_right);
}

void check_others(Logger& logger) {
    auto const octet = [](size_t at) { return static_cast<uint8_t>(at * 7919 % 256); };
    Onnx const octets{{1, 3, 64, 96}, {1, 5, 6}, 2};
    check_other(logger, octets, TensorFormat::kLINEAR, false,
        [&](uint8_t* bytes, size_t count) {
            for (size_t at = 0; at < count; ++at) {
                bytes[at] = octet(at);
            }
        },
        [&](size_t at) { return octet(at); });
    check_other(logger, octets, TensorFormat::kHWC, false,
        [&](uint8_t* bytes, size_t count) {
            for (size_t at = 0; at < count; ++at) {
                bytes[at % 6144 * 3 + at / 6144] = octet(at);
            }
        },
        [&](size_t at) { return octet(at); });
    Onnx const small{{1, 3, 64, 96}, {1, 5, 6}, 3};
    check_other(logger, small, TensorFormat::kCHW4, false,
        [&](uint8_t* bytes, size_t count) {
            for (size_t at = 0; at < count; ++at) {
                bytes[at % 6144 * 4 + at / 6144] = static_cast<uint8_t>(octet(at) / 2);
            }
        },
        [&](size_t at) { return octet(at) / 2; });
    // Halves of whole numbers up to 255: 0x5bf8 is 255.
    Onnx const halves{{1, 3, 64, 96}, {1, 20}, 10};
    check_other(logger, halves, TensorFormat::kLINEAR, true,
        [&](uint8_t* bytes, size_t count) {
            for (size_t at = 0; at < count; ++at) {
                uint16_t const half = at % 2 == 0 ? 0x5bf8 : 0x3800;
                std::memcpy(bytes + 2 * at, &half, 2);
            }
        },
        [&](size_t at) { return at % 2 == 0 ? 255.0 : 0.5; });
}

// --- mistakes that must end the process ---

/// Runs `mistake` in a child and compares its message before it aborts.
void dies(char const* sentence, int line, std::function<void()> const& mistake) {
    int ends[2];
    expect(pipe(ends) == 0, "pipe", line);
    std::fflush(stdout);
    pid_t const child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        mistake();
        _exit(0);
    }
    close(ends[1]);
    std::string said;
    char buffer[256];
    ssize_t count = 0;
    while ((count = read(ends[0], buffer, sizeof buffer)) > 0) {
        said.append(buffer, static_cast<size_t>(count));
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    bool const is_right
        = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && said.find(std::string("double: ") + sentence) != std::string::npos;
    if (!is_right) {
        std::printf("selfcheck: wanted an abort with '%s', got status %d and: %s\n", sentence, status, said.c_str());
    }
    expect(is_right, sentence, line);
}
#define DIES(sentence, mistake) dies(sentence, __LINE__, [&] { mistake; })

/// Calls a slot as a binding without headers does.
void call_slot(void* object, bool is_inner, size_t slot) {
    void* const target = is_inner ? static_cast<void**>(object)[1] : object;
    void** const table = *static_cast<void***>(target);
    reinterpret_cast<void (*)(void*, void*, void*, void*)>(table[slot])(target, nullptr, nullptr, nullptr);
}

void check_deaths(Logger& logger, std::string const& plan) {
    IRuntime* const runtime = createInferRuntime(logger);
    ICudaEngine* const engine = runtime->deserializeCudaEngine(plan.data(), plan.size());
    IExecutionContext* const context = new_context(*engine);
    IBuilder* const builder = createInferBuilder(logger);
    IBuilderConfig* const config = builder->createBuilderConfig();
    INetworkDefinition* const network = builder->createNetworkV2(network_flags(true));
    DIES("IRuntime is deleted before 1 of its engines", delete runtime);
    DIES("ICudaEngine is deleted before 1 of its execution contexts", delete engine);
    DIES("IBuilder is deleted before 2 of its networks and configs", delete builder);
    DIES("IRuntime at ", delete context; delete engine; delete runtime; delete runtime);
    DIES("VExecutionContext at ", delete context; context->getOptimizationProfile());
    DIES("slot 12 of the own table of ICudaEngine", call_slot(engine, false, 12));
    DIES("slot 70 of VExecutionContext was called", call_slot(context, true, 70));
    DIES("IBuilder::reset is not served", builder->reset());
    DIES("IBuilderConfig::setFlag: this version has no BuilderFlag 29", config->setFlag(static_cast<BuilderFlag>(29)));
    DIES("IBuilder::createNetworkV2: this version has no", static_cast<void>(builder->createNetworkV2(1u << 9)));
    DIES("ICudaEngine::getTensorShape: the name is null", engine->getTensorShape(nullptr));
    DIES("IExecutionContext::setInputShape: there are 77 dimensions", Dims odd{}; odd.nbDims = 77;
         context->setInputShape("images", odd));
    DIES("IBuilder::buildSerializedNetwork: needs a living IBuilderConfig",
        builder->buildSerializedNetwork(*network, *reinterpret_cast<IBuilderConfig*>(network)));
    DIES("createInferRuntime: the logger is null", createInferRuntime_INTERNAL(nullptr, NV_TENSORRT_VERSION));
    delete network;
    delete config;
    delete builder;
    delete context;
    delete engine;
    delete runtime;
}

} // namespace

int main() {
    Logger logger;
    check_versions(logger);
    check_parser(logger);
    check_config(logger);
    check_builds(logger);
    std::string plan;
    {
        Build build(logger, Onnx{{-1, 3, 64, 96}, {-1, 5, 6}});
        build.config->setProfilingVerbosity(ProfilingVerbosity::kDETAILED);
        CHECK(build.add_profile({1, 3, 64, 96}, {2, 3, 64, 96}, {4, 3, 64, 96}) == 0);
        CHECK(build.add_profile({1, 3, 64, 96}, {1, 3, 64, 96}, {4, 3, 64, 96}) == 1);
        plan = build.plan();
        CHECK(!plan.empty());
    }
    check_runtime(logger, plan);
    {
        Held<IRuntime> const runtime(createInferRuntime(logger));
        Held<ICudaEngine> const engine(runtime->deserializeCudaEngine(plan.data(), plan.size()));
        CHECK(engine != nullptr);
        check_engine(*engine);
        check_context(*engine);
    }
    check_others(logger);
    check_deaths(logger, plan);
    setenv("JETWATCH_DOUBLE_LOG_ALL", "1", 1);
    setenv("JETWATCH_DOUBLE_LOG_THREAD", "1", 1);
    Logger listener;
    Held<IRuntime>(createInferRuntime(listener)).reset();
    for (int const count : listener.counts) {
        CHECK(count >= 1);
    }
    std::printf("selfcheck: TensorRT%s %d.%d.%d: %d checks passed\n", RTX ? "-RTX" : "", NV_TENSORRT_MAJOR,
        NV_TENSORRT_MINOR, NV_TENSORRT_PATCH, checks);
    return 0;
}
