//! Arguments of the subcommands for bundles.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use jetwatch_bundles::{BundleName, ProgramVersion, SwitchOptions, WatchLimits};

use crate::parse_duration;

/// Arguments of `jetwatch model pack`.
#[derive(Debug, Args)]
pub(crate) struct PackArgs {
    /// Name of the bundle, which all of its versions share: lower-case letters, digits, `-` and `_`.
    #[arg(long, value_name = "NAME")]
    pub(super) name: BundleName,
    /// Serial number; each version needs a higher one than the version before.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) serial: u64,
    /// A model folder; with FOLDER= its name in the bundle, for `model: bundle:NAME/FOLDER`. A single one without a name is `bundle:NAME`. Repeat it for several.
    #[arg(long, value_name = "[FOLDER=]DIR", required = true)]
    pub(super) model: Vec<String>,
    /// A configuration that the bundle brings along and that replaces that of the box.
    #[arg(long, value_name = "FILE")]
    pub(super) configuration: Option<PathBuf>,
    /// First day on which no box installs it any more, in UTC, such as 2027-06-30.
    #[arg(long, value_name = "DATE", value_parser = parse_date)]
    pub(super) expires: Timestamp,
    /// Oldest version of jetwatch that runs it; by default the version of this program.
    #[arg(long, value_name = "VERSION", default_value = env!("CARGO_PKG_VERSION"))]
    pub(super) min_jetwatch: ProgramVersion,
    /// Precision in which boxes prove the models; by default that which their configuration chooses.
    #[arg(long, value_name = "PRECISION")]
    pub(super) precision: Option<String>,
    /// Folder for NAME-SERIAL.tar.
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub(super) out: PathBuf,
}

/// Arguments of `jetwatch model install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// The bundle.
    pub(super) file: PathBuf,
    /// Its signature by minisign; by default the file with .minisig behind its name.
    #[arg(long, value_name = "FILE")]
    pub(super) signature: Option<PathBuf>,
    /// Folder of the public keys that may have signed it, each in a file NAME.pub.
    #[arg(long, value_name = "DIR", default_value = "/etc/jetwatch/trusted.d")]
    pub(super) keys: PathBuf,
    /// Accept a serial number below that of an earlier version.
    #[arg(long)]
    pub(super) allow_downgrade: bool,
    #[command(flatten)]
    pub(super) switch: SwitchArgs,
}

/// Arguments of `jetwatch model rollback`.
#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// Name of the bundle.
    pub(super) name: BundleName,
    #[command(flatten)]
    pub(super) switch: SwitchArgs,
}

/// How the daemon is switched and watched.
#[derive(Debug, Args)]
pub(crate) struct SwitchArgs {
    /// Configuration of the daemon.
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "/etc/jetwatch/jetwatch.yaml"
    )]
    pub(super) config: PathBuf,
    /// Unit of the daemon, which systemd restarts.
    #[arg(long, value_name = "UNIT", default_value = "jetwatch.service")]
    pub(super) unit: String,
    /// Restart the daemon by this command of the shell, where systemd does not run it.
    #[arg(long, value_name = "COMMAND", conflicts_with = "unit")]
    pub(super) restart_with: Option<String>,
    /// The file in which the daemon writes its health (`jetwatch run --health`); by default that of the unit for --config.
    #[arg(long, value_name = "FILE")]
    pub(super) health: Option<PathBuf>,
    /// How long frames are counted before the switch, to compare with.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    pub(super) before: Duration,
    /// How long the start of the daemon may take after the switch.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "180s")]
    pub(super) start_timeout: Duration,
    /// How long the daemon is watched after its start.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "60s")]
    pub(super) watch: Duration,
    /// Minimum frames per second through the network after the switch, in percent of those before.
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(super) min_share: u8,
    /// Neither restart nor watch the daemon: for a machine on which none runs yet.
    #[arg(long)]
    pub(super) no_restart: bool,
}

impl SwitchArgs {
    /// How the switch is done.
    pub(super) fn options(&self) -> SwitchOptions {
        let limits = WatchLimits {
            before: self.before,
            start: self.start_timeout,
            period: self.watch,
            min_share: f64::from(self.min_share) / 100.0,
        };
        SwitchOptions {
            configuration: self.config.clone(),
            watch: (!self.no_restart).then_some(limits),
        }
    }
}

/// Arguments of `jetwatch model history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Name of the bundle; by default all of them.
    pub(super) name: Option<BundleName>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of `jetwatch model recover`.
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {}

/// Parses a day; its beginning in UTC.
fn parse_date(text: &str) -> Result<Timestamp, String> {
    let date: Result<Date, _> = text.parse();
    date.and_then(|date| date.to_zoned(TimeZone::UTC))
        .map(|zoned| zoned.timestamp())
        .map_err(|_| format!("found {text:?}, expected a day such as 2027-06-30"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_begins_at_midnight_in_utc() {
        let parsed = parse_date("2027-06-30").expect("a day");
        assert_eq!(parsed.to_string(), "2027-06-30T00:00:00Z");
        for text in ["", "2027", "2027-02-30", "tomorrow"] {
            assert!(parse_date(text).is_err(), "{text}");
        }
    }
}
