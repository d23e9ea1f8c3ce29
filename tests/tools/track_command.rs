// SPDX-License-Identifier: Apache-2.0
//! `jetwatch track` as a function: files in, files out, error texts.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use jetwatch::track::{TrackArgs, run};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    track: TrackArgs,
}

/// Runs the command; the error is the chain of its causes.
fn track(detections: &Path, out: &Path, options: &[&str]) -> Result<(), String> {
    let files = [
        "track".as_ref(),
        "--detections".as_ref(),
        detections.as_os_str(),
        "--out".as_ref(),
        out.as_os_str(),
    ];
    let line = Line::try_parse_from(files.into_iter().chain(options.iter().map(AsRef::as_ref)))
        .expect("a well-formed line");
    run(&line.track).map_err(|error| format!("{error:#}"))
}

/// A folder, and in it the paths of the detections and of the tracks.
fn files() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [detections, out] = ["det.txt", "tracks.txt"].map(|name| folder.path().join(name));
    (folder, detections, out)
}

/// One object that moves to the right, with lines out of order and both line endings, and a false detection.
const WALK: &str = "3,-1,12,5,40,80,0.7,2\r\n1,-1,10,5,40,80,0.9,2\n2,-1,11,5,40,80,0.8,2,-1,-1\n\n2,-1,300,5,40,80,0.2,2\n";

#[test]
fn tracks_are_written_with_probation_restored() {
    let (folder, detections, out) = files();
    fs::write(&detections, WALK).expect("the folder is writable");
    fs::write(
        &out,
        "what was here before, and longer than what comes\n".repeat(99),
    )
    .expect("the folder is writable");
    assert_eq!(track(&detections, &out, &[]), Ok(()));
    let wanted = "1,1,10.000,5.000,40.000,80.000,0.900000,2,-1,-1\n\
                  2,1,11.000,5.000,40.000,80.000,0.800000,2,-1,-1\n\
                  3,1,12.000,5.000,40.000,80.000,0.700000,2,-1,-1\n";
    assert_eq!(fs::read_to_string(&out).expect("it was written"), wanted);
    let left = fs::read_dir(folder.path())
        .expect("the folder is there")
        .count();
    assert_eq!(left, 2, "nothing else is left behind");
}

#[test]
fn track_options_change_output() {
    let (_folder, detections, out) = files();
    fs::write(&detections, WALK).expect("the folder is writable");
    #[rustfmt::skip]
    let cases = [
        ("--tentative-frames omit", 1),
        ("--probation-frames 1", 3),
        ("--probation-frames 1 --min-new-track-score 0", 4),
        ("--probation-frames 1 --min-new-track-score 0 --min-score 0.5", 3),
        ("--probation-frames 1 --interval 1", 3),
        ("--probation-frames 1 --min-new-track-score 0.5 --association optimal", 3),
    ];
    for (options, lines) in cases {
        let words: Vec<&str> = options.split(' ').collect();
        assert_eq!(track(&detections, &out, &words), Ok(()), "{options}");
        let text = fs::read_to_string(&out).expect("it was written");
        assert_eq!(text.lines().count(), lines, "{options}");
    }
}

#[test]
fn track_io_errors_are_reported_and_keep_output() {
    let (folder, detections, out) = files();
    fs::write(&out, "before").expect("the folder is writable");

    let missing = track(&detections, &out, &[]).expect_err("there is no such file");
    assert!(
        missing.starts_with(&format!(
            "cannot read detections from {}: ",
            detections.display()
        )),
        "{missing}"
    );

    fs::write(&detections, "1,-1,10,5,40,80,0.9\n2,-1,ten,5,40,80,0.9\n")
        .expect("the folder is writable");
    let wanted = format!(
        "{} is not in MOTChallenge format: line 2: x is \"ten\", expected a number of pixels",
        detections.display()
    );
    assert_eq!(track(&detections, &out, &[]), Err(wanted));

    let found = fs::read_to_string(&out).expect("it is still there");
    assert_eq!(found, "before");

    fs::write(&detections, WALK).expect("the folder is writable");
    let nowhere = folder.path().join("no folder").join("tracks.txt");
    let unwritable = track(&detections, &nowhere, &[]).expect_err("the folder does not exist");
    assert!(
        unwritable.starts_with(&format!("cannot write tracks to {}: ", nowhere.display())),
        "{unwritable}"
    );
}

#[test]
#[cfg(unix)]
fn output_link_and_device_are_preserved() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (detections, target, link) = (
        folder.path().join("det.txt"),
        folder.path().join("target.txt"),
        folder.path().join("link.txt"),
    );
    fs::write(&detections, WALK).expect("the folder is writable");
    fs::write(&target, "before").expect("the folder is writable");
    std::os::unix::fs::symlink(&target, &link).expect("links can be made here");
    assert_eq!(track(&detections, &link, &[]), Ok(()));
    assert!(link.is_symlink());
    let found = fs::read_to_string(&target)
        .expect("it was written")
        .lines()
        .count();
    assert_eq!(found, 3);

    // A named pipe as an example of a target that is no regular file; it gets the lines and is not replaced.
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .expect("mkfifo is part of every Unix");
    assert!(made.success());
    let read = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe)
    });
    assert_eq!(track(&detections, &pipe, &[]), Ok(()));
    let text = read
        .join()
        .expect("the reader does not panic")
        .expect("the pipe can be read");
    assert_eq!(text.lines().count(), 3);
    assert!(!fs::metadata(&pipe).expect("it is still there").is_file());
}
