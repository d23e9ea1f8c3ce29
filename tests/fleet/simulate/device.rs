// SPDX-License-Identifier: Apache-2.0
//! One simulated device: its scenes, its outages, and its client, as tasks of the one thread.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until};

use jetwatch_publish::{
    DetectorStatus, HostedLink, HostedOptions, MqttSink, Publication, Sink, SinkCounts,
    SourceStats, Stats, Utc,
};
use jetwatch_types::{SourceState, SplitMix64};

use super::deliveries::Deliveries;
use super::scene::{Scene, classes, share};
use super::{Options, Outages, Shared, SimulateError, names};

/// How a device ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    /// Its messages.
    pub messages: SinkCounts,
    /// The broker has never accepted its connection.
    pub never_connected: bool,
}

/// A device that was not started yet.
#[derive(Debug)]
pub(crate) struct Device {
    shared: Rc<Shared>,
    number: usize,
    random: SplitMix64,
}

impl Device {
    pub fn new(shared: Rc<Shared>, number: usize, random: SplitMix64) -> Self {
        Self {
            shared,
            number,
            random,
        }
    }

    /// Starts at `start` and runs until `ended` is true; then all of its messages are delivered, as far as that is possible in time.
    /// `None`: it has no spool, and was to have one, which is the failure of the run.
    pub async fn run(
        mut self,
        start: Instant,
        mut ended: watch::Receiver<bool>,
    ) -> Option<Outcome> {
        tokio::select! {
            () = sleep_until(start) => {}
            // An error: the sender is gone, which is an end, too.
            _ = ended.wait_for(|is_ended| *is_ended) => {}
        }
        let shared = Rc::clone(&self.shared);
        let options = &shared.options;
        let name = names::device(options, self.number);
        let deliveries = Deliveries::new(Arc::clone(&shared.totals), shared.acks.clone());
        let deliveries = Arc::new(deliveries);
        let hosted = HostedOptions {
            protocol: options.protocol,
            part: options.part,
            has_spool: options.has_spool,
            observer: Arc::clone(&deliveries) as _,
        };
        let config = names::config(options, self.number, &name);
        let (sink, client, link) = match MqttSink::hosted(&config, &name, &classes(), hosted) {
            Ok(hosted) => hosted,
            Err(source) => {
                let device = name;
                let failure = SimulateError::Spool { device, source };
                shared.failure.borrow_mut().get_or_insert(failure);
                return None;
            }
        };
        if let Some((spool, next)) = sink.numbering() {
            deliveries.set_name(&name, &spool);
            shared.log.borrow_mut().go_on(&name, &spool, next);
        }
        let client = spawn_local(client.run());
        *shared.started.borrow_mut() += 1;
        let mut running = Running::start(&shared, name, sink, link, &mut self.random);
        running.run(options, &mut self.random, &mut ended).await;
        let Running { mut sink, link, .. } = running;
        link.set_up(true);
        sink.withdraw();
        sink.finish_within(options.drain);
        // A panic ends the process.
        let _ = client.await;
        Some(Outcome {
            messages: sink.counts(),
            never_connected: !deliveries.was_connected(),
        })
    }
}

/// A device that runs.
struct Running<'a> {
    shared: &'a Shared,
    name: String,
    spool: String,
    sink: MqttSink,
    link: HostedLink,
    scenes: Vec<Scene>,
    started: Instant,
}

impl<'a> Running<'a> {
    fn start(
        shared: &'a Shared,
        name: String,
        mut sink: MqttSink,
        link: HostedLink,
        random: &mut SplitMix64,
    ) -> Self {
        let (at, started) = (SystemTime::now(), Instant::now());
        let sources = u16::try_from(shared.options.sources).unwrap_or(u16::MAX);
        let scenes: Vec<Scene> = (0..sources)
            .map(|index| {
                let random = SplitMix64::new(random.next_u64());
                Scene::new(index, random, (at, started.into_std()))
            })
            .collect();
        let runs = "simulated".to_owned();
        sink.publish(&Publication::Detector {
            status: &DetectorStatus::Ready { runs },
            at,
        });
        for scene in &scenes {
            scene.announce(at, &mut |publication| sink.publish(publication));
        }
        let spool = sink.numbering().map(|(spool, _)| spool);
        Self {
            shared,
            name,
            spool: spool.unwrap_or_default(),
            sink,
            link,
            scenes,
            started,
        }
    }

