// SPDX-License-Identifier: Apache-2.0
// IBuilder, IBuilderConfig, IOptimizationProfile and ITimingCache.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>

#include "network.h"

namespace doubles {

class Profile final : public Inner<nvinfer1::IOptimizationProfile, nvinfer1::apiv::unserved::VOptimizationProfile> {
public:
    static constexpr char const* kKind = "IOptimizationProfile";
    static constexpr char const* kInnerKind = "VOptimizationProfile";
    static constexpr bool kIsUsers = false;

    explicit Profile(Builder& builder) : m_builder(builder) {}
    void before_delete();

    bool setDimensions(
        char const* name, nvinfer1::OptProfileSelector select, DimsArgument dims) noexcept override;
    bool is_valid() const;

    std::map<std::string, Range> ranges;

private:
    Builder& m_builder;
};

class TimingCache final : public Inner<nvinfer1::ITimingCache, nvinfer1::apiv::unserved::VTimingCache> {
public:
    static constexpr char const* kKind = "ITimingCache";
    static constexpr char const* kInnerKind = "VTimingCache";

    nvinfer1::IHostMemory* serialize() const noexcept override;

    /// Reads what serialize wrote; false when it is damaged.
    bool read(char const* data, std::size_t size);
    bool fits() const;

    int32_t version = library_version();
    std::string capability = machine_capability();
    std::set<std::string> entries;
};

class Config final : public Inner<nvinfer1::IBuilderConfig, nvinfer1::apiv::unserved::VBuilderConfig> {
public:
    static constexpr char const* kKind = "IBuilderConfig";
    static constexpr char const* kInnerKind = "VBuilderConfig";

    Config(Builder& builder, Voice const& voice);
    ~Config() override;

    void setFlag(nvinfer1::BuilderFlag flag) noexcept override;
    void setDLACore(int32_t core) noexcept override;
    void setDefaultDeviceType(nvinfer1::DeviceType type) noexcept override;
    int32_t addOptimizationProfile(nvinfer1::IOptimizationProfile const* profile) noexcept override;
    void setProfilingVerbosity(nvinfer1::ProfilingVerbosity verbosity) noexcept override;
    nvinfer1::ITimingCache* createTimingCache(void const* blob, std::size_t size) const noexcept override;
    bool setTimingCache(nvinfer1::ITimingCache const& cache, bool ignores_mismatch) noexcept override;
    nvinfer1::ITimingCache const* getTimingCache() const noexcept override;
    void setMemoryPoolLimit(nvinfer1::MemoryPoolType pool, std::size_t size) noexcept override;
#if DOUBLE_API < 1100
    void setInt8Calibrator(nvinfer1::IInt8Calibrator* calibrator) noexcept override;
    bool setCalibrationProfile(nvinfer1::IOptimizationProfile const* profile) noexcept override;
#endif
#if DOUBLE_API >= 1000
    void setProgressMonitor(nvinfer1::IProgressMonitor* monitor) noexcept override;
#endif
#if DOUBLE_RTX
    bool setNbComputeCapabilities(int32_t count) noexcept override;
    bool setComputeCapability(nvinfer1::ComputeCapability capability, int32_t index) noexcept override;

    std::vector<nvinfer1::ComputeCapability> capabilities;
#endif

    bool has(nvinfer1::BuilderFlag flag) const { return flags >> static_cast<int>(flag) & 1; }
    bool is_on_dla() const { return device == nvinfer1::DeviceType::kDLA; }
    /// The cache that a build fills: the user's, or one of the config's own.
    TimingCache& timing_cache();

    nvinfer1::BuilderFlags flags = 0;
    nvinfer1::DeviceType device = nvinfer1::DeviceType::kGPU;
    int32_t core = -1;
    std::vector<std::map<std::string, Range>> profiles;
    nvinfer1::ProfilingVerbosity verbosity = nvinfer1::ProfilingVerbosity::kLAYER_NAMES_ONLY;
#if DOUBLE_API < 1100
    nvinfer1::IInt8Calibrator* calibrator = nullptr;
    nvinfer1::IOptimizationProfile const* calibration_profile = nullptr;
#endif
#if DOUBLE_API >= 1000
    nvinfer1::IProgressMonitor* monitor = nullptr;
#endif

private:
    Builder& m_builder;
    Voice m_voice;
    nvinfer1::ITimingCache const* m_cache = nullptr;
    std::unique_ptr<Object<nvinfer1::ITimingCache, TimingCache>> m_own_cache;
};

/// Operations that the DLA of this double can run.
bool runs_on_dla(std::string const& operation);

class Builder final : public Inner<nvinfer1::IBuilder, nvinfer1::apiv::unserved::VBuilder> {
public:
    static constexpr char const* kKind = "IBuilder";
    static constexpr char const* kInnerKind = "VBuilder";

    explicit Builder(nvinfer1::ILogger* logger) : m_voice(logger) {}
    ~Builder() override;
    void before_delete();

    int32_t getNbDLACores() const noexcept override;
    nvinfer1::IBuilderConfig* createBuilderConfig() noexcept override;
    nvinfer1::INetworkDefinition* createNetworkV2(nvinfer1::NetworkDefinitionCreationFlags flags) noexcept override;
    nvinfer1::IOptimizationProfile* createOptimizationProfile() noexcept override;
    void setErrorRecorder(nvinfer1::IErrorRecorder* recorder) noexcept override;
    nvinfer1::IHostMemory* buildSerializedNetwork(
        nvinfer1::INetworkDefinition& network, nvinfer1::IBuilderConfig& config) noexcept override;

    /// Networks and configs that are still alive.
    std::atomic<int> children{0};
    bool is_going = false;

private:
    Voice m_voice;
    std::vector<Object<nvinfer1::IOptimizationProfile, Profile>*> m_profiles;
};

/// Builds the plan of a network; false after an error was reported.
bool build(Network& network, Config& config, Voice const& voice, Plan& plan);

#if DOUBLE_API < 1100
/// Asks the config's calibrator for scales; false after an error was reported.
bool calibrate(Network const& network, Config const& config, Voice const& voice);
#endif

} // namespace doubles
