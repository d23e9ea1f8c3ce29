// SPDX-License-Identifier: Apache-2.0
//! Model and release of this machine, from the device tree and the L4T release, and the engines of its family.

use serde::{Deserialize, Deserializer, Serialize};

use super::{L4tRelease, PlatformError, SysRoot};

/// Device tree nodes with the model.
const COMPATIBLE: &str = "/proc/device-tree/compatible";
const MODEL: &str = "/proc/device-tree/model";

/// File that contains the L4T release.
const RELEASE: &str = "/etc/nv_tegra_release";

/// A name of a table. Behind an alias, because `serde` takes a reference for one into the text that it reads.
type Name = &'static str;

/// Properties of the machine. Detection never fails: unknown properties are `None`, and `notes` contains the reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The Jetson family, if any.
    pub family: Family,
    /// The device tree's model, such as `NVIDIA Jetson Xavier NX Developer Kit`.
    pub model: Option<String>,
    /// The module's part number, such as `p3668-0000`.
    pub module: Option<String>,
    /// The system on a chip, such as `tegra194`.
    pub chip: Option<String>,
    /// The release of L4T.
    pub release: Option<L4tRelease>,
    /// The JetPack of that release.
    #[serde(deserialize_with = "known_jetpack")]
    pub jetpack: Option<Name>,
    /// The engines of this family.
    pub units: ComputeUnits,
    /// One sentence for each property that could not be determined.
    pub notes: Vec<String>,
}

/// The name of a JetPack that this version knows; `None` for others.
fn known_jetpack<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Name>, D::Error> {
    let name = Option::<String>::deserialize(from)?;
    Ok(name.and_then(|name| L4tRelease::jetpack_named(&name)))
}

jetwatch_types::named_enum! {
    /// Kinds of machines.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Family {
        /// Jetson Xavier NX.
        XavierNx = "Jetson Xavier NX",
        /// Jetson AGX Xavier.
        AgxXavier = "Jetson AGX Xavier",
        /// Jetson Orin Nano.
        OrinNano = "Jetson Orin Nano",
        /// Jetson Orin NX.
        OrinNx = "Jetson Orin NX",
        /// Jetson AGX Orin.
        AgxOrin = "Jetson AGX Orin",
        /// Jetson T5000 and T4000, and the developer kit Jetson AGX Thor.
        Thor = "Jetson Thor",
        /// An unknown Jetson.
        UnknownJetson = "unknown Jetson",
        /// Any other machine.
        NoJetson = "no Jetson",
    }

    /// Name of the family.
    pub fn name;
}

/// Engines other than CPU and GPU. `None`: unknown for this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeUnits {
    /// Deep learning accelerators.
    pub dla_cores: Option<u32>,
    /// Whether it has a video decoder.
    pub nvdec: Option<bool>,
    /// Whether it has a video encoder.
    pub nvenc: Option<bool>,
    /// Whether it has the video image compositor (VIC), for scaling and color conversion.
    pub vic: Option<bool>,
}

impl ComputeUnits {
    fn from_specs(dla_cores: u32, nvenc: bool) -> Self {
        Self {
            dla_cores: Some(dla_cores),
            nvdec: Some(true),
            nvenc: Some(nvenc),
            vic: Some(true),
        }
    }
}

/// Modules by the prefix of their part number, most specific first: family, DLA cores, video encoder.
const MODULES: [(&str, Family, u32, bool); 10] = [
    ("p3668-", Family::XavierNx, 2, true),
    ("p2888-", Family::AgxXavier, 2, true),
    // The developer kit of AGX Xavier, which has no module number.
    ("p2972-", Family::AgxXavier, 2, true),
    ("p3701-", Family::AgxOrin, 2, true),
    // Orin NX with 16 GB, and with 8 GB, which has one DLA.
    ("p3767-0000", Family::OrinNx, 2, true),
    ("p3767-0001", Family::OrinNx, 1, true),
    ("p3767-0003", Family::OrinNano, 0, false),
    ("p3767-0004", Family::OrinNano, 0, false),
    ("p3767-0005", Family::OrinNano, 0, false),
    // T5000 (0008) and T4000 (0000).
    ("p3834-", Family::Thor, 0, true),
];

/// Families by substrings of the model, for modules whose number is not in the table.
const MODELS: [(&str, Family); 6] = [
    ("xavier nx", Family::XavierNx),
    ("agx xavier", Family::AgxXavier),
    ("orin nano", Family::OrinNano),
    ("orin nx", Family::OrinNx),
    ("agx orin", Family::AgxOrin),
    ("thor", Family::Thor),
];

