// SPDX-License-Identifier: Apache-2.0
//! `jetwatch media`: the files of snapshots, clips and recordings, for the operator. It works beside a running daemon.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use jetwatch_archive::{Archive, Item, MediaId, MediaKind, Query, RemovalReason, Usage, utc};
use jetwatch_config::Config;
use jetwatch_pipeline::archive_limits;
use jetwatch_tables::{Align, TextTable};

use super::{CONFIG_FILE, Exit};

/// Arguments of `jetwatch media`.
#[derive(Debug, Args)]
pub(super) struct MediaArgs {
    /// Configuration file, whose record.folder is used.
    #[arg(short, long, global = true, value_name = "FILE", default_value = CONFIG_FILE)]
    config: PathBuf,
    #[command(subcommand)]
    command: MediaCommand,
}

#[derive(Debug, Subcommand)]
enum MediaCommand {
    /// List files, the newest first.
    List {
        /// Of this source only.
        #[arg(long, value_name = "NAME")]
        source: Option<String>,
        /// About objects of this label only.
        #[arg(long)]
        label: Option<String>,
        /// About this zone only.
        #[arg(long, value_name = "NAME")]
        zone: Option<String>,
        /// Of this kind only.
        #[arg(long)]
        kind: Option<Kind>,
        /// As many at most.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
        /// Also those that were deleted in the last days.
        #[arg(long)]
        removed: bool,
        /// Print one JSON object per line.
        #[arg(long)]
        json: bool,
    },
    /// Show what is known of a file, as JSON.
    Show {
        /// Identity of the file.
        id: String,
    },
    /// Keep a file whatever its age and whatever the space.
    Pin {
        /// Identity of the file.
        id: String,
    },
    /// Let a pinned file be deleted again.
    Unpin {
        /// Identity of the file.
        id: String,
    },
    /// Delete a file.
    Remove {
        /// Identity of the file.
        id: String,
    },
    /// Show how much there is, by source and kind, and how long the space lasts.
    Usage {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare the index with the files. Differences are healed when the daemon starts.
    Check,
}

/// A kind of files on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// The best picture of a track.
    Snapshot,
    /// The video around a track.
    Clip,
    /// A piece of all video.
    Continuous,
}

impl From<Kind> for MediaKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Snapshot => Self::Snapshot,
            Kind::Clip => Self::Clip,
            Kind::Continuous => Self::Continuous,
        }
    }
}

/// Runs the subcommand.
pub(super) fn run(args: &MediaArgs) -> anyhow::Result<Exit> {
    let record = Config::load(&args.config)?.record;
    let archive = Archive::attach(record.folder_path(), archive_limits(&record.retention))?;
    match &args.command {
        MediaCommand::List {
            source,
            label,
            zone,
            kind,
            limit,
            removed,
            json,
        } => {
            let query = Query {
                source: source.clone(),
                label: label.clone(),
                zone: zone.clone(),
                kind: kind.map(MediaKind::from),
                limit: usize::from(*limit),
                with_removed: *removed,
                ..Query::default()
            };
            list(&archive.items(&query)?, *json);
        }
        MediaCommand::Show { id } => {
            let item = archive.get(&parse(id)?)?;
            let mut shown = as_json(&item);
            shown["file"] = json!(archive.file_of(&item).ok());
            println!("{shown:#}");
        }
        MediaCommand::Pin { id } => {
            archive.pin(&parse(id)?, true)?;
        }
        MediaCommand::Unpin { id } => {
            archive.pin(&parse(id)?, false)?;
        }
        MediaCommand::Remove { id } => {
            archive.remove(&parse(id)?, RemovalReason::Operator)?;
        }
        MediaCommand::Usage { json } => usage(&archive.usage(SystemTime::now())?, *json),
        MediaCommand::Check => return check(&archive),
    }
    Ok(Exit::Success)
}

fn parse(id: &str) -> anyhow::Result<MediaId> {
    MediaId::parse(id).with_context(|| {
        format!(
            "`{id}` is no id, expected 16 letters and digits as `jetwatch media list` shows them"
        )
    })
}

