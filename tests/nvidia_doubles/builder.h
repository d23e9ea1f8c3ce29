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
    Dims getDimensions(char const* name, nvinfer1::OptProfileSelector select) const noexcept override;
    bool isValid() const noexcept override;

    std::map<std::string, Range> ranges;

private:
    Builder& m_builder;
};

class TimingCache final : public Inner<nvinfer1::ITimingCache, nvinfer1::apiv::unserved::VTimingCache> {
public:
    static constexpr char const* kKind = "ITimingCache";
    static constexpr char const* kInnerKind = "VTimingCache";

    explicit TimingCache(Voice const& voice) : capability(machine_capability()), m_voice(voice) {}

    nvinfer1::IHostMemory* serialize() const noexcept override;
    bool combine(nvinfer1::ITimingCache const& other, bool ignores_mismatch) noexcept override;
    bool reset() noexcept override;

    /// Reads what serialize wrote; false when it is damaged.
    bool read(char const* data, std::size_t size);
    bool fits() const;

    int32_t version = library_version();
    std::string capability;
    std::set<std::string> entries;

private:
    Voice m_voice;
};

class Config final : public Inner<nvinfer1::IBuilderConfig, nvinfer1::apiv::unserved::VBuilderConfig> {
public:
    static constexpr char const* kKind = "IBuilderConfig";
    static constexpr char const* kInnerKind = "VBuilderConfig";

    Config(Builder& builder, Voice const& voice);
    ~Config() override;

    void setFlags(nvinfer1::BuilderFlags flags) noexcept override;
    nvinfer1::BuilderFlags getFlags() const noexcept override;
    void clearFlag(nvinfer1::BuilderFlag flag) noexcept override;
    void setFlag(nvinfer1::BuilderFlag flag) noexcept override;
    bool getFlag(nvinfer1::BuilderFlag flag) const noexcept override;
    void setDeviceType(nvinfer1::ILayer const* layer, nvinfer1::DeviceType type) noexcept override;
    nvinfer1::DeviceType getDeviceType(nvinfer1::ILayer const* layer) const noexcept override;
    bool isDeviceTypeSet(nvinfer1::ILayer const* layer) const noexcept override;
    void resetDeviceType(nvinfer1::ILayer const* layer) noexcept override;
    bool canRunOnDLA(nvinfer1::ILayer const* layer) const noexcept override;
    void setDLACore(int32_t core) noexcept override;
    int32_t getDLACore() const noexcept override;
    void setDefaultDeviceType(nvinfer1::DeviceType type) noexcept override;
    nvinfer1::DeviceType getDefaultDeviceType() const noexcept override;
    void setProfileStream(cudaStream_t const stream) noexcept override;
    cudaStream_t getProfileStream() const noexcept override;
    int32_t addOptimizationProfile(nvinfer1::IOptimizationProfile const* profile) noexcept override;
    int32_t getNbOptimizationProfiles() const noexcept override;
    void setProfilingVerbosity(nvinfer1::ProfilingVerbosity verbosity) noexcept override;
    nvinfer1::ProfilingVerbosity getProfilingVerbosity() const noexcept override;
    nvinfer1::ITimingCache* createTimingCache(void const* blob, std::size_t size) const noexcept override;
    bool setTimingCache(nvinfer1::ITimingCache const& cache, bool ignores_mismatch) noexcept override;
    nvinfer1::ITimingCache const* getTimingCache() const noexcept override;
    void setMemoryPoolLimit(nvinfer1::MemoryPoolType pool, std::size_t size) noexcept override;
    std::size_t getMemoryPoolLimit(nvinfer1::MemoryPoolType pool) const noexcept override;
    void setPreviewFeature(nvinfer1::PreviewFeature feature, bool enable) noexcept override;
    bool getPreviewFeature(nvinfer1::PreviewFeature feature) const noexcept override;
    void setAvgTimingIterations(int32_t count) noexcept override;
    int32_t getAvgTimingIterations() const noexcept override;
#if DOUBLE_API < 1100
    void setInt8Calibrator(nvinfer1::IInt8Calibrator* calibrator) noexcept override;
    nvinfer1::IInt8Calibrator* getInt8Calibrator() const noexcept override;
    bool setCalibrationProfile(nvinfer1::IOptimizationProfile const* profile) noexcept override;
    nvinfer1::IOptimizationProfile const* getCalibrationProfile() noexcept override;
#endif
#if DOUBLE_API >= 806
    void setBuilderOptimizationLevel(int32_t level) noexcept override;
    int32_t getBuilderOptimizationLevel() const noexcept override;
#endif
#if DOUBLE_API >= 1000
    void setProgressMonitor(nvinfer1::IProgressMonitor* monitor) noexcept override;
    nvinfer1::IProgressMonitor* getProgressMonitor() const noexcept override;
#endif
#if DOUBLE_RTX
    bool setNbComputeCapabilities(int32_t count) noexcept override;
    int32_t getNbComputeCapabilities() const noexcept override;
    bool setComputeCapability(nvinfer1::ComputeCapability capability, int32_t index) noexcept override;
    nvinfer1::ComputeCapability getComputeCapability(int32_t index) const noexcept override;

