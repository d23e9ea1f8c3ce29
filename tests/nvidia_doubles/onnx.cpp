// SPDX-License-Identifier: Apache-2.0
// Reads the few fields of ONNX's protocol buffers that the double needs; the numbers are those of onnx.proto.
#include "onnx.h"

namespace doubles {

namespace {

/// One message: goes through its fields one by one.
class Message {
public:
    Message(unsigned char const* data, size_t size) : m_at(data), m_end(data + size) {}

    /// Goes to the next field; false at the end or when the bytes make no sense (then is_good is false).
    bool next() {
        if (m_at == m_end || !is_good) {
            return false;
        }
        uint64_t const key = varint();
        field = key >> 3;
        kind = static_cast<int>(key & 7);
        switch (kind) {
        case 0: value = varint(); break;
        case 1: skip(8); break;
        case 5: skip(4); break;
        case 2: skip(varint()); break;
        default: is_good = false;
        }
        if (field == 0) {
            is_good = false;
        }
        return is_good;
    }

    std::string string() const { return std::string(reinterpret_cast<char const*>(bytes), length); }
    Message message() const { return Message(bytes, length); }

    bool is_good = true;
    uint64_t field = 0;
    int kind = 0;
    uint64_t value = 0;
    unsigned char const* bytes = nullptr;
    size_t length = 0;

private:
    uint64_t varint() {
        uint64_t out = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            if (m_at == m_end) {
                break;
            }
            unsigned char const byte = *m_at++;
            out |= static_cast<uint64_t>(byte & 127) << shift;
            if ((byte & 128) == 0) {
                return out;
            }
        }
        is_good = false;
        return 0;
    }

    void skip(uint64_t count) {
        if (!is_good || count > static_cast<uint64_t>(m_end - m_at)) {
            is_good = false;
            return;
        }
        bytes = m_at;
        length = static_cast<size_t>(count);
        m_at += count;
    }

    unsigned char const* m_at;
    unsigned char const* m_end;
};

// TensorShapeProto: dim = 1 { dim_value = 1, dim_param = 2 }.
bool read_shape(Message shape, std::vector<int64_t>& sizes) {
    while (shape.next()) {
        if (shape.field == 1 && shape.kind == 2) {
            int64_t size = -1;
            Message dimension = shape.message();
            while (dimension.next()) {
                if (dimension.field == 1 && dimension.kind == 0) {
                    size = static_cast<int64_t>(dimension.value);
                }
            }
            // Exporters write 0 and -1 for sizes that are not fixed.
            sizes.push_back(size <= 0 ? -1 : size);
            if (!dimension.is_good) {
                return false;
            }
        }
    }
    return shape.is_good;
}

// ValueInfoProto: name = 1, type = 2 { tensor_type = 1 { elem_type = 1, shape = 2 } }.
bool read_value(Message value, OnnxTensor& tensor) {
    while (value.next()) {
        if (value.field == 1 && value.kind == 2) {
            tensor.name = value.string();
        } else if (value.field == 2 && value.kind == 2) {
            Message type = value.message();
            while (type.next()) {
                if (type.field != 1 || type.kind != 2) {
                    continue;
                }
                Message of_tensor = type.message();
                while (of_tensor.next()) {
                    if (of_tensor.field == 1 && of_tensor.kind == 0) {
                        tensor.type = static_cast<int32_t>(of_tensor.value);
                    } else if (of_tensor.field == 2 && of_tensor.kind == 2 && !read_shape(of_tensor.message(), tensor.sizes)) {
                        return false;
                    }
                }
                if (!of_tensor.is_good) {
                    return false;
                }
            }
            if (!type.is_good) {
                return false;
            }
        }
    }
    return value.is_good;
}

// NodeProto: input = 1, output = 2, name = 3, op_type = 4.
bool read_node(Message message, OnnxNode& node) {
    while (message.next()) {
        if (message.kind != 2) {
            continue;
        }
        switch (message.field) {
        case 1: node.inputs.push_back(message.string()); break;
        case 2: node.outputs.push_back(message.string()); break;
        case 3: node.name = message.string(); break;
        case 4: node.operation = message.string(); break;
        default: break;
        }
    }
    return message.is_good;
}

// TensorProto: data_type = 2, name = 8.
bool read_weight(Message message, OnnxModel& model) {
    std::string name;
    int32_t type = 0;
    while (message.next()) {
        if (message.field == 2 && message.kind == 0) {
            type = static_cast<int32_t>(message.value);
        } else if (message.field == 8 && message.kind == 2) {
            name = message.string();
        }
    }
    model.weights[name] = type;
    return message.is_good;
}

// GraphProto: node = 1, name = 2, initializer = 5, input = 11, output = 12.
bool read_graph(Message message, OnnxModel& model) {
    bool is_good = true;
    while (is_good && message.next()) {
        if (message.kind != 2) {
            continue;
        }
        switch (message.field) {
        case 1:
            model.nodes.emplace_back();
            is_good = read_node(message.message(), model.nodes.back());
            break;
        case 2: model.graph_name = message.string(); break;
        case 5: is_good = read_weight(message.message(), model); break;
        case 11:
            model.inputs.emplace_back();
            is_good = read_value(message.message(), model.inputs.back());
            break;
        case 12:
            model.outputs.emplace_back();
            is_good = read_value(message.message(), model.outputs.back());
            break;
        default: break;
        }
    }
    return is_good && message.is_good;
}

} // namespace

// ModelProto: ir_version = 1, producer_name = 2, graph = 7, opset_import = 8 { domain = 1, version = 2 }.
bool read_onnx(void const* data, size_t size, OnnxModel& model) {
    Message message(static_cast<unsigned char const*>(data), size);
    bool has_graph = false;
    while (message.next()) {
        if (message.field == 1 && message.kind == 0) {
            model.ir_version = static_cast<int64_t>(message.value);
        } else if (message.field == 2 && message.kind == 2) {
            model.producer = message.string();
        } else if (message.field == 7 && message.kind == 2) {
            has_graph = read_graph(message.message(), model);
            if (!has_graph) {
                return false;
            }
        } else if (message.field == 8 && message.kind == 2) {
            std::string domain;
            int64_t version = 0;
            Message set = message.message();
            while (set.next()) {
                if (set.field == 1 && set.kind == 2) {
                    domain = set.string();
                } else if (set.field == 2 && set.kind == 0) {
                    version = static_cast<int64_t>(set.value);
                }
            }
            if (domain.empty() || domain == "ai.onnx") {
                model.opset = version;
            }
        }
    }
    return message.is_good && has_graph && model.ir_version > 0;
}

} // namespace doubles
