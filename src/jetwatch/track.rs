// SPDX-License-Identifier: Apache-2.0
//! `jetwatch track`: runs the daemon's tracker on files of detections in MOTChallenge text format.
//!
//! It scores the trackers on public sequences, and tries settings on recorded detections without a
//! camera. The defaults are the daemon's own, so that the score is the daemon's; only [`TentativeArg`] differs.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use jetwatch_config::{
    Association, ByteTrackConfig, ClassMatch, OcSortConfig, TrackerConfig, TrackerKind,
};
use jetwatch_eval::io::{is_dash, write};
use jetwatch_eval::{
    MotSequence, TentativeFrames, metrics_json, metrics_table, track_with_interval, write_tracks,
};

use super::output::print;

/// Track the objects in files of detections
#[derive(Debug, Clone, Args)]
pub struct TrackArgs {
    /// Detections, one per line: frame,-1,x,y,width,height,score[,class[,-1,-1]]; `-` reads standard input. May be given
    /// several times, once for each sequence
    #[arg(long, value_name = "FILE", required = true)]
    pub detections: Vec<PathBuf>,

    /// Output of tracks, one box per line: frame,id,x,y,width,height,score,class,-1,-1; `-` writes standard output. As
    /// often as --detections, in the same order
    #[arg(long, value_name = "FILE", required_unless_present = "metrics")]
    pub out: Vec<PathBuf>,

    /// Print tracking metrics against this ground truth, one box per line: frame,id,x,y,width,height,counts[,…]. As often
    /// as --detections, in the same order
    #[arg(long, value_name = "FILE")]
    pub metrics: Vec<PathBuf>,

    /// Do not count tracks as wrong that lie mostly in an object whose row does not count, such as the hidden ones that `jetwatch
    /// demo --sequence-out` writes. Without it such rows are left out, as in MOT15
    #[arg(long, requires = "metrics")]
    pub ignore_uncounted: bool,

    /// Print the counts behind the metrics of each sequence as JSON instead of the table; they can be added up
    #[arg(long, requires = "metrics")]
    pub json: bool,

    /// Tracker
    #[arg(long, value_enum, default_value_t = TrackerArg::Iou)]
    pub tracker: TrackerArg,

    /// Assignment of detections to tracks [default: iou: greedy; others: optimal]
    #[arg(long, value_enum)]
    pub association: Option<AssociationArg>,

    /// Minimum intersection over union of a detection and the predicted box of a track, above 0 to 1; bytetrack
    /// multiplies it with the score [default: iou: 0.2; others: 0.25]
    #[arg(long, value_name = "IOU", value_parser = parse_iou)]
    pub min_iou: Option<f32>,

    /// Consecutive frames with a detection before a new track is confirmed [default: 3]
    #[arg(long, value_name = "FRAMES", value_parser = clap::value_parser!(u32).range(1..))]
    pub probation_frames: Option<u32>,

    /// Number of usual detections that each of these frames stands for, at most: a new track of lower scores is confirmed later;
    /// 0: the scores do not matter [default: 1.5]
    #[arg(long, value_name = "COUNT", value_parser = parse_evidence)]
    pub probation_evidence: Option<f32>,

    /// Frames without a detection before a track ends [default: iou: 5; others: 30]
    #[arg(long, value_name = "FRAMES")]
    pub max_lost_frames: Option<u32>,

    /// Additional frames in which a lost track may be continued by a new one near its predicted position [default: 0]
    #[arg(long, value_name = "FRAMES")]
    pub reassociate_frames: Option<u32>,

    /// Ignore detections below this score, on the scale of the file's scores [default: none; bytetrack and ocsort: 0.1]
    #[arg(long, value_name = "SCORE", value_parser = parse_score, allow_negative_numbers = true)]
    pub min_score: Option<f32>,

    /// Start no track from a detection below this score, on the scale of the file's scores [default: 0.6, or less if the scores
    /// of most tracks are lower]
    #[arg(long, value_name = "SCORE", value_parser = parse_score, allow_negative_numbers = true)]
    pub min_new_track_score: Option<f32>,

