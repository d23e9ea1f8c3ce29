// SPDX-License-Identifier: Apache-2.0
//! Parses the version and help text of nsys: supported traces and CPU sampling. Pure.

use std::fmt;

use super::{ProfileError, Result};

/// A version of Nsight Systems: year, release of that year, patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

/// The first version that writes `.nsys-rep`.
pub(super) const MIN_VERSION: Version = Version(2021, 4, 0);

/// Traces that every profile has.
pub(super) const REQUIRED_TRACES: [&str; 3] = ["cuda", "nvtx", "osrt"];

/// Additional traces, if nsys supports them: NVIDIA's video API, the DLA, and the units of a Jetson.
pub(super) const OPTIONAL_TRACES: [&str; 3] = ["tegra-accelerators", "nvvideo", "cudla"];

impl Version {
    /// Parses the output of `nsys --version`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (_, behind) = text.split_once("version ")?;
        let word = behind.split_whitespace().next()?;
        let numbers = word.split(|c: char| !c.is_ascii_digit());
        let mut numbers = numbers.map(|number| number.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self(next()?, next()?, next().unwrap_or(0)))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// The text of `nsys profile --help` for an option; empty without such an option.
fn option_help(help: &str, option: &str) -> String {
    // The text of other options mentions this one too: only the line that begins with it counts.
    let names_it = |line: &str| {
        let line = line.trim_start();
        let mut words = line.split([' ', ',', '=', '[', '<']);
        line.starts_with('-') && words.any(|word| word == option)
    };
    let mut lines = help.lines().skip_while(|line| !names_it(line));
    let first = lines.next().unwrap_or_default();
    let behind = lines.take_while(|line| !line.trim_start().starts_with('-'));
    let lines: Vec<&str> = std::iter::once(first).chain(behind).collect();
    lines.join("\n")
}

/// The traces that `nsys profile --help` lists.
pub(super) fn available_traces(help: &str) -> Vec<String> {
    let about = option_help(help, "--trace");
    // The text after the values describes single ones again.
    let values = about.split("Select the API").next().unwrap_or(&about);
    let mut traces: Vec<String> = Vec::new();
    for quoted in values.split('\'').skip(1).step_by(2) {
        if quoted != "none" && !traces.iter().any(|known| known == quoted) {
            traces.push(quoted.to_owned());
        }
    }
    traces
}

/// Arguments that select what to trace.
///
/// Those of `requested` must be supported; if empty, the default traces must be, and additional ones are used if supported.
///
/// # Errors
/// This nsys does not support a required trace.
pub(super) fn traces(
    help: &str,
    requested: &[String],
    version: Version,
    place: &str,
) -> Result<Vec<String>> {
    let known = available_traces(help);
    let is_known = |name: &str| known.iter().any(|trace| trace == name);
    let mut chosen: Vec<&str> = match requested.is_empty() {
        true => REQUIRED_TRACES.to_vec(),
        false => requested.iter().map(String::as_str).collect(),
    };
    // Newer versions have a separate option for the Jetson's units.
    let units = "tegra-accelerators";
    let has_option = option_help(help, "--accelerator-trace").contains(units);
    let mut more = Vec::new();
    if has_option && !is_known(units) && (requested.is_empty() || chosen.contains(&units)) {
        chosen.retain(|name| *name != units);
        more.push(format!("--accelerator-trace={units}"));
    }
    if let Some(wanted) = chosen.iter().find(|name| !is_known(name)) {
        return Err(ProfileError::UnknownTrace {
            place: place.to_owned(),
            wanted: (*wanted).to_owned(),
            version,
            known: known.join(", "),
        });
    }
    if requested.is_empty() {
        chosen.extend(OPTIONAL_TRACES.into_iter().filter(|name| is_known(name)));
    }
    more.insert(0, format!("--trace={}", chosen.join(",")));
    Ok(more)
}

/// Whether the CPU is to be sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sampling {
    /// If the target supports it.
    #[default]
    Auto,
    /// Even if the target does not support it.
    On,
    /// Never.
    Off,
}

/// The target's support for CPU sampling.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Output of `nsys status -e`.
    pub status: String,
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Option<i32>,
    /// Whether the kernel has performance counters of the CPU.
    pub has_counters: bool,
}

