// SPDX-License-Identifier: Apache-2.0
//! Log output: journald with structured fields when started by systemd, else the terminal.
//!
//! Fields are given as `log`'s key-values: `log::warn!(source = name; "no frame for {} ms", …)`. In the journal `source`
//! becomes the field `SOURCE`; on a terminal it is written as `source=street` before the text. The level applies to
//! jetwatch's crates; others log from `warn` up, and GStreamer (target `gstreamer`) as far as `log.gst_debug` allows, which a
//! level of `warn` or `error` limits.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::OnceLock;

use log::{Level, LevelFilter, Log, Metadata, Record};
use systemd_journal_logger::JournalLog;

use super::recent_log;

/// The selected log output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogTarget {
    /// journald, through its native protocol.
    Journal,
    /// Standard error.
    Terminal,
}

/// Targets with the configured level; all others log from `warn` up.
const OWN_TARGETS: [&str; 2] = ["jetwatch", GSTREAMER];

/// Target of GStreamer's log.
const GSTREAMER: &str = "gstreamer";

/// Starts logging at `level`. A later call changes the level only.
///
/// The journal is used when standard error is the stream that systemd named in `JOURNAL_STREAM`, so a shell below a
/// service still logs to its own terminal. On a terminal, `RUST_LOG` overrides `level`, then and later; invalid parts of
/// it are reported on standard error and ignored.
pub fn start(level: LevelFilter) -> LogTarget {
    static STARTED: OnceLock<Started> = OnceLock::new();
    let started = STARTED.get_or_init(|| install(level));
    log::set_max_level(started.rust_log.unwrap_or(level));
    started.target
}

/// Formats an error for standard error: where that is the journal, each line begins with the
/// priority prefix of systemd, without which its level would be info.
///
/// For errors that end the program, also before logging has started; everything else is logged.
pub fn with_error_prefix(text: &str) -> Cow<'_, str> {
    if systemd_journal_logger::connected_to_journal() {
        Cow::Owned(with_line_prefix(text))
    } else {
        Cow::Borrowed(text)
    }
}

/// Each line is a separate entry in the journal, so each needs the prefix.
fn with_line_prefix(text: &str) -> String {
    text.lines()
        .map(|line| format!("<3>{line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Runs the closure that it gets, once, while the terminal shows nothing but ordinary lines.
pub type TerminalGuard = fn(&mut dyn FnMut());

static TERMINAL_GUARD: OnceLock<TerminalGuard> = OnceLock::new();

/// Sets what surrounds each line that is logged to the terminal from now on: a program with a progress line clears the line
/// before and draws it again after. The first guard stays; later ones are ignored.
pub fn set_terminal_guard(guard: TerminalGuard) {
    let _ = TERMINAL_GUARD.set(guard);
}

struct Started {
    target: LogTarget,
    /// Most verbose level in `RUST_LOG`, where it applies.
    rust_log: Option<LevelFilter>,
}

fn install(level: LevelFilter) -> Started {
    if systemd_journal_logger::connected_to_journal()
        && let Ok(journal) = JournalLog::new()
    {
        let journal = journal.with_syslog_identifier("jetwatch".to_owned());
        // Fails only when another logger was installed first; then there is nothing left to select.
        let _ = log::set_boxed_logger(Box::new(OwnTargetFilter(Kept(journal))));
        return Started {
            target: LogTarget::Journal,
            rust_log: None,
        };
    }
    let mut builder = env_logger::Builder::new();
    builder.format(|out, record| {
        let style = out.default_level_style(record.level());
        let level = format!("{style}{:5}{style:#}", record.level());
        let time = out.timestamp_millis();
        write_line(out, &time, &level, record)
    });
    let has_rust_log = std::env::var("RUST_LOG").is_ok_and(|filters| !filters.trim().is_empty());
    let rust_log = if has_rust_log {
        builder
            .filter_level(LevelFilter::Warn)
            .filter_module("jetwatch", level)
            .filter_module(GSTREAMER, LevelFilter::Trace)
            .parse_default_env();
        let terminal = builder.build();
        let max = terminal.filter();
        let _ = log::set_boxed_logger(Box::new(Guarded(terminal)));
        Some(max)
    } else {
        let terminal = builder.filter_level(LevelFilter::Trace).build();
        let _ = log::set_boxed_logger(Box::new(OwnTargetFilter(Guarded(terminal))));
        None
    };
    Started {
        target: LogTarget::Terminal,
        rust_log,
    }
}

/// Writes records inside the [`TerminalGuard`].
struct Guarded(env_logger::Logger);

impl Log for Guarded {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        if self.0.matches(record) {
            recent_log::keep(record);
        }
        match TERMINAL_GUARD.get() {
            Some(guard) if self.0.matches(record) => guard(&mut || self.0.log(record)),
            _ => self.0.log(record),
        }
    }

    fn flush(&self) {
        self.0.flush();
    }
}

/// Keeps the newest warnings and errors of what it passes on.
struct Kept<L>(L);

impl<L: Log> Log for Kept<L> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.enabled(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        recent_log::keep(record);
        self.0.log(record);
    }

    fn flush(&self) {
        self.0.flush();
    }
}

/// Filters records by [`is_enabled_for`] before they reach the wrapped logger.
struct OwnTargetFilter<L>(L);

impl<L: Log> Log for OwnTargetFilter<L> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        is_enabled_for(metadata.target(), metadata.level(), log::max_level())
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            self.0.log(record);
        }
    }

    fn flush(&self) {
        self.0.flush();
    }
}

