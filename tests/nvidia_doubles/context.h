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

    explicit Context(Engine& engine);
    ~Context() override;
    void before_delete();

    void setProfiler(nvinfer1::IProfiler* profiler) noexcept override;
    bool setOptimizationProfileAsync(int32_t profile, cudaStream_t stream) noexcept override;
    void setEnqueueEmitsProfile(bool emits) noexcept override;
    bool reportToProfiler() const noexcept override;
    bool setInputShape(char const* name, Dims const& dims) noexcept override;
    Dims getTensorShape(char const* name) const noexcept override;
    bool setTensorAddress(char const* name, void* data) noexcept override;
    int32_t inferShapes(int32_t most, char const** names) noexcept override;
    bool enqueueV3(cudaStream_t stream) noexcept override;
    bool setNvtxVerbosity(nvinfer1::ProfilingVerbosity verbosity) noexcept override;

private:
    using Sizes = std::vector<int64_t>;

    PlanTensor const* find(char const* name, char const* where) const;
    /// The shape of a tensor as far as it is known now.
    Sizes shape(PlanTensor const& tensor) const;
    /// The address that was set for a tensor; null where none was.
    void const* address(std::string const& tensor) const;
    bool enqueue(cudaStream_t stream);
    /// The job of one enqueue; null after an error was reported.
    Job const* job();
    void report_layers() const;

    Engine& m_engine;
    Voice m_voice;
    int32_t m_profile = -1;
    bool m_has_profile_alone = false;
    std::map<std::string, Sizes> m_shapes;
    std::map<std::string, void const*> m_addresses;
    nvinfer1::IProfiler* m_profiler = nullptr;
    bool m_emits_profile = true;
    bool m_has_run = false;
    cudaStream_t m_stream = nullptr;
    std::atomic<bool> m_is_busy{false};
    std::vector<Job*> m_jobs;
};

} // namespace doubles
