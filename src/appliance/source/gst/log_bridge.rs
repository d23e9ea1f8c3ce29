// SPDX-License-Identifier: Apache-2.0
//! Forwards GStreamer's debug log, and GLib's warnings, to the log, with repeats counted instead of printed.
//!
//! Where `GST_DEBUG` or `GST_DEBUG_FILE` is set, someone debugs GStreamer itself: it then writes its log on its own, as in every
//! other program, with its format, its colours and all lines.

use std::time::Instant;

use gstreamer as gst;
use gstreamer::glib;
use log::kv::Value;
use parking_lot::Mutex;

use jetwatch_telemetry::FailureLog;

use super::flush_guard::is_flushing;
use super::messages::without_secrets;
use super::thread_names;

/// Target of the records.
const TARGET: &str = "gstreamer";

/// Replaces GStreamer's log output, unless its own variables are set. `threshold` is used unless `GST_DEBUG` is set.
pub(super) fn install(threshold: &str) {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if !is_set("GST_DEBUG") {
        gst::log::set_threshold_from_string(threshold, true);
    }
    install_glib_handler();
    if is_set("GST_DEBUG") || is_set("GST_DEBUG_FILE") {
        return;
    }
    gst::log::remove_default_log_function();
    let repeats = Mutex::new(FailureLog::default());
    gst::log::add_log_function(
        move |category, level, file, function, line, object, message| {
            let level = log_level(level);
            // Not by the macros of `log`: the threshold says what GStreamer logs, not `log.level`.
            let logger = log::logger();
            let metadata = |level| log::Metadata::builder().target(TARGET).level(level).build();
            if !logger.enabled(&metadata(level)) {
                return;
            }
            let text = message
                .get()
                .map(|text| text.to_string())
                .unwrap_or_default();
            let logged = match is_flushing() {
                true => level_in_flush(level, category.name(), &text),
                false => level,
            };
            if logged != level && logged > log::max_level() {
                return;
            }
            // A place in the code and a source; libraries behind GStreamer give no place, but a text.
            let source = thread_names::source();
            let name = source.as_deref().unwrap_or_default();
            let place = match file.is_empty() {
                true => FailureLog::kind_of(&text),
                false => format!("{function}:{line}"),
            };
            let kind = format!("{name}:{}:{place}", category.name());
            let Some(suppressed) = repeats.lock().admit_kind(kind, Instant::now()) else {
                return;
            };
            let text = without_secrets(text);
            let object = object.map(ToString::to_string);
            // Libraries behind GStreamer, such as libav, give neither an object nor a place in their code.
            let is_placed = !file.is_empty();
            let fields = [
                source
                    .as_deref()
                    .map(|source| ("source", Value::from(source))),
                Some(("category", Value::from(category.name()))),
                object
                    .as_deref()
                    .map(|object| ("object", Value::from(object))),
                (suppressed > 0).then(|| ("repeats", Value::from(suppressed))),
                // The journal's name for it.
                (!function.is_empty()).then(|| ("code_func", Value::from(function.as_str()))),
            ];
            let fields: Vec<_> = fields.into_iter().flatten().collect();
            logger.log(
                &log::Record::builder()
                    .metadata(metadata(logged))
                    .file(is_placed.then(|| file.as_str()))
                    .line(is_placed.then_some(line))
                    .key_values(&fields.as_slice())
                    .args(format_args!("{text}"))
                    .build(),
            );
        },
    );
}

/// Level in jetwatch's log. Failures are reported by jetwatch's own errors; messages of elements are details, and some also
/// occur at a normal end.
fn log_level(level: gst::DebugLevel) -> log::Level {
    match level {
        gst::DebugLevel::Error => log::Level::Warn,
        gst::DebugLevel::Warning | gst::DebugLevel::Fixme | gst::DebugLevel::Info => {
            log::Level::Info
        }
        gst::DebugLevel::Debug => log::Level::Debug,
        _ => log::Level::Trace,
    }
}

/// Level of a message that is logged while a pipeline is stopped or starts over: libav then is given no buffer, and says
/// `get_buffer() failed` or `thread_get_buffer() failed`, and for H.264 what follows from it. That is no failure.
fn level_in_flush(level: log::Level, category: &str, text: &str) -> log::Level {
    const REFUSED: [&str; 3] = [
        "get_buffer() failed",
        "decode_slice_header error",
        "no frame!",
    ];
    let text = text.trim_end();
    match category == "libav" && REFUSED.iter().any(|end| text.ends_with(end)) {
        true => level.max(log::Level::Debug),
        false => level,
    }
}

/// Replaces GLib's log output. Libraries report there what should never happen, such as failed assertions.
fn install_glib_handler() {
    let repeats = Mutex::new(FailureLog::default());
    glib::log_set_default_handler(move |domain, level, message| {
        let level = match level {
            glib::LogLevel::Error | glib::LogLevel::Critical => log::Level::Error,
            glib::LogLevel::Warning => log::Level::Warn,
            glib::LogLevel::Message | glib::LogLevel::Info => log::Level::Info,
            glib::LogLevel::Debug => log::Level::Debug,
        };
        let domain = domain.unwrap_or("-");
        let message = without_secrets(message.to_owned());
        let text = format!("{domain}: {message}");
        let admitted = repeats.lock().admit(&text, Instant::now());
        if let Some(suppressed) = admitted {
            log::log!(target: TARGET, level, category = domain, repeats = suppressed; "{message}");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_buffers_are_details_while_a_pipeline_flushes() {
        #[rustfmt::skip]
        let cases = [
            ("libav", "get_buffer() failed", log::Level::Debug),
            ("libav", "thread_get_buffer() failed\n", log::Level::Debug),
            ("libav", "decode_slice_header error\n", log::Level::Debug),
            ("libav", "no frame!\n", log::Level::Debug),
            ("libav", "get_buffer() failed (stride changed: linesize=1/2 uvlinesize=1/1)", log::Level::Warn),
            ("libav", "Could not find ref with POC 7", log::Level::Warn),
            ("qtdemux", "get_buffer() failed", log::Level::Warn),
        ];
        for (category, text, wanted) in cases {
            let level = log_level(gst::DebugLevel::Error);
            assert_eq!(level_in_flush(level, category, text), wanted, "{text}");
        }
        let trace = level_in_flush(log::Level::Trace, "libav", "get_buffer() failed");
        assert_eq!(trace, log::Level::Trace);
    }
}
