//! Forwards GStreamer's debug log, and GLib's warnings, to the log, with repeats counted instead of printed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gstreamer as gst;
use gstreamer::glib;

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
    let repeats = Mutex::new(RateLimitedLog::default());
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
            let Some(suppressed) = repeats
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .admit(location, Instant::now())
            else {
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
    let repeats = Mutex::new(RateLimitedLog::default());
    glib::log_set_default_handler(move |domain, level, message| {
        let level = match level {
            glib::LogLevel::Error | glib::LogLevel::Critical => log::Level::Error,
            glib::LogLevel::Warning => log::Level::Warn,
            glib::LogLevel::Message | glib::LogLevel::Info => log::Level::Info,
            glib::LogLevel::Debug => log::Level::Debug,
        };
        let domain = domain.unwrap_or("-");
        let location = (domain.to_owned(), message.to_owned(), 0);
        let admitted = repeats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .admit(location, Instant::now());
        if let Some(suppressed) = admitted {
            log::log!(target: "gstreamer", level, category = domain, repeats = suppressed; "{message}");
        }
    });
}

/// Per location: time of the last message, and number of suppressed ones since.
#[derive(Default)]
struct RateLimitedLog {
    locations: HashMap<(String, String, u32), (Instant, u64)>,
}

impl RateLimitedLog {
    /// Whether a message of this location may be logged now: `Some(suppressed messages since the last one)` if so.
    fn admit(&mut self, location: (String, String, u32), now: Instant) -> Option<u64> {
        if let Some((last, suppressed)) = self.locations.get_mut(&location) {
            if now.duration_since(*last) < REPEAT_INTERVAL {
                *suppressed += 1;
                return None;
            }
            *last = now;
            return Some(std::mem::take(suppressed));
        }
        if self.locations.len() < MAX_LOCATIONS {
            self.locations.insert(location, (now, 0));
        }
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_log_location_is_counted() {
        let mut repeats = RateLimitedLog::default();
        let location = || ("h264dec".to_owned(), "decode".to_owned(), 7);
        let start = Instant::now();
        assert_eq!(repeats.admit(location(), start), Some(0));
        assert_eq!(
            repeats.admit(location(), start + Duration::from_secs(1)),
            None
        );
        assert_eq!(
            repeats.admit(location(), start + Duration::from_secs(2)),
            None
        );
        assert_eq!(
            repeats.admit(("h264dec".to_owned(), "decode".to_owned(), 8), start),
            Some(0),
            "another line"
        );
        assert_eq!(repeats.admit(location(), start + REPEAT_INTERVAL), Some(2));
    }
}