impl Machine {
    /// Detects the machine below `root`.
    #[must_use]
    pub fn find(root: &SysRoot) -> Self {
        let mut notes = Vec::new();
        let compatible = ok_or_note(root.text(COMPATIBLE), &mut notes).unwrap_or_default();
        let model = ok_or_note(root.text(MODEL), &mut notes);
        let names: Vec<&str> = compatible.split('\0').map(str::trim).collect();
        let chip = names
            .iter()
            .find_map(|name| name.strip_prefix("nvidia,tegra"))
            .map(|number| format!("tegra{number}"));
        let release_text = ok_or_note(root.text(RELEASE), &mut notes);
        let release = release_text.as_deref().and_then(L4tRelease::read);
        let is_jetson = chip.is_some();
        let found = find_module(&names);
        let module = found.map(|(module, ..)| module.to_owned());
        let (family, units) = match found {
            _ if !is_jetson => (Family::NoJetson, without_engines()),
            Some((_, family, dla_cores, nvenc)) => {
                (family, ComputeUnits::from_specs(dla_cores, nvenc))
            }
            None => by_model(model.as_deref()),
        };
        if family == Family::UnknownJetson {
            notes.push(format!(
                "unknown Jetson ({}): its engines are not selected by family",
                model.as_deref().unwrap_or("no model in the device tree")
            ));
        }
        let jetpack = release.and_then(|release| release.jetpack());
        match (is_jetson, &release_text, release) {
            (true, None, _) => notes.push(format!(
                "{RELEASE} is missing: this is a Jetson without JetPack"
            )),
            (_, Some(text), None) => notes.push(format!(
                "{RELEASE}: found {:?}, expected `# R35 (release), REVISION: 4.1`",
                text.lines().next().unwrap_or_default()
            )),
            (_, _, Some(release)) if jetpack.is_none() => {
                notes.push(format!("L4T {release} is unknown to this version"));
            }
            _ => {}
        }
        Self {
            family,
            model,
            module,
            chip,
            release,
            jetpack,
            units,
            notes,
        }
    }

    /// Whether this is a Jetson, known or not.
    pub fn is_jetson(&self) -> bool {
        self.family != Family::NoJetson
    }

    /// One-line description.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = self.family.name().to_owned();
        if let Some(module) = &self.module {
            text += &format!(" ({module})");
        } else if let Some(model) = &self.model {
            text += &format!(" ({model})");
        }
        if let Some(release) = self.release {
            text += &format!(", L4T {release}");
        }
        if let Some(jetpack) = self.jetpack {
            text += &format!(", JetPack {jetpack}");
        }
        text
    }
}

/// The module's part number: in `nvidia,p3449-0000+p3668-0000` it is the second.
fn find_module<'t>(parts: &[&'t str]) -> Option<(&'t str, Family, u32, bool)> {
    let mut parts = parts.iter().flat_map(|word| {
        let numbers = word.strip_prefix("nvidia,").unwrap_or(word);
        numbers.split('+')
    });
    parts.find_map(|part| {
        MODULES
            .iter()
            .find(|(start, ..)| part.starts_with(start))
            .map(|(_, family, dla_cores, nvenc)| (part, *family, *dla_cores, *nvenc))
    })
}

/// The family by the model name. The number of DLA cores depends on the module, so it is unknown.
fn by_model(model: Option<&str>) -> (Family, ComputeUnits) {
    let model = model.unwrap_or_default().to_ascii_lowercase();
    let family = MODELS
        .iter()
        .find(|(name, _)| model.contains(name))
        .map_or(Family::UnknownJetson, |(_, family)| *family);
    let is_known = family != Family::UnknownJetson;
    let units = ComputeUnits {
        dla_cores: matches!(family, Family::OrinNano | Family::Thor).then_some(0),
        nvdec: is_known.then_some(true),
        nvenc: is_known.then_some(family != Family::OrinNano),
        vic: is_known.then_some(true),
    };
    (family, units)
}

/// A machine other than a Jetson has no VIC and no DLA; the decoder of its graphics card is not detected here.
fn without_engines() -> ComputeUnits {
    ComputeUnits {
        dla_cores: Some(0),
        nvdec: None,
        nvenc: None,
        vic: Some(false),
    }
}

