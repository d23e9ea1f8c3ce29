//! Forwards GStreamer's debug log, and GLib's warnings, to the log, with repeats counted instead of printed.

use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::glib;
use parking_lot::Mutex;

use jetwatch_telemetry::LogRateLimit;

/// Interval in which a location logs at most once; further messages are counted.
const REPEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of stored locations; other locations are always logged.
const MAX_LOCATIONS: usize = 1024;

/// Replaces GStreamer's log output. `threshold` is used unless `GST_DEBUG` is set.
pub(super) fn install(threshold: &str) {
    gst::log::remove_default_log_function();
    if std::env::var_os("GST_DEBUG").is_none() {
        gst::log::set_threshold_from_string(threshold, true);
    }
    install_glib_handler();
    let repeats = Mutex::new(LogRateLimit::new(REPEAT_INTERVAL, MAX_LOCATIONS));
    gst::log::add_log_function(
        move |category, level, _file, function, line, object, message| {
            let level = match level {
                // Failures are reported by jetwatch's own errors; messages of elements are details, and some
                // also occur at a normal end.
                gst::DebugLevel::Error => log::Level::Warn,
                gst::DebugLevel::Warning | gst::DebugLevel::Fixme | gst::DebugLevel::Info => {
                    log::Level::Info
                }
                gst::DebugLevel::Debug => log::Level::Debug,
                _ => log::Level::Trace,
            };
            if level > log::max_level() {
                return;
            }
            let location = (category.name().to_owned(), function.to_string(), line);
            let Some(suppressed) = repeats.lock().admit(location, Instant::now()) else {
                return;
            };
            let object = object.map(ToString::to_string);
            let text = message
                .get()
                .map(|text| text.to_string())
                .unwrap_or_default();
            log::log!(
                target: "gstreamer", level,
                category = category.name(), object = object.as_deref().unwrap_or("-"), repeats = suppressed; "{text}"
            );
        },
    );
}

/// Replaces GLib's log output. Libraries report there what should never happen, such as failed assertions.
fn install_glib_handler() {
    let repeats = Mutex::new(LogRateLimit::new(REPEAT_INTERVAL, MAX_LOCATIONS));
    glib::log_set_default_handler(move |domain, level, message| {
        let level = match level {
            glib::LogLevel::Error | glib::LogLevel::Critical => log::Level::Error,
            glib::LogLevel::Warning => log::Level::Warn,
            glib::LogLevel::Message | glib::LogLevel::Info => log::Level::Info,
            glib::LogLevel::Debug => log::Level::Debug,
        };
        let domain = domain.unwrap_or("-");
        let location = (domain.to_owned(), message.to_owned());
        let admitted = repeats.lock().admit(location, Instant::now());
        if let Some(suppressed) = admitted {
            log::log!(target: "gstreamer", level, category = domain, repeats = suppressed; "{message}");
        }
    });
}
