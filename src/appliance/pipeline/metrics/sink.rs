// SPDX-License-Identifier: Apache-2.0
//! The sink that counts: track events, analytics events, tracks, zones and lines. It runs on the tracking stage's thread, and adds to
//! atomics; the lists that it locks change only with the sources.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jetwatch_metrics::{DetectorState, SeriesRules, SourceSeries, SpoolFigures};
use jetwatch_publish::{
    DetectorStatus, Publication, SPOOL_CLASSES, Sink, SinkCounts, SourceInfo, SpoolStats,
};
use jetwatch_types::Classes;

use super::Shared;

/// Counts publications for [`Shared`]. It delivers none, so its own counts are zero.
pub(super) struct MetricsSink {
    shared: Arc<Shared>,
    classes: Arc<Classes>,
    sources: HashMap<String, Arc<SourceSeries>>,
}

impl MetricsSink {
    pub(super) fn new(shared: Arc<Shared>, classes: &Classes) -> Self {
        Self {
            shared,
            classes: Arc::new(classes.clone()),
            sources: HashMap::new(),
        }
    }

    fn forget(&mut self, source: &str) {
        self.sources.remove(source);
        let mut series = self.shared.series.lock();
        series.retain(|series| series.source() != source);
    }
}

impl Sink for MetricsSink {
    fn publish(&mut self, record: &Publication<'_>) {
        match record {
            Publication::Events { source, events, .. } => {
                if let Some(series) = self.sources.get(*source) {
                    for event in *events {
                        series.add_event(event.kind);
                    }
                }
            }
            Publication::Analytics { source, events, .. } => {
                if let Some(series) = self.sources.get(*source) {
                    for message in *events {
                        series.add_analytics_event(&message.event.kind, message.event.class);
                    }
                }
            }
            Publication::Count(count) => {
                if let Some(series) = self.sources.get(count.source.0) {
                    series.set_tracks(count.label.0, count.count);
                }
            }
            Publication::Zone {
                source,
                zone,
                present,
                ..
            } => {
                if let Some(series) = self.sources.get(*source) {
                    for objects in *present {
                        series.set_zone(&zone.name, objects.class, u64::from(objects.count));
                    }
                }
            }
            Publication::Detector { status, .. } => {
                self.shared.set_detector_state(match status {
                    DetectorStatus::EngineMissing { .. } => DetectorState::EngineMissing,
                    DetectorStatus::Building { .. } => DetectorState::Building,
                    DetectorStatus::Ready { .. } => DetectorState::Ready,
                    DetectorStatus::Failed { .. } => DetectorState::Failed,
                });
            }
            Publication::Stats(stats) => {
                *self.shared.spool.lock() = stats.spool.as_ref().map(spool_figures);
            }
            _ => {}
        }
    }

    fn source_added(&mut self, source: &SourceInfo) {
        self.forget(&source.name);
        let rules = &source.rules;
        let zones = rules.zones.iter();
        let lines = rules.lines.iter();
        let rules = SeriesRules {
            labels: match source.has_chosen_labels {
                true => &source.labels,
                false => &[],
            },
            zones: zones.map(|zone| (&*zone.name, &*zone.objects)).collect(),
            lines: lines.map(|line| (&*line.name, &*line.objects)).collect(),
        };
        let series = Arc::new(SourceSeries::new(&source.name, &self.classes, &rules));
        self.shared.series.lock().push(Arc::clone(&series));
        self.sources.insert(source.name.clone(), series);
    }

    fn source_removed(&mut self, source: &str) {
        self.forget(source);
    }

    fn counts(&self) -> SinkCounts {
        SinkCounts::default()
    }

    fn close(self: Box<Self>, _deadline: Duration) -> SinkCounts {
        SinkCounts::default()
    }
}

