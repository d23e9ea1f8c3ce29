// SPDX-License-Identifier: Apache-2.0
// INetworkDefinition, ITensor and ILayer. Networks come from the double's parser; layers cannot be added manually.
#include "network.h"

#include <algorithm>

#include "builder.h"

namespace doubles {

namespace {

// Formats have a bit each; by default all are allowed.
nvinfer1::TensorFormats all_formats() {
    nvinfer1::TensorFormats formats = 0;
    for (int32_t bit = 0; bit < 32; ++bit) {
        if (name_of(static_cast<nvinfer1::TensorFormat>(bit)) != nullptr) {
            formats |= 1u << bit;
        }
    }
    return formats;
}

} // namespace

Tensor::Tensor(Network& network, GraphTensor tensor, bool is_known)
    : tensor(std::move(tensor)), m_network(network), m_is_known(is_known), m_formats(all_formats()) {}

void Tensor::before_delete() {
    if (!m_network.is_going) {
        wrong("ITensor '%s' is deleted: it belongs to its network", tensor.name.c_str());
    }
}

void Tensor::setName(char const* name) noexcept {
    DOUBLE_ALIVE("ITensor::setName");
    tensor.name = name_argument(name, "ITensor::setName");
}

char const* Tensor::getName() const noexcept {
    DOUBLE_ALIVE("ITensor::getName");
    return tensor.name.c_str();
}

void Tensor::setDimensions(DimsArgument dims) noexcept {
    DOUBLE_ALIVE("ITensor::setDimensions");
    Dims const given = dims_argument(dims, "ITensor::setDimensions");
    if (!is_input) {
        m_network.voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("ITensor::setDimensions: '%s' is no input of the network", tensor.name.c_str()));
        return;
    }
    tensor.sizes = sizes(given);
}

Dims Tensor::getDimensions() const noexcept {
    DOUBLE_ALIVE("ITensor::getDimensions");
    if (!m_is_known) {
        wrong("ITensor::getDimensions: the double does not know the shape of '%s' within the network", tensor.name.c_str());
    }
    return to_dims(tensor.sizes);
}

nvinfer1::DataType Tensor::getType() const noexcept {
    DOUBLE_ALIVE("ITensor::getType");
    return tensor.type;
}

bool Tensor::isNetworkInput() const noexcept {
    DOUBLE_ALIVE("ITensor::isNetworkInput");
    return is_input;
}

bool Tensor::isNetworkOutput() const noexcept {
    DOUBLE_ALIVE("ITensor::isNetworkOutput");
    return is_output;
}

void Tensor::setAllowedFormats(nvinfer1::TensorFormats formats) noexcept {
    DOUBLE_ALIVE("ITensor::setAllowedFormats");
    if (formats == 0 || (formats & ~all_formats()) != 0) {
        wrong("ITensor::setAllowedFormats: the bits are %#x, and this version has %#x", formats, all_formats());
    }
    m_formats = formats;
}

nvinfer1::TensorFormats Tensor::getAllowedFormats() const noexcept {
    DOUBLE_ALIVE("ITensor::getAllowedFormats");
    return m_formats;
}

bool Tensor::isShapeTensor() const noexcept {
    DOUBLE_ALIVE("ITensor::isShapeTensor");
    return false;
}

bool Tensor::isExecutionTensor() const noexcept {
    DOUBLE_ALIVE("ITensor::isExecutionTensor");
    return true;
}

#if !DOUBLE_RTX
nvinfer1::TensorLocation Tensor::getLocation() const noexcept {
    DOUBLE_ALIVE("ITensor::getLocation");
    return nvinfer1::TensorLocation::kDEVICE;
}
#endif

#if DOUBLE_API < 1100
void Tensor::setType(nvinfer1::DataType type) noexcept {
    DOUBLE_ALIVE("ITensor::setType");
    known(type, "ITensor::setType", "DataType");
    if (m_network.is_strongly_typed() && !is_input && type != tensor.type) {
        m_network.voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("ITensor::setType: the network is strongly typed: the type of '%s' is inferred", tensor.name.c_str()));
        return;
    }
    tensor.type = type;
}

