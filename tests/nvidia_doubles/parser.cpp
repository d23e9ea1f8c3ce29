// SPDX-License-Identifier: Apache-2.0
// nvonnxparser::IParser: a library of its own, as the vendor's is, on top of the double of libnvinfer.
#include <memory>

#include "onnx.h"
#include "plan.h"

namespace doubles {

namespace {

/// One error of a parse; belongs to its parser.
class ParserError final : public nvonnxparser::unserved::IParserError {
public:
    ParserError(std::string description, int node, std::string name, std::string operation)
        : m_description(std::move(description)), m_node(node), m_name(std::move(name)), m_operation(std::move(operation)) {
        born(this, "IParserError");
    }
    ~ParserError() override { died(this, "IParserError"); }
    static void operator delete(void* memory) noexcept { bury(memory); }

    char const* desc() const noexcept override { return alive("desc").m_description.c_str(); }
    int node() const noexcept override { return alive("node").m_node; }
#if DOUBLE_API >= 1000
    char const* nodeName() const noexcept override { return alive("nodeName").m_name.c_str(); }
    char const* nodeOperator() const noexcept override { return alive("nodeOperator").m_operation.c_str(); }
#endif

private:
    ParserError const& alive(char const* method) const {
        must_live(this, "IParserError", method);
        return *this;
    }

    std::string m_description;
    int m_node;
    std::string m_name;
    std::string m_operation;
};

class Parser final : public nvonnxparser::unserved::IParser {
public:
    static constexpr char const* kInnerKind = "IParser";

    Parser(nvinfer1::INetworkDefinition* network, nvinfer1::ILogger* logger) : m_network(network), m_voice(logger) {
        born(this, kInnerKind);
        count_made(kInnerKind);
    }
    ~Parser() noexcept override { died(this, kInnerKind); }
    static void operator delete(void* memory) noexcept {
        count_deleted(kInnerKind);
        bury(memory);
    }

    bool parse(void const* data, size_t size, char const* path) noexcept override {
        DOUBLE_ALIVE("IParser::parse");
        check_bytes(data, size, "IParser::parse");
        if (path != nullptr) {
            name_argument(path, "IParser::parse");
        }
        return import(data, size);
    }

    int getNbErrors() const noexcept override {
        DOUBLE_ALIVE("IParser::getNbErrors");
        return static_cast<int>(m_errors.size());
    }

    nvonnxparser::IParserError const* getError(int index) const noexcept override {
        DOUBLE_ALIVE("IParser::getError");
        if (index < 0 || static_cast<size_t>(index) >= m_errors.size()) {
            wrong("IParser::getError: there is no error %d among %zu", index, m_errors.size());
        }
        return m_errors[static_cast<size_t>(index)].get();
    }

private:
    static bool is_supported(std::string const& operation) { return operation.rfind("Unsupported", 0) != 0; }

    static void check_bytes(void const* data, size_t size, char const* where) {
        if (data == nullptr || size > (size_t{1} << 40)) {
            wrong("%s: %zu bytes lie at %p", where, size, data);
        }
    }

    void fail(std::string const& description, int node = -1, OnnxNode const& at = {}) {
        m_voice.log(Severity::kERROR, "ModelImporter.cpp:726: ERROR: " + description);
        m_errors.push_back(std::make_unique<ParserError>(description, node, at.name, at.operation));
    }

    bool convert(OnnxTensor const& from, GraphTensor& to) {
        using nvinfer1::DataType;
        to.name = from.name;
        to.sizes = from.sizes;
        switch (from.type) {
        case 1: to.type = DataType::kFLOAT; return true;
        case 2: to.type = DataType::kUINT8; return true;
        case 3: to.type = DataType::kINT8; return true;
        case 6: to.type = DataType::kINT32; return true;
        case 9: to.type = DataType::kBOOL; return true;
        case 10: to.type = DataType::kHALF; return true;
        case 7:
#if DOUBLE_API >= 1000
            to.type = DataType::kINT64;
#else
            m_voice.log(Severity::kWARNING,
                "Your ONNX model has been generated with INT64 weights, while TensorRT does not natively support INT64. "
                "Attempting to cast down to INT32.");
            to.type = DataType::kINT32;
#endif
            return true;
        default:
            fail(text("Tensor '%s' has the ONNX data type %d, which is not supported", from.name.c_str(), from.type));
            return false;
        }
    }

