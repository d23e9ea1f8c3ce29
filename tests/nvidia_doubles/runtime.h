// SPDX-License-Identifier: Apache-2.0
// IHostMemory and IRuntime.
#pragma once

#include <atomic>
#include <memory>

#include "plan.h"

namespace doubles {

/// Bytes that the user owns: a plan, a timing cache.
class HostMemory final : public Inner<nvinfer1::IHostMemory, nvinfer1::apiv::unserved::VHostMemory> {
public:
    static constexpr char const* kKind = "IHostMemory";
    static constexpr char const* kInnerKind = "VHostMemory";

    explicit HostMemory(std::vector<char> bytes) : m_bytes(std::move(bytes)) {}

    void* data() const noexcept override;
    std::size_t size() const noexcept override;

private:
    std::vector<char> m_bytes;
};

nvinfer1::IHostMemory* host_memory(std::vector<char> bytes);

class Runtime final : public Inner<nvinfer1::IRuntime, nvinfer1::apiv::unserved::VRuntime> {
public:
    static constexpr char const* kKind = "IRuntime";
    static constexpr char const* kInnerKind = "VRuntime";

    explicit Runtime(nvinfer1::ILogger* logger) : m_voice(logger) {}
    void before_delete();

#if DOUBLE_API >= 1000
    nvinfer1::ICudaEngine* deserializeCudaEngine(void const* blob, std::size_t size) noexcept override;
#else
    nvinfer1::ICudaEngine* deserializeCudaEngine(
        void const* blob, std::size_t size, nvinfer1::IPluginFactory* factory) noexcept override;
#endif
    void setDLACore(int32_t core) noexcept override;
    int32_t getNbDLACores() const noexcept override;
    void setErrorRecorder(nvinfer1::IErrorRecorder* recorder) noexcept override;

    /// Engines that are still alive.
    std::atomic<int> engines{0};

private:
    nvinfer1::ICudaEngine* deserialize(void const* blob, std::size_t size);

    Voice m_voice;
    int32_t m_core = -1;
};

/// DLA cores of the machine: JETWATCH_DOUBLE_DLA_CORES, or none.
int32_t dla_cores();

} // namespace doubles
