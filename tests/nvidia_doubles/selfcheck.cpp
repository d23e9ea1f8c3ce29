// SPDX-License-Identifier: Apache-2.0
// The double used through NVIDIA's own inline methods, as a C++ program would: `build --check` runs it.
//
// It builds a small network, runs it on host memory, compares with the function of README.md, and makes, in child processes,
// the mistakes that must end the process with a message. What is refused is tested by `tests/detection/nvidia_tensorrt`.
#include <sys/wait.h>
#include <unistd.h>

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
std::string network_file() {
    std::string graph = field(1, node("Conv", "conv1", "images", "a")) + field(1, node("Relu", "relu1", "a", "b"))
        + field(1, node("Sigmoid", "last", "b", "boxes")) + field(2, std::string("street"));
    graph += field(11, value_info("images", 1, {-1, 3, 64, 96})) + field(12, value_info("boxes", 1, {-1, 5, 6}));
    return field(1, uint64_t{8}) + field(2, std::string("selfcheck")) + field(7, graph) + field(8, field(2, uint64_t{17}));
}

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

private:
    void* m_data;
};

#if API < 1000
constexpr uint32_t kNetworkFlags = 1u << static_cast<int>(NetworkDefinitionCreationFlag::kEXPLICIT_BATCH);
#else
constexpr uint32_t kNetworkFlags = 0;
#endif

/// The plan of the network, for batches up to 4.
std::string built(Logger& logger) {
    Held<IBuilder> const builder(createInferBuilder(logger));
    Held<INetworkDefinition> const network(builder->createNetworkV2(kNetworkFlags));
    Held<IBuilderConfig> const config(builder->createBuilderConfig());
    Held<nvonnxparser::IParser> const parser(nvonnxparser::createParser(*network, logger));
    std::string const bytes = network_file();
    CHECK(parser->parse(bytes.data(), bytes.size(), nullptr) && parser->getNbErrors() == 0);
    CHECK(network->getNbInputs() == 1 && network->getNbOutputs() == 1 && network->getNbLayers() == 3);
    CHECK(std::strcmp(network->getInput(0)->getName(), "images") == 0 && network->getInput(1) == nullptr);
#if RTX
    CHECK(config->setNbComputeCapabilities(1) && config->setComputeCapability(ComputeCapability::kSM86, 0));
#endif
    IOptimizationProfile* const profile = builder->createOptimizationProfile();
    CHECK(profile->setDimensions("images", OptProfileSelector::kMIN, dims({1, 3, 64, 96})));
    CHECK(profile->setDimensions("images", OptProfileSelector::kOPT, dims({2, 3, 64, 96})));
    CHECK(profile->setDimensions("images", OptProfileSelector::kMAX, dims({4, 3, 64, 96})));
    CHECK(config->addOptimizationProfile(profile) == 0);
    Held<IHostMemory> const memory(builder->buildSerializedNetwork(*network, *config));
    CHECK(memory != nullptr);
    return std::string(static_cast<char const*>(memory->data()), memory->size());
}

// --- the parts ---

void check_versions(Logger& logger) {
    CHECK(getInferLibVersion() == NV_TENSORRT_VERSION);
    CHECK(getNvOnnxParserVersion() == NV_ONNX_PARSER_VERSION);
    CHECK(createInferRuntime_INTERNAL(&logger, 70100) == nullptr);
    CHECK(createInferBuilder_INTERNAL(&logger, 7100) == nullptr);
    CHECK(logger.contains("does not fit this library"));
}

void fill(float* values, size_t count) {
    for (size_t at = 0; at < count; ++at) {
        values[at] = static_cast<float>(at * 7919 % 256);
    }
}

/// The boxes of README.md for images of [3, 64, 96].
void compare_boxes(float const* values, float const* boxes, size_t pictures) {
    bool all_right = true;
    for (size_t picture = 0; picture < pictures; ++picture) {
        for (size_t cell = 0; cell < 6; ++cell) {
            size_t const left = cell % 3 * 32;
            size_t const top = cell / 3 * 32;
            double sum = 0;
            for (size_t y = top; y < top + 32; ++y) {
                for (size_t x = left; x < left + 32; ++x) {
                    sum += values[picture * 3 * 64 * 96 + y * 96 + x];
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

void check_run(Logger& logger, std::string const& plan) {
    Held<IRuntime> const runtime(createInferRuntime(logger));
    Held<ICudaEngine> const engine(runtime->deserializeCudaEngine(plan.data(), plan.size()));
    CHECK(engine != nullptr && engine->getNbIOTensors() == 2 && engine->getNbOptimizationProfiles() == 1);
    CHECK(engine->getTensorIOMode("boxes") == TensorIOMode::kOUTPUT);
    Held<IExecutionContext> const context(engine->createExecutionContext());
    CHECK(!context->setInputShape("images", dims({5, 3, 64, 96})) && !context->enqueueV3(nullptr));
    CHECK(context->setInputShape("images", dims({3, 3, 64, 96})) && context->inferShapes(0, nullptr) == 0);
    size_t const count = 3 * 3 * 64 * 96;
    Buffer input(count * 4);
    Buffer output(3 * 30 * 4);
    fill(input.floats(), count);
    CHECK(!context->setTensorAddress("images", input.floats() + 1) && context->setTensorAddress("images", input.get()));
    CHECK(!context->enqueueV3(nullptr) && context->setTensorAddress("boxes", output.get()) && context->enqueueV3(nullptr));
    compare_boxes(input.floats(), output.floats(), 3);
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
    IExecutionContext* const context = engine->createExecutionContext();
    IBuilder* const builder = createInferBuilder(logger);
    IBuilderConfig* const config = builder->createBuilderConfig();
    INetworkDefinition* const network = builder->createNetworkV2(kNetworkFlags);
    DIES("IRuntime is deleted before 1 of its engines", delete runtime);
    DIES("ICudaEngine is deleted before 1 of its execution contexts", delete engine);
    DIES("IBuilder is deleted before 2 of its networks and configs", delete builder);
    DIES("IRuntime at ", delete context; delete engine; delete runtime; delete runtime);
    DIES("VExecutionContext at ", delete context; context->inferShapes(0, nullptr));
    DIES("slot 12 of the own table of ICudaEngine", call_slot(engine, false, 12));
    DIES("slot 70 of VExecutionContext was called", call_slot(context, true, 70));
    DIES("IBuilder::reset is not served", builder->reset());
    DIES("ICudaEngine::isRefittable is not served", static_cast<void>(engine->isRefittable()));
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
    std::string const plan = built(logger);
    check_run(logger, plan);
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