impl Sampling {
    /// Arguments for nsys, and the reason if the CPU is not sampled although it was requested.
    #[must_use]
    pub fn arguments(self, environment: &Environment) -> ([&'static str; 2], Option<String>) {
        let off = ["--sample=none", "--cpuctxsw=none"];
        let on = ["--sample=process-tree", "--cpuctxsw=process-tree"];
        match self {
            Self::Off => (off, None),
            Self::On => (on, None),
            Self::Auto => match environment.obstacle() {
                Some(why) => (off, Some(why)),
                None => (on, None),
            },
        }
    }
}

impl Environment {
    /// Why the CPU cannot be sampled; `None` if it can.
    fn obstacle(&self) -> Option<String> {
        if !self.has_counters {
            return Some(
                "the CPU is not sampled: this kernel has no performance counters, as on virtual machines; ranges and calls are recorded nevertheless"
                    .to_owned(),
            );
        }
        let fits = |line: &&str| line.contains("(process-tree)") || line.contains("(Process-tree)");
        let line = self.status.lines().find(fits);
        if line.is_some_and(|line| line.trim_end().ends_with("OK")) {
            return None;
        }
        Some(match self.paranoid {
            Some(level) if level > 2 => format!(
                "the CPU is not sampled: kernel.perf_event_paranoid is {level}, and nsys needs 2 or less; to change it until the next start of the machine: \
                 sudo sysctl kernel.perf_event_paranoid=2"
            ),
            _ => "the CPU is not sampled: this nsys reports that its environment does not allow it; `nsys status -e` there shows why".to_owned(),
        })
    }
}

/// The sessions that `nsys sessions list` prints: name and state.
pub(super) fn sessions(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().skip_while(|line| !line.contains("STATE"));
    let lines = lines.skip(1);
    let sessions = lines.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, _, state @ .., _, name] => Some(((*name).to_owned(), state.join(" "))),
            _ => None,
        }
    });
    sessions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the wording of different versions.
    const OLD: &str = "\t--mpi-impl=\n\n\t   Used only when --trace=mpi is specified, by the target's path.\n\n\t-p, --nvtx-capture=\n\n\t   range@domain\n\n\t-t, --trace=\n\n\t   Possible values are 'cuda', 'nvtx', 'osrt', \n\t   'nvmedia', 'tegra-accelerators' or\n\t   'none'.\n\t   Select the API(s) to trace.\n\t   If 'x-annotations' is selected\n\n\t-w, --show\n";
    const NEW: &str = "\t--accelerator-trace=\n\n\t   Possible values are 'none' or 'tegra-accelerators'.\n\n\t-t, --trace=\n\n\t   Possible values are 'cuda', 'nvtx', 'osrt', 'nvvideo', 'cudla', 'none'.\n\n\t-w, --show 'no'\n";
    const VERSION: Version = Version(2022, 4, 2);

    #[test]
    fn versions_are_read_and_compared() {
        let text = "NVIDIA Nsight Systems version 2022.4.2.1-df9881f\n";
        assert_eq!(Version::parse(text), Some(VERSION));
        assert_eq!(
            Version::parse("NVIDIA Nsight Systems version 2024.5.4.34-245434855735v0"),
            Some(Version(2024, 5, 4))
        );
        assert_eq!(Version::parse("command not found"), None);
        assert!(VERSION > MIN_VERSION && VERSION < Version(2022, 5, 0));
    }

    #[test]
    fn traces_are_limited_to_supported_ones() {
        let of = |help, asked: &[&str]| {
            let asked: Vec<String> = asked.iter().map(|name| (*name).to_owned()).collect();
            traces(help, &asked, VERSION, "box").map_err(|error| error.to_string())
        };
        assert_eq!(
            of(OLD, &[]),
            Ok(vec!["--trace=cuda,nvtx,osrt,tegra-accelerators".to_owned()])
        );
        let units = "--accelerator-trace=tegra-accelerators".to_owned();
        assert_eq!(
            of(NEW, &[]),
            Ok(vec![
                "--trace=cuda,nvtx,osrt,nvvideo,cudla".to_owned(),
                units.clone()
            ])
        );
        assert_eq!(
            of(NEW, &["nvtx", "tegra-accelerators"]),
            Ok(vec!["--trace=nvtx".to_owned(), units])
        );
        let error = of(OLD, &["nvtx", "cudla"]).expect_err("not known");
        assert_eq!(
            error,
            "the nsys 2022.4.2 of box does not support the trace `cudla`, expected one of cuda, nvtx, osrt, nvmedia, tegra-accelerators; \
             install a newer one there, or choose with --trace"
        );
        assert!(of("", &[]).is_err());
    }

    #[test]
    fn sampling_is_disabled_with_reason() {
        let mut environment = Environment {
            status: "CPU Profiling Environment (process-tree): OK\nCPU Profiling Environment (system-wide): Fail\n".to_owned(),
            paranoid: Some(2),
            has_counters: true,
        };
        let [sample, switches] = ["--sample=process-tree", "--cpuctxsw=process-tree"];
        assert_eq!(
            Sampling::Auto.arguments(&environment),
            ([sample, switches], None)
        );
        environment.status = "CPU Profiling Environment (process-tree): Fail\n".to_owned();
        environment.paranoid = Some(4);
        let (arguments, why) = Sampling::Auto.arguments(&environment);
        assert_eq!(arguments, ["--sample=none", "--cpuctxsw=none"]);
        let why = why.expect("a reason");
        assert!(
            why.contains("is 4") && why.contains("sudo sysctl kernel.perf_event_paranoid=2"),
            "{why}"
        );
        assert_eq!(
            Sampling::On.arguments(&environment),
            ([sample, switches], None)
        );
        environment.has_counters = false;
        assert!(
            Sampling::Auto
                .arguments(&environment)
                .1
                .expect("a reason")
                .contains("virtual machines")
        );
        assert_eq!(Sampling::Off.arguments(&environment), (arguments, None));
    }

    #[test]
    fn sessions_are_read_with_their_state() {
        let text = "              ID         TIME                       STATE LAUNCH NAME\n         1027513        00:04                  Collection      1 jwp2\n         1 00:10 DelayedCollection 1 jetwatch\n";
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            sessions(text),
            [
                pair("jwp2", "Collection"),
                pair("jetwatch", "DelayedCollection")
            ]
        );
        assert!(sessions("nothing").is_empty());
    }
}
