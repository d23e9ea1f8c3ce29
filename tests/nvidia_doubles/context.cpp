// SPDX-License-Identifier: Apache-2.0
// IExecutionContext: shapes and addresses are checked as the vendor documents them, then the double's function runs.
#include "context.h"

#include <algorithm>

namespace doubles {

namespace {

bool is_known(std::vector<int64_t> const& sizes) {
    return std::count(sizes.begin(), sizes.end(), -1) == 0;
}

bool is_same_step(Step const& a, Step const& b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}

// kNONE is the least verbose, though its number is in the middle.
int rank(nvinfer1::ProfilingVerbosity verbosity) {
    switch (verbosity) {
    case nvinfer1::ProfilingVerbosity::kNONE: return 0;
    case nvinfer1::ProfilingVerbosity::kLAYER_NAMES_ONLY: return 1;
    default: return 2;
    }
}

} // namespace

Context::Context(Engine& engine) : m_engine(engine), m_voice(engine.voice()) {
    m_engine.children += 1;
    // Before profiles could be shared, only the first context got one without asking.
    if (Plan::kSharesProfiles || !m_engine.plan().is_dynamic()) {
        m_profile = 0;
    } else if (m_engine.take_profile(0)) {
        m_profile = 0;
        m_has_profile_alone = true;
    }
}

Context::~Context() {
    if (m_has_profile_alone) {
        m_engine.leave_profile(m_profile);
    }
    for (Job* const job : m_jobs) {
        job->is_dead = true;
    }
    m_engine.children -= 1;
}

void Context::before_delete() {
    if (m_is_busy) {
        wrong("IExecutionContext is deleted while another thread is in enqueueV3");
    }
}

PlanTensor const* Context::find(char const* name, char const* where) const {
    DOUBLE_ALIVE(where);
    std::string const wanted = name_argument(name, where);
    PlanTensor const* const tensor = m_engine.plan().tensor(wanted);
    if (tensor == nullptr) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("[executionContext.cpp::%s] Error Code 3: API Usage Error (%s: given invalid tensor name: %s)", where,
                where, wanted.c_str()));
    }
    return tensor;
}

Context::Sizes Context::shape(PlanTensor const& tensor) const {
    if (tensor.is_input) {
        auto const set = m_shapes.find(tensor.name);
        if (set != m_shapes.end()) {
            return set->second;
        }
        Sizes sizes = tensor.sizes;
        if (m_profile >= 0) {
            Range const& range = tensor.ranges[static_cast<size_t>(m_profile)];
            // A size that the profile leaves no choice is known without being set.
            for (size_t axis = 0; axis < sizes.size(); ++axis) {
                if (sizes[axis] == -1 && range.min[axis] == range.max[axis]) {
                    sizes[axis] = range.min[axis];
                }
            }
        }
        return sizes;
    }
    Sizes sizes = tensor.sizes;
    Sizes input;
    for (auto const& other : m_engine.plan().tensors) {
        if (other.is_input) {
            input = shape(other);
            break;
        }
    }
    if (!sizes.empty() && sizes[0] == -1 && !input.empty()) {
        sizes[0] = input[0];
    }
    bool const is_boxes = sizes.size() == 3 && sizes[1] == 5 && sizes[2] == -1;
    if (is_boxes && input.size() == 4 && input[2] != -1 && input[3] != -1) {
        sizes[2] = input[2] / kCell * (input[3] / kCell);
    }
    return sizes;
}

void Context::setProfiler(nvinfer1::IProfiler* profiler) noexcept {
    DOUBLE_ALIVE("IExecutionContext::setProfiler");
#if DOUBLE_API >= 1100
    if (profiler != nullptr) {
        must_be(profiler, "IProfiler", 1);
    }
#endif
    m_profiler = profiler;
}

bool Context::setOptimizationProfileAsync(int32_t profile, cudaStream_t) noexcept {
    DOUBLE_ALIVE("IExecutionContext::setOptimizationProfileAsync");
    Plan const& plan = m_engine.plan();
    if (profile < 0 || profile >= plan.profiles) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("IExecutionContext::setOptimizationProfileAsync: there is no profile %d, the engine has %d", profile,
                plan.profiles));
        return false;
    }
    if (profile == m_profile) {
        return true;
    }
    if (!Plan::kSharesProfiles && plan.is_dynamic()) {
        if (!m_engine.take_profile(profile)) {
            m_voice.error(ErrorCode::kINVALID_ARGUMENT,
                text("[executionContext.cpp::setOptimizationProfileInternal] Error Code 9: Internal Error (Profile %d has "
                     "been chosen by another IExecutionContext. Use another profileIndex or destroy the "
                     "IExecutionContext that use this profile.)", profile));
            return false;
        }
        if (m_has_profile_alone) {
            m_engine.leave_profile(m_profile);
        }
        m_has_profile_alone = true;
    }
    m_profile = profile;
    m_shapes.clear();
    return true;
}

