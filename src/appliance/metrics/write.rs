// SPDX-License-Identifier: Apache-2.0
//! [`Figures`] as text: which figure is a sample of which family.

use std::time::{SystemTime, UNIX_EPOCH};

use jetwatch_telemetry::STAGE_BUCKETS;

use super::exposition::{Exposition, Form};
use super::families as family;
use super::{DetectorState, Figures, MachineFigures, ProcessFigures, SourceFigures, SourceSeries};

/// Kinds of causes of throttling, as [`Cause::kind`](jetwatch_platform::throttling::Cause::kind) names them.
const THROTTLING_CAUSES: [&str; 3] = ["heat", "rail", "over_current"];

/// Appends all figures to `text`. Pure, but for allocation.
pub fn write_figures(figures: &Figures, form: Form<'_>, text: &mut String) {
    let mut out = Exposition::new(text, form);
    out.family(&family::BUILD_INFO)
        .add(&[env!("CARGO_PKG_VERSION")], 1);
    out.family(&family::UPTIME)
        .add(&[], figures.uptime.as_secs_f64());
    write_detector(figures, &mut out);
    write_sources(&figures.sources, &mut out);
    let mut stages = out.family(&family::STAGE_SECONDS);
    for stage in &figures.stages {
        let limits = STAGE_BUCKETS.iter().map(std::time::Duration::as_secs_f64);
        stages.add_histogram(
            &[stage.stage.name()],
            limits,
            &stage.counts,
            stage.sum.as_secs_f64(),
        );
    }
    write_series(figures, &mut out);
    write_messages(figures, &mut out);
    if let Some(media) = &figures.media {
        let mut bytes = out.family(&family::MEDIA_BYTES);
        for (kind, size) in &media.bytes {
            bytes.add(&[kind], *size);
        }
        out.family(&family::MEDIA_FULL)
            .add(&[], u8::from(media.is_full));
        out.family(&family::DISK_FREE).add(&[], media.free_bytes);
    }
    if let Some(machine) = &figures.machine {
        write_machine(machine, &mut out);
    }
    write_process(&figures.process, &mut out);
}

fn write_detector(figures: &Figures, out: &mut Exposition<'_>) {
    let detector = &figures.detector;
    let mut states = out.family(&family::DETECTOR_STATE);
    for state in DetectorState::ALL {
        states.add(&[state.name()], u8::from(state == detector.state));
    }
    if let Some(info) = &detector.info {
        out.family(&family::DETECTOR_INFO)
            .add(&[&info.backend, &info.model, &info.precision], 1);
    }
}

fn write_sources(sources: &[SourceFigures], out: &mut Exposition<'_>) {
    let mut up = out.family(&family::SOURCE_UP);
    for source in sources {
        up.add(&[&source.name], u8::from(source.is_up));
    }
    let mut frames = out.family(&family::SOURCE_FRAMES);
    for source in sources {
        for (outcome, count) in [
            ("detected", source.detected),
            ("carried", source.carried),
            ("dropped", source.dropped),
            ("skipped", source.skipped),
        ] {
            frames.add(&[&source.name, outcome], count);
        }
    }
    let mut last_frames = out.family(&family::SOURCE_LAST_FRAME);
    for source in sources {
        if let Some(at) = source.last_frame_at {
            last_frames.add(&[&source.name], seconds(at));
        }
    }
    let mut reconnects = out.family(&family::SOURCE_RECONNECTS);
    for source in sources {
        reconnects.add(&[&source.name], source.reconnects);
    }
}

fn write_series(figures: &Figures, out: &mut Exposition<'_>) {
    let all = || figures.series.iter().map(AsRef::<SourceSeries>::as_ref);
    let mut tracks = out.family(&family::TRACKS_ACTIVE);
    for series in all() {
        for (label, count) in series.tracks() {
            tracks.add(&[series.source(), label], count);
        }
    }
    let mut events = out.family(&family::EVENTS);
    for series in all() {
        for (kind, count) in series.events() {
            events.add(&[series.source(), kind], count);
        }
    }
    let mut events = out.family(&family::ANALYTICS_EVENTS);
    for series in all() {
        for (kind, count) in series.analytics() {
            events.add(&[series.source(), kind], count);
        }
    }
    let mut crossings = out.family(&family::LINE_CROSSINGS);
    for series in all() {
        for (line, to, label, count) in series.lines() {
            crossings.add(&[series.source(), line, to, label], count);
        }
    }
    let mut zones = out.family(&family::ZONE_OBJECTS);
    for series in all() {
        for (zone, label, count) in series.zones() {
            zones.add(&[series.source(), zone, label], count);
        }
    }
}

