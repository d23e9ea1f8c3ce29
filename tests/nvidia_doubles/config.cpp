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

void Config::setFlag(nvinfer1::BuilderFlag flag) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setFlag");
    char const* const name = known(flag, "IBuilderConfig::setFlag", "BuilderFlag");
    m_voice.log(Severity::kVERBOSE, text("IBuilderConfig::setFlag: %s", name));
    flags |= 1u << static_cast<int>(flag);
}

bool runs_on_dla(std::string const& operation) {
    static std::set<std::string> const operations = {"Conv", "ConvTranspose", "Relu", "LeakyRelu", "Sigmoid", "Tanh", "Clip",
        "MaxPool", "AveragePool", "Add", "Sub", "Mul", "Concat", "Resize", "BatchNormalization"};
    return operations.count(operation) != 0;
}

void Config::setDLACore(int32_t wanted) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setDLACore");
    // As documented: no effect without a DLA.
    if (dla_cores() != 0) {
        core = wanted;
    }
}

void Config::setDefaultDeviceType(nvinfer1::DeviceType type) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setDefaultDeviceType");
    known(type, "IBuilderConfig::setDefaultDeviceType", "DeviceType");
    device = type;
}

int32_t Config::addOptimizationProfile(nvinfer1::IOptimizationProfile const* profile) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::addOptimizationProfile");
    if (profile == nullptr) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT, "IBuilderConfig::addOptimizationProfile: the profile is null");
        return -1;
    }
    Profile const& inner
        = behind<nvinfer1::IOptimizationProfile, Profile>(*profile, "IBuilderConfig::addOptimizationProfile");
    if (!inner.is_valid()) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT, "IBuilderConfig::addOptimizationProfile: the profile is not valid");
        return -1;
    }
    profiles.push_back(inner.ranges);
    return static_cast<int32_t>(profiles.size()) - 1;
}

void Config::setProfilingVerbosity(nvinfer1::ProfilingVerbosity wanted) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setProfilingVerbosity");
    known(wanted, "IBuilderConfig::setProfilingVerbosity", "ProfilingVerbosity");
    verbosity = wanted;
}

nvinfer1::ITimingCache* Config::createTimingCache(void const* blob, std::size_t size) const noexcept {
    DOUBLE_ALIVE("IBuilderConfig::createTimingCache");
    if (blob == nullptr && size != 0) {
        wrong("IBuilderConfig::createTimingCache: the bytes are null and %zu of them are given", size);
    }
    auto cache = std::make_unique<Object<nvinfer1::ITimingCache, TimingCache>>();
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
        m_own_cache = std::make_unique<Object<nvinfer1::ITimingCache, TimingCache>>();
    }
    return m_own_cache->inner();
}

void Config::setMemoryPoolLimit(nvinfer1::MemoryPoolType pool, std::size_t) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setMemoryPoolLimit");
    known(pool, "IBuilderConfig::setMemoryPoolLimit", "MemoryPoolType");
}

#if DOUBLE_API < 1100
void Config::setInt8Calibrator(nvinfer1::IInt8Calibrator* wanted) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setInt8Calibrator");
    calibrator = wanted;
}

bool Config::setCalibrationProfile(nvinfer1::IOptimizationProfile const* profile) noexcept {
    DOUBLE_ALIVE("IBuilderConfig::setCalibrationProfile");
    if (profile != nullptr) {
        must_live(profile, Profile::kKind, "IBuilderConfig::setCalibrationProfile");
    }
    calibration_profile = profile;
    return true;
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

} // namespace doubles
