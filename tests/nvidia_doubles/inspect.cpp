// SPDX-License-Identifier: Apache-2.0
// Output of IEngineInspector: a plan's layers and bindings in the vendor's format.
#include "engine.h"

namespace doubles {

namespace {

using nvinfer1::LayerInformationFormat;
using nvinfer1::ProfilingVerbosity;

std::string quoted(std::string const& value) {
    std::string out = "\"";
    for (char const letter : value) {
        if (letter == '"' || letter == '\\') {
            out += '\\';
            out += letter;
        } else if (static_cast<unsigned char>(letter) < 0x20) {
            out += text("\\u%04x", letter);
        } else {
            out += letter;
        }
    }
    return out + "\"";
}

std::string joined(std::vector<std::string> const& values, char const* between) {
    std::string out;
    for (auto const& value : values) {
        out += (out.empty() ? "" : between) + value;
    }
    return out;
}

std::string ends(Plan const& plan, PlanLayer const& layer, std::vector<std::string> const& names) {
    std::vector<std::string> shown;
    for (auto const& name : names) {
        PlanTensor const* const tensor = plan.tensor(name);
        std::vector<std::string> sizes;
        if (tensor != nullptr) {
            for (int64_t const size : tensor->sizes) {
                sizes.push_back(std::to_string(size));
            }
        }
        std::string const precision = tensor == nullptr ? layer.precision : name_of(tensor->type);
        shown.push_back(text("{\"Name\": %s, \"Location\": \"Device\", \"Dimensions\": [%s], \"Format/Datatype\": %s}",
            quoted(name).c_str(), joined(sizes, ",").c_str(),
            quoted("Row-major linear " + precision + " format").c_str()));
    }
    return "[" + joined(shown, ", ") + "]";
}

} // namespace

std::string layer_information(Plan const& plan, PlanLayer const& layer, LayerInformationFormat format) {
    if (plan.verbosity == ProfilingVerbosity::kNONE) {
        return format == LayerInformationFormat::kJSON ? "{}" : "";
    }
    if (plan.verbosity == ProfilingVerbosity::kLAYER_NAMES_ONLY) {
        return format == LayerInformationFormat::kJSON ? quoted(layer.name) : layer.name;
    }
    if (format == LayerInformationFormat::kONELINE) {
        return text("Layer(%s): %s, Precision: %s, Device: %s", layer.kind.c_str(), layer.name.c_str(),
            layer.precision.c_str(), layer.device.c_str());
    }
    return text("{\"Name\": %s, \"LayerType\": %s, \"Inputs\": %s, \"Outputs\": %s, \"Precision\": %s, "
                "\"Device\": %s, \"TacticValue\": \"0x0\", \"StreamId\": 0, \"Metadata\": \"\"}",
        quoted(layer.name).c_str(), quoted(layer.kind).c_str(), ends(plan, layer, layer.inputs).c_str(),
        ends(plan, layer, layer.outputs).c_str(), quoted(layer.precision).c_str(), quoted(layer.device).c_str());
}

std::string engine_information(Plan const& plan, LayerInformationFormat format) {
    std::vector<std::string> layers;
    if (plan.verbosity != ProfilingVerbosity::kNONE) {
        for (auto const& layer : plan.layers) {
            layers.push_back(layer_information(plan, layer, format));
        }
    }
    std::vector<std::string> bindings;
    bool const is_json = format == LayerInformationFormat::kJSON;
    for (auto const& tensor : plan.tensors) {
        bindings.push_back(is_json ? quoted(tensor.name) : tensor.name);
    }
    if (is_json) {
        return "{\"Layers\": [" + joined(layers, ",\n") + "],\n\"Bindings\": [" + joined(bindings, ",") + "]}\n";
    }
    return "Layers:\n" + joined(layers, "\n") + "\nBindings:\n" + joined(bindings, "\n") + "\n";
}

} // namespace doubles
