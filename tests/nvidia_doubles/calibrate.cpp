// SPDX-License-Identifier: Apache-2.0
// Implicit INT8 of generations 8 and 10: the user's calibrator is called as the vendor documents it.
#include "builder.h"

#if DOUBLE_API < 1100

#include <algorithm>
#include <cmath>

#include "run.h"

namespace doubles {

namespace {

// The name of the algorithm in the first line of a calibration cache.
std::string algorithm_name(nvinfer1::CalibrationAlgoType algorithm) {
    using nvinfer1::CalibrationAlgoType;
    switch (algorithm) {
    case CalibrationAlgoType::kLEGACY_CALIBRATION: return "LegacyCalibration";
    case CalibrationAlgoType::kENTROPY_CALIBRATION: return "EntropyCalibration";
    case CalibrationAlgoType::kENTROPY_CALIBRATION_2: return "EntropyCalibration2";
    case CalibrationAlgoType::kMINMAX_CALIBRATION: return "MinMaxCalibration";
    }
    wrong("IInt8Calibrator::getAlgorithm answers %d", static_cast<int>(algorithm));
}

// Whether a cache is one of this algorithm and has a scale for every input.
bool is_cache_good(std::string const& cache, std::string const& algorithm, Network const& network) {
    size_t const head = cache.find('\n');
    std::string const end = "-" + algorithm;
    if (head == std::string::npos || cache.rfind("TRT-", 0) != 0 || head < end.size()
        || cache.compare(head - end.size(), end.size(), end) != 0) {
        return false;
    }
    return std::all_of(network.inputs.begin(), network.inputs.end(),
        [&](auto* object) { return cache.find("\n" + object->inner().tensor.name + ": ") != std::string::npos; });
}

std::string scale_line(std::string const& name, float largest) {
    float const scale = largest / 127.0f;
    uint32_t bits = 0;
    std::memcpy(&bits, &scale, sizeof bits);
    return text("%s: %08x\n", name.c_str(), bits);
}

} // namespace

bool calibrate(Network const& network, Config const& config, Voice const& voice) {
    nvinfer1::IInt8Calibrator* const calibrator = config.calibrator;
    if (calibrator == nullptr) {
        voice.log(Severity::kWARNING,
            "Calibrator is not being used. Users must provide dynamic range for all tensors that are not Int32 or Bool.");
        voice.error(ErrorCode::kINTERNAL_ERROR,
            "[standardEngineBuilder.cpp::initCalibrationParams] Error Code 4: Internal Error (Calibration failure occurred "
            "with no scaling factors detected. This could be due to no int8 calibrator or insufficient custom scales for "
            "network layers. Please see int8 sample to setup calibration correctly.)");
        return false;
    }
    std::string const algorithm = algorithm_name(calibrator->getAlgorithm());
#if DOUBLE_VERSIONED_CALLBACKS
    if (algorithm == "EntropyCalibration2") {
        must_be(calibrator, "IInt8EntropyCalibrator2", 1);
    }
#endif
    std::size_t length = 0;
    void const* const read = calibrator->readCalibrationCache(length);
    if (read == nullptr && length != 0) {
        wrong("IInt8Calibrator::readCalibrationCache answers null and sets the length to %zu", length);
    }
    if (length != 0) {
        std::string const cache(static_cast<char const*>(read), length);
        if (is_cache_good(cache, algorithm, network)) {
            voice.log(Severity::kINFO, text("Reading Calibration Cache for calibrator: %s", algorithm.c_str()));
            return true;
        }
        voice.log(Severity::kWARNING, "The calibration cache does not fit this calibrator and network: it is computed again.");
    }

    std::vector<std::vector<int64_t>> shapes;
    for (auto* const object : network.inputs) {
        GraphTensor const& tensor = object->inner().tensor;
        std::vector<int64_t> shape = tensor.sizes;
        if (config.calibration_profile != nullptr) {
            Profile const& profile = behind<nvinfer1::IOptimizationProfile, Profile>(
                *config.calibration_profile, "the build, with the calibration profile that was set");
            if (profile.ranges.count(tensor.name) != 0) {
                shape = profile.ranges.at(tensor.name).opt;
            }
        } else if (!config.profiles.empty() && config.profiles[0].count(tensor.name) != 0) {
            voice.log(Severity::kWARNING, "Calibration Profile is not defined. Running calibration with Profile 0");
            shape = config.profiles[0].at(tensor.name).opt;
        }
        shapes.push_back(shape);
    }
    int32_t const batch = calibrator->getBatchSize();
    if (shapes[0].empty() || batch != shapes[0][0]) {
        voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("The calibrator's batch size is %d, and the calibration runs with %s", batch,
                shown(to_dims(shapes[0])).c_str()));
        return false;
    }

    float largest = 0;
    int batches = 0;
    while (true) {
        std::vector<void*> bindings(network.inputs.size(), nullptr);
        std::vector<char const*> names;
        for (auto* const object : network.inputs) {
            names.push_back(object->inner().tensor.name.c_str());
        }
        if (!calibrator->getBatch(bindings.data(), names.data(), static_cast<int32_t>(names.size()))) {
            break;
        }
        for (size_t index = 0; index < names.size(); ++index) {
            int64_t count = 1;
            for (int64_t const size : shapes[index]) {
                count *= size;
            }
            nvinfer1::DataType const type = network.inputs[index]->inner().tensor.type;
            std::string problem;
            if (bindings[index] == nullptr) {
                wrong("IInt8Calibrator::getBatch left the address of '%s' null", names[index]);
            }
            if (!can_hold(bindings[index], count * bytes_of(type), problem)) {
                wrong("IInt8Calibrator::getBatch: '%s': %s", names[index], problem.c_str());
            }
            if (type == nvinfer1::DataType::kFLOAT) {
                std::vector<float> values(static_cast<size_t>(count));
                copy_to_host(values.data(), bindings[index], values.size() * sizeof(float));
                for (float const value : values) {
                    largest = std::max(largest, std::fabs(value));
                }
            }
        }
        batches += 1;
        voice.log(Severity::kINFO, text("  Calibrated batch %d.", batches - 1));
    }
    if (batches == 0) {
        voice.error(ErrorCode::kINTERNAL_ERROR,
            "[calibrator.cpp::calibrateEngine] Error Code 4: Internal Error (Calibration failure occurred with no scaling "
            "factors detected: the calibrator gave no batch.)");
        return false;
    }
    std::string cache = text("TRT-%d-%s\n", library_version(), algorithm.c_str());
    for (auto* const object : network.inputs) {
        cache += scale_line(object->inner().tensor.name, largest);
    }
    for (auto* const layer : network.layers) {
        for (std::string const& output : layer->inner().layer.outputs) {
            cache += scale_line(output, largest);
        }
    }
    calibrator->writeCalibrationCache(cache.data(), cache.size());
    return true;
}

} // namespace doubles

#endif
