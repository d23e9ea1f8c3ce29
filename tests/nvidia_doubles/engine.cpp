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

nvinfer1::IExecutionContext* Engine::create() {
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
    return new Object<nvinfer1::IExecutionContext, Context>(*this);
}

#if DOUBLE_API >= 1000
nvinfer1::IExecutionContext* Engine::createExecutionContext(
    nvinfer1::ExecutionContextAllocationStrategy strategy) noexcept {
    DOUBLE_ALIVE("ICudaEngine::createExecutionContext");
    if (strategy != nvinfer1::ExecutionContextAllocationStrategy::kSTATIC) {
        wrong("ICudaEngine::createExecutionContext: the strategy %d is not served", static_cast<int>(strategy));
    }
    return create();
}
#else
nvinfer1::IExecutionContext* Engine::createExecutionContext() noexcept {
    DOUBLE_ALIVE("ICudaEngine::createExecutionContext");
    return create();
}
#endif

#if DOUBLE_API < 1100

std::size_t Engine::getDeviceMemorySize() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getDeviceMemorySize");
    return static_cast<std::size_t>(m_plan.device_memory);
}
#endif

#if DOUBLE_API >= 1003
int64_t Engine::getDeviceMemorySizeV2() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getDeviceMemorySizeV2");
    return m_plan.device_memory;
}
#endif

char const* Engine::getName() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getName");
    return m_plan.name.c_str();
}

int32_t Engine::getNbOptimizationProfiles() const noexcept {
    DOUBLE_ALIVE("ICudaEngine::getNbOptimizationProfiles");
    return m_plan.profiles;
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

nvinfer1::TensorIOMode Engine::getTensorIOMode(char const* name) const noexcept {
    PlanTensor const* const tensor = find(name, "ICudaEngine::getTensorIOMode");
    if (tensor == nullptr) {
        return nvinfer1::TensorIOMode::kNONE;
    }
    return tensor->is_input ? nvinfer1::TensorIOMode::kINPUT : nvinfer1::TensorIOMode::kOUTPUT;
}

int32_t Engine::getTensorComponentsPerElement(char const* name) const noexcept {
    find(name, "ICudaEngine::getTensorComponentsPerElement");
    return -1;
}

nvinfer1::TensorFormat Engine::getTensorFormat(char const* name) const noexcept {
    find(name, "ICudaEngine::getTensorFormat");
    return nvinfer1::TensorFormat::kLINEAR;
}

char const* Engine::getTensorFormatDesc(char const* name) const noexcept {
    return find(name, "ICudaEngine::getTensorFormatDesc") == nullptr ? "" : "LINEAR";
}

int32_t Engine::getTensorVectorizedDim(char const* name) const noexcept {
    find(name, "ICudaEngine::getTensorVectorizedDim");
    return -1;
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

char const* Inspector::getEngineInformation(nvinfer1::LayerInformationFormat format) const noexcept {
    DOUBLE_ALIVE("IEngineInspector::getEngineInformation");
    if (format != nvinfer1::LayerInformationFormat::kJSON) {
        wrong("IEngineInspector::getEngineInformation: the format %d is not served", static_cast<int>(format));
    }
    m_answer = engine_information(m_engine.plan());
    return m_answer.c_str();
}

} // namespace doubles