/// Whether a record of `target` is logged when the configured level is `max`.
///
/// Of GStreamer, `log.gst_debug` has already selected what is logged; only a level above `info` limits it further.
fn is_enabled_for(target: &str, level: Level, max: LevelFilter) -> bool {
    if target == GSTREAMER && max >= LevelFilter::Info {
        return true;
    }
    let is_own = is_own(target);
    level
        <= if is_own {
            max
        } else {
            max.min(LevelFilter::Warn)
        }
}

fn is_own(target: &str) -> bool {
    OWN_TARGETS.iter().any(|own| {
        target
            .strip_prefix(own)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('_'))
    })
}

/// One line for a terminal: time, level, the target (unless it is a crate of jetwatch), fields, text.
fn write_line(
    out: &mut impl Write,
    time: &dyn Display,
    level: &dyn Display,
    record: &Record<'_>,
) -> io::Result<()> {
    write!(out, "{time} {level} ")?;
    if !is_own(record.target()) {
        write!(out, "[{}] ", record.target())?;
    }
    if record.target() == GSTREAMER
        && let (Some(file), Some(line)) = (record.file(), record.line())
    {
        let name = file.rsplit('/').next().unwrap_or(file);
        write!(out, "at={name}:{line} ")?;
    }
    record
        .key_values()
        .visit(&mut Fields(out))
        .map_err(io::Error::other)?;
    writeln!(out, "{}", record.args())
}

/// Writes `key=value ` before the text, so that lines of one source are easy to find.
struct Fields<'a, W: Write>(&'a mut W);

