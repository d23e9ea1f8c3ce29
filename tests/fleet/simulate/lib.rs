// SPDX-License-Identifier: Apache-2.0
//! Messages of many devices from one process, for tests of brokers: the daemon's own encoder and MQTT client, one connection for each
//! device, all on one thread. No camera and no network. The program `jetwatch-simulate` calls it.

mod deliveries;
mod device;
mod file_limit;
mod logs;
mod names;
mod scene;
mod summary;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, MissedTickBehavior, interval};

use jetwatch_config::MqttConfig;
use jetwatch_publish::{Part, Protocol, PublishError};
use jetwatch_telemetry::{StopToken, process_usage};
use jetwatch_types::{SplitMix64, hash64};

use self::deliveries::{Counts, Totals};
use self::device::{Device, Outcome};
use self::logs::{AckLog, MadeLog};
pub use self::summary::Summary;

/// How often the caller is told how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// File descriptors that the spool of a device has open: its lock, its cursor, the segment that is written, and one for a moment.
const FILES_OF_SPOOL: u64 = 4;

/// Why nothing was simulated, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The process may not have as many connections.
    #[error(
        "{boxes} boxes need {needed} file descriptors, and the hard limit of this process is {limit}; raise it with \
         `ulimit -Hn {needed}` as root or with LimitNOFILE={needed} in a unit, or simulate fewer boxes"
    )]
    FileLimit {
        /// Simulated devices.
        boxes: usize,
        /// File descriptors that they need.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// The operating system refused a resource.
    #[error("cannot start the simulation: {0}")]
    Runtime(#[source] std::io::Error),
    /// A list of events cannot be written.
    #[error("cannot write the list of events to {}: {source}; choose another file with {option}", path.display())]
    Log {
        /// The option.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder of the spools cannot be made.
    #[error("cannot create the folder of the spools {}: {source}; choose another folder with --spool, in one that exists", path.display())]
    SpoolFolder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A device has no spool.
    #[error("{device}: {source}; choose another folder with --spool")]
    Spool {
        /// The device.
        device: String,
        /// Why.
        source: PublishError,
    },
    /// A file of a device cannot be read.
    #[error("{option}: {device} needs {}: {source}", path.display())]
    File {
        /// The option.
        option: &'static str,
        /// The device.
        device: String,
        /// Its file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Times without a network.
#[derive(Debug, Clone, Copy)]
pub struct Outages {
    /// Mean time between the begins of two outages of one device; the times are spread like those of independent faults.
    pub every: Duration,
    /// Mean length; each is half to one and a half of it.
    pub length: Duration,
}

/// What is simulated.
#[derive(Debug, Clone)]
pub struct Options {
    /// Devices, each with a connection of its own.
    pub boxes: usize,
    /// Events and analytics events of each device in a second, as a mean; the times between them are random.
    pub events_per_s: f64,
    /// Sources of each device.
    pub sources: usize,
    /// Time of the measurement, which begins when the last device was started.
    pub duration: Duration,
    /// First part of the names of devices and of client ids, which a number follows.
    pub device_prefix: String,
    /// The broker and how to log in, for all devices. Device number n begins with broker number n of the list. `{device}` in the name
    /// of the user and in paths is the name of the device.
    pub mqtt: MqttConfig,
    /// Only these messages.
    pub part: Part,
    /// Each device has a spool in the folder `mqtt.spool.runtime_folder`; messages that the broker has not acknowledged are there for the next
    /// run. `log` and `acks` of an earlier run are continued.
    pub has_spool: bool,
    /// Only this version of MQTT; `None`: what the broker understands.
    pub protocol: Option<Protocol>,
    /// Devices that are started in a second.
    pub connects_per_s: f64,
    /// Times without a network; `None`: none.
    pub outages: Option<Outages>,
    /// Time between two messages with statistics of a device.
    pub stats_interval: Duration,
    /// Longest time after the measurement until all messages are acknowledged.
    pub drain: Duration,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Where each event is noted, as a line of JSON with `device`, `spool` and `seq`.
    pub log: Option<PathBuf>,
    /// Where each event that the broker has acknowledged is noted: also with `made_ms`, `acked_ms` and `ack_ms`.
    pub acks: Option<PathBuf>,
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Duration,
    /// Devices that were started.
    pub started: usize,
    /// Events that were made.
    pub events: u64,
    /// Messages of QoS 1 that the broker has acknowledged.
    pub acknowledged: u64,
    /// Connections that the broker has accepted.
    pub connects: u64,
}

/// What all devices share.
#[derive(Debug)]
struct Shared {
    options: Options,
    totals: Arc<Totals>,
    log: RefCell<MadeLog>,
    acks: Option<Arc<AckLog>>,
    /// Ends the run.
    failure: RefCell<Option<SimulateError>>,
    /// Devices that were started.
    started: RefCell<usize>,
}

/// Simulates until the time is over or `stop` is requested, and then until all messages are acknowledged. Blocks; calls `progress` once a
/// second.
///
/// # Errors
/// The process may not have as many connections, a list of events cannot be written, or a file or a spool of a device cannot be used.
pub fn simulate(
    options: Options,
    stop: &StopToken,
    progress: impl FnMut(&Progress),
) -> Result<Summary, SimulateError> {
    let per_box = if options.has_spool { FILES_OF_SPOOL } else { 0 };
    file_limit::raise(options.boxes, 1 + per_box)?;
    names::check_files(&options)?;
    if let Some(folder) = options.mqtt.spool.runtime_folder.as_deref()
        && options.has_spool
    {
        make_folder(folder)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(SimulateError::Runtime)?;
    let summary = LocalSet::new().block_on(&runtime, run(options, stop, progress));
    // A blocked DNS lookup must not block the caller.
    runtime.shutdown_background();
    summary
}

fn make_folder(folder: &Path) -> Result<(), SimulateError> {
    match std::fs::create_dir(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(SimulateError::SpoolFolder {
                path: folder.to_owned(),
                source: error,
            })
        }
        _ => Ok(()),
    }
}

async fn run(
    options: Options,
    stop: &StopToken,
    mut progress: impl FnMut(&Progress),
) -> Result<Summary, SimulateError> {
    let ramp = Duration::from_secs_f64(options.boxes as f64 / options.connects_per_s);
    let acks = options.acks.as_deref();
    let acks = acks.map(|path| AckLog::open(path, options.has_spool));
    let shared = Rc::new(Shared {
        log: RefCell::new(MadeLog::open(options.log.as_deref(), options.has_spool)?),
        acks: acks.transpose()?.map(Arc::new),
        totals: Arc::new(Totals::default()),
        failure: RefCell::default(),
        started: RefCell::new(0),
        options,
    });
    let options = &shared.options;
    let started = Instant::now();
    let (end, ended) = watch::channel(false);
    let devices: Vec<_> = (0..options.boxes)
        .map(|number| {
            let mut random = SplitMix64::new(hash64(options.seed ^ hash64(number as u64)));
            let share = (number as f64 + scene::share(&mut random)) / options.boxes as f64;
            let device = Device::new(Rc::clone(&shared), number, random);
            spawn_local(device.run(started + ramp.mul_f64(share), ended.clone()))
        })
        .collect();
    let mut tick = interval(PROGRESS_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    // At the begin of the measurement.
    let mut before = None;
    while !stop.is_stopped() && started.elapsed() < ramp + options.duration {
        tick.tick().await;
        if let Some(failure) = shared.failure.take() {
            return Err(failure);
        }
        if before.is_none() && started.elapsed() >= ramp {
            before = Some(Reading::now(&shared));
            shared.totals.clear_times();
        }
        let counts = shared.totals.counts();
        progress(&Progress {
            elapsed: started.elapsed(),
            started: *shared.started.borrow(),
            events: shared.log.borrow().events(),
            acknowledged: counts.acknowledged,
            connects: counts.connects,
        });
    }
    let after = Reading::now(&shared);
    // Before all devices clear their retained values at once.
    let ack_ms = shared.totals.ack_ms();
    end.send_replace(true);
    let mut outcomes = Vec::with_capacity(devices.len());
    for device in devices {
        // A panic ends the process.
        outcomes.extend(device.await.ok().flatten());
    }
    if let Some(failure) = shared.failure.take() {
        return Err(failure);
    }
    let peak_rss_bytes = process_usage().peak_rss_bytes;
    shared.log.borrow_mut().finish()?;
    shared.acks.as_ref().map_or(Ok(()), |acks| acks.finish())?;
    let measured = before.unwrap_or(Reading::start(started));
    Ok(summary::summarize(
        options,
        &shared.totals,
        &measured,
        &after,
        ack_ms,
        &outcomes,
        peak_rss_bytes,
    ))
}

/// Counts at one time.
#[derive(Debug, Clone)]
struct Reading {
    at: Instant,
    cpu: Duration,
    events: u64,
    counts: Counts,
}

impl Reading {
    fn now(shared: &Shared) -> Self {
        Self {
            at: Instant::now(),
            cpu: process_usage().cpu,
            events: shared.log.borrow().events(),
            counts: shared.totals.counts(),
        }
    }

    fn start(at: Instant) -> Self {
        Self {
            at,
            cpu: Duration::ZERO,
            events: 0,
            counts: Counts::default(),
        }
    }
}

#[cfg(test)]
mod tests;
