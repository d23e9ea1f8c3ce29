//! FLOOR 1: what machine this is, how it does, and how it is set: Jetson model and release, loads and clocks, temperatures,
//! power rails and throttling, power modes, what works on its video, and the settings that `jetwatch tune` makes and takes back.
//!
//! All that is read or written lies below a [`SysRoot`], which tests replace by a folder of their own. The crate sysinfo was
//! judged for the processors' part and left out: it reads the running system alone, and what is taken from `/proc` here is
//! one file. Any Linux is fine: what a machine lacks is `None` or an empty list, what cannot be read is told by its path.

mod command;
mod error;
mod l4t_release;
mod machine;
mod power_modes;
mod process;
mod sensors;
mod sysroot;
mod systemd_unit;
pub mod throttling;
pub mod tune;
mod video;

pub use error::PlatformError;
pub use l4t_release::L4tRelease;
pub use machine::{ComputeUnits, Family, Machine};
pub use power_modes::{PowerMode, PowerModes};
pub use process::{OpenFileOwners, Process, open_libraries};
pub use sensors::{
    Cpu, CpuTicks, Engine, EngineKind, EventCounter, Rail, SensorSnapshot, Temperature, Throttle,
    Unreadable,
};
pub use sysroot::SysRoot;
pub use systemd_unit::SystemdUnit;
pub use video::{UnitElement, VideoUnit, VideoUnits};