void Context::setEnqueueEmitsProfile(bool emits) noexcept {
    DOUBLE_ALIVE("IExecutionContext::setEnqueueEmitsProfile");
    m_emits_profile = emits;
}

void Context::report_layers() const {
    auto const& layers = m_engine.plan().layers;
    for (auto const& layer : layers) {
        m_profiler->reportLayerTime(layer.name.c_str(), 1.0f / static_cast<float>(layers.size()));
    }
}

bool Context::reportToProfiler() const noexcept {
    DOUBLE_ALIVE("IExecutionContext::reportToProfiler");
    if (m_profiler == nullptr || !m_has_run) {
        m_voice.error(ErrorCode::kINVALID_STATE, "IExecutionContext::reportToProfiler: no profiler, or nothing ran yet");
        return false;
    }
    if (m_emits_profile) {
        return true;
    }
    if (!wait_for(m_stream)) {
        m_voice.error(ErrorCode::kINVALID_STATE, "IExecutionContext::reportToProfiler: the stream is being captured");
        return false;
    }
    report_layers();
    return true;
}

bool Context::setInputShape(char const* name, Dims const& dims) noexcept {
    char const* const where = "IExecutionContext::setInputShape";
    PlanTensor const* const tensor = find(name, where);
    Sizes const wanted = sizes(dims_argument(dims, where));
    if (tensor == nullptr) {
        return false;
    }
    if (!tensor->is_input) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT, text("%s: '%s' is no input", where, name));
        return false;
    }
    if (m_profile < 0) {
        m_voice.error(ErrorCode::kINVALID_STATE,
            text("%s: the context has no optimization profile: call setOptimizationProfileAsync first", where));
        return false;
    }
    if (wanted.size() != tensor->sizes.size()) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("%s: '%s' has %zu dimensions and not %zu", where, name, tensor->sizes.size(), wanted.size()));
        return false;
    }
    Range const& range = tensor->ranges[static_cast<size_t>(m_profile)];
    for (size_t axis = 0; axis < wanted.size(); ++axis) {
        bool const is_free = tensor->sizes[axis] == -1;
        int64_t const least = is_free ? range.min[axis] : tensor->sizes[axis];
        int64_t const most = is_free ? range.max[axis] : tensor->sizes[axis];
        if (wanted[axis] < least || wanted[axis] > most) {
            m_voice.error(ErrorCode::kINVALID_ARGUMENT,
                text("[executionContext.cpp::validateInputBindings] Error Code 3: API Usage Error (Parameter check failed, "
                     "condition: satisfyProfile. Set dimension %s for tensor %s does not satisfy any optimization profiles. "
                     "Valid range for profile %d: %s..%s.)", shown(dims).c_str(), name, m_profile,
                    shown(to_dims(range.min)).c_str(), shown(to_dims(range.max)).c_str()));
            return false;
        }
    }
    m_shapes[tensor->name] = wanted;
    return true;
}

Dims Context::getTensorShape(char const* name) const noexcept {
    PlanTensor const* const tensor = find(name, "IExecutionContext::getTensorShape");
    return tensor == nullptr ? Dims{-1, {}} : to_dims(shape(*tensor));
}

bool Context::setTensorAddress(char const* name, void* data) noexcept {
    char const* const where = "IExecutionContext::setTensorAddress";
    PlanTensor const* const tensor = find(name, where);
    if (tensor == nullptr) {
        return false;
    }
    if (reinterpret_cast<uintptr_t>(data) % 256 != 0) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("%s: the address %p of '%s' is not aligned to 256 bytes", where, data, name));
        return false;
    }
    m_addresses[tensor->name] = data;
    return true;
}

void const* Context::address(std::string const& tensor) const {
    auto const found = m_addresses.find(tensor);
    return found == m_addresses.end() ? nullptr : found->second;
}

int32_t Context::inferShapes(int32_t most, char const** names) noexcept {
    DOUBLE_ALIVE("IExecutionContext::inferShapes");
    if (most < 0 || (names == nullptr && most != 0)) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT, text("IExecutionContext::inferShapes: %d names have no place", most));
        return -1;
    }
    int32_t missing = 0;
    for (auto const& tensor : m_engine.plan().tensors) {
        if (tensor.is_input && !is_known(shape(tensor))) {
            if (missing < most) {
                names[missing] = tensor.name.c_str();
            }
            missing += 1;
        }
    }
    return missing;
}

