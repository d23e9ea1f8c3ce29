// SPDX-License-Identifier: Apache-2.0
//! The power modes of this machine, from nvpmodel's configuration, and the current one.
//!
//! Numbers differ between modules and releases, so only the file format is fixed here: a mode begins
//! with `< POWER_MODEL ID=8 NAME=MODE_20W_6CORE >`, and `< PM_CONFIG DEFAULT=2 >` names the mode of the first start.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::command::Tool;
use super::{PlatformError, SysRoot};

const CONFIG: &str = "/etc/nvpmodel.conf";
const CONFIGS: &str = "/etc/nvpmodel";
const STATUS: &str = "/var/lib/nvpmodel/status";

/// One power mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PowerMode {
    /// The argument of `nvpmodel -m`.
    pub id: u32,
    /// Its name, such as `MODE_20W_6CORE`.
    pub name: String,
}

impl fmt::Display for PowerMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.name)
    }
}

/// The power modes of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PowerModes {
    /// In the order of the file.
    pub modes: Vec<PowerMode>,
    /// The mode of the first start.
    pub default: Option<u32>,
    /// The file that lists them.
    pub path: PathBuf,
}

impl PowerModes {
    /// Reads `/etc/nvpmodel.conf`, or the only file in `/etc/nvpmodel` where that is missing.
    ///
    /// # Errors
    /// There is no such file, it cannot be read, or it has an unknown format.
    pub fn read(root: &SysRoot) -> Result<Self, PlatformError> {
        if let Some(text) = root.text(CONFIG)? {
            return Self::parse(root.path(CONFIG), &text);
        }
        let mut names = root.names(CONFIGS)?;
        names.retain(|name| name.ends_with(".conf"));
        match names.as_slice() {
            [] => Err(PlatformError::Missing {
                path: root.path(CONFIG),
                why: "without it the power modes are unknown; it comes with JetPack (package nvidia-l4t-nvpmodel)",
            }),
            [name] => {
                let path = format!("{CONFIGS}/{name}");
                let text = root.text(&path)?.unwrap_or_default();
                Self::parse(root.path(&path), &text)
            }
            _ => Err(PlatformError::Ambiguous {
                link: root.path(CONFIG),
                folder: root.path(CONFIGS),
                names,
            }),
        }
    }

    fn parse(path: PathBuf, text: &str) -> Result<Self, PlatformError> {
        let mut modes: Vec<PowerMode> = Vec::new();
        let mut default = None;
        let malformed = |line: Option<usize>, found: &str, expected| PlatformError::Malformed {
            path: path.clone(),
            line,
            found: found.to_owned(),
            expected,
        };
        for (index, line) in text.lines().enumerate() {
            let line_number = Some(index + 1);
            let line = line.trim();
            let Some(inner) = line
                .strip_prefix('<')
                .and_then(|rest| rest.strip_suffix('>'))
            else {
                continue;
            };
            let mut fields = inner.split_whitespace();
            let kind = fields.next();
            let fields: Vec<&str> = fields.collect();
            let value = |key: &str| {
                fields
                    .iter()
                    .find_map(|field| field.strip_prefix(key)?.strip_prefix('='))
            };
            match kind {
                Some("POWER_MODEL") => {
                    const EXPECTED: &str = "`< POWER_MODEL ID=0 NAME=MAXN >`, each number once";
                    let id = value("ID").and_then(|id| id.parse().ok());
                    let (Some(id), Some(name)) = (id, value("NAME")) else {
                        return Err(malformed(line_number, line, EXPECTED));
                    };
                    if modes.iter().any(|mode| mode.id == id) {
                        return Err(malformed(line_number, line, EXPECTED));
                    }
                    modes.push(PowerMode {
                        id,
                        name: name.to_owned(),
                    });
                }
                Some("PM_CONFIG") => {
                    let id = value("DEFAULT").and_then(|id| id.parse().ok());
                    default = Some(id.ok_or_else(|| {
                        malformed(
                            line_number,
                            line,
                            "`< PM_CONFIG DEFAULT=0 >` with a mode's number",
                        )
                    })?);
                }
                _ => {}
            }
        }
        if modes.is_empty() {
            return Err(malformed(
                None,
                "no power mode",
                "at least one line `< POWER_MODEL ID=0 NAME=MAXN >`",
            ));
        }
        Ok(Self {
            modes,
            default,
            path,
        })
    }

    /// Finds a mode by number, or by name: case-insensitive, with or without the prefix `MODE_`.
    ///
    /// # Errors
    /// This machine has no such mode.
    pub fn find(&self, name: &str) -> Result<&PowerMode, PlatformError> {
        let plain = |name: &str| {
            let name = name.trim().to_ascii_uppercase();
            name.strip_prefix("MODE_")
                .map_or(name.clone(), str::to_owned)
        };
        let found = match name.trim().parse() {
            Ok(id) => self.by_id(id),
            Err(_) => self
                .modes
                .iter()
                .find(|mode| plain(&mode.name) == plain(name)),
        };
        found.ok_or_else(|| PlatformError::NoSuchMode {
            requested: name.to_owned(),
            available: self.modes.iter().map(ToString::to_string).collect(),
            path: self.path.clone(),
        })
    }

