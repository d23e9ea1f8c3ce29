// SPDX-License-Identifier: Apache-2.0
// IBuilder and IOptimizationProfile.
#include "builder.h"

#include <algorithm>

#include "runtime.h"

namespace doubles {

void Profile::before_delete() {
    if (!m_builder.is_going) {
        wrong("IOptimizationProfile is deleted: it belongs to its builder");
    }
}

bool Profile::setDimensions(char const* name, nvinfer1::OptProfileSelector select, DimsArgument dims) noexcept {
    char const* const where = "IOptimizationProfile::setDimensions";
    DOUBLE_ALIVE(where);
    std::string const wanted = name_argument(name, where);
    known(select, where, "OptProfileSelector");
    std::vector<int64_t> const given = sizes(dims_argument(dims, where));
    Range& range = ranges[wanted];
    for (auto const* other : {&range.min, &range.opt, &range.max}) {
        if (!other->empty() && other->size() != given.size()) {
            return false;
        }
    }
    if (std::count(given.begin(), given.end(), -1) != 0) {
        return false;
    }
    (select == nvinfer1::OptProfileSelector::kMIN       ? range.min
            : select == nvinfer1::OptProfileSelector::kOPT ? range.opt
                                                           : range.max) = given;
    return true;
}

bool Profile::is_valid() const {
    for (auto const& [name, range] : ranges) {
        if (range.min.size() != range.opt.size() || range.opt.size() != range.max.size()) {
            return false;
        }
        for (size_t axis = 0; axis < range.min.size(); ++axis) {
            if (range.min[axis] > range.opt[axis] || range.opt[axis] > range.max[axis]) {
                return false;
            }
        }
    }
    return true;
}

Builder::~Builder() {
    is_going = true;
    for (auto* const profile : m_profiles) {
        delete profile;
    }
}

void Builder::before_delete() {
    if (children != 0) {
        wrong("IBuilder is deleted before %d of its networks and configs", children.load());
    }
}

int32_t Builder::getNbDLACores() const noexcept {
    DOUBLE_ALIVE("IBuilder::getNbDLACores");
    return dla_cores();
}

nvinfer1::IBuilderConfig* Builder::createBuilderConfig() noexcept {
    DOUBLE_ALIVE("IBuilder::createBuilderConfig");
    return new Object<nvinfer1::IBuilderConfig, Config>(*this, m_voice);
}

nvinfer1::INetworkDefinition* Builder::createNetworkV2(nvinfer1::NetworkDefinitionCreationFlags flags) noexcept {
    DOUBLE_ALIVE("IBuilder::createNetworkV2");
    for (int32_t bit = 0; bit < 32; ++bit) {
        if ((flags >> bit & 1) != 0 && name_of(static_cast<nvinfer1::NetworkDefinitionCreationFlag>(bit)) == nullptr) {
            wrong("IBuilder::createNetworkV2: this version has no NetworkDefinitionCreationFlag %d (the bits are %#x)", bit,
                flags);
        }
    }
    return new Object<nvinfer1::INetworkDefinition, Network>(*this, m_voice, flags);
}

nvinfer1::IOptimizationProfile* Builder::createOptimizationProfile() noexcept {
    DOUBLE_ALIVE("IBuilder::createOptimizationProfile");
    m_profiles.push_back(new Object<nvinfer1::IOptimizationProfile, Profile>(*this));
    return m_profiles.back();
}

void Builder::setErrorRecorder(nvinfer1::IErrorRecorder* recorder) noexcept {
    DOUBLE_ALIVE("IBuilder::setErrorRecorder");
    m_voice.set_recorder(recorder);
}

nvinfer1::IHostMemory* Builder::buildSerializedNetwork(
    nvinfer1::INetworkDefinition& network, nvinfer1::IBuilderConfig& config) noexcept {
    char const* const where = "IBuilder::buildSerializedNetwork";
    DOUBLE_ALIVE(where);
    Network& inner_network = behind<nvinfer1::INetworkDefinition, Network>(network, where);
    Config& inner_config = behind<nvinfer1::IBuilderConfig, Config>(config, where);
    Plan plan;
    if (!build(inner_network, inner_config, m_voice, plan)) {
        return nullptr;
    }
    return host_memory(write_plan(plan));
}

// Defined next to the runtime's factory.
nvinfer1::ILogger* checked_logger(void* logger, int32_t version, char const* where);

} // namespace doubles

extern "C" void* createInferBuilder_INTERNAL(void* logger, int32_t version) noexcept {
    using namespace doubles;
    nvinfer1::ILogger* const checked = checked_logger(logger, version, "createInferBuilder");
    if (checked == nullptr) {
        return nullptr;
    }
    Voice const voice(checked);
    voice.log_all("createInferBuilder");
    if (shall_fail("builder")) {
        voice.error(ErrorCode::kFAILED_INITIALIZATION,
            "CUDA initialization failure with error: 35. Please check your CUDA installation");
        return nullptr;
    }
    return static_cast<nvinfer1::IBuilder*>(new Object<nvinfer1::IBuilder, Builder>(checked));
}
