//! Whether there is enough memory to try a build. Only estimates: the real use is known only to TensorRT.

use super::EngineError;
use jetwatch_nvidia::cuda::Device;
use jetwatch_platform::{Memory, SysRoot};

/// Below this, plus [`MIN_WEIGHT_COPIES`] the network, no build is tried: TensorRT's libraries and kernels alone take about as much.
const MIN_BYTES: u64 = 256 << 20;

/// Copies of the weights that are about at the same time, at the least: the file, the parsed network, the engine, the plan.
const MIN_WEIGHT_COPIES: u64 = 4;

/// Below this, plus [`RECOMMENDED_WEIGHT_COPIES`] the network and the workspace, a warning is given.
const RECOMMENDED_BYTES: u64 = 1 << 30;

/// Copies of the weights when tactics are tried in several precisions.
const RECOMMENDED_WEIGHT_COPIES: u64 = 8;

/// Fails when there is far too little memory, and warns when there may be too little: of the GPU, or on a machine whose GPU has none of its
/// own, or that has no GPU, of the machine.
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
        assert_eq!(
            assess("memory", mib(4096), mib(10), 0).expect("plenty"),
            None
        );
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
