// SPDX-License-Identifier: Apache-2.0
// The double's network, and its plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "double.h"

namespace doubles {

/// An input or output of a network. A size that is known at run time only is -1.
struct GraphTensor {
    std::string name;
    nvinfer1::DataType type;
    std::vector<int64_t> sizes;
};

/// A node of an ONNX graph.
struct GraphLayer {
    std::string name;
    std::string operation;
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
};

/// Output of the parser for the network.
struct Graph {
    std::string name;
    std::vector<GraphTensor> inputs;
    std::vector<GraphTensor> outputs;
    std::vector<GraphLayer> layers;
};

/// Puts a graph into an empty network of ours; false when it holds something already.
bool fill_network(nvinfer1::INetworkDefinition& network, Graph const& graph);

/// The shapes of an input that a profile allows.
struct Range {
    std::vector<int64_t> min;
    std::vector<int64_t> opt;
    std::vector<int64_t> max;
};

struct PlanTensor {
    std::string name;
    bool is_input;
    nvinfer1::DataType type;
    std::vector<int64_t> sizes;
    /// One for each profile; inputs only.
    std::vector<Range> ranges;
};

struct PlanLayer {
    std::string name;
    std::string kind;
    std::string precision;
    /// "GPU" or "DLA".
    std::string device;
    std::vector<std::string> inputs;
    std::vector<std::string> outputs;
};

struct Plan {
    /// Whether contexts may share a profile.
    static constexpr bool kSharesProfiles = DOUBLE_API >= 1000;

    /// Compute capability that the plan was built for, such as "7.2".
    std::string capability;
    std::string name;
    std::vector<PlanTensor> tensors;
    std::vector<PlanLayer> layers;
    int32_t profiles = 1;
    nvinfer1::ProfilingVerbosity verbosity = nvinfer1::ProfilingVerbosity::kLAYER_NAMES_ONLY;
    /// Whether a part runs on the DLA.
    bool uses_dla = false;
    int64_t device_memory = 0;

    bool is_dynamic() const;
    PlanTensor const* tensor(std::string const& name) const;
};

/// The version that plans and timing caches of this library carry.
int32_t library_version();
/// The compute capability of the machine: JETWATCH_DOUBLE_CAPABILITY, or "7.2".
std::string machine_capability();

std::vector<char> write_plan(Plan const& plan);

enum class PlanRead { kGood, kNoPlan, kOtherVersion, kDamaged };

/// Reads a plan; `version` is the one in its header, if known.
PlanRead read_plan(void const* data, size_t size, Plan& plan, int32_t& version);

} // namespace doubles
