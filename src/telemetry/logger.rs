//! Where log lines go: journald with structured fields when systemd started us, else the terminal.
//!
//! Fields are given as `log`'s key-values: `log::warn!(source = name; "no frame for {} ms", …)`. In the journal `source`
//! becomes the field `SOURCE`.

use std::io::Write;

use log::LevelFilter;

/// Which home the log found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogHome {
    /// journald, through its native protocol.
    Journal,
    /// Standard error.
    Terminal,
}

/// Starts logging at `level`; `RUST_LOG` overrides it on a terminal. A second call changes only the level.
pub fn start(level: LevelFilter) -> LogHome {
    if systemd_journal_logger::connected_to_journal()
        && let Ok(logger) = systemd_journal_logger::JournalLog::new()
        && logger.with_syslog_identifier("jetwatch".to_owned()).install().is_ok()
    {
        log::set_max_level(level);
        return LogHome::Journal;
    }
    let mut builder = env_logger::Builder::new();
    builder.filter_level(LevelFilter::Warn).filter_module("jetwatch", level).parse_default_env().format(|out, record| {
        let style = out.default_level_style(record.level());
        let time = out.timestamp_millis();
        write!(out, "{time} {style}{:5}{style:#} ", record.level())?;
        record.key_values().visit(&mut Fields(out)).map_err(std::io::Error::other)?;
        writeln!(out, "{}", record.args())
    });
    if builder.try_init().is_err() {
        log::set_max_level(level);
    }
    LogHome::Terminal
}

/// Writes `key=value ` before the text, so that lines of one source can be found by eye and by grep.
struct Fields<'a, W: Write>(&'a mut W);

impl<'kvs, W: Write> log::kv::VisitSource<'kvs> for Fields<'_, W> {
    fn visit_pair(&mut self, key: log::kv::Key<'kvs>, value: log::kv::Value<'kvs>) -> Result<(), log::kv::Error> {
        write!(self.0, "{key}={value} ").map_err(log::kv::Error::from)
    }
}