bool Tensor::setDynamicRange(float min, float max) noexcept {
    DOUBLE_ALIVE("ITensor::setDynamicRange");
    if (!(min < max)) {
        m_network.voice.error(
            ErrorCode::kINVALID_ARGUMENT, text("ITensor::setDynamicRange: %g is not less than %g", min, max));
        return false;
    }
    has_range = true;
    m_min = min;
    m_max = max;
    return true;
}

bool Tensor::dynamicRangeIsSet() const noexcept {
    DOUBLE_ALIVE("ITensor::dynamicRangeIsSet");
    return has_range;
}

void Tensor::resetDynamicRange() noexcept {
    DOUBLE_ALIVE("ITensor::resetDynamicRange");
    has_range = false;
}

float Tensor::getDynamicRangeMin() const noexcept {
    DOUBLE_ALIVE("ITensor::getDynamicRangeMin");
    return m_min;
}

float Tensor::getDynamicRangeMax() const noexcept {
    DOUBLE_ALIVE("ITensor::getDynamicRangeMax");
    return m_max;
}
#endif

void Layer::before_delete() {
    if (!m_network.is_going) {
        wrong("ILayer '%s' is deleted: it belongs to its network", layer.name.c_str());
    }
}

nvinfer1::LayerType Layer::getType() const noexcept {
    using nvinfer1::LayerType;
    DOUBLE_ALIVE("ILayer::getType");
    static std::map<std::string, LayerType> const types = {
        {"Conv", LayerType::kCONVOLUTION},
        {"ConvTranspose", LayerType::kDECONVOLUTION},
        {"Relu", LayerType::kACTIVATION},
        {"LeakyRelu", LayerType::kACTIVATION},
        {"Sigmoid", LayerType::kACTIVATION},
        {"HardSigmoid", LayerType::kACTIVATION},
        {"Clip", LayerType::kACTIVATION},
        {"Tanh", LayerType::kACTIVATION},
        {"MaxPool", LayerType::kPOOLING},
        {"AveragePool", LayerType::kPOOLING},
        {"Add", LayerType::kELEMENTWISE},
        {"Sub", LayerType::kELEMENTWISE},
        {"Mul", LayerType::kELEMENTWISE},
        {"Div", LayerType::kELEMENTWISE},
        {"Concat", LayerType::kCONCATENATION},
        {"Resize", LayerType::kRESIZE},
        {"Softmax", LayerType::kSOFTMAX},
        {"Reshape", LayerType::kSHUFFLE},
        {"Transpose", LayerType::kSHUFFLE},
        {"Flatten", LayerType::kSHUFFLE},
        {"Squeeze", LayerType::kSHUFFLE},
        {"Unsqueeze", LayerType::kSHUFFLE},
        {"Slice", LayerType::kSLICE},
        {"Split", LayerType::kSLICE},
        {"Gather", LayerType::kGATHER},
        {"MatMul", LayerType::kMATRIX_MULTIPLY},
        {"Gemm", LayerType::kMATRIX_MULTIPLY},
        {"ReduceMean", LayerType::kREDUCE},
        {"ReduceMax", LayerType::kREDUCE},
        {"Shape", LayerType::kSHAPE},
        {"Constant", LayerType::kCONSTANT},
        {"QuantizeLinear", LayerType::kQUANTIZE},
        {"DequantizeLinear", LayerType::kDEQUANTIZE},
#if DOUBLE_API >= 806
        {"Cast", LayerType::kCAST},
#endif
    };
    auto const found = types.find(layer.operation);
    return found == types.end() ? LayerType::kIDENTITY : found->second;
}

void Layer::setName(char const* name) noexcept {
    DOUBLE_ALIVE("ILayer::setName");
    layer.name = name_argument(name, "ILayer::setName");
}

char const* Layer::getName() const noexcept {
    DOUBLE_ALIVE("ILayer::getName");
    return layer.name.c_str();
}

int32_t Layer::getNbInputs() const noexcept {
    DOUBLE_ALIVE("ILayer::getNbInputs");
    return static_cast<int32_t>(layer.inputs.size());
}