fn list(items: &[Item], as_lines: bool) {
    if as_lines {
        for item in items {
            println!("{}", as_json(item));
        }
        return;
    }
    let mut table = TextTable::new(&[
        ("id", Align::Left),
        ("kind", Align::Left),
        ("state", Align::Left),
        ("from", Align::Left),
        ("s", Align::Right),
        ("bytes", Align::Right),
        ("label", Align::Left),
        ("path", Align::Left),
    ]);
    for item in items {
        let length = item.to.and_then(|to| to.duration_since(item.from).ok());
        table.push([
            item.id.to_string(),
            item.kind.word().to_owned(),
            state(item),
            utc(item.from),
            length.map_or("-".to_owned(), |length| {
                format!("{:.1}", length.as_secs_f64())
            }),
            item.bytes.to_string(),
            item.label.clone().unwrap_or_else(|| "-".to_owned()),
            item.path.display().to_string(),
        ]);
    }
    match items.is_empty() {
        true => println!("no files"),
        false => println!("{table}"),
    }
}

fn state(item: &Item) -> String {
    let mut state = item.state.word().to_owned();
    if let Some(reason) = item.reason {
        state += &format!(" ({})", reason.word());
    }
    if item.is_incomplete {
        state += ", incomplete";
    }
    if item.is_pinned {
        state += ", pinned";
    }
    state
}

fn as_json(item: &Item) -> Value {
    json!({
        "id": item.id.as_str(),
        "kind": item.kind.word(),
        "state": item.state.word(),
        "source": item.source,
        "from": utc(item.from),
        "to": item.to.map(utc),
        "bytes": item.bytes,
        "label": item.label,
        "tracks": item.tracks,
        "zones": item.zones,
        "box_normalized": item.region,
        "pinned": item.is_pinned,
        "incomplete": item.is_incomplete,
        "reason": item.reason.map(RemovalReason::word),
        "path": item.path,
    })
}

fn usage(usage: &Usage, as_json: bool) {
    if as_json {
        let kinds = usage.sources.iter().flat_map(|source| {
            source.kinds.iter().map(|kind| {
                json!({
                    "source": source.source,
                    "kind": kind.kind.word(),
                    "files": kind.files,
                    "bytes": kind.bytes,
                    "oldest": source.oldest.map(utc),
                })
            })
        });
        let shown = json!({
            "files": kinds.collect::<Vec<_>>(),
            "pinned_bytes": usage.pinned_bytes,
            "free_bytes": usage.space.free,
            "total_bytes": usage.space.total,
            "bytes_per_day": usage.bytes_per_day,
            "days_left": usage.days_left,
        });
        println!("{shown:#}");
        return;
    }
    let mut table = TextTable::new(&[
        ("source", Align::Left),
        ("kind", Align::Left),
        ("files", Align::Right),
        ("MiB", Align::Right),
        ("oldest of the source", Align::Left),
    ]);
    let mib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 20));
    for source in &usage.sources {
        for kind in &source.kinds {
            table.push([
                source.source.clone(),
                kind.kind.word().to_owned(),
                kind.files.to_string(),
                mib(kind.bytes),
                source.oldest.map_or("-".to_owned(), utc),
            ]);
        }
    }
    println!("{table}");
    println!(
        "pinned {} MiB; free {} of {} MiB",
        mib(usage.pinned_bytes),
        mib(usage.space.free),
        mib(usage.space.total)
    );
    match (usage.bytes_per_day, usage.days_left) {
        (Some(rate), Some(days)) => println!(
            "{} MiB a day: files are deleted for want of space in {days:.1} days",
            mib(rate as u64)
        ),
        _ => println!("nothing was written in the last day"),
    }
}

fn check(archive: &Archive) -> anyhow::Result<Exit> {
    let differences = archive.differences()?;
    for difference in &differences {
        println!("{difference}");
    }
    match differences.len() {
        0 => {
            println!("index and files agree");
            Ok(Exit::Success)
        }
        count => bail!("{count} differences; the next start of the daemon heals them"),
    }
}
