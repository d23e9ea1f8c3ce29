// SPDX-License-Identifier: Apache-2.0
//! Judges a configuration by the facts of a box: what `jetwatch check` would find there, as far as it can be known elsewhere.
//!
//! Nothing is opened but the model folders that are on this machine, too. What only the box can answer is `unknown`, with what to do.

mod detector;
mod sources;
mod space;

use jetwatch_config::{Config, SourceConfig, SourceUri};

use super::Facts;
use crate::CheckReport;

/// Lowest version of GStreamer.
const MIN_GSTREAMER: (u32, u32) = (1, 16);

/// Judges `config` by `facts`, and adds the results.
pub fn check_offline(config: &Config, facts: &Facts, report: &mut CheckReport) {
    check_machine(facts, report);
    let input = detector::check(config, facts, report);
    check_gstreamer(config, facts, report);
    for source in &config.sources {
        sources::check(config, source, facts, input, report);
    }
    space::check(config, facts, report);
    check_user(config, facts, report);
    if config.publish.mqtt.is_some() {
        report.unknown("broker", "not contacted: jetwatch check on the box does");
    }
}

fn check_machine(facts: &Facts, report: &mut CheckReport) {
    let name = facts.hostname.as_deref().unwrap_or("a box without a name");
    report.ok(
        "machine",
        &format!(
            "{name}: {} ({}), facts of {} by jetwatch {}",
            facts.machine.describe(),
            facts.architecture,
            facts.collected_at,
            facts.jetwatch
        ),
    );
    if facts.jetwatch != env!("CARGO_PKG_VERSION") {
        let text = format!(
            "the box has jetwatch {}, this is {}: its judgement may differ",
            facts.jetwatch,
            env!("CARGO_PKG_VERSION")
        );
        report.unknown("version", &text);
    }
    for note in facts.machine.notes.iter().chain(&facts.notes) {
        report.unknown("machine", note);
    }
}

/// GStreamer itself, and the elements that the sources need on any machine.
fn check_gstreamer(config: &Config, facts: &Facts, report: &mut CheckReport) {
    const WHAT: &str = "GStreamer";
    let needed = sources::needed_elements(config);
    if needed.is_empty() {
        return;
    }
    let gstreamer = match facts.gstreamer.get() {
        Ok(gstreamer) => gstreamer,
        Err(reason) => return report.failed(WHAT, reason),
    };
    let mut numbers = gstreamer
        .version
        .trim_start_matches(|c: char| !c.is_ascii_digit())
        .split('.')
        .map_while(|number| number.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) < MIN_GSTREAMER => {
            let (major, minor) = MIN_GSTREAMER;
            let text = format!("{}, expected {major}.{minor} or newer", gstreamer.version);
            report.failed(WHAT, &text);
        }
        _ => report.ok(WHAT, &gstreamer.version),
    }
    for spec in needed {
        let what = format!("element {}", spec.name);
        match gstreamer.elements.get(spec.name) {
            None => report.failed(
                &what,
                &format!(
                    "missing; install it with: sudo apt install {}",
                    spec.package
                ),
            ),
            Some(element) if !element.wrong.is_empty() => {
                report.failed(&what, &element.wrong.join(", "));
            }
            Some(_) => {}
        }
    }
}

/// The daemon's user, and the groups without which it opens neither cameras nor the engines of a Jetson.
fn check_user(config: &Config, facts: &Facts, report: &mut CheckReport) {
    const WHAT: &str = "user";
    let Some(user) = &facts.user else {
        let text = "the box has no user jetwatch: the package is not installed";
        return report.unknown(WHAT, text);
    };
    let is_camera = |source: &SourceConfig| {
        matches!(source.uri, SourceUri::V4l2 { .. } | SourceUri::Csi { .. })
    };
    let wanted: &[&str] = match facts.machine.is_jetson() {
        true => &["video", "render"],
        false if config.sources.iter().any(is_camera) => &["video"],
        false => return report.ok(WHAT, &format!("{} exists", user.name)),
    };
    let missing: Vec<&str> = wanted
        .iter()
        .copied()
        .filter(|group| !user.groups.iter().any(|name| name == group))
        .collect();
    match missing.is_empty() {
        true => report.ok(
            WHAT,
            &format!("{} is in {}", user.name, wanted.join(" and ")),
        ),
        false => report.failed(
            WHAT,
            &format!(
                "{} is not in {}: sudo usermod -aG {} {} && sudo systemctl restart jetwatch",
                user.name,
                missing.join(" and "),
                missing.join(","),
                user.name
            ),
        ),
    }
}