nvinfer1::ITensor* Layer::getInput(int32_t index) const noexcept {
    DOUBLE_ALIVE("ILayer::getInput");
    if (index < 0 || static_cast<size_t>(index) >= layer.inputs.size()) {
        return nullptr;
    }
    Tensor const* const tensor = m_network.tensor(layer.inputs[static_cast<size_t>(index)]);
    return tensor == nullptr ? nullptr : tensor->outer();
}

int32_t Layer::getNbOutputs() const noexcept {
    DOUBLE_ALIVE("ILayer::getNbOutputs");
    return static_cast<int32_t>(layer.outputs.size());
}

nvinfer1::ITensor* Layer::getOutput(int32_t index) const noexcept {
    DOUBLE_ALIVE("ILayer::getOutput");
    if (index < 0 || static_cast<size_t>(index) >= layer.outputs.size()) {
        return nullptr;
    }
    Tensor const* const tensor = m_network.tensor(layer.outputs[static_cast<size_t>(index)]);
    return tensor == nullptr ? nullptr : tensor->outer();
}

#if DOUBLE_API < 1100
void Layer::setPrecision(nvinfer1::DataType type) noexcept {
    DOUBLE_ALIVE("ILayer::setPrecision");
    known(type, "ILayer::setPrecision", "DataType");
    if (m_network.is_strongly_typed()) {
        m_network.voice.error(ErrorCode::kINVALID_STATE, "ILayer::setPrecision: the network is strongly typed");
        return;
    }
    has_precision = true;
    precision = type;
}

nvinfer1::DataType Layer::getPrecision() const noexcept {
    DOUBLE_ALIVE("ILayer::getPrecision");
    return precision;
}

bool Layer::precisionIsSet() const noexcept {
    DOUBLE_ALIVE("ILayer::precisionIsSet");
    return has_precision;
}

void Layer::resetPrecision() noexcept {
    DOUBLE_ALIVE("ILayer::resetPrecision");
    has_precision = false;
}
#endif

Network::Network(Builder& builder, Voice const& voice, uint32_t flags)
    : voice(voice.logger()), m_builder(builder), m_flags(flags), m_name("Unnamed Network 0") {
    m_builder.children += 1;
}

Network::~Network() {
    is_going = true;
    for (LayerObject* const layer : layers) {
        delete layer;
    }
    for (auto const& [name, tensor] : m_tensors) {
        delete tensor;
    }
    m_builder.children -= 1;
}

Network::TensorObject* Network::add(GraphTensor const& tensor, bool is_known) {
    TensorObject*& place = m_tensors[tensor.name];
    if (place == nullptr) {
        place = new TensorObject(*this, tensor, is_known);
    }
    return place;
}

bool Network::fill(Graph const& graph) {
    if (!layers.empty() || !inputs.empty()) {
        return false;
    }
    for (GraphTensor const& tensor : graph.inputs) {
        inputs.push_back(add(tensor, true));
        inputs.back()->inner().is_input = true;
    }
    for (GraphTensor const& tensor : graph.outputs) {
        outputs.push_back(add(tensor, true));
        outputs.back()->inner().is_output = true;
    }
    for (GraphLayer const& layer : graph.layers) {
        for (std::string const& name : layer.outputs) {
            add({name, nvinfer1::DataType::kFLOAT, {}}, false);
        }
        layers.push_back(new LayerObject(*this, layer));
    }
    if (!graph.name.empty()) {
        m_name = graph.name;
    }
    return true;
}

bool Network::is_strongly_typed() const {
#if DOUBLE_API >= 1100
    return true;
#elif DOUBLE_API >= 1000
    return m_flags >> static_cast<int>(nvinfer1::NetworkDefinitionCreationFlag::kSTRONGLY_TYPED) & 1;
#else
    return false;
#endif
}

bool Network::has_explicit_quantization() const {
    return std::any_of(layers.begin(), layers.end(), [](LayerObject* layer) {
        std::string const& operation = layer->inner().layer.operation;
        return operation == "QuantizeLinear" || operation == "DequantizeLinear";
    });
}

Tensor* Network::tensor(std::string const& name) const {
    auto const found = m_tensors.find(name);
    return found == m_tensors.end() ? nullptr : &found->second->inner();
}