    /// The mode with this number.
    pub fn by_id(&self, id: u32) -> Option<&PowerMode> {
        self.modes.iter().find(|mode| mode.id == id)
    }

    /// Number of the current mode: from nvpmodel's state file, else from `nvpmodel -q`.
    ///
    /// # Errors
    /// Neither source is available.
    pub fn current(root: &SysRoot) -> Result<u32, PlatformError> {
        if let Some(status) = root.text(STATUS)? {
            let id = status
                .split_whitespace()
                .find_map(|field| field.strip_prefix("pmode:")?.parse().ok());
            return id.ok_or_else(|| PlatformError::Malformed {
                path: root.path(STATUS),
                line: None,
                found: status,
                expected: "`pmode:0002`",
            });
        }
        let output = Tool::NVPMODEL.run(root, &["-q"])?.done()?;
        // The name of the mode, and its number on the next line.
        output
            .text
            .lines()
            .find_map(|line| line.trim().parse().ok())
            .ok_or_else(|| output.unexpected_output("the number of the mode on a separate line"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TEXT: &str = "\
# < POWER_MODEL ID=9 NAME=COMMENT >
< PARAM TYPE=FILE NAME=CPU_ONLINE >
CORE_0 /sys/devices/system/cpu/cpu0/online
< POWER_MODEL ID=0 NAME=MODE_15W_2CORE >
CPU_ONLINE CORE_1 1
<POWER_MODEL ID=8 NAME=MODE_20W_6CORE>
< PM_CONFIG DEFAULT=8 >
< FAN_CONFIG DEFAULT=cool >
";

    fn parse(text: &str) -> Result<PowerModes, PlatformError> {
        PowerModes::parse("nvpmodel.conf".into(), text)
    }

    /// Numbers differ between modules, and a file may lack a mode (almond-bot/axol#220, balena-os/balena-jetson-skx2#104,
    /// borongyuan/XavierNXOverclock#1).
    #[test]
    fn modes_are_found_by_number_and_by_name() {
        let modes = parse(TEXT).expect("a configuration");
        assert_eq!(modes.modes.len(), 2);
        assert_eq!(modes.default, Some(8));
        for expected in ["8", "MODE_20W_6CORE", "mode_20w_6core", "20W_6CORE", " 08 "] {
            assert_eq!(modes.find(expected).expect("known").id, 8, "{expected}");
        }
        let error = modes
            .find("MAXN")
            .expect_err("not of this machine")
            .to_string();
        assert_eq!(
            error,
            "found no power mode \"MAXN\", expected one of 0 MODE_15W_2CORE, 8 MODE_20W_6CORE (nvpmodel.conf)"
        );
        assert!(modes.find("1").is_err() && modes.find("").is_err());
    }

    #[test]
    fn malformed_power_mode_is_reported_with_line() {
        #[rustfmt::skip]
        let cases = [
            ("", "nvpmodel.conf: found \"no power mode\""),
            ("\n< POWER_MODEL ID=x NAME=A >", "nvpmodel.conf:2: found \"< POWER_MODEL ID=x"),
            ("< POWER_MODEL ID=1 >", "nvpmodel.conf:1: found"),
            ("< POWER_MODEL ID=1 NAME=A >\n< POWER_MODEL ID=1 NAME=B >", "nvpmodel.conf:2: found"),
            ("< POWER_MODEL ID=1 NAME=A >\n< PM_CONFIG DEFAULT= >", "nvpmodel.conf:2: found"),
        ];
        for (text, expected) in cases {
            let error = parse(text).expect_err("malformed").to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn single_config_is_used_and_several_are_ambiguous() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        let missing = PowerModes::read(&root).expect_err("there is no file");
        assert!(
            matches!(missing, PlatformError::Missing { .. }),
            "{missing}"
        );
        fs::create_dir_all(root.path(CONFIGS)).expect("created");
        fs::write(root.path("/etc/nvpmodel/a.conf"), TEXT).expect("written");
        assert_eq!(PowerModes::read(&root).expect("one file").modes.len(), 2);
        fs::write(root.path("/etc/nvpmodel/b.conf"), TEXT).expect("written");
        let several = PowerModes::read(&root).expect_err("two files").to_string();
        assert!(several.contains("a.conf, b.conf"), "{several}");
        fs::write(root.path(CONFIG), TEXT).expect("written");
        assert!(PowerModes::read(&root).is_ok());
    }

    #[test]
    fn current_power_mode_is_read_from_status_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = SysRoot::new(folder.path());
        let none = PowerModes::current(&root).expect_err("neither record nor tool");
        assert!(matches!(none, PlatformError::NoTool { .. }), "{none}");
        fs::create_dir_all(root.path("/var/lib/nvpmodel")).expect("created");
        fs::write(root.path(STATUS), "pmode:0008 fmode:cool\n").expect("written");
        assert_eq!(PowerModes::current(&root).expect("recorded"), 8);
        fs::write(root.path(STATUS), "mode eight").expect("written");
        assert!(PowerModes::current(&root).is_err());
    }
}
