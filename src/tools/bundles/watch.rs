//! Whether the daemon works after a switch as it did before: compared by what it says of itself.

use std::time::{Duration, Instant};

/// Interval at which the daemon's health is read.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Time without a new report after which the daemon has failed.
const MAX_SILENCE: Duration = Duration::from_secs(10);

/// What a running daemon says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Which run of the daemon this is: another number after each start.
    pub run: u64,
    /// When this was written, since a fixed point of time.
    pub at: Duration,
    /// Whether its start is complete.
    pub is_ready: bool,
    /// Errors that it logged since the start.
    pub errors: u64,
    /// Its sources.
    pub sources: Vec<SourceCount>,
    /// Messages that the broker has acknowledged since the start; `None`: it has no broker.
    pub acknowledged: Option<u64>,
}

/// One source of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceCount {
    /// Its name.
    pub name: String,
    /// Whether it brings frames.
    pub is_online: bool,
    /// Frames that the network has processed since the start; frames that skipped it do not count.
    pub detected: u64,
}

/// The daemon, and time.
pub trait Service {
    /// Restarts the daemon, and returns when that was requested or is complete.
    ///
    /// # Errors
    /// It cannot be restarted, or its start failed at once: in words.
    fn restart(&mut self) -> Result<(), String>;

    /// What it says of itself now; `None`: it does not run, or has not said anything yet.
    ///
    /// # Errors
    /// What it says cannot be read, in words.
    fn health(&mut self) -> Result<Option<Health>, String>;

    /// The time now.
    fn now(&mut self) -> Instant {
        Instant::now()
    }

    /// Waits.
    fn sleep(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// What is expected of the daemon after a switch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WatchLimits {
    /// How long its frames are counted before the switch; zero: there is nothing to compare with.
    pub before: Duration,
    /// How long its start may take.
    pub start: Duration,
    /// How long it is watched after its start.
    pub period: Duration,
    /// Minimum share of the frames per second before the switch.
    pub min_share: f64,
}

impl Default for WatchLimits {
    fn default() -> Self {
        Self {
            before: Duration::from_secs(10),
            start: Duration::from_secs(180),
            period: Duration::from_secs(60),
            min_share: 0.8,
        }
    }
}

/// What a daemon did in a time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rates {
    /// Which run it was.
    pub(crate) run: u64,
    /// Detected frames per second of all sources.
    pub(crate) fps: f64,
    /// Errors that it logged, per second.
    pub(crate) errors: f64,
    /// Names of the sources that were online.
    pub(crate) online: Vec<String>,
    /// Messages that the broker acknowledged in that time; `None`: it has no broker.
    pub(crate) acknowledged: Option<u64>,
}

/// Counts what the daemon does for `time`; `None`: no daemon runs, or it is not ready.
pub(crate) fn measure(service: &mut dyn Service, time: Duration) -> Option<Rates> {
    if time.is_zero() {
        return None;
    }
    let is_usable = |health: &Health| health.is_ready;
    let first = service.health().ok().flatten().filter(is_usable)?;
    service.sleep(time);
    let last = service.health().ok().flatten().filter(is_usable)?;
    rates(&first, &last)
}

/// Waits for the start of the daemon and watches it; the measurement in words.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn watch(
    service: &mut dyn Service,
    before: Option<&Rates>,
    old_run: Option<u64>,
    limits: &WatchLimits,
) -> Result<String, String> {
    let first = wait_ready(service, old_run, limits.start)?;
    let deadline = service.now() + limits.period;
    let (mut last, mut reported_at) = (first.clone(), service.now());
    loop {
        service.sleep(POLL_INTERVAL);
        let now = service.now();
        match service.health()? {
            Some(health) if health.run != first.run => {
                return Err("the daemon ended and was started again".to_owned());
            }
            Some(health) if health.at > last.at => (last, reported_at) = (health, now),
            Some(_) if now - reported_at < MAX_SILENCE => {}
            Some(_) => {
                return Err(format!(
                    "the daemon has not reported for {} s: it hangs, or was killed",
                    MAX_SILENCE.as_secs()
                ));
            }
            None => return Err("the daemon ended".to_owned()),
        }
        if now >= deadline {
            break;
        }
    }
    let after = rates(&first, &last).ok_or_else(|| {
        format!(
            "the daemon reported nothing new in {} s",
            limits.period.as_secs()
        )
    })?;
    judge(before, &after, limits.min_share)
}