    /// bytetrack and ocsort: match detections below this score in a second stage [default: 0.7]
    #[arg(long, value_name = "SCORE", value_parser = parse_score, allow_negative_numbers = true)]
    pub tentative_score: Option<f32>,

    /// bytetrack and ocsort: minimum intersection over union in the second stage, above 0 to 1 [default: 0.5]
    #[arg(long, value_name = "IOU", value_parser = parse_iou)]
    pub tentative_min_iou: Option<f32>,

    /// ocsort: weight of the direction in the similarity of a track and a detection [default: 0.1]
    #[arg(long, value_name = "WEIGHT", value_parser = parse_share)]
    pub momentum_weight: Option<f32>,

    /// ocsort: minimum intersection over union of a detection and the last observed box of a track [default: 0.5]
    #[arg(long, value_name = "IOU", value_parser = parse_iou)]
    pub recovery_min_iou: Option<f32>,

    /// Frames to skip after each frame with inference: their detections are not used, and tracks are predicted, as with
    /// detector.interval
    #[arg(long, value_name = "FRAMES", default_value_t = 0)]
    pub interval: u32,

    /// Let detections of any class continue a track
    #[arg(long)]
    pub match_any_class: bool,

    /// Handling of the frames before a track was confirmed
    #[arg(long, value_enum, default_value_t = TentativeArg::Restore)]
    pub tentative_frames: TentativeArg,
}

/// Values of `--tracker`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TrackerArg {
    /// Compare with the last box
    Iou,
    /// Compare with the box that a Kalman filter predicts
    Sort,
    /// The same, with weak detections in a second stage
    Bytetrack,
    /// The same, with the last observations of a track
    Ocsort,
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
/// The daemon cannot publish tentative frames, as the track may never be confirmed. With the whole file available, they are
/// known to belong to the track, and omitting them would count as misses that are not the tracker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TentativeArg {
    /// Write them once the track is confirmed
    Restore,
    /// Leave them out, as the daemon must
    Omit,
}

/// Runs the command: reads all files, tracks, and writes each result atomically.
///
/// # Errors
/// Options conflict; an input that cannot be read or parsed, with the line and field; or an output that
/// cannot be written.
pub fn run(args: &TrackArgs) -> Result<()> {
    check(args)?;
    let config = tracker_config(args);
    let tentative = match args.tentative_frames {
        TentativeArg::Restore => TentativeFrames::Restored,
        TentativeArg::Omit => TentativeFrames::Omitted,
    };
    let sequences = args
        .detections
        .iter()
        .enumerate()
        .map(|(index, path)| {
            let truth = args.metrics.get(index).map(PathBuf::as_path);
            let sequence = MotSequence::read(path, args.min_score, truth)?;
            match truth {
                Some(truth) if args.ignore_uncounted => sequence.with_ignored(truth),
                _ => Ok(sequence),
            }
        })
        .collect::<Result<Vec<_>>>()?;
    let mut tracks = Vec::with_capacity(sequences.len());
    for (index, sequence) in sequences.iter().enumerate() {
        let rows = track_with_interval(&sequence.detections, &config, tentative, args.interval);
        if let Some(out) = args.out.get(index) {
            write(out, &write_tracks(&rows))
                .with_context(|| format!("cannot write tracks to {}", out.display()))?;
        }
        tracks.push(sequence.scored(rows));
    }
    if args.json {
        println!("{}", metrics_json(&sequences, &tracks));
    } else if !args.metrics.is_empty() {
        print(format_args!("{}", metrics_table(&sequences, &tracks)));
    }
    Ok(())
}

