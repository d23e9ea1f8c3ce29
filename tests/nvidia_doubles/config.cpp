// SPDX-License-Identifier: Apache-2.0
// IBuilderConfig and ITimingCache.
#include <cstdio>

#include "builder.h"
#include "runtime.h"

namespace doubles {

Config::Config(Builder& builder, Voice const& voice) : m_builder(builder), m_voice(voice.logger()) {
    m_builder.children += 1;
    // TF32 is allowed by default in all versions.
    flags = 1u << static_cast<int>(nvinfer1::BuilderFlag::kTF32);
}

Config::~Config() {
    m_builder.children -= 1;
}

void Config::setFlags(nvinfer1::BuilderFlags wanted) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setFlags");
    for (int32_t bit = 0; bit < 32; ++bit) {
        if ((wanted >> bit & 1) != 0) {
            known(static_cast<nvinfer1::BuilderFlag>(bit), "IBuilderConfig::setFlags", "BuilderFlag");
        }
    }
    flags = wanted;
}

nvinfer1::BuilderFlags Config::getFlags() const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getFlags");
    return flags;
}

void Config::clearFlag(nvinfer1::BuilderFlag flag) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::clearFlag");
    known(flag, "IBuilderConfig::clearFlag", "BuilderFlag");
    flags &= ~(1u << static_cast<int>(flag));
}

void Config::setFlag(nvinfer1::BuilderFlag flag) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setFlag");
    char const* const name = known(flag, "IBuilderConfig::setFlag", "BuilderFlag");
    m_voice.log(Severity::kVERBOSE, text("IBuilderConfig::setFlag: %s", name));
    flags |= 1u << static_cast<int>(flag);
}

bool Config::getFlag(nvinfer1::BuilderFlag flag) const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getFlag");
    known(flag, "IBuilderConfig::getFlag", "BuilderFlag");
    return has(flag);
}

bool runs_on_dla(std::string const& operation) {
    static std::set<std::string> const operations = {"Conv", "ConvTranspose", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip",
        "MaxPool", "AveragePool", "Add", "Sub", "Mul", "Concat", "Resize", "BatchNormalization"};
    return operations.count(operation) != 0;
}

bool Config::is_on_dla(nvinfer1::ILayer const* layer) const {
    auto const found = devices.find(layer);
    return (found == devices.end() ? device : found->second) == nvinfer1::DeviceType::kDLA;
}

void Config::setDeviceType(nvinfer1::ILayer const* layer, nvinfer1::DeviceType type) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setDeviceType");
    must_live(layer, Layer::kKind, "IBuilderConfig::setDeviceType");
    known(type, "IBuilderConfig::setDeviceType", "DeviceType");
    devices[layer] = type;
}

nvinfer1::DeviceType Config::getDeviceType(nvinfer1::ILayer const* layer) const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getDeviceType");
    must_live(layer, Layer::kKind, "IBuilderConfig::getDeviceType");
    return is_on_dla(layer) ? nvinfer1::DeviceType::kDLA : nvinfer1::DeviceType::kGPU;
}

bool Config::isDeviceTypeSet(nvinfer1::ILayer const* layer) const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::isDeviceTypeSet");
    must_live(layer, Layer::kKind, "IBuilderConfig::isDeviceTypeSet");
    return devices.count(layer) != 0;
}

void Config::resetDeviceType(nvinfer1::ILayer const* layer) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::resetDeviceType");
    must_live(layer, Layer::kKind, "IBuilderConfig::resetDeviceType");
    devices.erase(layer);
}

bool Config::canRunOnDLA(nvinfer1::ILayer const* layer) const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::canRunOnDLA");
    Layer const& inner = behind<nvinfer1::ILayer, Layer>(*layer, "IBuilderConfig::canRunOnDLA");
    return dla_cores() != 0 && runs_on_dla(inner.layer.operation);
}

void Config::setDLACore(int32_t wanted) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setDLACore");
    // As documented: no effect without a DLA.
    if (dla_cores() != 0) {
        core = wanted;
    }
}

int32_t Config::getDLACore() const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getDLACore");
    return core;
}

void Config::setDefaultDeviceType(nvinfer1::DeviceType type) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setDefaultDeviceType");
    known(type, "IBuilderConfig::setDefaultDeviceType", "DeviceType");
    device = type;
}

nvinfer1::DeviceType Config::getDefaultDeviceType() const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getDefaultDeviceType");
    return device;
}

void Config::setProfileStream(cudaStream_t const stream) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setProfileStream");
    m_stream = stream;
}

cudaStream_t Config::getProfileStream() const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getProfileStream");
    return m_stream;
}

