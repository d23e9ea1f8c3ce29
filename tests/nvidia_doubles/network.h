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

    void setName(char const* name) noexcept override;
    char const* getName() const noexcept override;
    void setDimensions(DimsArgument dims) noexcept override;
    Dims getDimensions() const noexcept override;
    nvinfer1::DataType getType() const noexcept override;
    bool isNetworkInput() const noexcept override;
    bool isNetworkOutput() const noexcept override;
    void setAllowedFormats(nvinfer1::TensorFormats formats) noexcept override;
    nvinfer1::TensorFormats getAllowedFormats() const noexcept override;
    bool isShapeTensor() const noexcept override;
    bool isExecutionTensor() const noexcept override;
#if !DOUBLE_RTX
    nvinfer1::TensorLocation getLocation() const noexcept override;
#endif
#if DOUBLE_API < 1100
    void setType(nvinfer1::DataType type) noexcept override;
    bool setDynamicRange(float min, float max) noexcept override;
    bool dynamicRangeIsSet() const noexcept override;
    void resetDynamicRange() noexcept override;
    float getDynamicRangeMin() const noexcept override;
    float getDynamicRangeMax() const noexcept override;
#endif

    GraphTensor tensor;
    bool is_input = false;
    bool is_output = false;
    bool has_range = false;

private:
    Network& m_network;
    /// Whether the double knows the shape: it infers none of the tensors within the network.
    bool m_is_known;
    nvinfer1::TensorFormats m_formats;
    float m_min = 0;
    float m_max = 0;
};

class Layer final : public Inner<nvinfer1::ILayer, nvinfer1::apiv::unserved::VLayer> {
public:
    static constexpr char const* kKind = "ILayer";
    static constexpr char const* kInnerKind = "VLayer";
    static constexpr bool kIsUsers = false;

    Layer(Network& network, GraphLayer layer) : layer(std::move(layer)), m_network(network) {}
    void before_delete();

    nvinfer1::LayerType getType() const noexcept override;
    void setName(char const* name) noexcept override;
    char const* getName() const noexcept override;
    int32_t getNbInputs() const noexcept override;
    nvinfer1::ITensor* getInput(int32_t index) const noexcept override;
    int32_t getNbOutputs() const noexcept override;
    nvinfer1::ITensor* getOutput(int32_t index) const noexcept override;
#if DOUBLE_API < 1100
    void setPrecision(nvinfer1::DataType type) noexcept override;
    nvinfer1::DataType getPrecision() const noexcept override;
    bool precisionIsSet() const noexcept override;
    void resetPrecision() noexcept override;
#endif

    GraphLayer layer;
    bool has_precision = false;
    nvinfer1::DataType precision = nvinfer1::DataType::kFLOAT;

private:
    Network& m_network;
};

class Network final : public Inner<nvinfer1::INetworkDefinition, nvinfer1::apiv::unserved::VNetworkDefinition> {
public:
    static constexpr char const* kKind = "INetworkDefinition";
    static constexpr char const* kInnerKind = "VNetworkDefinition";

    Network(Builder& builder, Voice const& voice, uint32_t flags);
    ~Network() override;

    nvinfer1::ITensor* addInput(char const* name, nvinfer1::DataType type, DimsArgument dims) noexcept override;
    void markOutput(nvinfer1::ITensor& tensor) noexcept override;
    int32_t getNbLayers() const noexcept override;
    nvinfer1::ILayer* getLayer(int32_t index) const noexcept override;
    int32_t getNbInputs() const noexcept override;
    nvinfer1::ITensor* getInput(int32_t index) const noexcept override;
    int32_t getNbOutputs() const noexcept override;
    nvinfer1::ITensor* getOutput(int32_t index) const noexcept override;
    void setName(char const* name) noexcept override;
    char const* getName() const noexcept override;
    bool hasImplicitBatchDimension() const noexcept override;
    void setErrorRecorder(nvinfer1::IErrorRecorder* recorder) noexcept override;
    nvinfer1::IErrorRecorder* getErrorRecorder() const noexcept override;
#if DOUBLE_API >= 806
    nvinfer1::IBuilder& getBuilder() const noexcept override;
#endif
#if DOUBLE_API >= 1000
    nvinfer1::NetworkDefinitionCreationFlags getFlags() const noexcept override;
    bool getFlag(nvinfer1::NetworkDefinitionCreationFlag flag) const noexcept override;
#endif

    bool fill(Graph const& graph);
    bool is_strongly_typed() const;
    bool has_explicit_quantization() const;
    Tensor* tensor(std::string const& name) const;

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
