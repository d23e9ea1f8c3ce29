// SPDX-License-Identifier: Apache-2.0
//! Checks whether there is enough memory for a build. Estimates only: TensorRT does not report its needs.

use super::EngineError;
use jetwatch_nvidia::cuda::Device;
use jetwatch_platform::{Memory, SysRoot};

/// Minimum free memory in bytes, in addition to [`MIN_WEIGHT_COPIES`] times the network: TensorRT's libraries and kernels take
/// about as much.
const MIN_BYTES: u64 = 256 << 20;

/// Minimum number of copies of the weights at the same time: the file, the parsed network, the engine, the plan.
const MIN_WEIGHT_COPIES: u64 = 4;

/// With less free memory than this, plus [`RECOMMENDED_WEIGHT_COPIES`] times the network and the workspace, a warning is logged.
const RECOMMENDED_BYTES: u64 = 1 << 30;

/// Copies of the weights when tactics are tried in several precisions.
const RECOMMENDED_WEIGHT_COPIES: u64 = 8;

/// Fails when there is far too little memory, and warns when there may be too little. Checks GPU memory, or system memory
/// where the GPU is integrated or missing.
pub(super) fn check(
    device: Option<&Device>,
    network_bytes: u64,
    workspace_bytes: u64,
) -> Result<(), EngineError> {
    let (kind, free) = match device {
        Some(device) if !device.is_integrated() => ("GPU memory", device.memory()?.free as u64),
        _ => match Memory::read(&SysRoot::default()) {
            Ok(Some(memory)) => ("memory", memory.available),
            // A system that does not report it is not refused.
            Ok(None) | Err(_) => return Ok(()),
        },
    };
    if let Some(warning) = assess(kind, free, network_bytes, workspace_bytes)? {
        log::warn!("{warning}");
    }
    Ok(())
}

/// An error, a warning, or nothing.
fn assess(
    kind: &'static str,
    free: u64,
    network_bytes: u64,
    workspace_bytes: u64,
) -> Result<Option<String>, EngineError> {
    let required = MIN_BYTES + MIN_WEIGHT_COPIES * network_bytes;
    let recommended =
        RECOMMENDED_BYTES + RECOMMENDED_WEIGHT_COPIES * network_bytes + workspace_bytes;
    if free < required {
        return Err(EngineError::Memory {
            kind,
            free: free >> 20,
            floor: required.div_ceil(1 << 20),
        });
    }
    Ok((free < recommended).then(|| {
        format!(
            "{} MiB of {kind} are free, and a build may take {} MiB: if it fails, end other programs or set a smaller workspace \
             (detector.tensorrt.workspace_mib, --workspace)",
            free >> 20,
            recommended.div_ceil(1 << 20)
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_memory_warns_and_too_little_fails() {
        let mib = |mib: u64| mib << 20;
        let found = assess("memory", mib(4096), mib(10), 0).expect("plenty");
        assert_eq!(found, None);
        let warning = assess("memory", mib(1000), mib(10), mib(500)).expect("enough to try");
        let warning = warning.expect("it may be too little");
        assert!(
            warning.starts_with("1000 MiB of memory are free, and a build may take 1604 MiB"),
            "{warning}"
        );
        let error = assess("GPU memory", mib(200), mib(10), 0)
            .expect_err("too little")
            .to_string();
        assert!(
            error.contains("200 MiB of GPU memory are free") && error.contains("at least 296 MiB"),
            "{error}"
        );
    }
}
