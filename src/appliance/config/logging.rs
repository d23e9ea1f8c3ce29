// SPDX-License-Identifier: Apache-2.0
//! `log`: what is logged.

use log::LevelFilter;

use super::section::Section;

/// What is logged.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct LogConfig {
    /// Lowest severity that is logged.
    #[key(
        words(
            error = LevelFilter::Error,
            warn = LevelFilter::Warn,
            info = LevelFilter::Info,
            debug = LevelFilter::Debug,
            trace = LevelFilter::Trace,
        ),
        default = "info"
    )]
    pub level: LevelFilter,
    /// What GStreamer logs, bridged into our log.
    ///
    /// Only errors by default: demuxers warn about sound files.
    #[key(
        text = "GST_DEBUG's form, such as *:2 or 3,rtspsrc:5, with levels from 0 to 9",
        check = is_gst_debug,
        default = "*:1"
    )]
    pub gst_debug: String,
}

/// `LEVEL` or `CATEGORY:LEVEL`, separated by commas.
fn is_gst_debug(text: &str) -> bool {
    text.split(',').all(|part| {
        let (category, level) = part.rsplit_once(':').unwrap_or(("*", part));
        let is_category_char = |c: char| c.is_ascii_alphanumeric() || "-_*?.".contains(c);
        !category.is_empty()
            && category.chars().all(is_category_char)
            && level.len() == 1
            && level.bytes().all(|b| b.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gst_debug_accepts_variable_syntax() {
        for good in ["2", "*:2", "3,rtspsrc:5", "*:1,v4l2*:6,GST_CAPS:4"] {
            assert!(is_gst_debug(good), "{good}");
        }
        for bad in ["", "debug", "*:", ":2", "*:10", "*:2,", "a b:2", "*:-1"] {
            assert!(!is_gst_debug(bad), "{bad}");
        }
    }
}