impl<'kvs, W: Write> log::kv::VisitSource<'kvs> for Fields<'_, W> {
    fn visit_pair(
        &mut self,
        key: log::kv::Key<'kvs>,
        value: log::kv::Value<'kvs>,
    ) -> Result<(), log::kv::Error> {
        let value = value.to_string();
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && c != '"' && c != '=';
        if !value.is_empty() && value.chars().all(is_plain) {
            write!(self.0, "{key}={value} ")
        } else {
            write!(self.0, "{key}={value:?} ")
        }
        .map_err(log::kv::Error::from)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    fn line(target: &str, fields: &[(&str, &str)], text: &str) -> String {
        let mut out = Vec::new();
        let mut builder = Record::builder();
        builder
            .level(Level::Warn)
            .target(target)
            .file(Some("../libs/base.c"))
            .line(Some(7))
            .key_values(&fields);
        write_line(
            &mut out,
            &"12:00:00",
            &"WARN ",
            &builder.args(format_args!("{text}")).build(),
        )
        .expect("writing to memory cannot fail");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_line_has_time_level_fields_and_text() {
        let fields = [
            ("source", "street"),
            ("reason", "no \"route\"\nto host"),
            ("user", ""),
        ];
        assert_eq!(
            line("jetwatch_source::gst", &fields, "stalled"),
            "12:00:00 WARN  source=street reason=\"no \\\"route\\\"\\nto host\" user=\"\" stalled\n"
        );
        assert_eq!(
            line("gstreamer", &[("code_func", "push")], "late"),
            "12:00:00 WARN  at=base.c:7 code_func=push late\n"
        );
        assert_eq!(
            line("rustls::client", &[], "gone"),
            "12:00:00 WARN  [rustls::client] gone\n"
        );
    }

    #[test]
    fn journal_error_lines_have_priority_prefix() {
        let text = "jetwatch: a.yaml:1: sources: found nothing\n\n1 problem in a.yaml";
        let marked = "<3>jetwatch: a.yaml:1: sources: found nothing\n<3>\n<3>1 problem in a.yaml";
        assert_eq!(with_line_prefix(text), marked);
        assert_eq!(with_line_prefix("out of memory\n"), "<3>out of memory");
    }

    #[test]
    fn other_crates_log_from_warning_level() {
        #[rustfmt::skip]
        let cases = [
            ("jetwatch_source::gst", Level::Debug, LevelFilter::Debug, true),
            ("jetwatch", Level::Debug, LevelFilter::Info, false),
            ("gstreamer", Level::Info, LevelFilter::Info, true),
            ("gstreamer", Level::Trace, LevelFilter::Info, true),
            ("gstreamer", Level::Info, LevelFilter::Warn, false),
            ("gstreamer", Level::Warn, LevelFilter::Off, false),
            ("jetwatcher", Level::Info, LevelFilter::Trace, false),
            ("rustls::client", Level::Info, LevelFilter::Trace, false),
            ("rustls::client", Level::Warn, LevelFilter::Info, true),
            ("rustls::client", Level::Warn, LevelFilter::Error, false),
        ];
        for (target, level, most, expected) in cases {
            assert_eq!(
                is_enabled_for(target, level, most),
                expected,
                "{target} {level} {most}"
            );
        }
    }

    /// In the child process: starts logging, writes a few lines to standard error, and prints the selected output.
    fn child() {
        let home = start(LevelFilter::Info);
        if home == LogTarget::Terminal {
            log::info!(source = "street"; "first");
            log::debug!("hidden");
            log::info!(target: "rustls", "chatter");
            start(LevelFilter::Debug);
            log::debug!("second");
        }
        eprintln!("{}", with_error_prefix(&format!("home {home:?}")));
    }

    /// Standard error of a process that starts logging with these variables.
    ///
    /// `test` is the calling test, which the child runs: the logger is global to a process.
    fn standard_error(test: &str, folder: &Path, variables: &[(&str, &str)]) -> String {
        let path = folder.join("stderr");
        let file = File::create(&path).expect("created");
        let metadata = file.metadata().expect("metadata");
        let stream = format!("{}:{}", metadata.dev(), metadata.ino());
        let mut command = Command::new(std::env::current_exe().expect("this test's binary"));
        command.args([&format!("logger::tests::{test}"), "--exact", "--nocapture"]);
        command
            .env_remove("RUST_LOG")
            .env_remove("JOURNAL_STREAM")
            .env("JETWATCH_TEST_CHILD", "1");
        for (name, value) in variables {
            command.env(name, value.replace("{stderr}", &stream));
        }
        let status = command
            .stderr(file)
            .stdout(std::process::Stdio::null())
            .status()
            .expect("started");
        assert!(status.success());
        std::fs::read_to_string(&path).expect("text")
    }

    fn is_child() -> bool {
        std::env::var_os("JETWATCH_TEST_CHILD").is_some()
    }

    #[test]
    fn terminal_log_level_follows_changes() {
        if is_child() {
            return child();
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let test = "terminal_log_level_follows_changes";
        for variables in [
            vec![],
            vec![("JOURNAL_STREAM", "1:1")],
            vec![("RUST_LOG", " ")],
        ] {
            let text = standard_error(test, folder.path(), &variables);
            assert!(text.contains(" INFO  source=street first\n"), "{text}");
            assert!(text.contains(" DEBUG second\n"), "{text}");
            assert!(
                !text.contains("hidden") && !text.contains("chatter"),
                "{text}"
            );
            assert!(text.contains("\nhome Terminal\n"), "{text}");
        }
    }

    #[test]
    fn rust_log_overrides_level_and_reports_mistakes() {
        if is_child() {
            return child();
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let test = "rust_log_overrides_level_and_reports_mistakes";
        let text = standard_error(
            test,
            folder.path(),
            &[("RUST_LOG", "jetwatch=debug,rustls=info")],
        );
        for expected in ["first", "hidden", "[rustls] chatter", "second"] {
            assert!(text.contains(expected), "{text}");
        }
        let text = standard_error(test, folder.path(), &[("RUST_LOG", "jetwatch=loud")]);
        assert!(
            text.contains("invalid logging spec 'loud', ignoring it"),
            "{text}"
        );
        assert!(text.contains("first") && !text.contains("second"), "{text}");
    }

    #[test]
    fn journal_is_used_only_when_stderr_is_journal() {
        if is_child() {
            return child();
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let test = "journal_is_used_only_when_stderr_is_journal";
        let text = standard_error(test, folder.path(), &[("JOURNAL_STREAM", "{stderr}")]);
        // Without journald, the terminal is the fallback.
        let has_journal = Path::new("/run/systemd/journal/socket").exists();
        let expected = if has_journal {
            "<3>home Journal\n"
        } else {
            "<3>home Terminal\n"
        };
        assert!(text.contains(expected), "{text}");
    }
}