/// Rejects incompatible options.
fn check(args: &TrackArgs) -> Result<()> {
    let sequences = args.detections.len();
    for (option, given) in [("--out", args.out.len()), ("--metrics", args.metrics.len())] {
        ensure!(
            given == 0 || given == sequences,
            "{option} is given {given} times and --detections {sequences} times, expected one for each sequence"
        );
    }
    let dashes = |paths: &[PathBuf]| paths.iter().filter(|path| is_dash(path)).count();
    let read = dashes(&args.detections) + dashes(&args.metrics);
    ensure!(
        read <= 1,
        "standard input is given {read} times, expected once; use files for the others"
    );
    ensure!(
        dashes(&args.out) <= usize::from(args.metrics.is_empty()),
        "standard output can hold the tracks of one sequence and no metrics; use files for the tracks"
    );
    ensure!(
        matches!(args.tracker, TrackerArg::Bytetrack | TrackerArg::Ocsort)
            || (args.tentative_score.is_none() && args.tentative_min_iou.is_none()),
        "--tentative-score and --tentative-min-iou need --tracker bytetrack or ocsort"
    );
    ensure!(
        args.tracker == TrackerArg::Ocsort
            || (args.momentum_weight.is_none() && args.recovery_min_iou.is_none()),
        "--momentum-weight and --recovery-min-iou need --tracker ocsort"
    );
    Ok(())
}

fn tracker_config(args: &TrackArgs) -> TrackerConfig {
    let defaults = TrackerConfig::new(match args.tracker {
        TrackerArg::Iou => TrackerKind::Iou,
        TrackerArg::Sort => TrackerKind::Sort,
        TrackerArg::Bytetrack => TrackerKind::ByteTrack,
        TrackerArg::Ocsort => TrackerKind::OcSort,
    });
    // Scores in files can be on any scale: a minimum score of 0 is not the same as none.
    let any = match defaults.kind {
        TrackerKind::Iou | TrackerKind::Sort => f32::NEG_INFINITY,
        TrackerKind::ByteTrack | TrackerKind::OcSort => defaults.bytetrack.min_score,
    };
    TrackerConfig {
        association: match args.association {
            Some(AssociationArg::Greedy) => Association::Greedy,
            Some(AssociationArg::Optimal) => Association::Optimal,
            None => defaults.association,
        },
        min_iou: args.min_iou.unwrap_or(defaults.min_iou),
        probation_frames: args.probation_frames.unwrap_or(defaults.probation_frames),
        probation_evidence: args
            .probation_evidence
            .unwrap_or(defaults.probation_evidence),
        max_lost_frames: args.max_lost_frames.unwrap_or(defaults.max_lost_frames),
        reassociate_frames: args
            .reassociate_frames
            .unwrap_or(defaults.reassociate_frames),
        class_match: if args.match_any_class {
            ClassMatch::Any
        } else {
            ClassMatch::Same
        },
        min_new_track_score: args
            .min_new_track_score
            .unwrap_or(defaults.min_new_track_score),
        new_track_share: match args.min_new_track_score {
            Some(_) => 0.0,
            None => defaults.new_track_share,
        },
        bytetrack: ByteTrackConfig {
            min_score: args.min_score.unwrap_or(any),
            tentative_score: args
                .tentative_score
                .unwrap_or(defaults.bytetrack.tentative_score),
            tentative_min_iou: args
                .tentative_min_iou
                .unwrap_or(defaults.bytetrack.tentative_min_iou),
        },
        ocsort: OcSortConfig {
            momentum_weight: args
                .momentum_weight
                .unwrap_or(defaults.ocsort.momentum_weight),
            recovery_min_iou: args
                .recovery_min_iou
                .unwrap_or(defaults.ocsort.recovery_min_iou),
        },
        ..defaults
    }
}

fn parse_iou(text: &str) -> Result<f32, String> {
    let accepted = text
        .parse()
        .ok()
        .filter(|value| *value > 0.0 && *value <= 1.0);
    accepted.ok_or_else(|| "expected a number above 0, at most 1".to_owned())
}