int32_t Config::addOptimizationProfile(nvinfer1::IOptimizationProfile const* profile) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::addOptimizationProfile");
    if (profile == nullptr) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT, "IBuilderConfig::addOptimizationProfile: the profile is null");
        return -1;
    }
    Profile const& inner
        = behind<nvinfer1::IOptimizationProfile, Profile>(*profile, "IBuilderConfig::addOptimizationProfile");
    if (!inner.isValid()) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT, "IBuilderConfig::addOptimizationProfile: the profile is not valid");
        return -1;
    }
    profiles.push_back(inner.ranges);
    return static_cast<int32_t>(profiles.size()) - 1;
}

int32_t Config::getNbOptimizationProfiles() const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getNbOptimizationProfiles");
    return static_cast<int32_t>(profiles.size());
}

void Config::setProfilingVerbosity(nvinfer1::ProfilingVerbosity wanted) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setProfilingVerbosity");
    known(wanted, "IBuilderConfig::setProfilingVerbosity", "ProfilingVerbosity");
    verbosity = wanted;
}

nvinfer1::ProfilingVerbosity Config::getProfilingVerbosity() const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getProfilingVerbosity");
    return verbosity;
}

nvinfer1::ITimingCache* Config::createTimingCache(void const* blob, std::size_t size) const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::createTimingCache");
    if (blob == nullptr && size != 0) {
        wrong("IBuilderConfig::createTimingCache: the bytes are null and %zu of them are given", size);
    }
    auto cache = std::make_unique<Object<nvinfer1::ITimingCache, TimingCache>>(m_voice);
    if (size != 0 && !cache->inner().read(static_cast<char const*>(blob), size)) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT, "IBuilderConfig::createTimingCache: the bytes are no timing cache");
        return nullptr;
    }
    return cache.release();
}

bool Config::setTimingCache(nvinfer1::ITimingCache const& cache, bool ignores_mismatch) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setTimingCache");
    TimingCache const& inner = behind<nvinfer1::ITimingCache, TimingCache>(cache, "IBuilderConfig::setTimingCache");
    if (inner.version != library_version() || (!ignores_mismatch && !inner.fits())) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("IBuilderConfig::setTimingCache: the cache was made by version %d for compute %s", inner.version,
                inner.capability.c_str()));
        return false;
    }
    m_cache = &cache;
    return true;
}

nvinfer1::ITimingCache const* Config::getTimingCache() const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getTimingCache");
    return m_cache != nullptr ? m_cache : m_own_cache.get();
}

TimingCache& Config::timing_cache() {
    if (m_cache != nullptr) {
        return behind<nvinfer1::ITimingCache, TimingCache>(*m_cache, "the build, with the timing cache that was set");
    }
    if (m_own_cache == nullptr) {
        m_own_cache = std::make_unique<Object<nvinfer1::ITimingCache, TimingCache>>(m_voice);
    }
    return m_own_cache->inner();
}

void Config::setMemoryPoolLimit(nvinfer1::MemoryPoolType pool, std::size_t size) noexcept {
    using nvinfer1::MemoryPoolType;
    DOUBLE_ALIVE("IBuilderConfig::setMemoryPoolLimit");
    char const* const name = known(pool, "IBuilderConfig::setMemoryPoolLimit", "MemoryPoolType");
    bool const is_dla = pool == MemoryPoolType::kDLA_MANAGED_SRAM || pool == MemoryPoolType::kDLA_LOCAL_DRAM
        || pool == MemoryPoolType::kDLA_GLOBAL_DRAM;
    if (is_dla && (size < 4096 || (size & (size - 1)) != 0)) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("IBuilderConfig::setMemoryPoolLimit: %s needs a power of 2 of at least 4096 bytes, not %zu", name, size));
        return;
    }
    pools[pool] = size;
}

std::size_t Config::getMemoryPoolLimit(nvinfer1::MemoryPoolType pool) const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getMemoryPoolLimit");
    known(pool, "IBuilderConfig::getMemoryPoolLimit", "MemoryPoolType");
    auto const found = pools.find(pool);
    return found == pools.end() ? std::size_t{1} << 30 : found->second;
}

void Config::setPreviewFeature(nvinfer1::PreviewFeature feature, bool enable) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setPreviewFeature");
    known(feature, "IBuilderConfig::setPreviewFeature", "PreviewFeature");
    if (enable) {
        features.insert(feature);
    } else {
        features.erase(feature);
    }
}

bool Config::getPreviewFeature(nvinfer1::PreviewFeature feature) const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getPreviewFeature");
    return features.count(feature) != 0;
}

void Config::setAvgTimingIterations(int32_t count) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setAvgTimingIterations");
    m_iterations = count;
}

int32_t Config::getAvgTimingIterations() const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getAvgTimingIterations");
    return m_iterations;
}

#if DOUBLE_API < 1100
void Config::setInt8Calibrator(nvinfer1::IInt8Calibrator* wanted) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setInt8Calibrator");
    calibrator = wanted;
}

