// SPDX-License-Identifier: Apache-2.0
// Building a plan: checks, progress steps, resulting layers.
#include <algorithm>
#include <chrono>
#include <thread>

#include "builder.h"
#include "run.h"
#include "runtime.h"

namespace doubles {

namespace {

using nvinfer1::BuilderFlag;

// The flags that this version has.
#if DOUBLE_API < 1100
bool wants_int8(Config const& config) {
    return config.has(BuilderFlag::kINT8);
}
bool wants_fp16(Config const& config) {
    return config.has(BuilderFlag::kFP16);
}
#else
bool wants_int8(Config const&) {
    return false;
}
bool wants_fp16(Config const&) {
    return false;
}
#endif

bool is_dynamic(GraphTensor const& tensor) {
    return std::count(tensor.sizes.begin(), tensor.sizes.end(), -1) != 0;
}

bool are_profiles_good(Network const& network, Config const& config, Voice const& voice) {
    for (auto* const object : network.inputs) {
        GraphTensor const& tensor = object->inner().tensor;
        if (is_dynamic(tensor) && config.profiles.empty()) {
            voice.error(ErrorCode::kINTERNAL_ERROR,
                "[network.cpp::validate] Error Code 4: Internal Error (Network has dynamic or shape inputs, but no "
                "optimization profile has been defined.)");
            return false;
        }
        for (size_t profile = 0; profile < config.profiles.size(); ++profile) {
            auto const found = config.profiles[profile].find(tensor.name);
            if (found == config.profiles[profile].end()) {
                if (!is_dynamic(tensor)) {
                    continue;
                }
                voice.error(ErrorCode::kINTERNAL_ERROR,
                    text("[network.cpp::validate] Error Code 4: Internal Error (%s: optimization profile %zu is missing "
                         "values)", tensor.name.c_str(), profile));
                return false;
            }
            Range const& range = found->second;
            bool fits = range.min.size() == tensor.sizes.size();
            for (size_t axis = 0; fits && axis < tensor.sizes.size(); ++axis) {
                fits = tensor.sizes[axis] == -1
                    || (range.min[axis] == tensor.sizes[axis] && range.max[axis] == tensor.sizes[axis]);
            }
            if (!fits) {
                voice.error(ErrorCode::kINTERNAL_ERROR,
                    text("[network.cpp::validate] Error Code 4: Internal Error (%s: for dimension of optimization profile "
                         "%zu, the profile does not agree with the network definition %s)", tensor.name.c_str(), profile,
                        shown(to_dims(tensor.sizes)).c_str()));
                return false;
            }
            if (config.device == nvinfer1::DeviceType::kDLA && range.min != range.max) {
                voice.error(ErrorCode::kINVALID_CONFIG,
                    text("%s: on the DLA the least, best and most dimensions of a profile must be the same",
                        tensor.name.c_str()));
                return false;
            }
        }
    }
    for (auto const& profile : config.profiles) {
        for (auto const& [name, range] : profile) {
            bool const is_input = std::any_of(network.inputs.begin(), network.inputs.end(),
                [&](auto* object) { return object->inner().tensor.name == name; });
            if (!is_input) {
                voice.error(ErrorCode::kINVALID_ARGUMENT,
                    text("Input tensor '%s' of an optimization profile is no input of the network", name.c_str()));
                return false;
            }
        }
    }
    return true;
}

bool is_precision_good(Network const& network, Config const& config, Voice const& voice) {
    if (network.is_strongly_typed() && (wants_int8(config) || wants_fp16(config))) {
        voice.error(ErrorCode::kINVALID_CONFIG,
            "[builder.cpp::buildSerializedNetwork] Error Code 3: API Usage Error (Precision flags such as kINT8 and kFP16 "
            "must not be set for a strongly typed network.)");
        return false;
    }
    if (network.is_strongly_typed()) {
        return true;
    }
    if (network.has_explicit_quantization() && !wants_int8(config)) {
        voice.error(ErrorCode::kINVALID_CONFIG,
            "[network.cpp::validate] Error Code 4: Internal Error (Int8 precision has been set for a layer or layer output, "
            "but int8 is not configured in the builder)");
        return false;
    }
    return true;
}

// Without Q/DQ the DLA computes in FP16 or INT8, and INT8 needs scales from a calibrator.
bool is_dla_good(Network const& network, Config const& config, Voice const& voice) {
    if (!config.is_on_dla()) {
        return true;
    }
    if (dla_cores() == 0) {
        voice.error(ErrorCode::kINVALID_CONFIG, "Cannot create DLA engine, 0 not available");
        return false;
    }
    if (config.core >= dla_cores()) {
        voice.error(ErrorCode::kINVALID_CONFIG, text("Cannot create DLA engine, %d not available", config.core));
        return false;
    }
    if (network.has_explicit_quantization()) {
        voice.error(ErrorCode::kINVALID_CONFIG,
            "DLA does not support networks with Q/DQ layers: remove them and use a calibrator (implicit quantization).");
        return false;
    }
    if (!network.is_strongly_typed() && !wants_int8(config) && !wants_fp16(config)) {
        voice.error(ErrorCode::kINVALID_CONFIG,
            "Default DLA is enabled but the precision is neither FP16 nor INT8. DLA supports only these two.");
        return false;
    }
    if (config.has(BuilderFlag::kGPU_FALLBACK)) {
        return true;
    }
    for (auto* const layer : network.layers) {
        GraphLayer const& inner = layer->inner().layer;
        if (!runs_on_dla(inner.operation)) {
            voice.error(ErrorCode::kINVALID_CONFIG,
                text("%s: DLA does not support %s layers, and GPU fallback is not enabled", inner.name.c_str(),
                    inner.operation.c_str()));
            return false;
        }
    }
    return true;
}

bool is_machine_good(Config const& config, Voice const& voice) {
#if DOUBLE_RTX
    if (config.capabilities.empty() && !has_libcuda()) {
        voice.error(ErrorCode::kINVALID_STATE,
            "No GPU was found: set the compute capabilities to build for with setNbComputeCapabilities and "
            "setComputeCapability.");
        return false;
    }
    for (auto const capability : config.capabilities) {
        if (capability == nvinfer1::ComputeCapability::kNONE
            || (capability == nvinfer1::ComputeCapability::kCURRENT && !has_libcuda())) {
            voice.error(ErrorCode::kINVALID_CONFIG,
                text("Compute capability %s cannot be built for here", name_of(capability)));
            return false;
        }
    }
#else
    static_cast<void>(config);
    static_cast<void>(voice);
#endif
    return true;
}

bool is_activation(std::string const& operation) {
    return operation == "Relu" || operation == "LeakyRelu" || operation == "Sigmoid" || operation == "Clip"
        || operation == "Tanh";
}

// A convolution and the activation after it become one layer; Q/DQ become part of the layer between them.
std::vector<PlanLayer> fuse(Network const& network, Config const& config) {
    std::map<std::string, std::string> maker;
    for (auto* const layer : network.layers) {
        for (std::string const& output : layer->inner().layer.outputs) {
            maker[output] = layer->inner().layer.operation;
        }
    }
    bool const is_half = !network.inputs.empty()
        && network.inputs[0]->inner().tensor.type == nvinfer1::DataType::kHALF;
    std::vector<PlanLayer> out;
    for (auto* const object : network.layers) {
        GraphLayer const& layer = object->inner().layer;
        if (layer.operation == "QuantizeLinear" || layer.operation == "DequantizeLinear" || layer.operation == "Constant"
            || layer.operation == "Identity") {
            continue;
        }
        bool const is_dla = config.is_on_dla() && runs_on_dla(layer.operation);
        char const* const device = is_dla ? "DLA" : "GPU";
        bool const is_heavy = layer.operation == "Conv" || layer.operation == "MatMul" || layer.operation == "Gemm";
        bool const is_quantized = !layer.inputs.empty() && maker[layer.inputs[0]] == "DequantizeLinear";
        std::string precision = "FP32";
        if (is_quantized ? is_heavy : is_heavy && wants_int8(config) && !network.has_explicit_quantization()) {
            precision = "INT8";
        } else if (wants_fp16(config) || (network.is_strongly_typed() && is_half)) {
            precision = "FP16";
        }
        PlanLayer* const last = out.empty() ? nullptr : &out.back();
        bool const follows = last != nullptr && layer.inputs.size() == 1 && last->outputs.size() == 1
            && last->outputs[0] == layer.inputs[0] && last->device == device;
        if (follows && last->kind == "CaskConvolution" && is_activation(layer.operation)) {
            last->name += " + " + layer.name;
            last->outputs = layer.outputs;
            continue;
        }
        bool const joins = is_dla && last != nullptr && last->device == "DLA";
        if (joins) {
            // A subgraph on the DLA is one layer of the engine.
            std::string const first = last->name.rfind("{ForeignNode[", 0) == 0
                ? last->name.substr(13, last->name.find("...") - 13)
                : last->name;
            last->name = "{ForeignNode[" + first + "..." + layer.name + "]}";
            last->kind = "DLA";
            last->outputs = layer.outputs;
            continue;
        }
        PlanLayer made;
        made.name = layer.name;
        made.kind = layer.operation == "Conv" ? "CaskConvolution" : layer.operation;
        made.precision = precision;
        made.device = device;
        made.inputs = layer.inputs;
        made.outputs = layer.outputs;
        out.push_back(made);
    }
    return out;
}

// Calls the user's monitor, if there is one, and stops when it requests that.
class Progress {
public:
    explicit Progress(Config const& config) : m_config(config) {}

