// SPDX-License-Identifier: Apache-2.0
// ICudaEngine and IEngineInspector.
#include "engine.h"

#include "context.h"
#include "runtime.h"

namespace doubles {

Engine::Engine(Plan plan, Voice const& voice, Runtime* runtime)
    : m_plan(std::move(plan)), m_voice(voice), m_runtime(runtime) {
    m_runtime->engines += 1;
}

Engine::~Engine() {
    m_runtime->engines -= 1;
}

void Engine::before_delete() {
    if (children != 0) {
        wrong("ICudaEngine is deleted before %d of its execution contexts and inspectors", children.load());
    }
}

bool Engine::take_profile(int32_t profile) {
    std::lock_guard<std::mutex> const lock(m_mutex);
    return m_taken.insert(profile).second;
}

void Engine::leave_profile(int32_t profile) {
    std::lock_guard<std::mutex> const lock(m_mutex);
    m_taken.erase(profile);
}

PlanTensor const* Engine::find(char const* name, char const* where) const {
    DOUBLE_ALIVE(where);
    std::string const wanted = name_argument(name, where);
    PlanTensor const* const tensor = m_plan.tensor(wanted);
    if (tensor == nullptr) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("%s: no input or output tensor has the name '%s'", where, wanted.c_str()));
    }
    return tensor;
}

bool Engine::is_profile(int32_t profile, char const* where) const {
    if (profile < 0 || profile >= m_plan.profiles) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("%s: there is no profile %d, the engine has %d", where, profile, m_plan.profiles));
        return false;
    }
    return true;
}

int32_t Engine::getNbLayers() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getNbLayers");
    return static_cast<int32_t>(m_plan.layers.size());
}

nvinfer1::IHostMemory* Engine::serialize() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::serialize");
    return host_memory(write_plan(m_plan));
}

nvinfer1::IExecutionContext* Engine::create(bool is_given_memory) {
    if (shall_fail("context")) {
        m_voice.error(ErrorCode::kFAILED_ALLOCATION,
            text("[executionContext.cpp::initializeExecutionContext] Error Code 2: OutOfMemory (no further information: "
                 "requested size was %lld bytes)", static_cast<long long>(m_plan.device_memory)));
        return nullptr;
    }
    std::string problem;
    if (!prepare_device(problem)) {
        m_voice.error(ErrorCode::kFAILED_INITIALIZATION, problem);
        return nullptr;
    }
    return new Object<nvinfer1::IExecutionContext, Context>(*this, is_given_memory);
}

#if DOUBLE_API >= 1000
nvinfer1::IExecutionContext* Engine::createExecutionContext(
    nvinfer1::ExecutionContextAllocationStrategy strategy) noexcept {
    DOUBLE_ALIVE("ICudaEngine::createExecutionContext");
    known(strategy, "ICudaEngine::createExecutionContext", "ExecutionContextAllocationStrategy");
    return create(strategy == nvinfer1::ExecutionContextAllocationStrategy::kUSER_MANAGED);
}
#else
nvinfer1::IExecutionContext* Engine::createExecutionContext() noexcept {
    DOUBLE_ALIVE("ICudaEngine::createExecutionContext");
    return create(false);
}
#endif

#if DOUBLE_API < 1100
nvinfer1::IExecutionContext* Engine::createExecutionContextWithoutDeviceMemory() noexcept {
    DOUBLE_ALIVE("ICudaEngine::createExecutionContextWithoutDeviceMemory");
    return create(true);
}

std::size_t Engine::getDeviceMemorySize() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getDeviceMemorySize");
    return static_cast<std::size_t>(m_plan.device_memory);
}

bool Engine::hasImplicitBatchDimension() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::hasImplicitBatchDimension");
    return false;
}
#endif

#if DOUBLE_API >= 1003
int64_t Engine::getDeviceMemorySizeV2() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getDeviceMemorySizeV2");
    return m_plan.device_memory;
}

int64_t Engine::getDeviceMemorySizeForProfileV2(int32_t profile) const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getDeviceMemorySizeForProfileV2");
    return is_profile(profile, "ICudaEngine::getDeviceMemorySizeForProfileV2") ? m_plan.device_memory : 0;
}
#endif

bool Engine::isRefittable() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::isRefittable");
    return false;
}

char const* Engine::getName() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getName");
    return m_plan.name.c_str();
}

int32_t Engine::getNbOptimizationProfiles() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getNbOptimizationProfiles");
    return m_plan.profiles;
}