nvinfer1::IInt8Calibrator* Config::getInt8Calibrator() const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getInt8Calibrator");
    return calibrator;
}

bool Config::setCalibrationProfile(nvinfer1::IOptimizationProfile const* profile) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setCalibrationProfile");
    if (profile != nullptr) {
        must_live(profile, Profile::kKind, "IBuilderConfig::setCalibrationProfile");
    }
    calibration_profile = profile;
    return true;
}

nvinfer1::IOptimizationProfile const* Config::getCalibrationProfile() noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getCalibrationProfile");
    return calibration_profile;
}
#endif

#if DOUBLE_API >= 806
void Config::setBuilderOptimizationLevel(int32_t level) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setBuilderOptimizationLevel");
    if (level < 0 || level > 5) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("IBuilderConfig::setBuilderOptimizationLevel: %d is not between 0 and 5", level));
        return;
    }
    m_level = level;
}

int32_t Config::getBuilderOptimizationLevel() const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getBuilderOptimizationLevel");
    return m_level;
}
#endif

#if DOUBLE_API >= 1000
void Config::setProgressMonitor(nvinfer1::IProgressMonitor* wanted) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setProgressMonitor");
    if (wanted != nullptr) {
        must_be(wanted, "IProgressMonitor", 1);
    }
    monitor = wanted;
}

nvinfer1::IProgressMonitor* Config::getProgressMonitor() const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getProgressMonitor");
    return monitor;
}
#endif

#if DOUBLE_RTX
bool Config::setNbComputeCapabilities(int32_t count) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setNbComputeCapabilities");
    if (count < 0) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT, text("IBuilderConfig::setNbComputeCapabilities: %d", count));
        return false;
    }
    capabilities.resize(static_cast<size_t>(count), nvinfer1::ComputeCapability::kNONE);
    return true;
}

int32_t Config::getNbComputeCapabilities() const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getNbComputeCapabilities");
    return static_cast<int32_t>(capabilities.size());
}

bool Config::setComputeCapability(nvinfer1::ComputeCapability capability, int32_t index) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setComputeCapability");
    known(capability, "IBuilderConfig::setComputeCapability", "ComputeCapability");
    bool const is_current = capability == nvinfer1::ComputeCapability::kCURRENT;
    if (index < 0 || static_cast<size_t>(index) >= capabilities.size() || (is_current && capabilities.size() != 1)) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("IBuilderConfig::setComputeCapability: there is no place %d for it among %zu", index, capabilities.size()));
        return false;
    }
    capabilities[static_cast<size_t>(index)] = capability;
    return true;
}

nvinfer1::ComputeCapability Config::getComputeCapability(int32_t index) const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::getComputeCapability");
    if (index < 0 || static_cast<size_t>(index) >= capabilities.size()) {
        return nvinfer1::ComputeCapability::kNONE;
    }
    return capabilities[static_cast<size_t>(index)];
}
#endif

nvinfer1::IHostMemory* TimingCache::serialize() const noexcept {
    DOUBLE_ALIVE("ITimingCache::serialize");
    std::string out = text("JWTIMING %d %s %zu\n", version, capability.c_str(), entries.size());
    for (std::string const& entry : entries) {
        out += entry + "\n";
    }
    return host_memory(std::vector<char>(out.begin(), out.end()));
}

bool TimingCache::read(char const* data, std::size_t size) {
    std::string const all(data, size);
    char found[32] = "";
    size_t count = 0;
    size_t const head = all.find('\n');
    if (head == std::string::npos
        || std::sscanf(all.substr(0, head).c_str(), "JWTIMING %d %31s %zu", &version, found, &count) != 3) {
        return false;
    }
    capability = found;
    size_t at = head + 1;
    while (at < all.size()) {
        size_t const end = all.find('\n', at);
        if (end == std::string::npos) {
            return false;
        }
        entries.insert(all.substr(at, end - at));
        at = end + 1;
    }
    return entries.size() == count;
}

bool TimingCache::fits() const {
    return version == library_version() && capability == machine_capability();
}

bool TimingCache::combine(nvinfer1::ITimingCache const& other, bool ignores_mismatch) noexcept {
    DOUBLE_ALIVE("ITimingCache::combine");
    TimingCache const& inner = behind<nvinfer1::ITimingCache, TimingCache>(other, "ITimingCache::combine");
    if (!ignores_mismatch && (inner.version != version || inner.capability != capability)) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT, "ITimingCache::combine: the caches do not fit together");
        return false;
    }
    entries.insert(inner.entries.begin(), inner.entries.end());
    return true;
}

bool TimingCache::reset() noexcept {
    DOUBLE_ALIVE("ITimingCache::reset");
    entries.clear();
    return true;
}

} // namespace doubles
