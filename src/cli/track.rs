//! `jetwatch track`: a file of detections through the tracker that the daemon runs, in the text format of MOTChallenge.
//!
//! It is how the tracker is scored on public sequences, and how settings are tried on recorded detections without a
//! camera. The defaults are the daemon's own, so that the score is the daemon's too; only [`TentativeArg`] differs.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::config::{Association, ClassMatch, TrackerConfig};
use crate::track::{MotDetection, TentativeFrames, parse_detections, track_offline, write_tracks};

/// Track the objects in a file of detections
#[derive(Debug, Clone, Args)]
pub struct TrackArgs {
    /// Detections, one per line: frame,-1,x,y,width,height,score[,class[,-1,-1]]; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub detections: PathBuf,

    /// Where tracks go, one box per line: frame,id,x,y,width,height,score,class,-1,-1; `-` writes standard output
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,

    /// How detections and tracks are paired
    #[arg(long, value_enum, default_value_t = AssociationArg::Greedy)]
    pub association: AssociationArg,

    /// Least intersection over union of a detection and a track's last box, above 0 to 1
    #[arg(long, value_name = "IOU", default_value_t = 0.3, value_parser = parse_iou)]
    pub min_iou: f32,

    /// Frames in which a new object must be seen in a row before it is a track
    #[arg(long, value_name = "FRAMES", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub probation_frames: u32,

    /// Frames that a track may go unseen before it ends
    #[arg(long, value_name = "FRAMES", default_value_t = 30)]
    pub max_lost_frames: u32,

    /// Ignore detections below this score; by default none are, whatever the scale of the file's scores
    #[arg(long, value_name = "SCORE", value_parser = parse_score, allow_negative_numbers = true)]
    pub min_score: Option<f32>,

    /// Start no track from a detection below this score, but let it continue one; by default any may start one
    #[arg(long, value_name = "SCORE", value_parser = parse_score, allow_negative_numbers = true)]
    pub min_new_track_score: Option<f32>,

    /// Let detections of any class continue a track
    #[arg(long)]
    pub match_any_class: bool,

    /// What to do with the frames before a track was confirmed
    #[arg(long, value_enum, default_value_t = TentativeArg::Restore)]
    pub tentative_frames: TentativeArg,
}

/// Values of `--association`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AssociationArg {
    /// Best pair first
    Greedy,
    /// Greatest total intersection over union
    Optimal,
}

/// Values of `--tentative-frames`.
///
/// The daemon cannot publish what it does not know yet. With the whole file at hand, the frames of a track's probation are
/// known to be its own, and leaving them out would count as misses that say nothing about the tracker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TentativeArg {
    /// Write them once the track is confirmed
    Restore,
    /// Leave them out, as the daemon must
    Omit,
}

/// Runs the command: reads, tracks, and writes the result whole or not at all.
///
/// # Errors
/// The input cannot be read or parsed, with the line and field; or the output cannot be written.
pub fn run(args: &TrackArgs) -> Result<()> {
    let text = read(&args.detections)
        .with_context(|| format!("cannot read detections from {}", args.detections.display()))?;
    let mut detections = parse_detections(&text).with_context(|| {
        format!(
            "{} is not in MOTChallenge format",
            args.detections.display()
        )
    })?;
    if let Some(least) = args.min_score {
        detections.retain(|line: &MotDetection| line.detection.score >= least);
    }
    let tentative = match args.tentative_frames {
        TentativeArg::Restore => TentativeFrames::Restored,
        TentativeArg::Omit => TentativeFrames::Omitted,
    };
    let rows = track_offline(&detections, &tracker_config(args), tentative);
    write(&args.out, &write_tracks(&rows))
        .with_context(|| format!("cannot write tracks to {}", args.out.display()))
}

fn tracker_config(args: &TrackArgs) -> TrackerConfig {
    TrackerConfig {
        association: match args.association {
            AssociationArg::Greedy => Association::Greedy,
            AssociationArg::Optimal => Association::Optimal,
        },
        min_iou: args.min_iou,
        probation_frames: args.probation_frames,
        max_lost_frames: args.max_lost_frames,
        class_match: if args.match_any_class {
            ClassMatch::Any
        } else {
            ClassMatch::Same
        },
        min_new_track_score: args.min_new_track_score.unwrap_or(f32::NEG_INFINITY),
    }
}

