// SPDX-License-Identifier: Apache-2.0
//! The machine: Jetson model and release, loads and clocks, temperatures, power rails and throttling, power modes, video
//! hardware, and the settings that `jetwatch tune` applies and restores.
//!
//! All paths are below a [`SysRoot`], which tests replace by a temporary folder. The crates sysinfo and procfs are not
//! used: sysinfo reads only the running system, and most of what is read here is specific to Tegra; the generic part is a
//! few short files of `/proc`. Any Linux works: what a machine does not have is `None` or an empty list; files that cannot
//! be read are reported with their path.

mod command;
mod energy;
mod error;
mod l4t_release;
mod machine;
mod memory;
mod occupancy;
mod power_modes;
mod process;
mod processor;
mod sensors;
mod sysroot;
mod systemd_unit;
pub mod throttling;
pub mod tune;
mod video;

pub use energy::{Energy, EnergyMeter};
pub use error::PlatformError;
pub use l4t_release::L4tRelease;
pub use machine::{ComputeUnits, Family, Machine};
pub use memory::Memory;
pub use occupancy::{CpuCounters, Occupancy, Program};
pub use power_modes::{PowerMode, PowerModes};
pub use process::{OpenFileOwners, Process, open_libraries};
pub use processor::Processor;
pub use sensors::{
    Cpu, CpuTicks, Engine, EngineKind, EventCounter, Rail, SensorSnapshot, Temperature, Throttle,
    Unreadable,
};
pub use sysroot::SysRoot;
pub use systemd_unit::SystemdUnit;
pub use video::{UnitElement, VideoUnit, VideoUnits};
