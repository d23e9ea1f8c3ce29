// SPDX-License-Identifier: Apache-2.0
//! A virtual Jetson of files: a folder in place of `/`, with doubles of JetPack's tools. See `tests/virtual_jetson/README.md`.
#![allow(dead_code)]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use jetwatch_platform::SysRoot;

/// A machine in a temporary folder, which goes with it.
pub struct VirtualJetson {
    folder: tempfile::TempDir,
}

impl VirtualJetson {
    /// A Jetson Xavier NX with L4T 35.4.
    pub fn xavier_nx() -> Self {
        Self::new("xavier_nx")
    }

    /// A Jetson Orin NX with L4T 36.3.
    pub fn orin_nx() -> Self {
        Self::new("orin_nx")
    }

    /// A Jetson AGX Orin with L4T 39.2.
    pub fn agx_orin() -> Self {
        Self::new("agx_orin")
    }

    /// A Jetson AGX Thor, that is a Jetson T5000, with L4T 38.4.
    pub fn thor() -> Self {
        Self::new("thor")
    }

    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let machine = Self { folder };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/virtual_jetson/make");
        let made = Command::new(script)
            .arg(name)
            .arg(machine.path("/"))
            .status();
        assert!(made.expect("it can be started").success(), "{name}");
        machine
    }

    /// The folder in place of `/`.
    pub fn root(&self) -> SysRoot {
        SysRoot::new(self.folder.path())
    }

    /// The real path of a path of the machine.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root().path(path)
    }

    /// Writes a file of the machine.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        // As a kernel's file it is never empty: a daemon may read it meanwhile.
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let mut file = options.open(path).expect("opened");
        file.write_all(text.as_bytes()).expect("written");
        file.set_len(text.len() as u64).expect("cut");
    }

    /// Removes a file of the machine.
    pub fn remove(&self, path: &str) {
        fs::remove_file(self.path(path)).expect("removed");
    }

    /// The text of a file of the machine.
    pub fn text(&self, path: &str) -> String {
        let text = self.root().text(path).expect("readable");
        text.unwrap_or_else(|| panic!("{path} is missing"))
    }

    /// The calls of the doubles so far with this prefix.
    pub fn calls(&self, start: &str) -> Vec<String> {
        let calls = self.text("/double/calls");
        let calls = calls.lines().filter(|call| call.starts_with(start));
        calls.map(str::to_owned).collect()
    }

    /// Everything that tuning may change, as text.
    pub fn settings(&self) -> String {
        let mut text = String::new();
        for path in [
            "/proc/sys/kernel/perf_event_paranoid",
            "/var/lib/nvpmodel/status",
            "/double/fan",
            "/etc/nvfancontrol.conf",
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq",
            "/sys/devices/system/cpu/cpu1/cpufreq/scaling_min_freq",
        ] {
            text += &format!("{path}: {}\n", self.text(path));
        }
        for path in [
            "/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked",
            "/sys/class/devfreq/17000000.gv11b/min_freq",
            "/sys/class/devfreq/17000000.gpu/min_freq",
            "/sys/class/devfreq/gpu-gpc-0/min_freq",
        ] {
            text += &format!("{:?}\n", self.root().text(path).expect("readable"));
        }
        text
    }
}