fn parse_iou(text: &str) -> Result<f32, String> {
    let accepted = text
        .parse()
        .ok()
        .filter(|value| *value > 0.0 && *value <= 1.0);
    accepted.ok_or_else(|| "expected a number above 0, at most 1".to_owned())
}

fn parse_score(text: &str) -> Result<f32, String> {
    let accepted = text.parse().ok().filter(|value: &f32| value.is_finite());
    accepted.ok_or_else(|| "expected a number, such as 0.5".to_owned())
}

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn read(path: &Path) -> io::Result<String> {
    if !is_dash(path) {
        return fs::read_to_string(path);
    }
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

/// Writes standard output, or a file so that nobody ever sees half of it.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    if is_dash(path) {
        let mut stdout = io::stdout().lock();
        return match stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
        {
            // Who reads has seen enough, as `head` does.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            result => result,
        };
    }
    match fs::canonicalize(path) {
        // A pipe or a device is written into; renaming a file over it would remove it.
        Ok(target) if !target.is_file() => File::options()
            .write(true)
            .open(target)?
            .write_all(text.as_bytes()),
        // A link stays, and the file that it points to is replaced.
        Ok(target) => replace(&target, text),
        Err(error) if error.kind() == ErrorKind::NotFound => replace(path, text),
        Err(error) => Err(error),
    }
}

/// Writes a new file beside `path` and renames it into place.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(
            ErrorKind::InvalidInput,
            "the path does not end in a file name",
        )
    })?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.new", std::process::id()));
    let beside = path.with_file_name(beside);
    let fill = || {
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    fill().inspect_err(|_| {
        // The first error is the one worth telling.
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        track: TrackArgs,
    }

    fn parse(options: &[&str]) -> Result<TrackArgs, String> {
        let line = ["track", "--detections", "in.txt", "--out", "out.txt"]
            .iter()
            .chain(options);
        Line::try_parse_from(line)
            .map(|line| line.track)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_the_daemons() {
        let args = parse(&[]).expect("both files are given");
        let wanted = TrackerConfig {
            association: Association::Greedy,
            min_iou: 0.3,
            probation_frames: 3,
            max_lost_frames: 30,
            class_match: ClassMatch::Same,
            min_new_track_score: f32::NEG_INFINITY,
        };
        assert_eq!(tracker_config(&args), wanted);
        assert_eq!(
            (args.min_score, args.tentative_frames),
            (None, TentativeArg::Restore)
        );
    }

    #[test]
    fn every_option_arrives() {
        let options = "--association optimal --min-iou 0.5 --probation-frames 1 --max-lost-frames 0 --min-score -1.5 \
                       --min-new-track-score 0.6 --match-any-class --tentative-frames omit";
        let args = parse(&options.split_whitespace().collect::<Vec<_>>())
            .expect("all options are well formed");
        let wanted = TrackerConfig {
            association: Association::Optimal,
            min_iou: 0.5,
            probation_frames: 1,
            max_lost_frames: 0,
            class_match: ClassMatch::Any,
            min_new_track_score: 0.6,
        };
        assert_eq!(tracker_config(&args), wanted);
        assert_eq!(
            (args.min_score, args.tentative_frames),
            (Some(-1.5), TentativeArg::Omit)
        );
    }

    #[test]
    fn values_out_of_range_are_refused_with_the_accepted_form() {
        let cases = [
            (["--min-iou", "0"], "expected a number above 0, at most 1"),
            (["--min-iou", "1.1"], "expected a number above 0, at most 1"),
            (["--min-iou", "nan"], "expected a number above 0, at most 1"),
            (["--min-score", "inf"], "expected a number, such as 0.5"),
            (["--probation-frames", "0"], "0 is not in 1.."),
            (
                ["--association", "best"],
                "[possible values: greedy, optimal]",
            ),
        ];
        for (options, wanted) in cases {
            let error = parse(&options).expect_err("the value is out of range");
            assert!(error.contains(wanted), "{options:?}: {error}");
        }
    }
}
