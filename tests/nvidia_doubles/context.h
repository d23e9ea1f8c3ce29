// SPDX-License-Identifier: Apache-2.0
// IExecutionContext.
#pragma once

#include <atomic>
#include <map>
#include <memory>

#include "engine.h"

namespace doubles {

class Context final : public Inner<nvinfer1::IExecutionContext, nvinfer1::apiv::unserved::VExecutionContext> {
public:
    static constexpr char const* kKind = "IExecutionContext";
    static constexpr char const* kInnerKind = "VExecutionContext";

    Context(Engine& engine, bool is_given_memory);
    ~Context() override;
    void before_delete();

    void setProfiler(nvinfer1::IProfiler* profiler) noexcept override;
    nvinfer1::IProfiler* getProfiler() const noexcept override;
    nvinfer1::ICudaEngine const& getEngine() const noexcept override;
    void setName(char const* name) noexcept override;
    char const* getName() const noexcept override;
    void setDeviceMemory(void* memory) noexcept override;
#if DOUBLE_API >= 1003
    void setDeviceMemoryV2(void* memory, int64_t size) noexcept override;
#endif
    int32_t getOptimizationProfile() const noexcept override;
    bool allInputDimensionsSpecified() const noexcept override;
    void setErrorRecorder(nvinfer1::IErrorRecorder* recorder) noexcept override;
    nvinfer1::IErrorRecorder* getErrorRecorder() const noexcept override;
    bool setOptimizationProfileAsync(int32_t profile, cudaStream_t stream) noexcept override;
    void setEnqueueEmitsProfile(bool emits) noexcept override;
    bool getEnqueueEmitsProfile() const noexcept override;
    bool reportToProfiler() const noexcept override;
    bool setInputShape(char const* name, Dims const& dims) noexcept override;
    Dims getTensorShape(char const* name) const noexcept override;
    Dims getTensorStrides(char const* name) const noexcept override;
    bool setTensorAddress(char const* name, void* data) noexcept override;
    void const* getTensorAddress(char const* name) const noexcept override;
    bool setInputTensorAddress(char const* name, void const* data) noexcept override;
#if DOUBLE_API >= 1000
    bool setOutputTensorAddress(char const* name, void* data) noexcept override;
#endif
    void* getOutputTensorAddress(char const* name) const noexcept override;
    int32_t inferShapes(int32_t most, char const** names) noexcept override;
    bool setInputConsumedEvent(cudaEvent_t event) noexcept override;
    cudaEvent_t getInputConsumedEvent() const noexcept override;
    bool enqueueV3(cudaStream_t stream) noexcept override;
    void setPersistentCacheLimit(std::size_t size) noexcept override;
    std::size_t getPersistentCacheLimit() const noexcept override;
    bool setNvtxVerbosity(nvinfer1::ProfilingVerbosity verbosity) noexcept override;
    nvinfer1::ProfilingVerbosity getNvtxVerbosity() const noexcept override;
#if DOUBLE_API >= 806
    nvinfer1::IExecutionContext* getPImpl() noexcept override;
#endif

private:
    using Sizes = std::vector<int64_t>;

    PlanTensor const* find(char const* name, char const* where) const;
    /// The shape of a tensor as far as it is known now.
    Sizes shape(PlanTensor const& tensor) const;
    bool set_address(char const* name, void const* data, char const* where, bool must_be_input, bool must_be_output);
    bool enqueue(cudaStream_t stream);
    /// The job of one enqueue; null after an error was reported.
    Job const* job();
    void report_layers() const;

    Engine& m_engine;
    Voice m_voice;
    bool m_is_given_memory;
    bool m_has_memory = false;
    int32_t m_profile = -1;
    bool m_has_profile_alone = false;
    std::map<std::string, Sizes> m_shapes;
    std::map<std::string, void const*> m_addresses;
    nvinfer1::IProfiler* m_profiler = nullptr;
    bool m_emits_profile = true;
    bool m_has_run = false;
    cudaStream_t m_stream = nullptr;
    cudaEvent_t m_consumed = nullptr;
    std::size_t m_cache_limit = 0;
    nvinfer1::ProfilingVerbosity m_verbosity;
    std::string m_name;
    std::atomic<bool> m_is_busy{false};
    std::vector<Job*> m_jobs;
};

} // namespace doubles