nvinfer1::ITensor* Network::addInput(char const* name, nvinfer1::DataType type, DimsArgument dims) noexcept {
    char const* const where = "INetworkDefinition::addInput";
    DOUBLE_ALIVE(where);
    std::string const wanted = name_argument(name, where);
    known(type, where, "DataType");
    Dims const given = dims_argument(dims, where);
    if (m_tensors.count(wanted) != 0) {
        voice.error(ErrorCode::kINVALID_ARGUMENT, text("%s: there is a tensor '%s' already", where, name));
        return nullptr;
    }
    inputs.push_back(add({wanted, type, sizes(given)}, true));
    inputs.back()->inner().is_input = true;
    return inputs.back();
}

void Network::markOutput(nvinfer1::ITensor& tensor) noexcept {
    DOUBLE_ALIVE("INetworkDefinition::markOutput");
    Tensor& inner = behind<nvinfer1::ITensor, Tensor>(tensor, "INetworkDefinition::markOutput");
    if (inner.is_output) {
        return;
    }
    inner.is_output = true;
    outputs.push_back(m_tensors.at(inner.tensor.name));
}

int32_t Network::getNbLayers() const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::getNbLayers");
    return static_cast<int32_t>(layers.size());
}

nvinfer1::ILayer* Network::getLayer(int32_t index) const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::getLayer");
    if (index < 0 || static_cast<size_t>(index) >= layers.size()) {
        voice.error(ErrorCode::kINVALID_ARGUMENT, text("INetworkDefinition::getLayer: there is no layer %d", index));
        return nullptr;
    }
    return layers[static_cast<size_t>(index)];
}

int32_t Network::getNbInputs() const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::getNbInputs");
    return static_cast<int32_t>(inputs.size());
}

nvinfer1::ITensor* Network::getInput(int32_t index) const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::getInput");
    if (index < 0 || static_cast<size_t>(index) >= inputs.size()) {
        voice.error(ErrorCode::kINVALID_ARGUMENT, text("INetworkDefinition::getInput: there is no input %d", index));
        return nullptr;
    }
    return inputs[static_cast<size_t>(index)];
}

int32_t Network::getNbOutputs() const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::getNbOutputs");
    return static_cast<int32_t>(outputs.size());
}

nvinfer1::ITensor* Network::getOutput(int32_t index) const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::getOutput");
    if (index < 0 || static_cast<size_t>(index) >= outputs.size()) {
        voice.error(ErrorCode::kINVALID_ARGUMENT, text("INetworkDefinition::getOutput: there is no output %d", index));
        return nullptr;
    }
    return outputs[static_cast<size_t>(index)];
}

void Network::setName(char const* name) noexcept {
    DOUBLE_ALIVE("INetworkDefinition::setName");
    m_name = name_argument(name, "INetworkDefinition::setName");
}

char const* Network::getName() const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::getName");
    return m_name.c_str();
}

bool Network::hasImplicitBatchDimension() const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::hasImplicitBatchDimension");
#if DOUBLE_API >= 1000
    return false;
#else
    return (m_flags >> static_cast<int>(nvinfer1::NetworkDefinitionCreationFlag::kEXPLICIT_BATCH) & 1) == 0;
#endif
}

void Network::setErrorRecorder(nvinfer1::IErrorRecorder* recorder) noexcept {
    DOUBLE_ALIVE("INetworkDefinition::setErrorRecorder");
    voice.set_recorder(recorder);
}

nvinfer1::IErrorRecorder* Network::getErrorRecorder() const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::getErrorRecorder");
    return voice.recorder();
}

#if DOUBLE_API >= 806
nvinfer1::IBuilder& Network::getBuilder() const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::getBuilder");
    return *m_builder.outer();
}
#endif

#if DOUBLE_API >= 1000
nvinfer1::NetworkDefinitionCreationFlags Network::getFlags() const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::getFlags");
    return m_flags;
}

bool Network::getFlag(nvinfer1::NetworkDefinitionCreationFlag flag) const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::getFlag");
    known(flag, "INetworkDefinition::getFlag", "NetworkDefinitionCreationFlag");
    return m_flags >> static_cast<int>(flag) & 1;
}
#endif

bool fill_network(nvinfer1::INetworkDefinition& network, Graph const& graph) {
    return behind<nvinfer1::INetworkDefinition, Network>(network, "IParser::parse").fill(graph);
}

} // namespace doubles
