// SPDX-License-Identifier: Apache-2.0
// ICudaEngine and IEngineInspector.
#pragma once

#include <atomic>
#include <mutex>
#include <set>

#include "plan.h"
#include "run.h"

namespace doubles {

class Runtime;

class Engine final : public Inner<nvinfer1::ICudaEngine, nvinfer1::apiv::unserved::VCudaEngine> {
public:
    static constexpr char const* kKind = "ICudaEngine";
    static constexpr char const* kInnerKind = "VCudaEngine";

    Engine(Plan plan, Voice const& voice, Runtime* runtime);
    ~Engine() override;
    void before_delete();

    int32_t getNbLayers() const noexcept override;
#if DOUBLE_API >= 1000
    nvinfer1::IExecutionContext* createExecutionContext(
        nvinfer1::ExecutionContextAllocationStrategy strategy) noexcept override;
#else
    nvinfer1::IExecutionContext* createExecutionContext() noexcept override;
#endif
#if DOUBLE_API < 1100
    std::size_t getDeviceMemorySize() const noexcept override;
#endif
#if DOUBLE_API >= 1003
    int64_t getDeviceMemorySizeV2() const noexcept override;
#endif
    char const* getName() const noexcept override;
    int32_t getNbOptimizationProfiles() const noexcept override;
    nvinfer1::IEngineInspector* createEngineInspector() const noexcept override;
    Dims getTensorShape(char const* name) const noexcept override;
    nvinfer1::DataType getTensorDataType(char const* name) const noexcept override;
    nvinfer1::TensorIOMode getTensorIOMode(char const* name) const noexcept override;
    int32_t getTensorComponentsPerElement(char const* name) const noexcept override;
    nvinfer1::TensorFormat getTensorFormat(char const* name) const noexcept override;
    char const* getTensorFormatDesc(char const* name) const noexcept override;
    int32_t getTensorVectorizedDim(char const* name) const noexcept override;
    Dims getProfileShape(char const* name, int32_t profile, nvinfer1::OptProfileSelector select) const noexcept override;
    int32_t getNbIOTensors() const noexcept override;
    char const* getIOTensorName(int32_t index) const noexcept override;

    Plan const& plan() const { return m_plan; }
    Voice const& voice() const { return m_voice; }
    /// Takes a profile for a context alone; false when another context has it.
    bool take_profile(int32_t profile);
    void leave_profile(int32_t profile);

    /// Contexts and inspectors that are still alive.
    mutable std::atomic<int> children{0};

private:
    PlanTensor const* find(char const* name, char const* where) const;
    bool is_profile(int32_t profile, char const* where) const;
    nvinfer1::IExecutionContext* create();

    Plan m_plan;
    Voice m_voice;
    Runtime* m_runtime;
    std::mutex m_mutex;
    std::set<int32_t> m_taken;
};

class Inspector final : public Inner<nvinfer1::IEngineInspector, nvinfer1::apiv::unserved::VEngineInspector> {
public:
    static constexpr char const* kKind = "IEngineInspector";
    static constexpr char const* kInnerKind = "VEngineInspector";

    explicit Inspector(Engine const& engine) : m_engine(engine) { m_engine.children += 1; }
    ~Inspector() override { m_engine.children -= 1; }

    char const* getEngineInformation(nvinfer1::LayerInformationFormat format) const noexcept override;

private:
    Engine const& m_engine;
    mutable std::string m_answer;
};

/// A plan's layers and bindings as the vendor's inspector writes them in JSON.
std::string engine_information(Plan const& plan);

} // namespace doubles