nvinfer1::EngineCapability Engine::getEngineCapability() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getEngineCapability");
    return nvinfer1::EngineCapability::kSTANDARD;
}

void Engine::setErrorRecorder(nvinfer1::IErrorRecorder* recorder) noexcept {
    DOUBLE_ALIVE("ICudaEngine::setErrorRecorder");
    m_voice.set_recorder(recorder);
}

nvinfer1::IErrorRecorder* Engine::getErrorRecorder() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getErrorRecorder");
    return m_voice.recorder();
}

nvinfer1::ProfilingVerbosity Engine::getProfilingVerbosity() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getProfilingVerbosity");
    return m_plan.verbosity;
}

nvinfer1::IEngineInspector* Engine::createEngineInspector() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::createEngineInspector");
    return new Object<nvinfer1::IEngineInspector, Inspector>(*this);
}

Dims Engine::getTensorShape(char const* name) const noexcept {
    PlanTensor const* const tensor = find(name, "ICudaEngine::getTensorShape");
    return tensor == nullptr ? Dims{-1, {}} : to_dims(tensor->sizes);
}

nvinfer1::DataType Engine::getTensorDataType(char const* name) const noexcept {
    PlanTensor const* const tensor = find(name, "ICudaEngine::getTensorDataType");
    return tensor == nullptr ? nvinfer1::DataType::kFLOAT : tensor->type;
}

nvinfer1::TensorLocation Engine::getTensorLocation(char const* name) const noexcept {
    find(name, "ICudaEngine::getTensorLocation");
    return nvinfer1::TensorLocation::kDEVICE;
}

bool Engine::isShapeInferenceIO(char const* name) const noexcept {
    find(name, "ICudaEngine::isShapeInferenceIO");
    return false;
}

nvinfer1::TensorIOMode Engine::getTensorIOMode(char const* name) const noexcept {
    PlanTensor const* const tensor = find(name, "ICudaEngine::getTensorIOMode");
    if (tensor == nullptr) {
        return nvinfer1::TensorIOMode::kNONE;
    }
    return tensor->is_input ? nvinfer1::TensorIOMode::kINPUT : nvinfer1::TensorIOMode::kOUTPUT;
}

int32_t Engine::getTensorBytesPerComponent(char const* name) const noexcept {
    PlanTensor const* const tensor = find(name, "ICudaEngine::getTensorBytesPerComponent");
    bool const is_vectorized = tensor != nullptr && packing(tensor->format).together > 1;
    return is_vectorized ? static_cast<int32_t>(bytes_of(tensor->type)) : -1;
}

int32_t Engine::getTensorComponentsPerElement(char const* name) const noexcept {
    PlanTensor const* const tensor = find(name, "ICudaEngine::getTensorComponentsPerElement");
    bool const is_vectorized = tensor != nullptr && packing(tensor->format).together > 1;
    return is_vectorized ? static_cast<int32_t>(packing(tensor->format).together) : -1;
}

nvinfer1::TensorFormat Engine::getTensorFormat(char const* name) const noexcept {
    PlanTensor const* const tensor = find(name, "ICudaEngine::getTensorFormat");
    return tensor == nullptr ? nvinfer1::TensorFormat::kLINEAR : tensor->format;
}

char const* Engine::getTensorFormatDesc(char const* name) const noexcept {
    PlanTensor const* const tensor = find(name, "ICudaEngine::getTensorFormatDesc");
    return tensor == nullptr ? "" : known(tensor->format, "the plan", "TensorFormat");
}

int32_t Engine::getTensorVectorizedDim(char const* name) const noexcept {
    PlanTensor const* const tensor = find(name, "ICudaEngine::getTensorVectorizedDim");
    return tensor != nullptr && packing(tensor->format).together > 1 ? 1 : -1;
}

Dims Engine::getProfileShape(
    char const* name, int32_t profile, nvinfer1::OptProfileSelector select) const noexcept {
    char const* const where = "ICudaEngine::getProfileShape";
    PlanTensor const* const tensor = find(name, where);
    known(select, where, "OptProfileSelector");
    if (tensor == nullptr || !is_profile(profile, where)) {
        return Dims{-1, {}};
    }
    if (!tensor->is_input) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT, text("%s: '%s' is no input", where, name));
        return Dims{-1, {}};
    }
    Range const& range = tensor->ranges[static_cast<size_t>(profile)];
    return to_dims(select == nvinfer1::OptProfileSelector::kMIN   ? range.min
            : select == nvinfer1::OptProfileSelector::kOPT ? range.opt
                                                           : range.max);
}

