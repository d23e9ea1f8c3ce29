// SPDX-License-Identifier: Apache-2.0
//! Vtable slots of all called methods, by generation, with the first version of each.
//!
//! Taken from the public headers of 8.5.2, 8.6.1, 10.0.1, 10.3.0, 10.7.0, 10.13.3, 10.16, 11.0, 11.1, 11.4 and TensorRT-RTX 1.7
//! (`NvInferImpl.h`): the first declared method of an implementation has slot 2, after two destructors. Columns are
//! generation 8, 10, 11 and TensorRT-RTX. `tests/nvidia_doubles` checks them against classes compiled from those headers.

use super::method::{Method, NONE, at};

macro_rules! methods {
    ($($constant:ident = $name:literal [$($slot:expr),+];)+) => {
        $(pub(super) const $constant: Method = Method::new($name, [$($slot),+]);)+
    };
}

methods! {
    RUNTIME_DESERIALIZE = "IRuntime::deserializeCudaEngine" [at(2), at(3), at(3), at(3)];
    RUNTIME_SET_DLA_CORE = "IRuntime::setDLACore" [at(3), at(5), at(4), at(4)];
    RUNTIME_DLA_CORES = "IRuntime::getNbDLACores" [at(5), at(7), at(6), at(6)];
    RUNTIME_SET_ERROR_RECORDER = "IRuntime::setErrorRecorder" [at(7), at(9), at(8), at(8)];

    ENGINE_LAYERS = "ICudaEngine::getNbLayers" [at(9), at(3), at(3), at(3)];
    ENGINE_NAME = "ICudaEngine::getName" [at(21), at(9), at(7), at(7)];
    ENGINE_PROFILES = "ICudaEngine::getNbOptimizationProfiles" [at(22), at(10), at(8), at(8)];
    ENGINE_INSPECTOR = "ICudaEngine::createEngineInspector" [at(33), at(18), at(14), at(14)];
    ENGINE_CREATE_CONTEXT = "ICudaEngine::createExecutionContext" [at(11), at(5), at(5), at(5)];
    ENGINE_TENSORS = "ICudaEngine::getNbIOTensors" [at(45), at(30), at(26), at(26)];
    ENGINE_TENSOR_NAME = "ICudaEngine::getIOTensorName" [at(46), at(31), at(27), at(27)];
    ENGINE_TENSOR_SHAPE = "ICudaEngine::getTensorShape" [at(34), at(19), at(15), at(15)];
    ENGINE_TENSOR_TYPE = "ICudaEngine::getTensorDataType" [at(35), at(20), at(16), at(16)];
    ENGINE_TENSOR_MODE = "ICudaEngine::getTensorIOMode" [at(38), at(23), at(19), at(19)];
    ENGINE_TENSOR_COMPONENTS = "ICudaEngine::getTensorComponentsPerElement" [at(40), at(25), at(21), at(21)];
    ENGINE_TENSOR_FORMAT = "ICudaEngine::getTensorFormat" [at(41), at(26), at(22), at(22)];
    ENGINE_TENSOR_FORMAT_TEXT = "ICudaEngine::getTensorFormatDesc" [at(42), at(27), at(23), at(23)];
    ENGINE_TENSOR_VECTORIZED = "ICudaEngine::getTensorVectorizedDim" [at(43), at(28), at(24), at(24)];
    ENGINE_PROFILE_SHAPE = "ICudaEngine::getProfileShape" [at(44), at(29), at(25), at(25)];
    ENGINE_MEMORY = "ICudaEngine::getDeviceMemorySize" [at(14), at(7), NONE, NONE];
    ENGINE_MEMORY_V2 = "ICudaEngine::getDeviceMemorySizeV2" [NONE, at(52).since(10, 1), at(44), at(44)];

    CONTEXT_SET_PROFILER = "IExecutionContext::setProfiler" [at(6), at(5), at(5), at(5)];
    CONTEXT_SET_PROFILE = "IExecutionContext::setOptimizationProfileAsync" [at(25), at(17), at(16), at(16)];
    CONTEXT_SET_EMITS_PROFILE = "IExecutionContext::setEnqueueEmitsProfile" [at(26), at(18), at(17), at(17)];
    CONTEXT_REPORT_PROFILE = "IExecutionContext::reportToProfiler" [at(28), at(20), at(19), at(19)];
    CONTEXT_SET_INPUT_SHAPE = "IExecutionContext::setInputShape" [at(29), at(21), at(20), at(20)];
    CONTEXT_TENSOR_SHAPE = "IExecutionContext::getTensorShape" [at(30), at(22), at(21), at(21)];
    CONTEXT_SET_ADDRESS = "IExecutionContext::setTensorAddress" [at(32), at(24), at(23), at(23)];
    CONTEXT_INFER_SHAPES = "IExecutionContext::inferShapes" [at(35), at(28), at(27), at(27)];
    CONTEXT_ENQUEUE = "IExecutionContext::enqueueV3" [at(44), at(37), at(36), at(36)];
    CONTEXT_SET_NVTX = "IExecutionContext::setNvtxVerbosity" [at(47), at(40), at(39), at(39)];

    INSPECTOR_ENGINE = "IEngineInspector::getEngineInformation" [at(5), at(6), at(6), at(6)];

    BUILDER_DLA_CORES = "IBuilder::getNbDLACores" [at(7), at(5), at(3), at(3)];
    BUILDER_CREATE_CONFIG = "IBuilder::createBuilderConfig" [at(9), at(7), at(5), at(5)];
    BUILDER_CREATE_NETWORK = "IBuilder::createNetworkV2" [at(11), at(8), at(6), at(6)];
    BUILDER_CREATE_PROFILE = "IBuilder::createOptimizationProfile" [at(12), at(9), at(7), at(7)];
    BUILDER_SET_ERROR_RECORDER = "IBuilder::setErrorRecorder" [at(13), at(10), at(8), at(8)];
    BUILDER_BUILD = "IBuilder::buildSerializedNetwork" [at(17), at(14), at(11), at(11)];

    CONFIG_SET_CALIBRATOR = "IBuilderConfig::setInt8Calibrator" [at(8), at(6), NONE, NONE];
    CONFIG_SET_CALIBRATION_PROFILE = "IBuilderConfig::setCalibrationProfile" [at(35), at(31), NONE, NONE];
    CONFIG_SET_FLAG = "IBuilderConfig::setFlag" [at(15), at(11), at(9), at(9)];
    CONFIG_SET_DLA_CORE = "IBuilderConfig::setDLACore" [at(22), at(18), at(16), at(16)];
    CONFIG_SET_DEVICE = "IBuilderConfig::setDefaultDeviceType" [at(24), at(20), at(18), at(18)];
    CONFIG_ADD_PROFILE = "IBuilderConfig::addOptimizationProfile" [at(29), at(25), at(23), at(23)];
    CONFIG_SET_VERBOSITY = "IBuilderConfig::setProfilingVerbosity" [at(31), at(27), at(25), at(25)];
    CONFIG_CREATE_TIMING_CACHE = "IBuilderConfig::createTimingCache" [at(44), at(40), at(29), NONE];
    CONFIG_SET_TIMING_CACHE = "IBuilderConfig::setTimingCache" [at(45), at(41), at(30), NONE];
    CONFIG_TIMING_CACHE = "IBuilderConfig::getTimingCache" [at(46), at(42), at(31), NONE];
    CONFIG_SET_POOL = "IBuilderConfig::setMemoryPoolLimit" [at(47), at(43), at(32), at(32)];
    CONFIG_SET_MONITOR = "IBuilderConfig::setProgressMonitor" [NONE, at(56), at(45), at(45)];
    CONFIG_SET_CAPABILITIES = "IBuilderConfig::setNbComputeCapabilities" [NONE, NONE, NONE, at(55)];
    CONFIG_SET_CAPABILITY = "IBuilderConfig::setComputeCapability" [NONE, NONE, NONE, at(57)];

    NETWORK_LAYERS = "INetworkDefinition::getNbLayers" [at(17), at(12), at(12), at(12)];
    NETWORK_LAYER = "INetworkDefinition::getLayer" [at(18), at(13), at(13), at(13)];
    NETWORK_INPUTS = "INetworkDefinition::getNbInputs" [at(19), at(14), at(14), at(14)];
    NETWORK_INPUT = "INetworkDefinition::getInput" [at(20), at(15), at(15), at(15)];
    NETWORK_OUTPUTS = "INetworkDefinition::getNbOutputs" [at(21), at(16), at(16), at(16)];
    NETWORK_SET_ERROR_RECORDER = "INetworkDefinition::setErrorRecorder" [at(53), at(47), at(46), at(44)];

    TENSOR_NAME = "ITensor::getName" [at(3), at(3), at(3), at(3)];
    TENSOR_SHAPE = "ITensor::getDimensions" [at(5), at(5), at(5), at(5)];
    TENSOR_TYPE = "ITensor::getType" [at(7), at(7), at(6), at(6)];

    LAYER_TYPE = "ILayer::getType" [at(2), at(2), at(2), at(2)];

    MEMORY_DATA = "IHostMemory::data" [at(2), at(2), at(2), at(2)];
    MEMORY_SIZE = "IHostMemory::size" [at(3), at(3), at(3), at(3)];

    PROFILE_SET_SHAPE = "IOptimizationProfile::setDimensions" [at(2), at(2), at(2), at(2)];

    TIMING_SERIALIZE = "ITimingCache::serialize" [at(2), at(2), at(2), NONE];
}

#[cfg(test)]
mod tests {
    use super::super::version::{Flavor, Generation, Version};
    use super::*;

    #[test]
    fn missing_vtable_slot_is_error() {
        let slot = |method: &Method, major, minor| {
            let version = Version::new(major, minor, 0);
            let generation =
                Generation::from_version(version, Flavor::Full).expect("a known version");
            method.slot(generation, version, Flavor::Full)
        };
        assert_eq!(slot(&ENGINE_MEMORY_V2, 10, 1).ok(), Some(52));
        let error = slot(&ENGINE_MEMORY_V2, 8, 5)
            .expect_err("8.5 has none")
            .to_string();
        assert_eq!(
            error,
            "TensorRT 8.5.0 has no ICudaEngine::getDeviceMemorySizeV2; this is a bug in jetwatch"
        );
        assert_eq!(slot(&CONFIG_SET_CALIBRATOR, 10, 13).ok(), Some(6));
        assert!(slot(&CONFIG_SET_CALIBRATOR, 11, 0).is_err());
        assert!(slot(&CONFIG_SET_MONITOR, 8, 6).is_err());
        assert!(slot(&ENGINE_MEMORY_V2, 10, 0).is_err());
    }
}