fn write_messages(figures: &Figures, out: &mut Exposition<'_>) {
    if let Some(mqtt) = &figures.mqtt {
        out.family(&family::MQTT_CONNECTED)
            .add(&[], u8::from(mqtt.is_connected));
        let mut messages = out.family(&family::MQTT_MESSAGES);
        for (outcome, count) in [
            ("delivered", mqtt.delivered),
            ("replaced", mqtt.replaced),
            ("dropped", mqtt.dropped),
            ("unsent", mqtt.unsent),
        ] {
            messages.add(&[outcome], count);
        }
        out.family(&family::MQTT_QUEUED).add(&[], mqtt.queued);
    }
    if let Some(spool) = &figures.spool {
        let mut bytes = out.family(&family::SPOOL_BYTES);
        bytes.add(&["runtime"], spool.runtime_bytes);
        if let Some(state) = spool.state_bytes {
            bytes.add(&["state"], state);
        }
        if let Some(at) = spool.oldest_at {
            out.family(&family::SPOOL_OLDEST).add(&[], seconds(at));
        }
        let mut dropped = out.family(&family::SPOOL_DROPPED);
        for (class, count) in &spool.dropped {
            dropped.add(&[class], count);
        }
    }
}

fn write_machine(machine: &MachineFigures, out: &mut Exposition<'_>) {
    let readings = &machine.readings;
    let mut temperatures = out.family(&family::TEMPERATURE);
    let zones = unique(readings.temperatures.iter().map(|zone| zone.name.as_str()));
    for (zone, reading) in zones.iter().zip(&readings.temperatures) {
        if let Some(celsius) = reading.celsius {
            temperatures.add(&[zone], celsius);
        }
    }
    let mut power = out.family(&family::POWER);
    let rails = unique(readings.rails.iter().map(|rail| rail.name.as_str()));
    for (rail, reading) in rails.iter().zip(&readings.rails) {
        if let Some(milliwatts) = reading.milliwatts() {
            power.add(&[rail], f64::from(milliwatts) / 1e3);
        }
    }
    let engines = unique(readings.engines.iter().map(|engine| engine.kind.name()));
    let mut clocks = out.family(&family::CLOCK);
    for cpu in &readings.cpus {
        if let Some(khz) = cpu.khz.filter(|_| cpu.is_online) {
            clocks.add(&[&format!("cpu{}", cpu.number)], khz * 1000);
        }
    }
    for (unit, engine) in engines.iter().zip(&readings.engines) {
        if let Some(hz) = engine.hz {
            clocks.add(&[unit], hz);
        }
    }
    let mut loads = out.family(&family::LOAD);
    for (number, percent) in &machine.cpu_loads {
        loads.add(&[&format!("cpu{number}")], ratio(*percent));
    }
    for (unit, engine) in engines.iter().zip(&readings.engines) {
        if let Some(percent) = engine.load_percent {
            loads.add(&[unit], ratio(percent));
        }
    }
    let mut throttled = out.family(&family::THROTTLED);
    for kind in THROTTLING_CAUSES {
        let is_active = machine
            .throttled_by
            .iter()
            .any(|cause| cause.kind() == kind);
        throttled.add(&[kind], u8::from(is_active));
    }
    out.family(&family::THROTTLINGS)
        .add(&[], machine.throttled_times);
}

fn write_process(process: &ProcessFigures, out: &mut Exposition<'_>) {
    out.family(&family::PROCESS_CPU)
        .add(&[], process.cpu.as_secs_f64());
    out.family(&family::PROCESS_MEMORY)
        .add(&[], process.rss_bytes);
    if let Some(at) = process.started_at {
        out.family(&family::PROCESS_START).add(&[], seconds(at));
    }
    if let Some(fds) = process.open_fds {
        out.family(&family::PROCESS_FDS).add(&[], fds);
    }
    out.family(&family::PROCESS_THREADS)
        .add(&[], process.threads);
}

