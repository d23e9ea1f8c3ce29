// SPDX-License-Identifier: Apache-2.0
//! The message on `stats`, from our statistics. Rates are those since the last message.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, SystemTime};

use super::body::{CameraStatsBody, DetectorStatsBody, GpuBody, ServiceBody, StatsBody};
use crate::formats::identity::seconds;
use crate::{SourceStats, Stats};
use jetwatch_platform::EngineKind;
use jetwatch_telemetry::Stage;

/// The counters of the last message.
#[derive(Debug, Default)]
pub(super) struct StatsHistory {
    uptime: Duration,
    /// By source: received, dropped, without inference.
    sources: HashMap<String, [u64; 3]>,
}

impl StatsHistory {
    /// The message of `stats`.
    pub fn body<'a>(
        &mut self,
        stats: &'a Stats,
        version: &'a str,
        now: SystemTime,
    ) -> StatsBody<'a> {
        let passed = stats
            .uptime
            .saturating_sub(self.uptime)
            .as_secs_f64()
            .max(1e-3);
        let cameras: BTreeMap<&str, CameraStatsBody> = stats
            .sources
            .iter()
            .map(|source| (source.name.as_str(), self.camera(source, passed)))
            .collect();
        self.uptime = stats.uptime;
        self.sources = stats.sources.iter().map(counters).collect();
        let infer = stats
            .stages
            .iter()
            .find(|stage| stage.stage == Stage::Infer);
        let detector = DetectorStatsBody {
            inference_speed: infer.map_or(0.0, |stage| two_decimals(stage.mean_ms)),
            detection_start: 0.0,
        };
        let readings = stats.machine.as_ref().map(|machine| &machine.readings);
        let temperatures = readings.iter().flat_map(|readings| &readings.temperatures);
        let engines = readings.iter().flat_map(|readings| &readings.engines);
        StatsBody {
            detection_fps: two_decimals(cameras.values().map(|camera| camera.detection_fps).sum()),
            cameras,
            detectors: BTreeMap::from([("jetwatch", detector)]),
            gpu_usages: engines
                .filter(|engine| engine.kind == EngineKind::Gpu)
                .filter_map(|engine| {
                    let gpu = format!("{:.1}%", engine.load_percent?);
                    Some((engine.name.clone(), GpuBody { gpu, mem: "-%" }))
                })
                .collect(),
            service: ServiceBody {
                uptime: stats.uptime.as_secs(),
                version,
                latest_version: "disabled",
                storage: BTreeMap::new(),
                temperatures: temperatures
                    .filter_map(|zone| Some((zone.name.clone(), zone.celsius?)))
                    .collect(),
                last_updated: seconds(now) as u64,
            },
        }
    }

    fn camera(&self, source: &SourceStats, passed: f64) -> CameraStatsBody {
        let before = self.sources.get(&source.name).copied().unwrap_or_default();
        let (_, now) = counters(source);
        let rate = |index: usize| now[index].saturating_sub(before[index]) as f64 / passed;
        CameraStatsBody {
            camera_fps: two_decimals(rate(0)),
            process_fps: two_decimals(source.fps),
            skipped_fps: two_decimals(rate(1)),
            detection_fps: two_decimals((rate(0) - rate(1) - rate(2)).max(0.0)),
            detection_enabled: true,
        }
    }
}

fn counters(source: &SourceStats) -> (String, [u64; 3]) {
    let counts = [source.frames, source.dropped, source.skipped];
    (source.name.clone(), counts)
}

fn two_decimals(value: f64) -> f64 {
    match value.is_finite() {
        true => (value * 100.0).round() / 100.0,
        false => 0.0,
    }
}