    std::vector<nvinfer1::ComputeCapability> capabilities;
#endif

    bool has(nvinfer1::BuilderFlag flag) const { return flags >> static_cast<int>(flag) & 1; }
    bool is_on_dla(nvinfer1::ILayer const* layer) const;
    /// The cache that a build fills: the user's, or one of the config's own.
    TimingCache& timing_cache();

    nvinfer1::BuilderFlags flags = 0;
    nvinfer1::DeviceType device = nvinfer1::DeviceType::kGPU;
    std::map<nvinfer1::ILayer const*, nvinfer1::DeviceType> devices;
    int32_t core = -1;
    std::vector<std::map<std::string, Range>> profiles;
    nvinfer1::ProfilingVerbosity verbosity = nvinfer1::ProfilingVerbosity::kLAYER_NAMES_ONLY;
    std::map<nvinfer1::MemoryPoolType, std::size_t> pools;
    std::set<nvinfer1::PreviewFeature> features;
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
    cudaStream_t m_stream = nullptr;
    int32_t m_level = 3;
    int32_t m_iterations = 1;
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

    int32_t getMaxDLABatchSize() const noexcept override;
    int32_t getNbDLACores() const noexcept override;
    nvinfer1::IBuilderConfig* createBuilderConfig() noexcept override;
    nvinfer1::INetworkDefinition* createNetworkV2(nvinfer1::NetworkDefinitionCreationFlags flags) noexcept override;
    nvinfer1::IOptimizationProfile* createOptimizationProfile() noexcept override;
    void setErrorRecorder(nvinfer1::IErrorRecorder* recorder) noexcept override;
    nvinfer1::IErrorRecorder* getErrorRecorder() const noexcept override;
    nvinfer1::IHostMemory* buildSerializedNetwork(
        nvinfer1::INetworkDefinition& network, nvinfer1::IBuilderConfig& config) noexcept override;
    bool isNetworkSupported(
        nvinfer1::INetworkDefinition const& network, nvinfer1::IBuilderConfig const& config) const noexcept override;
    nvinfer1::ILogger* getLogger() const noexcept override;
    bool setMaxThreads(int32_t threads) noexcept override;
    int32_t getMaxThreads() const noexcept override;
#if DOUBLE_API < 1100
    bool platformHasFastFp16() const noexcept override;
    bool platformHasFastInt8() const noexcept override;
    bool platformHasTf32() const noexcept override;
#endif

    /// Networks and configs that are still alive.
    std::atomic<int> children{0};
    bool is_going = false;

private:
    Voice m_voice;
    int32_t m_threads = 1;
    std::vector<Object<nvinfer1::IOptimizationProfile, Profile>*> m_profiles;
};

/// Whether the network and the config fit together; what does not is reported.
bool is_buildable(Network const& network, Config const& config, Voice const& voice);
/// Builds the plan of a network; false after an error was reported.
bool build(Network& network, Config& config, Voice const& voice, Plan& plan);

#if DOUBLE_API < 1100
/// Asks the config's calibrator for scales; false after an error was reported.
bool calibrate(Network const& network, Config const& config, Voice const& voice);
#endif

} // namespace doubles
