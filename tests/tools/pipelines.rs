// SPDX-License-Identifier: Apache-2.0
//! Pipelines by name, each with the findings that its verdict must have, in their order: what is lost first, then whether the machine
//! was the program's own, then the stage that limits. Measurements are made by a recipe; at the end are real runs whose cause is
//! overwhelming. Pipelines with a timeline, and their critical paths, are in `report_limits`.

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command};

use serde_json::{Value, json};
use support::daemon::{Setup, finish, json_lines_config, stderr, success};

/// Length of each run, in ms.
const RUN_MS: f64 = 10_000.0;

/// One measurement: shares of the time of the threads that run each stage, and what the run states beside.
struct Recipe {
    live: bool,
    sources: usize,
    workers: usize,
    batch_size: u64,
    shares: BTreeMap<&'static str, f64>,
    /// The same of CPU time, where it is not all of the time.
    cpu: BTreeMap<&'static str, f64>,
    /// The network ran on a GPU, which was busy for this share of the time.
    gpu: Option<f64>,
    run: Value,
    meta: Value,
}

impl Recipe {
    /// Cameras at their own pace, a network on the CPU that has time left, a machine of four free cores.
    fn cameras(sources: usize) -> Self {
        Self {
            live: true,
            sources,
            workers: 1,
            batch_size: 1,
            shares: BTreeMap::from([
                ("video_decode", 0.1),
                ("scale", 0.05),
                ("source", 0.01),
                ("enqueue", 0.01),
                ("batch", 0.7),
                ("tensor", 0.02),
                ("infer", 0.25),
                ("decode", 0.02),
                ("send_results", 0.01),
                ("track", 0.05),
                ("publish", 0.02),
            ]),
            cpu: BTreeMap::new(),
            gpu: None,
            run: json!({"occupancy": occupancy(4, 4, 1.0, 0.1), "outputs": []}),
            meta: json!({"versions": {"detector": "onnxruntime picodet (cpu)"}}),
        }
    }

    /// A file whose reader waits for the network.
    fn file() -> Self {
        let mut file = Self::cameras(1);
        file.live = false;
        file.set(&[("batch", 0.02), ("infer", 0.92), ("enqueue", 0.8)]);
        file
    }