fn ok_or_note(
    read: Result<Option<String>, PlatformError>,
    notes: &mut Vec<String>,
) -> Option<String> {
    read.unwrap_or_else(|error| {
        notes.push(error.to_string());
        None
    })
    .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn machine(compatible: &str, model: &str, release: &str) -> Machine {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        for (path, text) in [(COMPATIBLE, compatible), (MODEL, model), (RELEASE, release)] {
            if !text.is_empty() {
                let path = root.path(path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("created");
                fs::write(path, text).expect("written");
            }
        }
        Machine::find(&root)
    }

    const R35: &str = "# R35 (release), REVISION: 4.1, GCID: 1";
    const R36: &str = "# R36 (release), REVISION: 3.0, GCID: 1\n# KERNEL_VARIANT: oot";

    #[test]
    fn modules_are_identified_by_part_number() {
        #[rustfmt::skip]
        let cases = [
            ("nvidia,p3449-0000+p3668-0000\0nvidia,p3509-0000+p3668-0000\0nvidia,tegra194\0", Family::XavierNx, "p3668-0000", 2),
            ("nvidia,p2972-0000\0nvidia,tegra194\0", Family::AgxXavier, "p2972-0000", 2),
            ("nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234\0", Family::AgxOrin, "p3701-0005", 2),
            ("nvidia,p3768-0000+p3767-0001\0nvidia,tegra234\0", Family::OrinNx, "p3767-0001", 1),
            ("nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0", Family::OrinNano, "p3767-0005", 0),
            ("nvidia,p4071-0000+p3834-0008\0nvidia,p3834-0008\0nvidia,tegra264\0", Family::Thor, "p3834-0008", 0),
            ("nvidia,p4071-0000+p3834-0000\0nvidia,p3834-0000\0nvidia,tegra264\0", Family::Thor, "p3834-0000", 0),
        ];
        for (compatible, family, module, dla_cores) in cases {
            let machine = machine(compatible, "NVIDIA Jetson\0", R35);
            assert_eq!(machine.family, family);
            assert_eq!(machine.module.as_deref(), Some(module));
            assert_eq!(machine.units.dla_cores, Some(dla_cores));
            assert_eq!(machine.units.vic, Some(true));
            assert_eq!(machine.units.nvenc, Some(family != Family::OrinNano));
            assert!(machine.notes.is_empty(), "{:?}", machine.notes);
            let json = serde_json::to_string(&machine).expect("JSON");
            let read: Machine = serde_json::from_str(&json).expect("its own JSON");
            assert_eq!(read, machine);
        }
    }

    #[test]
    fn module_with_unknown_number_is_identified_by_model() {
        let machine = machine(
            "nvidia,p9999-0000+p3767-0009\0nvidia,tegra234\0",
            "NVIDIA Jetson Orin NX Engineering Reference\0",
            R36,
        );
        assert_eq!(
            (machine.family, machine.units.dla_cores),
            (Family::OrinNx, None)
        );
        assert_eq!(machine.chip.as_deref(), Some("tegra234"));
        assert_eq!(
            machine.describe(),
            "Jetson Orin NX (NVIDIA Jetson Orin NX Engineering Reference), L4T 36.3.0, JetPack 6.0"
        );
    }

    #[test]
    fn unknown_machine_degrades_with_note() {
        let newer = machine(
            "nvidia,p9999-0000+p9998-0008\0nvidia,tegra999\0",
            "NVIDIA Jetson of the future",
            "# R99 (release), REVISION: 1.0",
        );
        assert_eq!(
            (newer.family, newer.units.vic),
            (Family::UnknownJetson, None)
        );
        assert_eq!(newer.notes.len(), 2, "{:?}", newer.notes);
        assert!(newer.notes[1].contains("L4T 99.1.0 is unknown"));

        let bare = machine("nvidia,p3668-0001\0nvidia,tegra194", "", "");
        assert_eq!(bare.family, Family::XavierNx);
        assert!(
            bare.notes[0].contains("without JetPack"),
            "{:?}",
            bare.notes
        );

        let odd = machine("nvidia,p3668-0001\0nvidia,tegra194", "", "JetPack five");
        assert!(
            odd.notes[0].contains("found \"JetPack five\""),
            "{:?}",
            odd.notes
        );
    }

    #[test]
    fn other_machines_are_not_jetson() {
        for compatible in [
            "",
            "raspberrypi,4-model-b\0brcm,bcm2711\0",
            "nvidia,grace\0",
        ] {
            let machine = machine(compatible, "", "");
            assert!(
                !machine.is_jetson() && machine.notes.is_empty(),
                "{compatible}"
            );
            assert_eq!(machine.units.vic, Some(false));
        }
    }
}