int32_t Engine::getNbIOTensors() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getNbIOTensors");
    return static_cast<int32_t>(m_plan.tensors.size());
}

char const* Engine::getIOTensorName(int32_t index) const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getIOTensorName");
    if (index < 0 || static_cast<size_t>(index) >= m_plan.tensors.size()) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT, text("ICudaEngine::getIOTensorName: there is no tensor %d", index));
        return nullptr;
    }
    return m_plan.tensors[static_cast<size_t>(index)].name.c_str();
}

#if DOUBLE_API >= 806
nvinfer1::ICudaEngine* Engine::getPImpl() noexcept {
    DOUBLE_ALIVE("ICudaEngine::getPImpl");
    return outer();
}

nvinfer1::HardwareCompatibilityLevel Engine::getHardwareCompatibilityLevel() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getHardwareCompatibilityLevel");
    return nvinfer1::HardwareCompatibilityLevel::kNONE;
}

int32_t Engine::getNbAuxStreams() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getNbAuxStreams");
    return 0;
}

int32_t Engine::getTensorBytesPerComponentV2(char const* name, int32_t profile) const noexcept {
    return is_profile(profile, "ICudaEngine::getTensorBytesPerComponent") ? getTensorBytesPerComponent(name) : -1;
}

int32_t Engine::getTensorComponentsPerElementV2(char const* name, int32_t profile) const noexcept {
    return is_profile(profile, "ICudaEngine::getTensorComponentsPerElement") ? getTensorComponentsPerElement(name) : -1;
}

nvinfer1::TensorFormat Engine::getTensorFormatV2(char const* name, int32_t profile) const noexcept {
    is_profile(profile, "ICudaEngine::getTensorFormat");
    return getTensorFormat(name);
}

char const* Engine::getTensorFormatDescV2(char const* name, int32_t profile) const noexcept {
    return is_profile(profile, "ICudaEngine::getTensorFormatDesc") ? getTensorFormatDesc(name) : "";
}

int32_t Engine::getTensorVectorizedDimV2(char const* name, int32_t profile) const noexcept {
    return is_profile(profile, "ICudaEngine::getTensorVectorizedDim") ? getTensorVectorizedDim(name) : -1;
}
#endif

bool Inspector::setExecutionContext(nvinfer1::IExecutionContext const* context) noexcept {
    DOUBLE_ALIVE("IEngineInspector::setExecutionContext");
    if (context != nullptr) {
        must_live(context, Context::kKind, "IEngineInspector::setExecutionContext");
    }
    m_context = context;
    return true;
}

nvinfer1::IExecutionContext const* Inspector::getExecutionContext() const noexcept {
    DOUBLE_ALIVE("IEngineInspector::getExecutionContext");
    return m_context;
}

char const* Inspector::getLayerInformation(int32_t layer, nvinfer1::LayerInformationFormat format) const noexcept {
    DOUBLE_ALIVE("IEngineInspector::getLayerInformation");
    known(format, "IEngineInspector::getLayerInformation", "LayerInformationFormat");
    auto const& layers = m_engine.plan().layers;
    if (layer < 0 || static_cast<size_t>(layer) >= layers.size()) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("IEngineInspector::getLayerInformation: there is no layer %d", layer));
        return nullptr;
    }
    m_answer = layer_information(m_engine.plan(), layers[static_cast<size_t>(layer)], format);
    return m_answer.c_str();
}

char const* Inspector::getEngineInformation(nvinfer1::LayerInformationFormat format) const noexcept {
    DOUBLE_ALIVE("IEngineInspector::getEngineInformation");
    known(format, "IEngineInspector::getEngineInformation", "LayerInformationFormat");
    m_answer = engine_information(m_engine.plan(), format);
    return m_answer.c_str();
}

void Inspector::setErrorRecorder(nvinfer1::IErrorRecorder* recorder) noexcept {
    DOUBLE_ALIVE("IEngineInspector::setErrorRecorder");
    m_voice.set_recorder(recorder);
}

nvinfer1::IErrorRecorder* Inspector::getErrorRecorder() const noexcept {
    DOUBLE_ALIVE("IEngineInspector::getErrorRecorder");
    return m_voice.recorder();
}

#if DOUBLE_API >= 806
nvinfer1::IEngineInspector* Inspector::getPImpl() noexcept {
    DOUBLE_ALIVE("IEngineInspector::getPImpl");
    return outer();
}
#endif

} // namespace doubles
