// SPDX-License-Identifier: Apache-2.0
//! `jetwatch spool`: what waits for the broker, or for a webhook, outside of the daemon.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use jetwatch_config::Config;
use jetwatch_publish::{spool_folders, webhook_folders};
use jetwatch_spool::{Class, Folders, LogStatus, Record, Spool, read_folder};
use jetwatch_tables::{Align, TextTable};

use super::{CONFIG_FILE, Exit};

/// Arguments of `jetwatch spool`.
#[derive(Debug, Args)]
pub(super) struct SpoolArgs {
    #[command(subcommand)]
    command: SpoolCommand,
}

#[derive(Debug, Subcommand)]
enum SpoolCommand {
    /// Show what waits in the folders of the spool.
    Status {
        #[command(flatten)]
        place: Place,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the messages that wait, one JSON object per line. The daemon may run.
    Dump {
        #[command(flatten)]
        place: Place,
    },
    /// Remove all messages that wait. The daemon must not run.
    Drop {
        #[command(flatten)]
        place: Place,
        /// Remove them; without this, only their number is printed.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
struct Place {
    /// Configuration file.
    #[arg(short, long, value_name = "FILE", default_value = CONFIG_FILE)]
    config: PathBuf,
    /// The webhook of this name instead of the broker.
    #[arg(long, value_name = "NAME")]
    webhook: Option<String>,
}

/// The folders of the configuration.
struct Configured {
    /// Those of the durability in force.
    folders: Folders,
    /// On a device, whether or not it is used.
    state: PathBuf,
}

/// Runs the subcommand.
pub(super) fn run(args: &SpoolArgs) -> anyhow::Result<Exit> {
    match &args.command {
        SpoolCommand::Status { place, json } => status(&place.configured()?, *json),
        SpoolCommand::Dump { place } => dump(&place.configured()?),
        SpoolCommand::Drop { place, yes } => remove(&place.configured()?, *yes),
    }
}

impl Place {
    fn configured(&self) -> anyhow::Result<Configured> {
        let publish = Config::load(&self.config)?.publish;
        let config = self.config.display();
        if let Some(name) = &self.webhook {
            let webhook = publish
                .webhooks
                .iter()
                .find(|webhook| webhook.name == *name);
            let webhook = webhook.with_context(|| format!("{config} has no webhook `{name}`"))?;
            return Ok(Configured {
                folders: webhook_folders(webhook),
                state: webhook.state_path(),
            });
        }
        let mqtt = publish
            .mqtt
            .with_context(|| format!("{config} has `publish.mqtt: off`: there is no spool"))?;
        Ok(Configured {
            folders: spool_folders(&mqtt),
            state: mqtt.spool.state_path(&mqtt.client_id),
        })
    }
}

/// The folders that exist, with their names: those of another durability, too.
fn folders(configured: &Configured) -> Vec<(&'static str, PathBuf)> {
    let folders = [
        ("state", configured.state.clone()),
        ("runtime", configured.folders.front.clone()),
        ("runtime", configured.state.join("front")),
    ];
    let exists = |(_, path): &(_, PathBuf)| path.is_dir();
    folders.into_iter().filter(exists).collect()
}

/// Messages that wait in a folder, and what is known of it.
struct Found {
    name: &'static str,
    path: PathBuf,
    status: LogStatus,
    is_in_use: bool,
}

/// Reads the folders; each message is in `records` once.
fn read(configured: &Configured) -> anyhow::Result<(Vec<Found>, BTreeMap<u64, Record>)> {
    let mut records = BTreeMap::new();
    let mut found = Vec::new();
    for (name, path) in folders(configured) {
        let (status, is_in_use) = read_folder(&path, |record| {
            records.insert(record.seq, record);
        })?;
        found.push(Found {
            name,
            path,
            status,
            is_in_use,
        });
    }
    // What one folder knows to be done may still be in the other.
    let acked = found.iter().map(|found| found.status.acked).max();
    records.retain(|seq, _| acked.is_none_or(|acked| *seq > acked));
    Ok((found, records))
}

fn status(configured: &Configured, as_json: bool) -> anyhow::Result<Exit> {
    let (found, records) = read(configured)?;
    let oldest_ms = records.values().map(|record| record.at_ms).min();
    let age_ms = oldest_ms.map(|oldest| unix_ms().saturating_sub(oldest));
    let count = |class: Class| {
        records
            .values()
            .filter(|record| record.class == class)
            .count()
    };
    if as_json {
        let folders: Vec<Value> = found
            .iter()
            .map(|found| {
                json!({
                    "folder": found.name,
                    "path": found.path,
                    "bytes": found.status.bytes,
                    "segments": found.status.segments,
                    "messages": found.status.records,
                    "in_use": found.is_in_use,
                })
            })
            .collect();
        let by_class: serde_json::Map<String, Value> = Class::ALL
            .into_iter()
            .map(|class| (class.name().to_owned(), count(class).into()))
            .collect();
        let status = json!({
            "messages": records.len(),
            "by_class": by_class,
            "oldest_age_ms": age_ms,
            "folders": folders,
        });
        println!("{status:#}");
        return Ok(Exit::Success);
    }
    let age = age_ms.map_or("none waits".to_owned(), |age| {
        format!("the oldest for {:.1} s", age as f64 / 1e3)
    });
    println!("{} messages wait, {age}", records.len());
    let mut table = TextTable::new(&[
        ("folder", Align::Left),
        ("messages", Align::Right),
        ("bytes", Align::Right),
        ("daemon", Align::Left),
        ("path", Align::Left),
    ]);
    for found in &found {
        table.push([
            found.name.to_owned(),
            found.status.records.to_string(),
            found.status.bytes.to_string(),
            if found.is_in_use { "runs" } else { "-" }.to_owned(),
            found.path.display().to_string(),
        ]);
    }
    match found.is_empty() {
        true => println!(
            "no folder exists; the configured ones are {}",
            names(&configured.folders)
        ),
        false => println!("{table}"),
    }
    Ok(Exit::Success)
}

fn names(Folders { front, back, .. }: &Folders) -> String {
    let folders = [Some(front), back.as_ref()].into_iter().flatten();
    let folders: Vec<String> = folders.map(|path| path.display().to_string()).collect();
    folders.join(" and ")
}

fn dump(configured: &Configured) -> anyhow::Result<Exit> {
    let (_, records) = read(configured)?;
    for record in records.into_values() {
        let payload = serde_json::from_slice::<Value>(&record.payload);
        let payload = payload.unwrap_or_else(|_| String::from_utf8_lossy(&record.payload).into());
        let line = json!({
            "topic": record.topic,
            "seq": record.seq,
            "class": record.class.name(),
            "at_ms": record.at_ms,
            "payload": payload,
        });
        println!("{line}");
    }
    Ok(Exit::Success)
}

fn remove(configured: &Configured, yes: bool) -> anyhow::Result<Exit> {
    let (found, records) = read(configured)?;
    if let Some(found) = found.iter().find(|found| found.is_in_use) {
        anyhow::bail!(
            "a daemon uses {}; stop it first, or wait until its messages were taken",
            found.path.display()
        );
    }
    if !yes {
        println!("{} messages wait; add --yes to remove them", records.len());
        return Ok(Exit::Failure);
    }
    let folders = Folders {
        back: Some(configured.state.clone()).filter(|path| path.is_dir()),
        ..configured.folders.clone()
    };
    let (spool, _) = Spool::open(&folders);
    let spool = spool.with_context(|| format!("cannot open {}", names(&folders)))?;
    // Numbers go on behind them.
    spool.ack(spool.next_seq() - 1);
    spool.keep_gap(None);
    spool.trim(true)?;
    println!("{} messages removed", records.len());
    Ok(Exit::Success)
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