    ~Progress() {
        // The inner phases end before the outer ones, early or not.
        while (!m_open.empty()) {
            finish();
        }
    }

    void start(char const* phase, int32_t steps) {
#if DOUBLE_API >= 1000
        if (m_config.monitor != nullptr) {
            m_config.monitor->phaseStart(phase, m_open.empty() ? nullptr : m_open.back(), steps);
        }
#else
        static_cast<void>(steps);
#endif
        m_open.push_back(phase);
    }

    bool step(int32_t number) {
#if DOUBLE_API >= 1000
        if (m_config.monitor != nullptr) {
            return m_config.monitor->stepComplete(m_open.back(), number);
        }
#else
        static_cast<void>(number);
#endif
        return true;
    }

    void finish() {
#if DOUBLE_API >= 1000
        if (m_config.monitor != nullptr) {
            m_config.monitor->phaseFinish(m_open.back());
        }
#endif
        m_open.pop_back();
    }

private:
    Config const& m_config;
    std::vector<char const*> m_open;
};

bool time_layers(Config& config, Voice const& voice, std::vector<PlanLayer> const& layers, Progress& progress) {
    TimingCache& cache = config.timing_cache();
    int const wait_ms = number("BUILD_MS", 0) / std::max(1, static_cast<int>(layers.size()));
    progress.start("Timing graph nodes", std::max(1, static_cast<int>(layers.size())));
    for (size_t index = 0; index < layers.size(); ++index) {
        PlanLayer const& layer = layers[index];
        if ((index + 1) * 2 >= layers.size() && shall_fail("out-of-memory")) {
            voice.error(ErrorCode::kFAILED_ALLOCATION,
                "[virtualMemoryBuffer.cpp::resizePhysical] Error Code 2: OutOfMemory (Requested size was 1073741824 bytes.)");
            return false;
        }
        if ((index + 1) * 2 >= layers.size() && shall_fail("unsupported-layer")) {
            voice.error(ErrorCode::kINTERNAL_ERROR,
                text("[optimizer.cpp::computeCosts] Error Code 10: Internal Error (Could not find any implementation for "
                     "node %s.)", layer.name.c_str()));
            return false;
        }
        std::string const key = layer.kind + " " + layer.precision + " " + layer.name;
        bool const is_known = cache.entries.count(key) != 0;
        voice.log(Severity::kVERBOSE, text("%s: %s", layer.name.c_str(), is_known ? "timing from the cache" : "timed"));
        if (!is_known) {
            std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
            cache.entries.insert(key);
        }
        if (!progress.step(static_cast<int32_t>(index))) {
            voice.error(ErrorCode::kINVALID_STATE, "The build was cancelled by the progress monitor.");
            return false;
        }
    }
    progress.finish();
    return true;
}

// Whether the network and the config fit together; what does not is reported.
bool is_buildable(Network const& network, Config const& config, Voice const& voice) {
    if (network.inputs.empty() || network.outputs.empty()) {
        voice.error(ErrorCode::kINTERNAL_ERROR,
            "[network.cpp::validate] Error Code 4: Internal Error (Network must have at least one output)");
        return false;
    }
    return is_machine_good(config, voice) && are_profiles_good(network, config, voice)
        && is_precision_good(network, config, voice) && is_dla_good(network, config, voice);
}

} // namespace

bool build(Network& network, Config& config, Voice const& voice, Plan& plan) {
    if (!is_buildable(network, config, voice)) {
        return false;
    }
    std::string problem;
    if (!prepare_device(problem)) {
        voice.error(ErrorCode::kFAILED_INITIALIZATION, problem);
        return false;
    }
    Progress progress(config);
    progress.start("Building an engine from network", 3);
#if DOUBLE_API < 1100
    if (wants_int8(config) && !network.has_explicit_quantization() && !calibrate(network, config, voice)) {
        return false;
    }
#endif
    voice.log(Severity::kINFO, text("Detected %zu inputs and %zu output network tensors.", network.inputs.size(),
        network.outputs.size()));
    if (!progress.step(0)) {
        voice.error(ErrorCode::kINVALID_STATE, "The build was cancelled by the progress monitor.");
        return false;
    }
    plan.layers = fuse(network, config);
    if (!time_layers(config, voice, plan.layers, progress)) {
        return false;
    }
    if (!progress.step(1)) {
        voice.error(ErrorCode::kINVALID_STATE, "The build was cancelled by the progress monitor.");
        return false;
    }
    plan.capability = machine_capability();
    plan.name = network.name();
    plan.profiles = std::max(1, static_cast<int32_t>(config.profiles.size()));
    plan.verbosity = config.verbosity;
    for (auto const& layer : plan.layers) {
        plan.uses_dla = plan.uses_dla || layer.device == "DLA";
    }
    for (bool const is_input : {true, false}) {
        for (auto* const object : is_input ? network.inputs : network.outputs) {
            GraphTensor const& tensor = object->inner().tensor;
            PlanTensor made{tensor.name, is_input, tensor.type, tensor.sizes, {}};
            for (size_t profile = 0; is_input && profile < static_cast<size_t>(plan.profiles); ++profile) {
                Range range{tensor.sizes, tensor.sizes, tensor.sizes};
                if (profile < config.profiles.size() && config.profiles[profile].count(tensor.name) != 0) {
                    range = config.profiles[profile].at(tensor.name);
                }
                // The network's memory grows with the largest batch.
                int64_t const bytes = elements(range.max) * bytes_of(made.type);
                plan.device_memory = std::max(plan.device_memory, bytes);
                made.ranges.push_back(range);
            }
            plan.tensors.push_back(made);
        }
    }
    return progress.step(2);
}

} // namespace doubles