fn parse_share(text: &str) -> Result<f32, String> {
    let accepted = text
        .parse()
        .ok()
        .filter(|value| (0.0..=1.0).contains(value));
    accepted.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

fn parse_evidence(text: &str) -> Result<f32, String> {
    let accepted = text
        .parse()
        .ok()
        .filter(|value| (0.0..=10.0).contains(value));
    accepted.ok_or_else(|| "expected a number from 0 to 10".to_owned())
}

fn parse_score(text: &str) -> Result<f32, String> {
    let accepted = text.parse().ok().filter(|value: &f32| value.is_finite());
    accepted.ok_or_else(|| "expected a number, such as 0.5".to_owned())
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
    fn track_defaults_equal_daemon_defaults() {
        let args = parse(&[]).expect("both files are given");
        let mut wanted = TrackerConfig::new(TrackerKind::Iou);
        wanted.bytetrack.min_score = f32::NEG_INFINITY;
        assert_eq!(tracker_config(&args), wanted);
        let args = parse(&["--tracker", "bytetrack"]).expect("a tracker");
        assert_eq!(
            tracker_config(&args),
            TrackerConfig::new(TrackerKind::ByteTrack)
        );
        assert_eq!(
            (args.min_score, args.tentative_frames),
            (None, TentativeArg::Restore)
        );
    }

    #[test]
    fn every_option_reaches_tracker_config() {
        let options = "--association optimal --min-iou 0.5 --probation-frames 1 --probation-evidence 2 --max-lost-frames 0 --reassociate-frames 5 --min-score -1.5 \
                       --min-new-track-score 0.5 --match-any-class --tentative-frames omit --tracker ocsort \
                       --tentative-score 0.4 --tentative-min-iou 0.7 --momentum-weight 0.3 --recovery-min-iou 0.6";
        let args = parse(&options.split_whitespace().collect::<Vec<_>>())
            .expect("all options are well formed");
        let wanted = TrackerConfig {
            association: Association::Optimal,
            min_iou: 0.5,
            probation_frames: 1,
            probation_evidence: 2.0,
            max_lost_frames: 0,
            reassociate_frames: 5,
            class_match: ClassMatch::Any,
            min_new_track_score: 0.5,
            new_track_share: 0.0,
            bytetrack: ByteTrackConfig {
                min_score: -1.5,
                tentative_score: 0.4,
                tentative_min_iou: 0.7,
            },
            ocsort: OcSortConfig {
                momentum_weight: 0.3,
                recovery_min_iou: 0.6,
            },
            ..TrackerConfig::new(TrackerKind::OcSort)
        };
        assert_eq!(tracker_config(&args), wanted);
        assert_eq!(
            (args.min_score, args.tentative_frames),
            (Some(-1.5), TentativeArg::Omit)
        );
    }

    #[test]
    fn out_of_range_values_are_rejected_with_accepted_range() {
        #[rustfmt::skip]
        let cases = [
            (["--min-iou", "0"], "expected a number above 0, at most 1"),
            (["--min-iou", "1.1"], "expected a number above 0, at most 1"),
            (["--min-iou", "nan"], "expected a number above 0, at most 1"),
            (["--min-score", "inf"], "expected a number, such as 0.5"),
            (["--probation-frames", "0"], "0 is not in 1.."),
            (["--probation-evidence", "11"], "expected a number from 0 to 10"),
            (["--momentum-weight", "1.1"], "expected a number from 0 to 1"),
            (["--association", "best"], "[possible values: greedy, optimal]"),
        ];
        for (options, wanted) in cases {
            let error = parse(&options).expect_err("the value is out of range");
            assert!(error.contains(wanted), "{options:?}: {error}");
        }
    }

    #[test]
    fn conflicting_options_are_rejected() {
        #[rustfmt::skip]
        let cases = [
            ("--detections b.txt", "--out is given 1 times and --detections 2 times, expected one for each sequence"),
            ("--metrics a.gt --metrics b.gt", "--metrics is given 2 times and --detections 1 times, expected one for each sequence"),
            ("--metrics a.gt --detections - --metrics - --out b", "standard input is given 2 times, expected once; use files for the others"),
            ("--detections b.txt --metrics a.gt --metrics b.gt --out -", "standard output can hold the tracks of one sequence and no metrics; use files for the tracks"),
            ("--tracker sort --tentative-score 0.5", "--tentative-score and --tentative-min-iou need --tracker bytetrack or ocsort"),
            ("--tracker bytetrack --momentum-weight 0.5", "--momentum-weight and --recovery-min-iou need --tracker ocsort"),
        ];
        for (options, wanted) in cases {
            let args = parse(&options.split_whitespace().collect::<Vec<_>>())
                .expect("each option is well formed");
            let error = run(&args).expect_err("they do not fit together");
            assert_eq!(error.to_string(), wanted, "{options}");
        }
    }
}
