// SPDX-License-Identifier: Apache-2.0
// The double's plan: a format of its own, with the version in front and a checksum behind.
#include "plan.h"

#include <algorithm>

namespace doubles {

namespace {

constexpr char kMagic[8] = {'J', 'W', 'D', 'O', 'U', 'B', 'L', 'E'};

uint64_t checksum(char const* data, size_t size) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t at = 0; at < size; ++at) {
        hash = (hash ^ static_cast<unsigned char>(data[at])) * 0x100000001b3u;
    }
    return hash;
}

class Writer {
public:
    void number(int64_t value) {
        char bytes[8];
        std::memcpy(bytes, &value, 8);
        out.insert(out.end(), bytes, bytes + 8);
    }
    void string(std::string const& value) {
        number(static_cast<int64_t>(value.size()));
        out.insert(out.end(), value.begin(), value.end());
    }
    void strings(std::vector<std::string> const& values) {
        number(static_cast<int64_t>(values.size()));
        for (auto const& value : values) {
            string(value);
        }
    }
    void numbers(std::vector<int64_t> const& values) {
        number(static_cast<int64_t>(values.size()));
        for (int64_t const value : values) {
            number(value);
        }
    }

    std::vector<char> out;
};

class Reader {
public:
    Reader(char const* data, size_t size) : m_data(data), m_size(size) {}

    int64_t number() {
        int64_t value = 0;
        if (m_size - m_at < 8) {
            is_good = false;
            return 0;
        }
        std::memcpy(&value, m_data + m_at, 8);
        m_at += 8;
        return value;
    }
    size_t count() {
        int64_t const value = number();
        if (value < 0 || static_cast<uint64_t>(value) > m_size - m_at) {
            is_good = false;
            return 0;
        }
        return static_cast<size_t>(value);
    }
    std::string string() {
        size_t const length = count();
        std::string const value(m_data + m_at, length);
        m_at += length;
        return value;
    }
    std::vector<std::string> strings() {
        std::vector<std::string> values(count());
        for (auto& value : values) {
            value = string();
        }
        return values;
    }
    std::vector<int64_t> numbers() {
        std::vector<int64_t> values(count());
        for (auto& value : values) {
            value = number();
        }
        return values;
    }

    bool is_good = true;

private:
    char const* m_data;
    size_t m_size;
    size_t m_at = 0;
};

} // namespace

bool Plan::is_dynamic() const {
    for (auto const& tensor : tensors) {
        if (tensor.is_input && std::count(tensor.sizes.begin(), tensor.sizes.end(), -1) != 0) {
            return true;
        }
    }
    return false;
}

PlanTensor const* Plan::tensor(std::string const& name) const {
    for (auto const& tensor : tensors) {
        if (tensor.name == name) {
            return &tensor;
        }
    }
    return nullptr;
}

int32_t library_version() {
    return static_cast<int32_t>(NV_TENSORRT_VERSION);
}

std::string machine_capability() {
    return setting("CAPABILITY", "7.2");
}

std::vector<char> write_plan(Plan const& plan) {
    Writer body;
    body.string(plan.capability);
    body.string(plan.name);
    body.number(static_cast<int64_t>(plan.tensors.size()));
    for (auto const& tensor : plan.tensors) {
        body.string(tensor.name);
        body.number(tensor.is_input);
        body.number(static_cast<int64_t>(tensor.type));
        body.numbers(tensor.sizes);
        body.number(static_cast<int64_t>(tensor.ranges.size()));
        for (auto const& range : tensor.ranges) {
            body.numbers(range.min);
            body.numbers(range.opt);
            body.numbers(range.max);
        }
    }
    body.number(static_cast<int64_t>(plan.layers.size()));
    for (auto const& layer : plan.layers) {
        body.string(layer.name);
        body.string(layer.kind);
        body.string(layer.precision);
        body.string(layer.device);
        body.strings(layer.inputs);
        body.strings(layer.outputs);
    }
    body.number(plan.profiles);
    body.number(static_cast<int64_t>(plan.verbosity));
    body.number(plan.uses_dla);
    body.number(plan.device_memory);

    Writer out;
    out.out.assign(kMagic, kMagic + sizeof kMagic);
    out.number(library_version());
    out.number(static_cast<int64_t>(body.out.size()));
    out.out.insert(out.out.end(), body.out.begin(), body.out.end());
    out.number(static_cast<int64_t>(checksum(body.out.data(), body.out.size())));
    return out.out;
}

PlanRead read_plan(void const* data, size_t size, Plan& plan, int32_t& version) {
    char const* bytes = static_cast<char const*>(data);
    if (size < sizeof kMagic || std::memcmp(bytes, kMagic, sizeof kMagic) != 0) {
        return PlanRead::kNoPlan;
    }
    Reader head(bytes + sizeof kMagic, size - sizeof kMagic);
    version = static_cast<int32_t>(head.number());
    int64_t const length = head.number();
    if (!head.is_good) {
        return PlanRead::kDamaged;
    }
    if (version != library_version()) {
        return PlanRead::kOtherVersion;
    }
    size_t const before = sizeof kMagic + 16;
    if (length < 0 || size != before + static_cast<uint64_t>(length) + 8) {
        return PlanRead::kDamaged;
    }
    Reader tail(bytes + before + length, 8);
    if (static_cast<uint64_t>(tail.number()) != checksum(bytes + before, static_cast<size_t>(length))) {
        return PlanRead::kDamaged;
    }
    Reader body(bytes + before, static_cast<size_t>(length));
    plan.capability = body.string();
    plan.name = body.string();
    plan.tensors.resize(body.count());
    for (auto& tensor : plan.tensors) {
        tensor.name = body.string();
        tensor.is_input = body.number() != 0;
        tensor.type = static_cast<nvinfer1::DataType>(body.number());
        tensor.sizes = body.numbers();
        tensor.ranges.resize(body.count());
        for (auto& range : tensor.ranges) {
            range.min = body.numbers();
            range.opt = body.numbers();
            range.max = body.numbers();
        }
    }
    plan.layers.resize(body.count());
    for (auto& layer : plan.layers) {
        layer.name = body.string();
        layer.kind = body.string();
        layer.precision = body.string();
        layer.device = body.string();
        layer.inputs = body.strings();
        layer.outputs = body.strings();
    }
    plan.profiles = static_cast<int32_t>(body.number());
    plan.verbosity = static_cast<nvinfer1::ProfilingVerbosity>(body.number());
    plan.uses_dla = body.number() != 0;
    plan.device_memory = body.number();
    return body.is_good ? PlanRead::kGood : PlanRead::kDamaged;
}

} // namespace doubles