Job const* Context::job() {
    Plan const& plan = m_engine.plan();
    if (m_profile < 0) {
        m_voice.error(ErrorCode::kINVALID_STATE,
            "[executionContext.cpp::enqueueV3] Error Code 9: no optimization profile has been set for this context");
        return nullptr;
    }
    PlanTensor const* input = nullptr;
    for (auto const& tensor : plan.tensors) {
        Sizes const sizes = shape(tensor);
        if (!is_known(sizes)) {
            m_voice.error(ErrorCode::kINVALID_STATE,
                text("[executionContext.cpp::enqueueV3] Error Code 3: API Usage Error (input tensor shapes are not all "
                     "specified: '%s' is %s)", tensor.name.c_str(), shown(to_dims(sizes)).c_str()));
            return nullptr;
        }
        void const* const memory = address(tensor.name);
        if (memory == nullptr) {
            m_voice.error(ErrorCode::kINVALID_STATE,
                text("[executionContext.cpp::enqueueV3] Error Code 3: API Usage Error (Neither address or allocator is set "
                     "for %s tensor %s. Call setTensorAddress before enqueue/execute.)",
                    tensor.is_input ? "input" : "output", tensor.name.c_str()));
            return nullptr;
        }
        std::string problem;
        if (!can_hold(memory, elements(sizes) * bytes_of(tensor.type), problem)) {
            wrong("enqueueV3: tensor '%s': %s", tensor.name.c_str(), problem.c_str());
        }
        if (tensor.is_input && input == nullptr) {
            input = &tensor;
        }
    }
    Job fresh;
    fresh.nanoseconds = static_cast<u64>(number("KERNEL_US", 0)) * 1000;
    for (auto const& tensor : plan.tensors) {
        if (tensor.is_input) {
            continue;
        }
        Step step{};
        Sizes const from = shape(*input);
        Sizes const to = shape(tensor);
        lay_out(step, from);
        step.input = reinterpret_cast<u64>(address(input->name));
        step.input_type = static_cast<i64>(input->type);
        step.output = reinterpret_cast<u64>(address(tensor.name));
        step.output_type = static_cast<i64>(tensor.type);
        // An output without a batch axis is computed from the first image only.
        int64_t all = 1;
        for (int64_t const size : to) {
            all *= size;
        }
        bool const has_batch = !to.empty() && to[0] == step.pictures;
        step.pictures = has_batch ? step.pictures : 1;
        step.elements = all / step.pictures;
        step.is_cells = from.size() == 4 && from[1] == 3 && to.size() == 3 && to[1] == 5
            && to[2] == from[2] / kCell * (from[3] / kCell) && to[2] > 0;
        fresh.steps.push_back(step);
    }
    // The same work again is the same job: a context that runs for days keeps only a few.
    for (Job const* const known : m_jobs) {
        if (known->nanoseconds == fresh.nanoseconds && known->steps.size() == fresh.steps.size()
            && std::equal(known->steps.begin(), known->steps.end(), fresh.steps.begin(), is_same_step)) {
            return known;
        }
    }
    m_jobs.push_back(new Job(fresh));
    return m_jobs.back();
}

bool Context::enqueueV3(cudaStream_t stream) noexcept {
    DOUBLE_ALIVE("IExecutionContext::enqueueV3");
    if (m_is_busy.exchange(true)) {
        wrong("IExecutionContext::enqueueV3 is called by two threads at once");
    }
    bool const is_done = enqueue(stream);
    m_is_busy = false;
    return is_done;
}

bool Context::enqueue(cudaStream_t stream) {
    if (shall_fail("enqueue")) {
        m_voice.error(ErrorCode::kFAILED_EXECUTION,
            "[executionContext.cpp::enqueueInternal] Error Code 1: Cask (Cask convolution execution)");
        return false;
    }
    if (stream == nullptr && has_libcuda()) {
        m_voice.log(Severity::kWARNING,
            "Using default stream in enqueueV3() may lead to performance issues due to additional calls to "
            "cudaStreamSynchronize() by TensorRT to ensure correct synchronization. Please use non-default stream instead.");
    }
    Job const* const work = job();
    if (work == nullptr) {
        return false;
    }
    std::string problem;
    if (!launch(*work, stream, problem)) {
        m_voice.error(ErrorCode::kFAILED_EXECUTION, problem);
        return false;
    }
    m_has_run = true;
    m_stream = stream;
    // A stream that is being captured has not run: its times are reported later.
    if (m_profiler != nullptr && m_emits_profile && wait_for(stream)) {
        report_layers();
    }
    return true;
}

bool Context::setNvtxVerbosity(nvinfer1::ProfilingVerbosity verbosity) noexcept {
    DOUBLE_ALIVE("IExecutionContext::setNvtxVerbosity");
    known(verbosity, "IExecutionContext::setNvtxVerbosity", "ProfilingVerbosity");
    if (rank(verbosity) > rank(m_engine.plan().verbosity)) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            "IExecutionContext::setNvtxVerbosity: the verbosity is higher than the one that the engine was built with");
        return false;
    }
    return true;
}

} // namespace doubles