/// Waits until a run other than `old_run` is ready.
fn wait_ready(
    service: &mut dyn Service,
    old_run: Option<u64>,
    time: Duration,
) -> Result<Health, String> {
    let deadline = service.now() + time;
    loop {
        let health = service.health();
        if let Ok(Some(health)) = &health
            && health.is_ready
            && Some(health.run) != old_run
        {
            return Ok(health.clone());
        }
        if service.now() >= deadline {
            let what = match health {
                Ok(Some(_)) => "is not ready".to_owned(),
                Ok(None) => "does not run".to_owned(),
                Err(error) => format!("cannot be judged: {error}"),
            };
            return Err(format!(
                "{} s after the switch the daemon {what}",
                time.as_secs()
            ));
        }
        service.sleep(POLL_INTERVAL);
    }
}

/// What happened between two reports of one run; `None`: they are of different runs, or of one time.
fn rates(first: &Health, last: &Health) -> Option<Rates> {
    let seconds = last.at.saturating_sub(first.at).as_secs_f64();
    if first.run != last.run || seconds <= 0.0 {
        return None;
    }
    // A source that was added meanwhile counts from zero, one that was removed does not count.
    let new_frames = last.sources.iter().map(|source| {
        let earlier = first.sources.iter().find(|old| old.name == source.name);
        let earlier = earlier.map_or(0, |old| old.detected);
        source.detected.saturating_sub(earlier)
    });
    let online = last.sources.iter().filter(|source| source.is_online);
    Some(Rates {
        run: last.run,
        errors: last.errors.saturating_sub(first.errors) as f64 / seconds,
        fps: new_frames.sum::<u64>() as f64 / seconds,
        online: online.map(|source| source.name.clone()).collect(),
        acknowledged: last
            .acknowledged
            .map(|count| count.saturating_sub(first.acknowledged.unwrap_or(0))),
    })
}

/// Compares what the daemon did after the switch with before; the comparison in words, or what is wrong.
fn judge(before: Option<&Rates>, after: &Rates, min_share: f64) -> Result<String, String> {
    let Some(before) = before else {
        return match after.fps > 0.0 {
            true => Ok(format!(
                "{:.1} frames/s through the network; nothing to compare with: no daemon was running before",
                after.fps
            )),
            false => Err("no frame went through the network".to_owned()),
        };
    };
    if after.fps < min_share * before.fps {
        return Err(format!(
            "{:.1} frames/s through the network, expected {:.1} at least, {:.0} % of the {:.1} before",
            after.fps,
            min_share * before.fps,
            100.0 * min_share,
            before.fps
        ));
    }
    let lost: Vec<&str> = before
        .online
        .iter()
        .filter(|name| !after.online.contains(name))
        .map(String::as_str)
        .collect();
    if !lost.is_empty() {
        return Err(format!(
            "sources that were online are not any more: {}",
            lost.join(", ")
        ));
    }
    if before.acknowledged.is_some_and(|count| count > 0)
        && after.acknowledged.is_none_or(|count| count == 0)
    {
        return Err("the broker acknowledges no messages any more".to_owned());
    }
    // Twice as many are chance, as of a camera that comes and goes.
    if after.errors > 2.0 * before.errors {
        return Err(format!(
            "{:.1} errors a minute in the log, {:.1} before",
            60.0 * after.errors,
            60.0 * before.errors
        ));
    }
    let messages = match after.acknowledged {
        Some(count) => format!(", {count} messages acknowledged"),
        None => String::new(),
    };
    Ok(format!(
        "{:.1} frames/s through the network, {:.1} before{messages}",
        after.fps, before.fps
    ))
}