    bool import(void const* data, size_t size) {
        if (!lives(m_network, "INetworkDefinition")) {
            wrong("IParser::parse: the parser's network is gone");
        }
        OnnxModel model;
        if (!read_onnx(data, size, model)) {
            fail("Failed to parse the ONNX model: the bytes are no ModelProto");
            return false;
        }
#if DOUBLE_API < 1000
        if (m_network->hasImplicitBatchDimension()) {
            fail("This version of the ONNX parser only supports TensorRT INetworkDefinitions with an explicit batch dimension. "
                "Please ensure the network was created using the EXPLICIT_BATCH NetworkDefinitionCreationFlag.");
            return false;
        }
#endif
        m_voice.log(Severity::kINFO,
            text("ONNX IR version: %lld, opset: %lld, producer: %s", static_cast<long long>(model.ir_version),
                static_cast<long long>(model.opset), model.producer.c_str()));
        Graph graph;
        graph.name = model.graph_name;
        for (OnnxTensor const& tensor : model.inputs) {
            // Old files list weights among the inputs.
            if (model.weights.count(tensor.name) == 0) {
                graph.inputs.emplace_back();
                if (!convert(tensor, graph.inputs.back())) {
                    return false;
                }
            }
        }
        for (OnnxTensor const& tensor : model.outputs) {
            graph.outputs.emplace_back();
            if (!convert(tensor, graph.outputs.back())) {
                return false;
            }
        }
        for (size_t index = 0; index < model.nodes.size(); ++index) {
            OnnxNode const& node = model.nodes[index];
            if (!is_supported(node.operation)) {
                m_voice.log(Severity::kINFO,
                    "No importer registered for op: " + node.operation + ". Attempting to import as plugin.");
                fail("No importer registered for op: " + node.operation
                        + ". Plugin not found, are the plugin name, version, and namespace correct?",
                    static_cast<int>(index), node);
                return false;
            }
            auto const weight = node.inputs.empty() ? model.weights.end() : model.weights.find(node.inputs[0]);
            bool const is_int32 = weight != model.weights.end() && weight->second == 6;
            if (node.operation == "DequantizeLinear" && is_int32) {
                fail("DequantizeLinear: the input '" + node.inputs[0] + "' must have type FP8, FP4, Int4, Int8, or UInt8",
                    static_cast<int>(index), node);
                return false;
            }
            std::string const name = node.name.empty() ? text("(Unnamed Layer* %zu)", index) : node.name;
            graph.layers.push_back({name, node.operation, node.inputs, node.outputs});
        }
        if (!fill_network(*m_network, graph)) {
            fail("The network holds something already: a parser fills empty networks only");
            return false;
        }
        return true;
    }

    nvinfer1::INetworkDefinition* m_network;
    Voice m_voice;
    std::vector<std::unique_ptr<ParserError>> m_errors;
};

} // namespace

} // namespace doubles

extern "C" void* createNvOnnxParser_INTERNAL(void* network, void* logger, int version) noexcept {
    using namespace doubles;
    auto* const given = static_cast<nvinfer1::INetworkDefinition*>(network);
    must_live(given, "INetworkDefinition", "createNvOnnxParser");
    if (logger == nullptr) {
        wrong("createNvOnnxParser: the logger is null");
    }
    auto* const voice = static_cast<nvinfer1::ILogger*>(logger);
#if DOUBLE_VERSIONED_LOGGER
    must_be(voice, "ILogger", 1);
#endif
    // The vendor's parser has versions of its own, 0.1.0 and 0.2.0, and takes any.
    if (version <= 0 || version >= 1000) {
        wrong("createNvOnnxParser: %d is no version of the parser, which is %d", version, NV_ONNX_PARSER_VERSION);
    }
    if (shall_fail("parser")) {
        voice->log(Severity::kERROR, "createNvOnnxParser: out of memory");
        return nullptr;
    }
    // The user casts the pointer to IParser*.
    return static_cast<nvonnxparser::IParser*>(new Parser(given, voice));
}

extern "C" int getNvOnnxParserVersion() noexcept {
    return NV_ONNX_PARSER_VERSION;
}
