// SPDX-License-Identifier: Apache-2.0
// INetworkDefinition, ITensor and ILayer.
#pragma once

#include <map>
#include <memory>

#include "plan.h"

namespace doubles {

class Network;
class Builder;

class Tensor final : public Inner<nvinfer1::ITensor, nvinfer1::apiv::unserved::VTensor> {
public:
    static constexpr char const* kKind = "ITensor";
    static constexpr char const* kInnerKind = "VTensor";
    static constexpr bool kIsUsers = false;

    Tensor(Network& network, GraphTensor tensor, bool is_known);
    void before_delete();

    char const* getName() const noexcept override;
    Dims getDimensions() const noexcept override;
    nvinfer1::DataType getType() const noexcept override;

    GraphTensor tensor;

private:
    Network& m_network;
    /// Whether the double knows the shape: it infers none of the tensors within the network.
    bool m_is_known;
};

class Layer final : public Inner<nvinfer1::ILayer, nvinfer1::apiv::unserved::VLayer> {
public:
    static constexpr char const* kKind = "ILayer";
    static constexpr char const* kInnerKind = "VLayer";
    static constexpr bool kIsUsers = false;

    Layer(Network& network, GraphLayer layer) : layer(std::move(layer)), m_network(network) {}
    void before_delete();

    nvinfer1::LayerType getType() const noexcept override;

    GraphLayer layer;

private:
    Network& m_network;
};

class Network final : public Inner<nvinfer1::INetworkDefinition, nvinfer1::apiv::unserved::VNetworkDefinition> {
public:
    static constexpr char const* kKind = "INetworkDefinition";
    static constexpr char const* kInnerKind = "VNetworkDefinition";

    Network(Builder& builder, Voice const& voice, uint32_t flags);
    ~Network() override;

    int32_t getNbLayers() const noexcept override;
    nvinfer1::ILayer* getLayer(int32_t index) const noexcept override;
    int32_t getNbInputs() const noexcept override;
    nvinfer1::ITensor* getInput(int32_t index) const noexcept override;
    int32_t getNbOutputs() const noexcept override;
#if DOUBLE_API < 1000
    bool hasImplicitBatchDimension() const noexcept override;
#endif
    void setErrorRecorder(nvinfer1::IErrorRecorder* recorder) noexcept override;

    bool fill(Graph const& graph);
    bool is_strongly_typed() const;
    bool has_explicit_quantization() const;
    std::string const& name() const { return m_name; }

    using TensorObject = Object<nvinfer1::ITensor, Tensor>;
    using LayerObject = Object<nvinfer1::ILayer, Layer>;

    std::vector<TensorObject*> inputs;
    std::vector<TensorObject*> outputs;
    std::vector<LayerObject*> layers;
    bool is_going = false;
    Voice voice;

private:
    TensorObject* add(GraphTensor const& tensor, bool is_known);

    Builder& m_builder;
    uint32_t m_flags;
    std::string m_name;
    std::map<std::string, TensorObject*> m_tensors;
};

} // namespace doubles