/// The names, each once: the second of a name has the number 1 appended, as the kernel numbers engines.
fn unique<'n>(names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for name in names {
        let mut candidate = name.to_owned();
        let mut number = 0;
        while unique.contains(&candidate) {
            number += 1;
            candidate = format!("{name}{number}");
        }
        unique.push(candidate);
    }
    unique
}

/// Percent as a share, without the noise of the shorter type: 42.5 % is 0.425.
fn ratio(percent: f32) -> f64 {
    (f64::from(percent) * 100.0).round() / 1e4
}

/// Seconds since 1970, in whole milliseconds.
fn seconds(at: SystemTime) -> f64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::{
        DetectorFigures, DetectorInfo, MediaFigures, MqttFigures, SeriesRules, SpoolFigures,
    };
    use jetwatch_platform::throttling::Cause;
    use jetwatch_platform::{Cpu, Engine, EngineKind, Rail, SensorSnapshot, Temperature};
    use jetwatch_telemetry::{Recorder, Stage};
    use jetwatch_types::{AnalyticsEventKind, Classes, EventKind, Side};

    fn engine(kind: EngineKind, load: f32) -> Engine {
        Engine {
            kind,
            name: "kernel".to_owned(),
            load_percent: Some(load),
            hz: Some(803_250_000),
            min_hz: None,
            max_hz: None,
            hardware_hz: None,
        }
    }

    fn readings() -> SensorSnapshot {
        let zone = |name: &str, celsius| Temperature {
            name: name.to_owned(),
            celsius,
        };
        SensorSnapshot {
            cpus: vec![Cpu {
                number: 0,
                is_online: true,
                ticks: None,
                khz: Some(115_200),
                min_khz: None,
                max_khz: None,
            }],
            engines: vec![
                engine(EngineKind::Gpu, 42.5),
                engine(EngineKind::Dla, 0.0),
                engine(EngineKind::Dla, 100.0),
            ],
            temperatures: vec![
                zone("CPU-therm", Some(41.5)),
                zone("acpitz", Some(20.0)),
                zone("acpitz", Some(21.0)),
                zone("GPU-therm", None),
            ],
            rails: vec![Rail {
                name: "VDD_IN".to_owned(),
                millivolts: Some(5000),
                milliamperes: Some(1850),
                limit_milliamperes: None,
                alarm: None,
            }],
            ..SensorSnapshot::default()
        }
    }

    /// Figures of everything.
    fn figures() -> Figures {
        let classes = Arc::new(Classes::new(&["person".to_owned()], &[]));
        let rules = SeriesRules {
            labels: &[],
            zones: vec![("road", &[])],
            lines: vec![("middle", &[])],
        };
        let series = SourceSeries::new("cam", &classes, &rules);
        series.add_event(EventKind::New);
        let (line, to) = (0, Side::Right);
        series.add_analytics_event(&AnalyticsEventKind::LineCrossed { line, to }, Some(0));
        series.set_zone("road", 0, 2);
        series.set_tracks("person", 3);
        let recorder = Recorder::default();
        recorder.record(Stage::Infer, 4, Duration::from_millis(7));
        Figures {
            uptime: Duration::from_millis(1500),
            detector: DetectorFigures {
                state: DetectorState::Ready,
                info: Some(DetectorInfo {
                    backend: "onnx".to_owned(),
                    model: "street-nano".to_owned(),
                    precision: "int8".to_owned(),
                }),
            },
            sources: vec![SourceFigures {
                name: "cam".to_owned(),
                is_up: true,
                detected: 10,
                carried: 30,
                dropped: 3,
                skipped: 0,
                reconnects: 1,
                last_frame_at: Some(UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456)),
            }],
            series: vec![Arc::new(series)],
            stages: recorder.histograms(),
            mqtt: Some(MqttFigures {
                is_connected: true,
                delivered: 5,
                ..MqttFigures::default()
            }),
            spool: Some(SpoolFigures {
                runtime_bytes: 4096,
                state_bytes: Some(0),
                oldest_at: Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
                dropped: vec![("update", 2)],
            }),
            media: Some(MediaFigures {
                bytes: vec![("snapshot", 4096)],
                is_full: false,
                free_bytes: 1 << 30,
            }),
            machine: Some(MachineFigures {
                readings: Arc::new(readings()),
                cpu_loads: vec![(0, 25.0)],
                throttled_by: vec![Cause::Heat("cpu-throttle-alert".to_owned())],
                throttled_times: 2,
            }),
            process: ProcessFigures {
                open_fds: Some(12),
                started_at: Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
                ..ProcessFigures::default()
            },
        }
    }

    fn text(figures: &Figures) -> String {
        let mut text = String::new();
        write_figures(figures, Form::Http, &mut text);
        text
    }

    #[test]
    fn every_family_is_written_and_no_sample_twice() {
        let text = text(&figures());
        for family in family::ALL {
            let line = format!("# TYPE {} {}\n", family.name, family.kind.name());
            assert_eq!(text.matches(&line).count(), 1, "{line}{text}");
        }
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let names: Vec<&str> = samples
            .filter_map(|line| Some(line.rsplit_once(' ')?.0))
            .collect();
        let unique: HashSet<&&str> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{text}");
    }

    #[test]
    fn figures_have_base_units() {
        let text = text(&figures());
        for line in [
            "jetwatch_uptime_seconds 1.5",
            "jetwatch_detector_state{state=\"loading\"} 0",
            "jetwatch_detector_state{state=\"ready\"} 1",
            "jetwatch_detector_info{backend=\"onnx\",model=\"street-nano\",precision=\"int8\"} 1",
            "jetwatch_source_up{source=\"cam\"} 1",
            "jetwatch_source_frames_total{source=\"cam\",outcome=\"carried\"} 30",
            "jetwatch_source_last_frame_timestamp_seconds{source=\"cam\"} 1700000000.123",
            "jetwatch_stage_seconds_bucket{stage=\"infer\",le=\"0.005\"} 0",
            "jetwatch_stage_seconds_bucket{stage=\"infer\",le=\"0.01\"} 1",
            "jetwatch_stage_seconds_sum{stage=\"infer\"} 0.007",
            "jetwatch_tracks_active{source=\"cam\",label=\"person\"} 3",
            "jetwatch_line_crossings_total{source=\"cam\",line=\"middle\",to=\"right\",label=\"person\"} 1",
            "jetwatch_zone_objects{source=\"cam\",zone=\"road\",label=\"person\"} 2",
            "jetwatch_mqtt_messages_total{outcome=\"delivered\"} 5",
            "jetwatch_spool_bytes{tier=\"state\"} 0",
            "jetwatch_temperature_celsius{zone=\"acpitz\"} 20",
            "jetwatch_temperature_celsius{zone=\"acpitz1\"} 21",
            "jetwatch_power_watts{rail=\"VDD_IN\"} 9.25",
            "jetwatch_clock_hertz{unit=\"cpu0\"} 115200000",
            "jetwatch_load_ratio{unit=\"gpu\"} 0.425",
            "jetwatch_load_ratio{unit=\"dla1\"} 1",
            "jetwatch_load_ratio{unit=\"cpu0\"} 0.25",
            "jetwatch_throttled{cause=\"heat\"} 1",
            "jetwatch_throttled{cause=\"rail\"} 0",
            "process_open_fds 12",
        ] {
            assert!(text.contains(&format!("{line}\n")), "no {line} in\n{text}");
        }
        assert!(!text.contains("GPU-therm"), "it is off");
    }

    #[test]
    fn what_is_unknown_is_left_out() {
        let text = text(&Figures::default());
        let families: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        let wanted = [
            "jetwatch_build_info",
            "jetwatch_uptime_seconds",
            "jetwatch_detector_state",
            "process_cpu_seconds_total",
            "process_resident_memory_bytes",
            "process_threads",
        ];
        assert_eq!(families, wanted);
    }

    #[test]
    fn causes_of_throttling_have_a_sample_each() {
        for cause in [
            Cause::Heat(String::new()),
            Cause::Rail(String::new()),
            Cause::OverCurrent(String::new()),
        ] {
            assert!(THROTTLING_CAUSES.contains(&cause.kind()), "{cause:?}");
        }
    }
}
