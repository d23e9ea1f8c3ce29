// SPDX-License-Identifier: Apache-2.0
// IHostMemory, IRuntime and the library's own functions.
#include "runtime.h"

#include "engine.h"

namespace doubles {

void* HostMemory::data() const noexcept {
    DOUBLE_ALIVE("IHostMemory::data");
    return const_cast<char*>(m_bytes.data());
}

std::size_t HostMemory::size() const noexcept {
    DOUBLE_ALIVE("IHostMemory::size");
    return m_bytes.size();
}

nvinfer1::IHostMemory* host_memory(std::vector<char> bytes) {
    return new Object<nvinfer1::IHostMemory, HostMemory>(std::move(bytes));
}

int32_t dla_cores() {
    return number("DLA_CORES", 0);
}

void Runtime::before_delete() {
    if (engines != 0) {
        wrong("IRuntime is deleted before %d of its engines", engines.load());
    }
}

#if DOUBLE_API >= 1000
nvinfer1::ICudaEngine* Runtime::deserializeCudaEngine(void const* blob, std::size_t size) noexcept {
    DOUBLE_ALIVE("IRuntime::deserializeCudaEngine");
    return deserialize(blob, size);
}
#else
nvinfer1::ICudaEngine* Runtime::deserializeCudaEngine(
    void const* blob, std::size_t size, nvinfer1::IPluginFactory* factory) noexcept {
    DOUBLE_ALIVE("IRuntime::deserializeCudaEngine");
    if (factory != nullptr) {
        wrong("IRuntime::deserializeCudaEngine: the third argument must be null and is %p", static_cast<void*>(factory));
    }
    return deserialize(blob, size);
}
#endif

nvinfer1::ICudaEngine* Runtime::deserialize(void const* blob, std::size_t size) {
    if (blob == nullptr || size == 0) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("[runtime.cpp::deserializeCudaEngine] Error Code 3: API Usage Error (Parameter check failed, condition: "
                 "%s)", blob == nullptr ? "(blob) != nullptr" : "(size) != 0"));
        return nullptr;
    }
    if (size > (std::size_t{1} << 40)) {
        wrong("IRuntime::deserializeCudaEngine: the size is %zu", size);
    }
    m_voice.log(Severity::kINFO, text("Loaded engine size: %zu MiB", size >> 20));
    if (shall_fail("deserialize")) {
        m_voice.error(ErrorCode::kINTERNAL_ERROR,
            "[defaultAllocator.cpp::allocate] Error Code 1: Cuda Runtime (out of memory)");
        return nullptr;
    }
    Plan plan;
    int32_t version = 0;
    switch (read_plan(blob, size, plan, version)) {
    case PlanRead::kGood: break;
    case PlanRead::kNoPlan:
        m_voice.error(ErrorCode::kUNSPECIFIED_ERROR,
            "[runtime.cpp::parsePlan] Error Code 1: Serialization (Serialization assertion plan->header.magicTag == "
            "rt::kPLAN_MAGIC_TAG failed.)");
        return nullptr;
    case PlanRead::kOtherVersion:
        m_voice.error(ErrorCode::kUNSPECIFIED_ERROR,
            text("[stdArchiveReader.cpp::stdArchiveReaderInitCommon] Error Code 1: Serialization (Serialization assertion "
                 "stdVersionRead == kSERIALIZATION_VERSION failed. Version tag does not match. Note: Current Version: %d, "
                 "Serialized Engine Version: %d)", library_version(), version));
        return nullptr;
    case PlanRead::kDamaged:
        m_voice.error(ErrorCode::kUNSPECIFIED_ERROR,
            "[runtime.cpp::parsePlan] Error Code 1: Serialization (Serialization assertion plan->header.size == blobSize "
            "failed. The plan is truncated or damaged.)");
        return nullptr;
    }
    std::string const capability = machine_capability();
    if (plan.capability != capability) {
        m_voice.error(ErrorCode::kINVALID_CONFIG,
            text("The engine plan file is generated on an incompatible device, expecting compute %s got compute %s, "
                 "please rebuild.", capability.c_str(), plan.capability.c_str()));
        return nullptr;
    }
    if (plan.uses_dla && dla_cores() == 0) {
        m_voice.error(ErrorCode::kINVALID_STATE, "The engine needs a DLA core, and this machine has none.");
        return nullptr;
    }
    if (plan.uses_dla && m_core < 0) {
        m_voice.log(Severity::kWARNING, "No DLA core was set: core 0 is taken.");
    }
    std::string problem;
    if (!prepare_device(problem)) {
        m_voice.error(ErrorCode::kFAILED_INITIALIZATION, problem);
        return nullptr;
    }
    return new Object<nvinfer1::ICudaEngine, Engine>(std::move(plan), m_voice, this);
}

void Runtime::setDLACore(int32_t core) noexcept {
    DOUBLE_ALIVE("IRuntime::setDLACore");
    if (core < 0 || core >= dla_cores()) {
        m_voice.error(ErrorCode::kINVALID_ARGUMENT,
            text("IRuntime::setDLACore: there is no DLA core %d, the machine has %d", core, dla_cores()));
        return;
    }
    m_core = core;
}

int32_t Runtime::getNbDLACores() const noexcept {
    DOUBLE_ALIVE("IRuntime::getNbDLACores");
    return dla_cores();
}

void Runtime::setErrorRecorder(nvinfer1::IErrorRecorder* recorder) noexcept {
    DOUBLE_ALIVE("IRuntime::setErrorRecorder");
    m_voice.set_recorder(recorder);
}

nvinfer1::ILogger* checked_logger(void* logger, int32_t version, char const* where) {
    if (logger == nullptr) {
        wrong("%s: the logger is null", where);
    }
    auto* const given = static_cast<nvinfer1::ILogger*>(logger);
#if DOUBLE_VERSIONED_LOGGER
    must_be(given, "ILogger", 1);
#endif
    // The header's version need not be the library's, but its major number must.
    int32_t const unit = version >= 10000 ? 10000 : 1000;
    if (version <= 0 || version / unit != NV_TENSORRT_MAJOR) {
        given->log(Severity::kERROR,
            text("%s: the header's version %d does not fit this library, which is version %d", where, version,
                library_version()).c_str());
        return nullptr;
    }
    return given;
}

} // namespace doubles

extern "C" void* createInferRuntime_INTERNAL(void* logger, int32_t version) noexcept {
    using namespace doubles;
    nvinfer1::ILogger* const checked = checked_logger(logger, version, "createInferRuntime");
    if (checked == nullptr) {
        return nullptr;
    }
    Voice const voice(checked);
    voice.log_all("createInferRuntime");
    if (shall_fail("runtime")) {
        voice.error(ErrorCode::kFAILED_INITIALIZATION,
            "CUDA initialization failure with error: 35. Please check your CUDA installation");
        return nullptr;
    }
    voice.log(Severity::kINFO, "[MemUsageChange] Init CUDA: CPU +0, GPU +0, now: CPU 1, GPU 1 (MiB)");
    // The user casts the pointer to IRuntime*.
    return static_cast<nvinfer1::IRuntime*>(new Object<nvinfer1::IRuntime, Runtime>(checked));
}

extern "C" int32_t getInferLibVersion() noexcept {
    return doubles::library_version();
}
