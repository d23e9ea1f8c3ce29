// SPDX-License-Identifier: Apache-2.0
// Output of IEngineInspector: a plan's layers and bindings in the vendor's format.
#include "engine.h"

namespace doubles {

namespace {

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

std::string layer_information(Plan const& plan, PlanLayer const& layer) {
    if (plan.verbosity != nvinfer1::ProfilingVerbosity::kDETAILED) {
        return quoted(layer.name);
    }
    return text("{\"Name\": %s, \"LayerType\": %s, \"Inputs\": %s, \"Outputs\": %s, \"Precision\": %s, "
                "\"Device\": %s, \"TacticValue\": \"0x0\", \"StreamId\": 0, \"Metadata\": \"\"}",
        quoted(layer.name).c_str(), quoted(layer.kind).c_str(), ends(plan, layer, layer.inputs).c_str(),
        ends(plan, layer, layer.outputs).c_str(), quoted(layer.precision).c_str(), quoted(layer.device).c_str());
}

} // namespace

std::string engine_information(Plan const& plan) {
    std::vector<std::string> layers;
    for (auto const& layer : plan.layers) {
        layers.push_back(layer_information(plan, layer));
    }
    std::vector<std::string> bindings;
    for (auto const& tensor : plan.tensors) {
        bindings.push_back(quoted(tensor.name));
    }
    return "{\"Layers\": [" + joined(layers, ",\n") + "],\n\"Bindings\": [" + joined(bindings, ",") + "]}\n";
}

} // namespace doubles
