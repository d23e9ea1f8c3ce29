// SPDX-License-Identifier: Apache-2.0
//! Release of L4T (NVIDIA's Linux for Jetson) and its JetPack version.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A release of L4T, such as 35.4.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct L4tRelease {
    /// 35 for JetPack 5, 36 for JetPack 6, 38 and 39 for JetPack 7.
    pub major: u32,
    /// First number of the revision.
    pub minor: u32,
    /// Second number of the revision.
    pub patch: u32,
}

/// JetPack by release, as NVIDIA's archive of releases lists them.
const JETPACKS: [((u32, u32, u32), &str); 23] = [
    ((32, 7, 1), "4.6.1"),
    ((32, 7, 2), "4.6.2"),
    ((32, 7, 3), "4.6.3"),
    ((32, 7, 4), "4.6.4"),
    ((34, 1, 1), "5.0.1"),
    ((35, 1, 0), "5.0.2"),
    ((35, 2, 1), "5.1"),
    ((35, 3, 1), "5.1.1"),
    ((35, 4, 1), "5.1.2"),
    ((35, 5, 0), "5.1.3"),
    ((35, 6, 0), "5.1.4"),
    ((36, 2, 0), "6.0 DP"),
    ((36, 3, 0), "6.0"),
    ((36, 4, 0), "6.1"),
    ((36, 4, 3), "6.2"),
    ((36, 4, 4), "6.2.1"),
    ((36, 4, 7), "6.2.1"),
    ((36, 5, 0), "6.2.2"),
    // Thor only. Orin follows with 39.
    ((38, 2, 0), "7.0"),
    ((38, 2, 1), "7.0"),
    ((38, 2, 2), "7.0"),
    ((38, 4, 0), "7.1"),
    ((39, 2, 0), "7.2"),
];

impl L4tRelease {
    /// Reads `/etc/nv_tegra_release`, whose relevant line begins `# R35 (release), REVISION: 4.1,`. The lines that L4T 36
    /// adds after it do not contain the release.
    pub fn read(text: &str) -> Option<Self> {
        text.lines().find_map(Self::read_line)
    }

    fn read_line(line: &str) -> Option<Self> {
        let rest = line.trim_start_matches(['#', ' ']).strip_prefix('R')?;
        let (major, rest) = rest.split_once(' ')?;
        let (_, rest) = rest.split_once("REVISION:")?;
        let revision = rest.split(',').next()?.trim();
        let (minor, patch) = revision.split_once('.').unwrap_or((revision, "0"));
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
            patch: patch.parse().ok()?,
        })
    }

    /// The JetPack of this release. A release newer than this table gives its major version only, such as `6`; a
    /// release of an unknown major version is `None`.
    pub fn jetpack(&self) -> Option<&'static str> {
        let listed = JETPACKS
            .iter()
            .find(|(release, _)| *release == (self.major, self.minor, self.patch));
        match (listed, self.major) {
            (Some((_, jetpack)), _) => Some(jetpack),
            (None, 32) => Some("4"),
            (None, 34 | 35) => Some("5"),
            (None, 36) => Some("6"),
            (None, 38 | 39) => Some("7"),
            (None, _) => None,
        }
    }

    /// The same name as [`jetpack`](Self::jetpack) gives.
    pub(super) fn jetpack_named(name: &str) -> Option<&'static str> {
        let listed = JETPACKS.iter().map(|(_, jetpack)| *jetpack);
        listed
            .chain(["4", "5", "6", "7"])
            .find(|jetpack| *jetpack == name)
    }
}

impl fmt::Display for L4tRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl Serialize for L4tRelease {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for L4tRelease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[major, minor, patch]) => Ok(Self {
                major,
                minor,
                patch,
            }),
            _ => Err(de::Error::invalid_value(
                de::Unexpected::Str(&text),
                &"a release of L4T, such as 35.4.1",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Monitors that did not know a release (rbonghi/jetson_stats#773, #779, #802, #812, #685).
    #[test]
    fn both_l4t_release_formats_are_parsed() {
        #[rustfmt::skip]
        let cases = [
            ("# R35 (release), REVISION: 4.1, GCID: 1, BOARD: t186ref, EABI: aarch64, DATE: Tue Aug  1 19:57:35 UTC 2023", "35.4.1", Some("5.1.2")),
            ("# R36 (release), REVISION: 3.0, GCID: 1, BOARD: generic, EABI: aarch64\n# KERNEL_VARIANT: oot\nTARGET_USERSPACE_LIB_DIR=nvidia\n", "36.3.0", Some("6.0")),
            ("# R36 (release), REVISION: 9.9", "36.9.9", Some("6")),
            ("# R38 (release), REVISION: 4.0, GCID: 1, BOARD: generic, EABI: aarch64, DATE: Wed Dec 31 00:15:19 UTC 2025\n# KERNEL_VARIANT: oot\n", "38.4.0", Some("7.1")),
            ("# R39 (release), REVISION: 2.0", "39.2.0", Some("7.2")),
            ("# R39 (release), REVISION: 3.1", "39.3.1", Some("7")),
            ("# R41 (release), REVISION: 2", "41.2.0", None),
        ];
        for (text, release, jetpack) in cases {
            let found = L4tRelease::read(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(found.to_string(), release);
            assert_eq!(found.jetpack(), jetpack, "{release}");
        }
    }

    #[test]
    fn other_texts_are_not_l4t_release() {
        for text in [
            "",
            "R35",
            "# R35 (release)",
            "# Rx (release), REVISION: 4.1",
            "# R35 (release), REVISION: four",
            "# R35 (release), REVISION: 4.1.1.1, GCID",
            "# R99999999999 (release), REVISION: 1.0",
        ] {
            assert_eq!(L4tRelease::read(text), None, "{text}");
        }
    }
}