fn spool_figures(stats: &SpoolStats) -> SpoolFigures {
    SpoolFigures {
        runtime_bytes: stats.runtime_bytes,
        state_bytes: stats.state_bytes,
        oldest_at: stats
            .oldest_age
            .and_then(|age| SystemTime::now().checked_sub(age)),
        dropped: SPOOL_CLASSES.into_iter().zip(stats.dropped).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use parking_lot::Mutex;

    use super::*;
    use jetwatch_config::Config;
    use jetwatch_metrics::{Form, write_figures};
    use jetwatch_publish::AnalyticsMessage;
    use jetwatch_telemetry::Recorder;
    use jetwatch_types::{
        AnalyticsEvent, AnalyticsEventKind, FrameMeta, Side, Size, TrackId, ZoneCount,
    };

    fn shared() -> Arc<Shared> {
        Arc::new(Shared {
            started: Instant::now(),
            started_at: Mutex::new(SystemTime::now()),
            recorder: Recorder::default(),
            detector: Mutex::default(),
            series: Mutex::default(),
            spool: Mutex::default(),
            run: Arc::default(),
        })
    }

    fn info(name: &str, classes: &[&str]) -> SourceInfo {
        let text = "sources: [{name: a, uri: /v.mp4, lines: [{name: middle, coordinates: '0.5,0,0.5,1'}], \
                    zones: [{name: road, coordinates: '0,0,1,0,1,1'}]}]\ndetector: {model: /m}\n";
        let config = Config::from_str("f.yaml", text).expect("a good file");
        SourceInfo {
            name: name.to_owned(),
            labels: classes.iter().map(|class| (*class).to_owned()).collect(),
            has_chosen_labels: true,
            rules: config.sources[0].rules.clone(),
            has_schedule: false,
            has_pictures: false,
            has_motion: false,
        }
    }

    fn text(shared: &Shared) -> String {
        let mut text = String::new();
        write_figures(&shared.figures(), Form::Http, &mut text);
        text
    }

    #[test]
    fn publications_are_counted_until_the_source_is_removed() {
        let shared = shared();
        let labels = ["person", "car"].map(str::to_owned);
        let mut sink = MetricsSink::new(Arc::clone(&shared), &Classes::new(&labels, &[]));
        let (gate, yard) = (info("gate", &["person", "car"]), info("yard", &["car"]));
        sink.source_added(&gate);
        sink.source_added(&yard);
        let frame = FrameMeta::for_test(0, 0, Size::new(4, 4));
        let crossing = AnalyticsMessage {
            event: AnalyticsEvent {
                kind: AnalyticsEventKind::LineCrossed {
                    line: 0,
                    to: Side::Left,
                },
                track: Some(TrackId(1)),
                class: Some(1),
                at: SystemTime::UNIX_EPOCH,
            },
            started_at: None,
        };
        let at = SystemTime::UNIX_EPOCH;
        for source in ["gate", "no such source"] {
            sink.publish(&Publication::Analytics {
                source,
                rules: &gate.rules,
                frame: &frame,
                events: std::slice::from_ref(&crossing),
                recording: None,
            });
            sink.publish(&Publication::count(source, "car", 4, at));
            sink.publish(&Publication::Zone {
                source,
                zone: &gate.rules.zones[0],
                present: &[ZoneCount { class: 0, count: 2 }],
                overcrowded: None,
                at,
            });
        }
        let found = text(&shared);
        for line in [
            "jetwatch_line_crossings_total{source=\"gate\",line=\"middle\",to=\"left\",label=\"car\"} 1",
            "jetwatch_line_crossings_total{source=\"yard\",line=\"middle\",to=\"left\",label=\"car\"} 0",
            "jetwatch_analytics_events_total{source=\"gate\",type=\"line_crossed\"} 1",
            "jetwatch_tracks_active{source=\"gate\",label=\"car\"} 4",
            "jetwatch_tracks_active{source=\"gate\",label=\"person\"} 0",
            "jetwatch_zone_objects{source=\"gate\",zone=\"road\",label=\"person\"} 2",
            "jetwatch_detector_state{state=\"loading\"} 1",
        ] {
            assert!(
                found.contains(&format!("{line}\n")),
                "no {line} in\n{found}"
            );
        }
        assert!(!found.contains("no such source"), "{found}");
        assert!(
            !found.contains("source=\"yard\",label=\"person\""),
            "{found}"
        );
        sink.source_removed("gate");
        let found = text(&shared);
        assert!(!found.contains("gate") && found.contains("yard"), "{found}");
        // A source that comes again counts from 0.
        sink.source_added(&gate);
        let found = text(&shared);
        assert!(found.contains("to=\"left\",label=\"car\"} 0\n"), "{found}");
        assert!(!found.contains("label=\"car\"} 4\n"), "{found}");
    }

    #[test]
    fn states_of_the_detector_and_of_the_spool_are_kept() {
        let shared = shared();
        let mut sink = MetricsSink::new(Arc::clone(&shared), &Classes::default());
        let status = DetectorStatus::Ready {
            runs: "all".to_owned(),
        };
        let at = SystemTime::now();
        sink.publish(&Publication::Detector {
            status: &status,
            at,
        });
        let mut stats = jetwatch_publish::Stats {
            spool: Some(SpoolStats {
                runtime_bytes: 4096,
                oldest_age: Some(Duration::from_secs(60)),
                dropped: [7, 0, 0, 0, 0],
                ..SpoolStats::default()
            }),
            ..jetwatch_publish::Stats::default()
        };
        sink.publish(&Publication::Stats(&stats));
        let found = text(&shared);
        for line in [
            "jetwatch_detector_state{state=\"ready\"} 1",
            "jetwatch_spool_bytes{tier=\"runtime\"} 4096",
            "jetwatch_spool_dropped_total{class=\"update\"} 7",
            "jetwatch_spool_dropped_total{class=\"other\"} 0",
        ] {
            assert!(
                found.contains(&format!("{line}\n")),
                "no {line} in\n{found}"
            );
        }
        let oldest = shared.figures().spool.and_then(|spool| spool.oldest_at);
        let age = SystemTime::now().duration_since(oldest.expect("one waits"));
        assert!(age.is_ok_and(|age| age >= Duration::from_secs(60)));
        assert!(!found.contains("tier=\"state\""), "it has no folder there");
        stats.spool = None;
        sink.publish(&Publication::Stats(&stats));
        assert!(!text(&shared).contains("jetwatch_spool"));
    }

    #[test]
    fn the_start_changes_only_where_the_clock_was_set() {
        let shared = shared();
        let first = shared.started_at(shared.started.elapsed());
        assert_eq!(shared.started_at(shared.started.elapsed()), first);
        // As if the clock had been at 1970 at the start.
        *shared.started_at.lock() = SystemTime::UNIX_EPOCH;
        let set = shared.started_at(shared.started.elapsed());
        let since = set
            .duration_since(first)
            .unwrap_or_else(|before| before.duration());
        assert!(since < CLOCK_STEP_OF_TEST, "{since:?}");
        assert_eq!(shared.started_at(shared.started.elapsed()), set);
    }

    /// A busy machine may stop the test between two readings of the clock.
    const CLOCK_STEP_OF_TEST: Duration = Duration::from_secs(60);
}
