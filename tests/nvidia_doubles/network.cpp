// SPDX-License-Identifier: Apache-2.0
// INetworkDefinition, ITensor and ILayer. Networks come from the double's parser; layers cannot be added manually.
#include "network.h"

#include <algorithm>

#include "builder.h"

namespace doubles {

Tensor::Tensor(Network& network, GraphTensor tensor, bool is_known)
    : tensor(std::move(tensor)), m_network(network), m_is_known(is_known) {}

void Tensor::before_delete() {
    if (!m_network.is_going) {
        wrong("ITensor '%s' is deleted: it belongs to its network", tensor.name.c_str());
    }
}

char const* Tensor::getName() const noexcept {
    DOUBLE_ALIVE("ITensor::getName");
    return tensor.name.c_str();
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

void Layer::before_delete() {
    if (!m_network.is_going) {
        wrong("ILayer '%s' is deleted: it belongs to its network", layer.name.c_str());
    }
}

nvinfer1::LayerType Layer::getType() const noexcept {
    using nvinfer1::LayerType;
    DOUBLE_ALIVE("ILayer::getType");
    return layer.operation == "QuantizeLinear" ? LayerType::kQUANTIZE
        : layer.operation == "DequantizeLinear" ? LayerType::kDEQUANTIZE
                                                : LayerType::kIDENTITY;
}

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
    }
    for (GraphTensor const& tensor : graph.outputs) {
        outputs.push_back(add(tensor, true));
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

#if DOUBLE_API < 1000
bool Network::hasImplicitBatchDimension() const noexcept {
    DOUBLE_ALIVE("INetworkDefinition::hasImplicitBatchDimension");
    return (m_flags >> static_cast<int>(nvinfer1::NetworkDefinitionCreationFlag::kEXPLICIT_BATCH) & 1) == 0;
}
#endif

void Network::setErrorRecorder(nvinfer1::IErrorRecorder* recorder) noexcept {
    DOUBLE_ALIVE("INetworkDefinition::setErrorRecorder");
    voice.set_recorder(recorder);
}

bool fill_network(nvinfer1::INetworkDefinition& network, Graph const& graph) {
    return behind<nvinfer1::INetworkDefinition, Network>(network, "IParser::parse").fill(graph);
}

} // namespace doubles
