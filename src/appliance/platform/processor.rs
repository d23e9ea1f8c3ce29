// SPDX-License-Identifier: Apache-2.0
//! Name and cores of the CPU, from `/proc/cpuinfo`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::SysRoot;

/// File of the kernel with a paragraph for each logical CPU.
const CPU_INFO: &str = "/proc/cpuinfo";

/// The CPU of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processor {
    /// Name, such as `AMD EPYC 7763 64-Core Processor`; `None` on machines whose kernel gives numbers only, as most ARM ones do.
    pub name: Option<String>,
    /// Physical cores; `None` where the kernel does not list them.
    pub cores: Option<usize>,
    /// Logical CPUs that are online.
    pub threads: usize,
}

impl Processor {
    /// Reads it below `root`. A file that is missing or cannot be read gives no values.
    #[must_use]
    pub fn find(root: &SysRoot) -> Self {
        let text = root.text(CPU_INFO).ok().flatten().unwrap_or_default();
        let mut found = Self::default();
        let mut cores = BTreeSet::new();
        let mut package = "";
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            match key.trim() {
                "processor" => {
                    found.threads += 1;
                    package = "";
                }
                "model name" if !value.is_empty() => {
                    found.name.get_or_insert_with(|| value.to_owned());
                }
                "physical id" => package = value,
                "core id" => {
                    cores.insert((package, value));
                }
                _ => {}
            }
        }
        found.cores = (!cores.is_empty()).then_some(cores.len());
        found
    }

    /// One-line description.
    #[must_use]
    pub fn describe(&self) -> String {
        let name = self.name.as_deref().unwrap_or("unknown CPU");
        match (self.cores, self.threads) {
            (_, 0) => name.to_owned(),
            (Some(cores), threads) => format!("{name}, {cores} cores, {threads} threads"),
            (None, threads) => format!("{name}, {threads} threads"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn processor(text: &str) -> Processor {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        fs::create_dir_all(root.path("/proc")).expect("created");
        fs::write(root.path(CPU_INFO), text).expect("written");
        Processor::find(&root)
    }

    #[test]
    fn cores_are_counted_once_for_each_package() {
        let cpu = |number: u32, package: u32, core: u32| {
            format!(
                "processor\t: {number}\nvendor_id\t: X\nmodel name\t: A fast CPU\nphysical id\t: {package}\ncore id\t\t: {core}\n\n"
            )
        };
        let text = [cpu(0, 0, 0), cpu(1, 0, 0), cpu(2, 0, 1), cpu(3, 1, 0)].concat();
        let found = processor(&text);
        assert_eq!((found.cores, found.threads), (Some(3), 4));
        assert_eq!(found.describe(), "A fast CPU, 3 cores, 4 threads");
    }

    #[test]
    fn arm_kernels_give_numbers_only() {
        let found =
            processor("processor\t: 0\nCPU part\t: 0x004\n\nprocessor\t: 1\nCPU part\t: 0x004\n");
        assert_eq!(found.describe(), "unknown CPU, 2 threads");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let missing = Processor::find(&SysRoot::new(folder.path()));
        assert_eq!(missing, Processor::default());
        assert_eq!(missing.describe(), "unknown CPU");
    }
}
