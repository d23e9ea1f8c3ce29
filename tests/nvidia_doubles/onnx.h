// SPDX-License-Identifier: Apache-2.0
// A small reader of ONNX files: what the double's parser needs of them, and no weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace doubles {

struct OnnxTensor {
    std::string name;
    /// ONNX's number of the element type.
    int32_t type = 0;
    /// A size that has a name or none at all is -1.
    std::vector<int64_t> sizes;
};

struct OnnxNode {
    std::string name;
    std::string operation;
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
};

struct OnnxModel {
    int64_t ir_version = 0;
    int64_t opset = 0;
    std::string producer;
    std::string graph_name;
    std::vector<OnnxTensor> inputs;
    std::vector<OnnxTensor> outputs;
    std::vector<OnnxNode> nodes;
    /// Weights by name, with their types.
    std::map<std::string, int32_t> weights;
};

/// Reads a model; false when the bytes are none.
bool read_onnx(void const* data, size_t size, OnnxModel& model);

} // namespace doubles