    async fn run(
        &mut self,
        options: &Options,
        random: &mut SplitMix64,
        ended: &mut watch::Receiver<bool>,
    ) {
        let mut event_at = self.started + next_event(options, random);
        let mut stats_at = self.started + options.stats_interval.mul_f64(share(random));
        let mut outage_at = options
            .outages
            .map(|outages| self.started + next_outage(outages, random));
        let mut outage_end = None;
        loop {
            let next = [Some(event_at), Some(stats_at), outage_at, outage_end];
            let next = next.into_iter().flatten().min().unwrap_or(event_at);
            tokio::select! {
                biased;
                // First: what is made after the end would be in no count.
                _ = ended.wait_for(|is_ended| *is_ended) => return,
                () = sleep_until(next) => {}
            }
            let now = Instant::now();
            while event_at <= now {
                self.publish_event(random);
                event_at += next_event(options, random);
            }
            if stats_at <= now {
                self.publish_stats();
                stats_at = now + options.stats_interval;
            }
            if outage_at.is_some_and(|at| at <= now) {
                self.link.set_up(false);
                let length = options.outages.map(|outages| outages.length);
                outage_end = length.map(|length| now + length.mul_f64(0.5 + share(random)));
                outage_at = None;
            }
            if outage_end.is_some_and(|at| at <= now) {
                self.link.set_up(true);
                outage_end = None;
                outage_at = options
                    .outages
                    .map(|outages| now + next_outage(outages, random));
            }
        }
    }

    fn publish_event(&mut self, random: &mut SplitMix64) {
        let index = (share(random) * self.scenes.len() as f64) as usize;
        // Its numbers are noted before the client has a chance to send it.
        let first = self.next_number();
        let now = (SystemTime::now(), std::time::Instant::now());
        let sink = &mut self.sink;
        self.scenes[index].step(now, &mut |publication| sink.publish(publication));
        let numbers = first..self.next_number();
        let mut log = self.shared.log.borrow_mut();
        log.note(&self.name, &self.spool, numbers);
    }

    fn next_number(&self) -> u64 {
        self.sink.numbering().map_or(0, |(_, seq)| seq)
    }

    fn publish_stats(&mut self) {
        let now = std::time::Instant::now();
        let of_source = |scene: &Scene| SourceStats {
            name: scene.source().to_owned(),
            state: SourceState::Online,
            frames: scene.frames(now),
            dropped: 0,
            reconnects: 0,
            fps: 15.0,
            tracks: scene.tracks(),
            interval: 0,
            skipped: 0,
        };
        let stats = Stats {
            sent_at: Utc(SystemTime::now()),
            uptime: self.started.elapsed(),
            sources: self.scenes.iter().map(of_source).collect(),
            messages: self.sink.counts(),
            ..Stats::default()
        };
        self.sink.publish(&Publication::Stats(&stats));
    }
}

/// Time until the next event: random, with the configured mean, as of independent events.
fn next_event(options: &Options, random: &mut SplitMix64) -> Duration {
    independent(Duration::from_secs_f64(1.0 / options.events_per_s), random)
}

fn next_outage(outages: Outages, random: &mut SplitMix64) -> Duration {
    independent(outages.every, random)
}

/// An exponentially distributed time with this mean.
fn independent(mean: Duration, random: &mut SplitMix64) -> Duration {
    mean.mul_f64(-(1.0 - share(random)).ln())
}
