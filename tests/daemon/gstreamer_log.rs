// SPDX-License-Identifier: Apache-2.0
//! GStreamer's log: through jetwatch's by default, and by GStreamer itself where its own variables are set.

use crate::support;

use std::fs;
use std::process::{Command, Output};

use support::daemon::{Setup, finish, json_lines_config, stderr};

const SOURCE: &str =
    "uri: 'launch:videotestsrc num-buffers=5 ! video/x-raw,width=64,height=48,framerate=30/1'";

/// A network: the source is no drawn scene.
const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/street-nano");

/// Removes the variables of whoever runs the tests.
fn without_variables(command: &mut Command) -> &mut Command {
    for name in [
        "GST_DEBUG_FILE",
        "GST_DEBUG_NO_COLOR",
        "GST_DEBUG_COLOR_MODE",
    ] {
        command.env_remove(name);
    }
    command
}

/// Runs the daemon for five frames with these variables, and with these lines in its configuration.
fn run(variables: &[(&str, &str)], yaml: &str) -> (Setup, Output) {
    let config = json_lines_config(SOURCE);
    let config = config.replace("scripted", &format!("onnx\n  model: {MODEL}"));
    let setup = Setup::new(&(config + yaml));
    let mut command = setup.command("run");
    without_variables(&mut command);
    for (name, value) in variables {
        command.env(
            name,
            value.replace("{folder}", &setup.folder.path().display().to_string()),
        );
    }
    let output = finish(command.args(["--max-frames", "5"]));
    assert!(output.status.success(), "{}", stderr(&output));
    (setup, output)
}

/// Whether gst-launch-1.0 writes colours with these variables.
fn peer_has_colors(variables: &[(&str, &str)]) -> bool {
    let mut command = Command::new("gst-launch-1.0");
    without_variables(&mut command).args([
        "--quiet",
        "videotestsrc",
        "num-buffers=1",
        "!",
        "fakesink",
    ]);
    let output = command
        .envs(variables.iter().copied())
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_has!(text => "basesrc");
    text.contains('\u{1b}')
}

#[test]
fn gst_debug_alone_shows_every_level_as_gstreamer_writes_it() {
    let (_setup, output) = run(
        &[("GST_DEBUG", "basesrc:7"), ("GST_DEBUG_NO_COLOR", "1")],
        "",
    );
    let text = stderr(&output);
    for level in ["DEBUG", "LOG"] {
        // Time, process, thread, level, category, file:line:function, object, text.
        let is_line = |line: &&str| {
            line.contains(level)
                && line.contains(" basesrc gstbasesrc.c:")
                && line.contains(":gst_base_src_")
                && line.contains("<videotestsrc")
        };
        assert!(text.lines().filter(is_line).count() > 1, "{level}: {text}");
    }
    let debug = text.lines().filter(|line| line.contains(" basesrc "));
    for line in debug {
        assert!(line.starts_with("0:00:"), "all lines look the same: {line}");
    }
}

#[test]
fn gst_debug_has_gstreamers_colors() {
    for variables in [
        &[("GST_DEBUG", "basesrc:5")][..],
        &[("GST_DEBUG", "basesrc:5"), ("GST_DEBUG_NO_COLOR", "1")],
        &[("GST_DEBUG", "basesrc:5"), ("GST_DEBUG_COLOR_MODE", "off")],
        &[("GST_DEBUG", "basesrc:5"), ("GST_DEBUG_COLOR_MODE", "unix")],
    ] {
        let (_setup, output) = run(variables, "");
        let text = stderr(&output);
        let mut lines = text.lines().filter(|line| line.contains("basesrc"));
        let has_colors = lines.any(|line| line.contains('\u{1b}'));
        let wanted = peer_has_colors(variables);
        assert_eq!(has_colors, wanted, "{variables:?}: {text}");
    }
}

#[test]
fn gst_debug_file_gets_the_log() {
    let file = ("GST_DEBUG_FILE", "{folder}/gst.log");
    let (setup, output) = run(&[("GST_DEBUG", "basesrc:5"), file], "");
    let written = fs::read_to_string(setup.path("gst.log")).expect("it was written");
    assert_has!(written => ":gst_base_src_");
    assert!(
        !stderr(&output).contains("gst_base_src_"),
        "{}",
        stderr(&output)
    );
    // The threshold of the configuration applies where GST_DEBUG is not set.
    let (setup, _) = run(&[file], "log: {gst_debug: 'basesrc:5'}\n");
    let written = fs::read_to_string(setup.path("gst.log")).expect("it was written");
    assert_has!(written => ":gst_base_src_");
}

#[test]
fn configured_levels_are_logged_with_their_place() {
    for variables in [&[][..], &[("RUST_LOG", "jetwatch=info")]] {
        let (_setup, output) = run(variables, "log: {gst_debug: '*:1,basesrc:6'}\n");
        let text = stderr(&output);
        for level in ["DEBUG", "TRACE"] {
            let is_line = |line: &str| {
                line.contains(level)
                    && line.contains("at=gstbasesrc.c:")
                    && line.contains("category=basesrc")
                    && line.contains("code_func=gst_base_src_")
            };
            assert!(text.lines().any(is_line), "{level}: {text}");
        }
        assert!(!text.contains("DEBUG source="), "{text}");
        // What a message does not have is left out.
        let of_gstreamer: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("category="))
            .collect();
        for empty in ["object=- ", "repeats=0 ", "at=:0 ", "code_func=\"\""] {
            assert!(
                !of_gstreamer.iter().any(|line| line.contains(empty)),
                "{empty}: {text}"
            );
        }
    }
    let (_setup, output) = run(&[], "log: {level: warn, gst_debug: 'basesrc:6'}\n");
    assert!(!stderr(&output).contains("basesrc"), "{}", stderr(&output));
}