    fn set(&mut self, shares: &[(&'static str, f64)]) {
        self.shares.extend(shares.iter().copied());
    }

    /// Stages that wait for a core: the time in them, and their CPU time.
    fn waits(&mut self, stages: &[(&'static str, f64, f64)]) {
        for (stage, time, cpu) in stages {
            self.shares.insert(stage, *time);
            self.cpu.insert(stage, *cpu);
        }
    }

    /// An output that lost some of 1000, while others wait at the end of the run.
    fn output(&mut self, name: &str, items: &str, lost: u64, queued: u64, busy_ms: f64) {
        let output = json!({"name": name, "items": items, "accepted": 1000, "delivered": 1000 - lost, "lost": lost,
            "queued": queued, "max_queued": queued, "busy_ms": busy_ms});
        let outputs = self.run["outputs"].as_array_mut();
        outputs.expect("a list").push(output);
    }

    /// The frames of a camera wait for a batch this long.
    fn latency(&mut self, wait_ms: f64) {
        let latency = |ms: f64| json!({"frames": 250, "mean_ms": ms, "median_ms": ms, "p95_ms": ms * 1.2, "max_ms": ms * 2.0});
        let part = |name: &str, ms: f64| {
            let mut part = latency(ms);
            part["part"] = json!(name);
            part
        };
        self.run["latency"] = latency(wait_ms + 30.0);
        self.run["latency"]["parts"] = json!([
            part("wait", wait_ms),
            part("detect", 29.0),
            part("track", 1.0)
        ]);
    }

    fn benchmark(&self) -> Value {
        let mut stages = Vec::new();
        for (stage, share) in &self.shares {
            let threads = match *stage {
                "video_decode" | "scale" | "source" | "enqueue" => self.sources,
                "track" | "publish" | "render" | "encode" => 1,
                _ => self.workers,
            };
            let of = |share: f64| share * RUN_MS * threads as f64;
            let cpu = self.cpu.get(stage).map(|cpu| of(*cpu));
            stages.push(json!({"stage": stage, "count": 250, "items": 250, "total_ms": of(*share), "cpu_ms": cpu}));
        }
        if let Some(busy) = self.gpu {
            let total = busy * RUN_MS;
            stages.push(
                json!({"stage": "gpu_network", "count": 250, "items": 250, "total_ms": total}),
            );
        }
        let source = |number: usize| json!({"name": format!("cam-{number}"), "live": self.live, "detected": 250, "dropped": 0});
        let mut run = json!({"duration_s": RUN_MS / 1e3, "workers": self.workers, "batch_size": self.batch_size, "frames": 250,
            "dropped": 0, "stages": stages, "sources": (1..=self.sources).map(source).collect::<Vec<_>>()});
        for (key, value) in self.run.as_object().expect("an object") {
            run[key] = value.clone();
        }
        json!({"data": {"jetwatch": {"detect": {"cpu_time": 1.0}}}, "run": run, "meta": self.meta,
            "mean_data": {"jetwatch/track": {"cpu_time": 1.0}}})
    }
}

/// A secondary network with batches of up to 32.
fn batches(name: &str, crops: f64, wait_ms: f64, infer_ms: f64) -> Value {
    json!({"name": name, "crops": 100, "dropped_crops": 0, "batches": 50, "mean_batch": crops, "batch_size": 32, "suggested_batch_size": 2,
        "mean_wait_ms": wait_ms, "mean_infer_ms": infer_ms})
}

fn occupancy(cores: usize, allowed: usize, own: f64, foreign: f64) -> Value {
    json!({"seconds": 10.0, "cores": cores, "allowed_cores": allowed, "own_cores": own, "foreign_cores": foreign,
        "stolen_cores": 0.0, "core_wait": 0.1, "programs": [{"name": "ffmpeg", "cores": foreign}]})
}

type Change = fn(&mut Recipe);

/// Another program that takes this many cores of a machine on which this one takes what is left, up to `own`.
fn load(recipe: &mut Recipe, cores: usize, foreign: f64, own: f64) {
    let own = own.min(cores as f64 - foreign);
    recipe.run["occupancy"] = occupancy(cores, cores, own, foreign);
}

/// The network on a DLA, while the GPU is busy for this share of the time.
fn on_dla(recipe: &mut Recipe, busy: f64) {
    recipe.gpu = Some(busy);
    recipe.meta["versions"]["detector"] = json!("tensorrt, yolox in int8 (Orin, DLA 0)");
}

const CAMERA: &[&str] = &["waits_for_sources"];
const NETWORK: &[&str] = &["network_on_cpu"];
const FULL: &[&str] = &["network_on_full_cpu"];
const TAKEN: &[&str] = &["cpu_taken", "network_on_full_cpu"];

/// Cameras: name, change, rules of the findings in their order, a part of the text.
#[rustfmt::skip]
const CAMERAS: &[(&str, Change, &[&str], &str)] = &[
    ("camera, all well", |_| {}, CAMERA, "no stage is too slow"),
    ("six cameras, all well", |r| r.sources = 6, CAMERA, "input took 83 % of its threads' time; 70 % of the detectors' time went into waiting for frames"),
    ("six cameras, one of them slow", |r| {
        r.sources = 6;
        r.run["sources"] = json!([{"name": "slow", "live": true, "detected": 30, "dropped": 0}, {"name": "b", "live": true, "detected": 250}]);
    }, CAMERA, "waits for sources"),
    ("camera over RTSP with losses", |r| r.run["sources"] = json!([{"name": "rtsp", "live": true, "frames": 90, "detected": 90, "reconnects": 7}]),
        &["source_lost"], "rtsp gave 90 frames in the whole run; times that it was opened again: 7"),
    ("camera over RTSP that loses packets", |r| r.run["sources"] = json!([{"name": "rtsp", "live": true, "frames": 90, "detected": 90, "behind_loss": 160}]),
        &["source_lost"], "could not be decoded, since something before them was lost: 160"),
    ("camera over RTSP that has lost one packet", |r| r.run["sources"] = json!([{"name": "rtsp", "live": true, "frames": 900, "detected": 900, "behind_loss": 4}]),
        CAMERA, "no stage"),
    ("camera that cannot be opened", |r| {
        r.sources = 2;
        r.run["sources"] = json!([{"name": "a", "live": true, "frames": 250, "detected": 250}, {"name": "gone", "live": true, "reconnects": 4}]);
    }, &["source_lost"], "a source could not be opened"),
    // Sinks: slow, failing, losing.
    ("MQTT, slow broker", |r| r.output("mqtt", "messages", 0, 400, 9_900.0), &["messages_lost"], "mqtt falls behind"),
    ("MQTT, broker that loses", |r| r.output("mqtt", "messages", 940, 60, 9_900.0), &["messages_lost"],
        "mqtt lost 940 of 1000 messages; 60 waited at the end of the run, 60 at most; it was at work, or held by its receiver, for 99 %"),
    ("MQTT, broker away", |r| r.output("mqtt", "messages", 1000, 1000, 0.0), &["messages_lost"], "is away, or refuses them"),
    ("MQTT, a few wait", |r| r.output("mqtt", "messages", 0, 3, 900.0), CAMERA, "no stage"),
    ("MQTT for states, losing", |r| r.output("mqtt-states", "messages", 5, 0, 10.0), &["messages_lost"], "mqtt-states lost 5"),
    ("MQTT in Frigate's shape, losing", |r| r.output("mqtt-frigate", "messages", 5, 0, 10.0), &["messages_lost"], "mqtt-frigate lost 5"),
    ("MQTT in DeepStream's shape, slow", |r| r.output("mqtt-deepstream", "messages", 0, 500, 9_000.0), &["messages_lost"], "mqtt-deepstream falls behind"),
    ("spool full", |r| r.output("spool", "messages", 30, 0, 900.0), &["messages_lost"], "spool lost 30"),
    ("spool full while the broker is away", |r| {
        r.output("mqtt", "messages", 862, 138, 0.0);
        r.output("spool", "messages", 844, 0, 84.0);
    }, &["messages_lost"], "the spool is full"),
    ("JSON lines, slow reader", |r| r.output("json-lines", "messages", 0, 700, 9_950.0), &["lines_lost"], "json-lines falls behind"),
    ("JSON lines, reader that stops", |r| r.output("json-lines", "messages", 600, 400, 9_950.0), &["lines_lost"], "json-lines lost 600"),
    ("JSON lines, full disk", |r| r.output("json-lines", "messages", 1000, 1000, 50.0), &["lines_lost"], "free space on the disk"),
    ("webhook, slow endpoint", |r| r.output("webhook alarm", "messages", 0, 300, 9_990.0), &["webhook_events_lost"], "webhook alarm falls behind: what it is given waits longer and longer"),
    ("webhook, some events wait", |r| r.output("webhook alarm", "messages", 0, 90, 900.0), CAMERA, "no stage"),
    ("webhook, endpoint that refuses", |r| r.output("webhook alarm", "messages", 200, 0, 300.0), &["webhook_events_lost"], "webhook alarm lost 200"),
    ("recording, slow encoder", |r| {
        r.output("record", "frames", 300, 0, 9_900.0);
        r.set(&[("render", 0.4), ("encode", 0.55)]);
    }, &["recorded_frames_lost", "rendering_limit"],
        "drawing a frame takes 38.0 ms, of which 22.0 ms wait for the encoder, and the network 10.0 ms; the recording was busy for 95 %"),
    ("recording, slow encoder in hardware", |r| {
        r.output("record", "frames", 300, 0, 9_900.0);
        r.set(&[("render", 0.4), ("encode", 0.55)]);
        r.run["recording"] = json!({"path": "a.mp4", "encoder": "nvv4l2h264enc"});
    }, &["recorded_frames_lost", "rendering_limit"], "omit --record, record fewer sources, or make the images smaller at the camera\""),
    ("recording, all frames", |r| { r.output("record", "frames", 0, 0, 900.0); r.set(&[("render", 0.05), ("encode", 0.04)]); }, CAMERA, "no stage"),
    ("clips, slow disk", |r| r.output("media", "files and images", 80, 0, 9_000.0), &["clip_images_lost"], "media lost 80"),
    ("continuous recording, full disk", |r| r.output("media", "files and images", 110, 0, 40.0), &["clip_images_lost"], "could not be written"),
    ("snapshots of 4K", |r| r.output("snapshot", "pictures", 40, 0, 9_800.0), &["snapshots_left_out"], "record.snapshots.max_width"),
    ("snapshots, full disk", |r| r.output("snapshot", "pictures", 1000, 0, 20.0), &["snapshots_left_out"], "they cannot be written"),
    ("page, many viewers", |r| r.output("web-pictures", "pictures", 120, 0, 9_700.0), &["page_pictures_left_out"], "web.preview.max_width"),
    ("page, one viewer", |r| r.output("web-pictures", "pictures", 0, 0, 700.0), CAMERA, "no stage"),
    ("two sinks, the broker loses", |r| {
        r.output("json-lines", "messages", 1, 0, 10.0);
        r.output("mqtt", "messages", 500, 0, 9_900.0);
    }, &["messages_lost", "lines_lost"], "mqtt lost 500"),
    // Frames and crops.
    ("camera, slow network", |r| {
        r.set(&[("batch", 0.01), ("infer", 0.95)]);
        r.run["dropped"] = json!(250);
    }, &["frames_dropped", "network_on_cpu"], "newer frames replaced 250 of 500 (50 %)"),
    ("camera, slow network on a GPU", |r| {
        r.set(&[("batch", 0.01), ("infer", 0.95)]);
        (r.gpu, r.run["dropped"]) = (Some(0.96), json!(250));
    }, &["frames_dropped", "gpu_saturated"], "use INT8 or FP16"),
    ("camera, a frame in a thousand dropped", |r| r.run["dropped"] = json!(1), CAMERA, "no stage"),
    ("secondary network starved", |r| {
        r.run["secondary"] = json!([{"name": "color", "crops": 90, "dropped_crops": 10}, {"name": "plate", "crops": 100, "dropped_crops": 300, "batches": 100, "mean_batch": 1.0,
            "batch_size": 1, "suggested_batch_size": 4, "mean_wait_ms": 90.0, "mean_infer_ms": 98.0}]);
        r.set(&[("secondary", 0.98), ("secondary_wait", 0.01)]);
    }, &["crops_dropped", "secondary_limit"], "its queue was full for 300 of 400 crops"),
    ("secondary batch too large", |r| {
        r.run["secondary"] = json!([batches("full", 15.0, 40.0, 3.0), batches("plate", 2.0, 40.0, 3.0)]);
    }, &["waits_for_sources", "secondary_waits"], "a batch has 2.0 crops where 32 fit, waits 40.0 ms, and takes 3.0 ms; a batch_size of 2 would be full"),
    ("secondary batches that are half full, or fill during inference", |r| {
        r.run["secondary"] = json!([batches("half", 16.0, 40.0, 3.0), batches("slow", 2.0, 3.0, 40.0)]);
    }, CAMERA, "no stage"),
    ("secondary network whose batch is not done at the end", |r| {
        r.run["secondary"] = json!([{"name": "plate", "crops": 100, "dropped_crops": 300}]);
        r.set(&[("secondary", 0.7)]);
    }, &["crops_dropped"], "\"Limiting Stage\":\"secondary\""),
    ("camera, drops while the network is busy for a part of the time", |r| {
        r.set(&[("batch", 0.3), ("infer", 0.6)]);
        r.run["dropped"] = json!(90);
    }, &["frames_dropped", "nearest_limit"], "at it for a part of the time"),
    ("camera with max_fps", |r| r.run["sources"] = json!([{"name": "a", "live": true, "detected": 50, "above_max_fps": 1250}]), CAMERA,
        "max_fps left out 1250 frames"),
    ("run of three frames", |r| r.run["frames"] = json!(3), &["too_short"], "3 frames were measured, in 10.00 s"),
    // Latency.
    ("one camera, batch of 2", |r| { r.batch_size = 2; r.latency(20.0); }, &["batch_latency", "waits_for_sources"], "detector.batch_size 1 for one camera"),
    ("one camera, batch of 4", |r| { r.batch_size = 4; r.latency(119.0); }, &["batch_latency", "waits_for_sources"],
        "a frame takes 149.0 ms (median; 95 %: 178.8, maximum 298.0; medians of the parts: wait 119.0, detect 29.0, track 1.0); a frame waits 119.0 ms"),
    ("one camera, batch of 16 with a short timeout", |r| { r.batch_size = 16; r.latency(2.0); }, CAMERA, "no stage"),
    ("four cameras, batch of 4", |r| { (r.sources, r.batch_size) = (4, 4); r.latency(15.0); }, CAMERA, "no stage"),
    ("four cameras, batch of 8", |r| { (r.sources, r.batch_size) = (4, 8); r.latency(40.0); }, &["batch_latency", "waits_for_sources"], "4 live sources wait"),
    ("one camera, batch of 4, too slow a network", |r| {
        r.batch_size = 4;
        r.latency(119.0);
        r.set(&[("batch", 0.01), ("infer", 0.95)]);
        r.run["dropped"] = json!(200);
    }, &["frames_dropped", "network_on_cpu"], "idle cores"),
    ("two cameras of 30 and 5 frames/s, batch of 2", |r| {
        (r.sources, r.batch_size) = (2, 2);
        r.run["sources"] = json!([{"name": "fast", "live": true, "detected": 300}, {"name": "slow", "live": true, "detected": 50}]);
        r.latency(16.0);
    }, &["batch_latency", "waits_for_sources"], "all of them have 1"),
    ("three cameras, one of them closed by its schedule, batch of 3", |r| {
        (r.sources, r.batch_size) = (3, 3);
        r.run["sources"] = json!([{"name": "a", "live": true, "detected": 250}, {"name": "b", "live": true, "detected": 250},
            {"name": "night", "live": true, "detected": 0}]);
        r.latency(20.0);
    }, &["batch_latency", "waits_for_sources"], "all of them have 2"),
    ("three cameras, batch of 4", |r| { (r.sources, r.batch_size) = (3, 4); r.latency(25.0); }, &["batch_latency", "waits_for_sources"], "3 live sources wait"),
    ("two cameras of different rates and a file", |r| {
        r.sources = 3;
        r.run["sources"] = json!([{"name": "a", "live": true, "detected": 250, "dropped": 20}, {"name": "b", "live": true, "detected": 100},
            {"name": "file", "live": false, "detected": 900}]);
        r.set(&[("batch", 0.01), ("infer", 0.95)]);
        (r.run["dropped"], r.run["frames"]) = (json!(20), json!(1250));
    }, &["frames_dropped", "network_on_cpu"], "most of them from a (20)"),
    ("webhook that answers 500", |r| r.output("webhook alarm", "messages", 0, 900, 225.0), &["webhook_events_lost"], "is away, or refuses them"),
    ("webhook that hangs", |r| r.output("webhook alarm", "messages", 0, 900, 9_800.0), &["webhook_events_lost"], "timeout_s"),
    ("JSON lines to a full pipe", |r| r.output("json-lines", "messages", 0, 990, 9_999.0), &["lines_lost"], "read the pipe faster"),
    ("camera with motion gating, a quiet scene", |r| r.set(&[("batch", 0.97), ("infer", 0.01), ("tensor", 0.001), ("decode", 0.001)]), CAMERA, "no stage"),
    ("recording at the limit of the encoder", |r| { r.output("record", "frames", 120, 60, 9_990.0); r.set(&[("render", 0.05), ("encode", 0.94)]); },
        &["recorded_frames_lost", "rendering_limit"], "record lost 120"),
    ("secondary network, objects too small", |r| r.run["secondary"] = json!([{"name": "plate", "crops": 20, "batches": 20, "objects": 40, "small_objects": 960,
        "mean_batch": 1.0, "batch_size": 1, "suggested_batch_size": 1, "mean_wait_ms": 0.1, "mean_infer_ms": 3.0}]),
        &["waits_for_sources", "objects_without_crop"], "96 % of its objects were smaller than min_object"),
    ("secondary network, a few objects too small", |r| r.run["secondary"] = json!([{"name": "plate", "crops": 20, "objects": 900, "small_objects": 100}]),
        CAMERA, "no stage"),
    ("secondary network, pixels that cannot be kept", |r| r.run["secondary"] = json!([{"name": "plate", "crops": 20, "objects": 40, "frames_without_pixels": 7}]),
        &["waits_for_sources", "objects_without_crop"], "the pixels of 7 frames"),
    // The machine.
    ("camera beside a little load", |r| load(r, 4, 0.3, 1.0), CAMERA, "no stage"),
    ("camera beside load on a core", |r| load(r, 4, 1.0, 1.0), &["cpu_taken", "waits_for_sources"], 
        "other programs took 25 % of 4 cores (ffmpeg 1.00), this one 1.00 cores; 2.00 were idle; threads that could run waited for a core for 10 %"),
    ("camera beside load, its images wait for a core", |r| {
        load(r, 4, 3.5, 0.5);
        r.waits(&[("source", 0.55, 0.05), ("scale", 0.3, 0.03)]);
    }, &["cpu_taken"], "not measurable on this machine now"),
    ("launch line beside load, whose own elements have no time left", |r| {
        load(r, 4, 3.5, 0.5);
        r.run["occupancy"]["core_wait"] = json!(0.6);
        r.set(&[("source", 0.4)]);
    }, &["cpu_taken"], "not measurable on this machine now"),
    ("launch line whose own elements have no time left", |r| r.set(&[("source", 0.85)]), &["sources_limit"], "source took 85 % of its threads' time"),
    ("camera beside load, for a moment", |r| {
        load(r, 4, 3.5, 0.5);
        r.run["duration_s"] = json!(0.12);
    }, &["too_short", "cpu_taken"], "250 frames were measured, in 0.12 s"),
    ("camera beside load, drops that it would not have alone", |r| {
        load(r, 4, 3.6, 0.4);
        r.waits(&[("batch", 0.01, 0.0), ("infer", 0.95, 0.2)]);
        r.run["dropped"] = json!(250);
    }, &["frames_dropped", "cpu_taken"], "alone, it would keep up: all its frames need 0.80 of 4 cores"),
    ("camera beside load, batch of 4, drops that it would not have alone", |r| {
        load(r, 4, 3.6, 0.4);
        r.waits(&[("batch", 0.01, 0.0), ("infer", 0.95, 0.2)]);
        (r.run["dropped"], r.batch_size) = (json!(250), 4);
        r.latency(119.0);
    }, &["frames_dropped", "cpu_taken", "batch_latency"], "detector.batch_size 1 for one camera"),
    ("camera beside load, drops that it would have alone, too", |r| {
        load(r, 4, 3.6, 0.4);
        r.waits(&[("batch", 0.01, 0.0), ("infer", 0.95, 0.6)]);
        r.run["dropped"] = json!(250);
    }, &["frames_dropped", "cpu_taken", "network_on_full_cpu"], "more workers do not help"),
    ("file at the pace of a camera beside load", |r| {
        load(r, 4, 3.5, 0.5);
        r.waits(&[("video_decode", 0.6, 0.05), ("scale", 0.3, 0.03)]);
        r.run["sources"] = json!([{"name": "file", "live": true, "detected": 250, "late": 60}]);
    }, &["frames_late", "cpu_taken"], "since other programs took the CPU"),
    ("six cameras on full cores", |r| { r.sources = 6; load(r, 4, 0.0, 4.0); }, &["cpu_full"], "this program used 4.00 of 4 cores"),
    ("six cameras, drops on full cores", |r| { r.sources = 6; load(r, 4, 0.0, 3.95); r.run["dropped"] = json!(90); }, &["frames_dropped", "cpu_full"],
        "more threads or workers do not help"),
    ("six cameras, drops beside free cores", |r| { r.sources = 6; r.run["dropped"] = json!(90); }, &["frames_dropped", "nearest_limit"],
        "frames that come at the same moment"),
    ("file at the pace of a camera, slow decoder", |r| r.run["sources"] = json!([{"name": "file", "live": true, "detected": 250, "late": 60}]),
        &["frames_late"], "60 frames could not be given in time"),
    ("file at the pace of a camera, one frame late at its start", |r| r.run["sources"] = json!([{"name": "file", "live": true, "detected": 250, "late": 1}]),
        CAMERA, "no stage"),
    ("camera, machine throttled by heat", |r| r.run["throttled"] = json!(["too hot (cpu-throttle-alert)"]), &["throttled", "waits_for_sources"], "too hot"),
    ("camera, throttled during the benchmark", |r| r.meta["throttling"] = json!(["VDD_IN draws more current than its limit"]), &["throttled", "waits_for_sources"], "VDD_IN"),
    ("camera, machine swaps", |r| r.run["occupancy"]["memory_pressure"] = json!(0.4), &["machine_waits", "waits_for_sources"], "wait for memory"),
    ("camera, disks full of work", |r| r.run["occupancy"]["io_pressure"] = json!(0.8), &["machine_waits", "waits_for_sources"], "wait for disks"),
    ("camera, disks with some work", |r| r.run["occupancy"]["io_pressure"] = json!(0.3), CAMERA, "no stage"),
    ("camera, broker that loses beside load", |r| { load(r, 2, 1.0, 1.0); r.output("mqtt", "messages", 9, 0, 10.0); }, &["messages_lost", "cpu_taken"], "mqtt lost 9"),
];

/// Files, whose readers wait: the same.
#[rustfmt::skip]
const FILES: &[(&str, Change, &[&str], &str)] = &[
    ("file, network on the CPU", |_| {}, NETWORK, "idle cores"),
    ("file, network on all cores", |r| load(r, 4, 0.0, 4.0), FULL, "of 4 allowed cores this program used 4.00, and others 0.00"),
    ("file, load of 25 % on one core of four", |r| load(r, 4, 0.25, 1.0), NETWORK, "idle cores"),
    ("file, load of 50 % on one core of four", |r| load(r, 4, 0.5, 4.0), TAKEN, "took 12 % of 4 cores"),
    ("file, load of 100 % on one core of four", |r| load(r, 4, 1.0, 4.0), TAKEN, "took 25 % of 4 cores"),
    ("file, load of 25 % on all cores", |r| load(r, 4, 1.0, 4.0), TAKEN, "took 25 % of 4 cores"),
    ("file, load of 50 % on all cores", |r| load(r, 4, 2.0, 4.0), TAKEN, "took 50 % of 4 cores"),
    ("file, load of 100 % on all cores", |r| load(r, 4, 3.5, 0.5), TAKEN, "took 88 % of 4 cores"),
    ("file, load on one core of two, one worker", |r| load(r, 2, 1.0, 1.0), TAKEN, "no core is idle"),
    ("file, little load on a full machine", |r| load(r, 4, 0.3, 4.0), TAKEN, "took 8 % of 4 cores"),
    ("file, no room, hypervisor", |r| { load(r, 2, 1.0, 1.0); r.run["occupancy"]["stolen_cores"] = json!(0.9); }, TAKEN, "other virtual machines 0.90"),
    ("file, taskset to one core of two", |r| r.run["occupancy"] = occupancy(2, 1, 1.0, 0.0), &["cores_restricted", "network_on_full_cpu"], "1 of 2 cores are allowed"),
    ("file, cpuset of two cores of eight", |r| r.run["occupancy"] = occupancy(8, 2, 1.95, 0.0), &["cores_restricted", "network_on_full_cpu"], "2 of 8 cores are allowed"),
    ("file, cpuset with room", |r| r.run["occupancy"] = occupancy(8, 4, 1.0, 0.0), NETWORK, "idle cores"),
    ("file, quota of half a core", |r| {
        r.run["occupancy"] = occupancy(4, 4, 0.5, 0.0);
        (r.run["occupancy"]["quota_cores"], r.run["occupancy"]["quota_throttled"]) = (json!(0.5), json!(0.97));
    }, &["cpu_quota", "network_on_full_cpu"], "it allows 0.50 cores, and was used up in 97 % of its periods; this program used 0.50 cores of 4"),
    ("file, quota that is not used up", |r| {
        (r.run["occupancy"]["quota_cores"], r.run["occupancy"]["quota_throttled"]) = (json!(3.0), json!(0.0));
    }, NETWORK, "idle cores"),
    ("file, memory bandwidth taken by others", |r| { load(r, 4, 1.0, 1.0); r.run["occupancy"]["core_wait"] = json!(0.0); }, &["cpu_taken", "network_on_cpu"], "compare the CPU time of a frame"),
    ("file, run of an earlier version", |r| r.run["occupancy"] = Value::Null, NETWORK, "idle cores"),
    ("file, network on a GPU", |r| r.gpu = Some(0.97), &["gpu_saturated"], "only the model can be faster"),
    ("file, network on a GPU that has time left", |r| r.gpu = Some(0.89), &["nearest_limit"], "infer is nearest to it"),
    ("file, network on a DLA", |r| on_dla(r, 0.97), &["network_on_dla"], "run it on the GPU (without detector.tensorrt.dla)"),
    ("file, network on a DLA, an idle GPU", |r| on_dla(r, 0.05), &["network_on_dla"], "workers share one DLA core"),
    ("file, network on a DLA, slow boxes", |r| {
        on_dla(r, 0.05);
        r.set(&[("infer", 0.1), ("decode", 0.85)]);
    }, &["decode_limit"], "\"CPU-bound in decode"),
    ("file, slow disk", |r| r.set(&[("batch", 0.9), ("infer", 0.05), ("enqueue", 0.0)]), &["reading_limit"], "faster disk"),
    ("file, slow decoder on full cores", |r| {
        r.set(&[("batch", 0.6), ("infer", 0.3), ("enqueue", 0.0), ("video_decode", 0.93)]);
        load(r, 4, 0.0, 4.0);
    }, &["cpu_full", "video_decode_limit"], "the CPU is full, and the network is not the limit"),
    ("file, slow decoder", |r| r.set(&[("batch", 0.6), ("infer", 0.3), ("enqueue", 0.0), ("video_decode", 0.93)]), &["video_decode_limit"], "decoder_threads"),
    ("file, decoder with time left", |r| r.set(&[("batch", 0.6), ("infer", 0.3), ("enqueue", 0.0), ("video_decode", 0.7)]), &["nearest_limit"],
        "video_decode took 70 % of its threads' time"),
    ("file beside load, its images wait for a core", |r| {
        load(r, 4, 3.5, 0.5);
        r.set(&[("batch", 0.6), ("infer", 0.3), ("enqueue", 0.0), ("video_decode", 0.05)]);
        r.waits(&[("scale", 0.5, 0.05)]);
    }, &["cpu_taken"], "not measurable on this machine now"),
    ("file beside load, slow decoder", |r| {
        load(r, 4, 3.5, 0.5);
        r.set(&[("batch", 0.6), ("infer", 0.3), ("enqueue", 0.0)]);
        r.waits(&[("video_decode", 0.9, 0.2)]);
    }, &["cpu_taken", "video_decode_limit"], "decoder_threads"),
    ("file of three images", |r| r.run["frames"] = json!(3), &["too_short"], "--frames"),
    ("file, slow scaling", |r| r.set(&[("batch", 0.6), ("infer", 0.3), ("enqueue", 0.0), ("scale", 0.88)]), &["scale_limit"], "sources[].scaling"),
    ("file, slow tensor", |r| r.set(&[("infer", 0.1), ("tensor", 0.85)]), &["tensor_limit"], "normalizing"),
    ("file, slow boxes", |r| r.set(&[("infer", 0.1), ("decode", 0.85)]), &["decode_limit"], "detector.score_threshold"),
    ("file, tensors and boxes take some time", |r| r.set(&[("infer", 0.4), ("tensor", 0.29), ("decode", 0.29)]), &["detectors_limit"], "infer 40 %, tensor 29 %, decode 29 %"),
    ("file, network with boxes that take some time", |r| r.set(&[("infer", 0.76), ("decode", 0.22), ("tensor", 0.01)]), NETWORK, "76 % of the detectors' time"),
    ("file, tracker with time left", |r| r.set(&[("infer", 0.1), ("send_results", 0.8), ("track", 0.79)]), &["nearest_limit"], "track is nearest to it"),
    ("file, slow tracker", |r| r.set(&[("infer", 0.1), ("send_results", 0.8), ("track", 0.95)]), &["tracking_limit"], "tracker.association"),
    ("file, slow encoding of messages", |r| r.set(&[("infer", 0.1), ("send_results", 0.8), ("publish", 0.95)]), &["publishing_limit"], "publish.detections"),
    ("file, secondary network slower than the primary one", |r| {
        r.run["secondary"] = json!([{"name": "plate", "crops": 900, "batches": 300, "mean_batch": 3.0, "batch_size": 4, "suggested_batch_size": 4,
            "mean_wait_ms": 90.0, "mean_infer_ms": 30.0}]);
        r.set(&[("infer", 0.3), ("send_results", 0.01), ("secondary", 0.96)]);
    }, &["secondary_limit"], "secondary[].workers"),
    ("file with motion gating", |r| r.set(&[("batch", 0.9), ("infer", 0.05), ("enqueue", 0.0), ("video_decode", 0.92)]), &["video_decode_limit"], "decoder: hardware"),
    ("file, scripted detector", |r| r.meta["versions"]["detector"] = json!("scripted, truth"), &["scripted_detector"], "its script"),
    ("file, recording that loses after an error", |r| { r.output("record", "frames", 10, 0, 10.0); r.set(&[("render", 0.02)]); }, &["recorded_frames_lost", "network_on_cpu"], "record lost 10"),
];

#[test]
fn verdict_of_each_pipeline_has_the_right_findings_in_their_order() {
    let cameras = CAMERAS.iter().map(|case| (case, Recipe::cameras(1)));
    let files = FILES.iter().map(|case| (case, Recipe::file()));
    let cases: Vec<_> = cameras.chain(files).collect();
    assert!(cases.len() >= 60);
    let folder = tempfile::tempdir().expect("a folder");
    let mut wanted = Vec::new();
    for (number, ((name, change, rules, text), mut recipe)) in cases.into_iter().enumerate() {
        change(&mut recipe);
        let own = folder.path().join(format!("{number:03}"));
        fs::create_dir(&own).expect("created");
        let document = recipe.benchmark().to_string();
        fs::write(own.join("benchmark.json"), document).expect("written");
        wanted.push((*name, *rules, *text));
    }
    let output = support::report::report(&["--format", "json"], &[folder.path()]);
    let document: Value = serde_json::from_str(&success(&output)).expect("JSON");
    let reports = document["reports"].as_array().expect("reports");
    assert_eq!(reports.len(), wanted.len());
    let mut wrong = Vec::new();
    for ((name, rules, text), report) in wanted.iter().zip(reports) {
        let findings = report["tables"]["verdict"].as_array();
        let findings = findings.map(Vec::as_slice).unwrap_or_default();
        let found: Vec<&str> = findings
            .iter()
            .filter_map(|finding| finding["Rule"].as_str())
            .collect();
        let all = serde_json::to_string(findings).expect("JSON");
        if found != *rules || !all.contains(text) {
            wrong.push(format!(
                "{name}: expected {rules:?} with '{text}', found {found:?} in {all}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const SCENE: &str = "uri: synthetic://traffic?seed=3&objects=6&width=320&height=180&realtime=false";

/// The rules that the verdict of a real benchmark names, and its document. `words` start the program.
fn measured(words: &[&str], options: &[&str]) -> (Vec<String>, Value) {
    let setup = Setup::new(&json_lines_config(SCENE));
    let bench = setup.command("bench");
    let mut command = match words {
        [] => Command::new(bench.get_program()),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(bench.get_program());
            command
        }
    };
    command.args(bench.get_args()).args(options);
    command.arg("--output").arg(setup.path("out"));
    let output = finish(&mut command);
    success(&output);
    let file = setup.path("out/benchmark.json");
    let report = support::report::report(&["--format", "json"], &[&file]);
    let report: Value = serde_json::from_str(&success(&report)).expect("JSON");
    let verdict = report["reports"][0]["tables"]["verdict"].as_array();
    let rules = verdict.into_iter().flatten();
    let rules = rules.filter_map(|finding| finding["Rule"].as_str().map(str::to_owned));
    (rules.collect(), support::bench::json(&file))
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Programs that compute until they are dropped.
struct Load(Vec<Child>);

impl Load {
    fn start(count: usize) -> Self {
        let start = |_| {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).spawn()
        };
        Self(
            (0..count)
                .map(|number| start(number).expect("started"))
                .collect(),
        )
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn real_run_beside_a_busy_machine_names_who_takes_it() {
    let load = Load::start(2 * cores());
    let (rules, document) = measured(&[], &["--frames", "300"]);
    drop(load);
    assert!(rules.iter().any(|rule| rule == "cpu_taken"), "{rules:?}");
    let occupancy = &document["speed"]["occupancy"];
    let programs = occupancy["programs"].as_array().expect("programs");
    // On a machine that is busy with something else, those may be first.
    assert!(!programs.is_empty(), "{occupancy}");
    assert_eq!(document["run"]["occupancy"], *occupancy);
}

#[test]
fn real_run_on_one_core_says_so() {
    if cores() < 2 {
        return;
    }
    let (rules, document) = measured(&["taskset", "-c", "0"], &["--frames", "300"]);
    let occupancy = &document["speed"]["occupancy"];
    assert_eq!(occupancy["allowed_cores"], 1, "{occupancy}");
    assert!(
        rules.iter().any(|rule| rule == "cores_restricted"),
        "{rules:?} {occupancy}"
    );
}

#[test]
fn real_run_under_a_quota_says_so() {
    // Version 1 of control groups, or 2 with the controller on.
    let group = format!("jetwatch-test-{}", std::process::id());
    let places = [
        ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "20000"),
        ("/sys/fs/cgroup", "cpu.max", "20000 100000"),
    ];
    let made = places.into_iter().find_map(|(root, file, quota)| {
        let folder = std::path::Path::new(root).join(&group);
        fs::create_dir(&folder).ok()?;
        if fs::write(folder.join(file), quota).is_ok() {
            return Some(folder);
        }
        let _ = fs::remove_dir(&folder);
        None
    });
    // Without root, or without control groups.
    let Some(folder) = made else { return };
    let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", folder.display());
    let (rules, document) = measured(&["sh", "-c", &script, "sh"], &["--frames", "300"]);
    fs::remove_dir(&folder).expect("empty");
    let occupancy = &document["speed"]["occupancy"];
    assert_eq!(occupancy["quota_cores"], 0.2, "{occupancy}");
    assert!(
        rules.iter().any(|rule| rule == "cpu_quota"),
        "{rules:?} {occupancy}"
    );
}

/// Copies of a source at a camera's pace: waits for them limit nothing, and late frames are the decoder's.
#[test]
fn streams_that_do_not_fit_are_not_limited_by_their_own_pace() {
    let mut recipe = Recipe::cameras(6);
    recipe.run["dropped"] = json!(1);
    let limit_of = |recipe: &Recipe, late| {
        let benchmark = recipe.benchmark();
        jetwatch_nsys::report::trial_limit(&benchmark["run"], benchmark.get("meta"), late)
    };
    let limit = |late| limit_of(&recipe, late).expect("a limit");
    assert_eq!(limit(0).stage, None);
    assert_has!(limit(0).text => "frames that come at the same moment");
    assert_has!(limit(0).evidence => "70 % of the detectors' time went into waiting");
    recipe.run["dropped"] = json!(0);
    assert_has!(limit_of(&recipe, 3).expect("a limit").text => "3 frames could not be given in time");
    assert_eq!(limit_of(&recipe, 0), None);
    load(&mut recipe, 4, 0.0, 4.0);
    assert_eq!(limit_of(&recipe, 0).expect("a limit").rule, "cpu_full");
}

/// A camera of 25 frames/s that is drawn.
const CAMERA_SCENE: &str = "uri: synthetic://traffic?seed=3&objects=6&width=320&height=180";

#[test]
fn real_run_without_a_broker_loses_messages_first_of_all() {
    let port = support::ports::free_port();
    let setup = Setup::new(&format!(
        "sources: [{{name: cam, {CAMERA_SCENE}}}]\ndetector: {{backend: scripted}}\npublish: {{mqtt: {{broker: 'mqtt://127.0.0.1:{port}'}}}}\n"
    ));
    let stats = setup.path("stats.json");
    let mut run = setup.command("run");
    let output = finish(run.args(["--max-frames", "50", "--stats"]).arg(&stats));
    success(&output);
    assert_has!(stderr(&output) => "messages were lost: mqtt ");
    let stats = setup.json("stats.json");
    let lost = stats["messages_lost"].as_u64().expect("a count");
    assert!(lost > 0, "{stats}");
    let findings = jetwatch_nsys::report::run_findings(&stats, None);
    assert_eq!(findings[0].rule, "messages_lost", "{findings:?}");
    let outputs = stats["outputs"].as_array().expect("outputs");
    let found = (&outputs[0]["name"], &outputs[0]["lost"]);
    assert_eq!(found, (&json!("mqtt"), &json!(lost)));
    // A live source: its latency has parts.
    let latency = &stats["latency"];
    let parts = latency["parts"].as_array().expect("parts");
    let names: Vec<&str> = parts
        .iter()
        .filter_map(|part| part["part"].as_str())
        .collect();
    assert_eq!(names, ["wait", "detect", "track"], "{latency}");
    assert_eq!(latency["frames"], stats["frames"]);
}
