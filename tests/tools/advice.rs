// SPDX-License-Identifier: Apache-2.0
//! Advice that is followed: the verdict of a computed pipeline names a key, the key is changed, and the pipeline is computed again. What
//! the finding is about must improve: frames/s, latency, or what is dropped and lost. Real runs are in `pipelines`.

use jetwatch_nsys::report::run_findings;
use serde_json::{Value, json};

/// Length of a run, in s.
const RUN_S: f64 = 10.0;

/// A pipeline in its steady state. Times are in ms: those of a frame, unless they say otherwise.
#[derive(Clone)]
struct Model {
    live: bool,
    sources: f64,
    /// Of each live source.
    fps: f64,
    decode: f64,
    scale: f64,
    copy: f64,
    workers: f64,
    cores: f64,
    batch: f64,
    batch_timeout: f64,
    tensor: f64,
    infer: f64,
    /// Of a batch: launching kernels.
    launch: f64,
    boxes: f64,
    on_gpu: bool,
    track: f64,
    publish: f64,
    /// Messages of a frame, and what the broker takes in a second.
    messages: f64,
    broker: f64,
    /// Crops of a frame, and the time of each in one of the workers.
    crops: f64,
    crop: f64,
    crop_workers: f64,
    /// Drawing and encoding a frame of a recording.
    draw: f64,
}

const CAMERA: Model = Model {
    live: true,
    sources: 1.0,
    fps: 25.0,
    decode: 4.0,
    scale: 2.0,
    copy: 0.5,
    workers: 1.0,
    cores: 4.0,
    batch: 1.0,
    batch_timeout: 200.0,
    tensor: 0.5,
    infer: 15.0,
    launch: 0.0,
    boxes: 0.5,
    on_gpu: false,
    track: 1.0,
    publish: 0.5,
    messages: 1.0,
    broker: 1e6,
    crops: 0.0,
    crop: 5.0,
    crop_workers: 1.0,
    draw: 0.0,
};

/// A file that is quickly decoded.
const QUICK: Model = Model {
    decode: 1.0,
    scale: 0.5,
    ..FILE
};

const FILE: Model = Model {
    live: false,
    ..CAMERA
};

/// A network on a GPU, on which it takes a tenth of the time.
const ON_GPU: Model = Model {
    on_gpu: true,
    infer: 1.5,
    ..FILE
};

/// What a pipeline reaches.
#[derive(Debug)]
struct Reached {
    fps: f64,
    latency_ms: f64,
    /// Frames and crops dropped, and messages lost, in a second.
    dropped: f64,
    crops_dropped: f64,
    lost: f64,
    run: Value,
}

impl Model {
    fn reached(&self) -> Reached {
        let per_second = |ms: f64| if ms > 0.0 { 1e3 / ms } else { f64::INFINITY };
        let on_network = self.infer + self.launch / self.batch;
        let detect = self.tensor + on_network + self.boxes;
        let at_once = if self.on_gpu {
            self.workers
        } else {
            self.workers.min(self.cores)
        };
        let offered = if self.live {
            self.sources * self.fps
        } else {
            f64::INFINITY
        };
        let sources = self.sources * per_second(self.decode.max(self.scale).max(self.copy));
        let gpu = if self.on_gpu {
            per_second(on_network)
        } else {
            f64::INFINITY
        };
        let detectors = (at_once * per_second(detect)).min(gpu);
        let track = per_second(self.track + self.publish);
        // A file waits for what comes behind; a camera does not.
        let beside = self.crop_workers * per_second(self.crops * self.crop);
        let drawn = per_second(self.draw);
        let waits = if self.live {
            f64::INFINITY
        } else {
            beside.min(drawn)
        };
        let fps = offered.min(sources).min(detectors).min(track).min(waits);
        let crops_dropped = (fps.min(beside) - fps).abs() * self.crops;
        let dropped = if self.live { offered - fps } else { 0.0 };
        let lost = (fps * self.messages - self.broker).max(0.0);
        let period = 1e3 / fps;
        let wait = ((self.batch - 1.0) * period).min(self.batch_timeout);
        let latency_ms = wait / 2.0 + self.batch * detect + self.track + self.publish;

        // More threads than cores take turns.
        let turns = if self.on_gpu {
            1.0
        } else {
            (self.workers / self.cores).max(1.0)
        };
        let busy = fps * detect * turns / 1e3 / self.workers;
        let is_behind = track.min(waits) <= fps;
        let idle = (1.0 - busy).max(0.0);
        let of_source = fps / self.sources / 1e3;
        let at_source = of_source * (self.decode + self.scale + self.copy);
        let is_full = fps < sources.min(offered);
        let stage = |name: &str, total_ms: f64| {
            let count = fps * RUN_S;
            json!({"stage": name, "count": count, "items": count, "total_ms": total_ms})
        };
        let of_threads = |share: f64, threads: f64| share * threads * RUN_S * 1e3;
        let of_frames = |ms: f64| fps * RUN_S * ms;
        let mut stages = vec![
            stage("video_decode", of_frames(self.decode)),
            stage("scale", of_frames(self.scale)),
            stage("source", of_frames(self.copy)),
            stage(
                "enqueue",
                of_threads(
                    if is_full && !self.live {
                        (1.0 - at_source).max(0.1)
                    } else {
                        0.001
                    },
                    self.sources,
                ),
            ),
            stage(
                "batch",
                of_threads(if is_behind || is_full { 0.01 } else { idle }, self.workers),
            ),
            stage("tensor", of_frames(self.tensor * turns)),
            stage("infer", of_frames(on_network * turns)),
            stage("decode", of_frames(self.boxes * turns)),
            stage(
                "send_results",
                of_threads(if is_behind { idle } else { 0.001 }, self.workers),
            ),
            stage("track", of_frames(self.track)),
            stage("publish", of_frames(self.publish)),
            stage(
                "secondary",
                of_frames(self.crops * self.crop / self.crop_workers).min(RUN_S * 1e3),
            ),
            stage("render", of_frames(self.draw).min(RUN_S * 1e3)),
        ];
        if self.on_gpu {
            stages.push(stage("gpu_network", of_frames(on_network)));
        }
        let latency = |ms: f64| json!({"frames": 250, "mean_ms": ms, "median_ms": ms, "p95_ms": ms, "max_ms": ms});
        let mut whole = latency(latency_ms);
        let mut part = latency(wait / 2.0);
        part["part"] = json!("wait");
        whole["parts"] = json!([part]);
        let frames = (fps * RUN_S) as u64;
        let sources: Vec<Value> = (0..self.sources as u64)
            .map(|number| json!({"name": format!("s{number}"), "live": self.live, "detected": frames / self.sources as u64}))
            .collect();
        let own =
            (fps * (detect * f64::from(u8::from(!self.on_gpu)) + self.track) / 1e3).min(self.cores);
        let accepted = (fps * self.messages * RUN_S) as u64;
        let mut run = json!({"duration_s": RUN_S, "workers": self.workers as u64, "batch_size": self.batch as u64, "frames": frames,
            "dropped": (dropped * RUN_S) as u64, "stages": stages, "sources": sources, "latency": null,
            "occupancy": {"seconds": RUN_S, "cores": self.cores as u64, "allowed_cores": self.cores as u64, "own_cores": own, "foreign_cores": 0.0,
                "stolen_cores": 0.0, "core_wait": 0.0, "programs": []},
            "outputs": [{"name": "mqtt", "items": "messages", "accepted": accepted, "delivered": 0, "lost": (lost * RUN_S) as u64,
                "queued": 0, "max_queued": 0, "busy_ms": (fps * self.messages / self.broker).min(1.0) * RUN_S * 1e3}],
            "secondary": [{"name": "plate", "crops": fps * self.crops * RUN_S, "dropped_crops": crops_dropped * RUN_S, "mean_wait_ms": 99.0,
                "mean_infer_ms": self.crop}]});
        if self.live {
            run["latency"] = whole;
        }
        if self.crops <= 0.0 {
            run["secondary"] = json!([]);
        }
        Reached {
            fps,
            latency_ms,
            dropped,
            crops_dropped,
            lost,
            run,
        }
    }

    /// What a change of this key does, as the finding `rule` advises it.
    fn follow(&mut self, rule: &str, key: &str) {
        match (rule, key) {
            ("waits_for_sources", "sources") => self.sources += 1.0,
            ("rendering_limit", "sources") => self.draw *= 0.5,
            ("batch_latency", "detector.batch_size") => self.batch = self.sources,
            ("launch_limit", "detector.batch_size") => self.batch *= 4.0,
            (_, "detector.workers") => self.workers += 1.0,
            (_, "detector.precision" | "detector.model") => self.infer *= 0.5,
            (_, "detector.interval") => {
                for ms in [
                    &mut self.tensor,
                    &mut self.infer,
                    &mut self.launch,
                    &mut self.boxes,
                ] {
                    *ms *= 0.5;
                }
            }
            (_, "detector.backend") => {
                self.on_gpu = true;
                self.tensor *= 0.1;
                self.infer *= 0.1;
            }
            (_, "detector.score_threshold") => self.boxes *= 0.4,
            (_, "detector.batch_timeout_ms") => self.batch_timeout = 5.0,
            (_, "sources[].decoder" | "sources[].decoder_threads") => self.decode *= 0.3,
            (_, "sources[].scaling") => self.scale *= 0.2,
            (_, "sources[].max_fps") => {
                (self.scale, self.copy) = (self.scale * 0.5, self.copy * 0.5)
            }
            (_, "sources[].uri") => {
                for ms in [
                    &mut self.decode,
                    &mut self.scale,
                    &mut self.copy,
                    &mut self.draw,
                ] {
                    *ms *= 0.4;
                }
            }
            (_, "tracker.association") => self.track *= 0.3,
            (_, "publish.update_interval_ms" | "publish.detections") => {
                self.messages *= 0.2;
                self.publish *= 0.3;
            }
            (_, "secondary[].workers") => self.crop_workers += 1.0,
            (_, "secondary[].reinfer_interval") => self.crops *= 0.3,
            _ => panic!("{rule} names {key}, and nothing is known of it"),
        }
    }
}

/// What improves.
#[derive(Debug, Clone, Copy)]
enum Gain {
    Fps,
    Latency,
    Dropped,
    Crops,
    Lost,
}

/// Pipeline, rule, key to change, and what improves.
#[rustfmt::skip]
const CASES: &[(&str, Model, &str, &str, Gain)] = &[
    ("camera with time left", CAMERA, "waits_for_sources", "sources", Gain::Fps),
    ("network on the CPU, one worker", FILE, "network_on_cpu", "detector.workers", Gain::Fps),
    ("network on the CPU, FP32", FILE, "network_on_cpu", "detector.precision", Gain::Fps),
    ("network on the CPU beside a GPU", FILE, "network_on_cpu", "detector.backend", Gain::Fps),
    ("network on a full CPU", Model { workers: 4.0, ..QUICK }, "network_on_full_cpu", "detector.model", Gain::Fps),
    ("network on a full CPU, every frame", Model { workers: 4.0, ..QUICK }, "network_on_full_cpu", "detector.interval", Gain::Fps),
    ("GPU that is full", Model { infer: 9.0, workers: 3.0, ..ON_GPU }, "gpu_saturated", "detector.precision", Gain::Fps),
    ("GPU that waits for its only worker", Model { infer: 8.0, tensor: 2.0, boxes: 2.0, decode: 1.0, ..ON_GPU }, "too_few_detectors", "detector.workers", Gain::Fps),
    ("boxes take long", Model { boxes: 20.0, ..ON_GPU }, "decode_limit", "detector.score_threshold", Gain::Fps),
    ("tensors take long", Model { tensor: 20.0, infer: 2.0, ..FILE }, "tensor_limit", "detector.backend", Gain::Fps),
    ("tensors take long, one worker", Model { tensor: 20.0, infer: 2.0, ..FILE }, "tensor_limit", "detector.workers", Gain::Fps),
    ("decoding 4K in software", Model { decode: 40.0, ..FILE }, "video_decode_limit", "sources[].decoder", Gain::Fps),
    ("decoding in one thread", Model { decode: 40.0, ..FILE }, "video_decode_limit", "sources[].decoder_threads", Gain::Fps),
    ("scaling 4K", Model { scale: 40.0, ..FILE }, "scale_limit", "sources[].scaling", Gain::Fps),
    ("copying large images", Model { copy: 40.0, ..FILE }, "sources_limit", "sources[].uri", Gain::Fps),
    ("many objects, slow association", Model { track: 40.0, ..ON_GPU }, "tracking_limit", "tracker.association", Gain::Fps),
    ("tracks of every frame", Model { publish: 40.0, ..ON_GPU }, "publishing_limit", "publish.detections", Gain::Fps),
    ("secondary network slower than the primary one", Model { crops: 6.0, crop: 12.0, ..ON_GPU }, "secondary_limit", "secondary[].workers", Gain::Fps),
    ("recording slower than the network", Model { draw: 60.0, ..FILE }, "rendering_limit", "sources[].uri", Gain::Fps),
    ("one camera, batch of 4", Model { batch: 4.0, infer: 4.0, ..CAMERA }, "batch_latency", "detector.batch_size", Gain::Latency),
    ("three cameras, batch of 8", Model { batch: 8.0, sources: 3.0, infer: 2.0, ..CAMERA }, "batch_latency", "detector.batch_size", Gain::Latency),
    ("one camera, batch of 4, long timeout", Model { batch: 4.0, infer: 4.0, ..CAMERA }, "batch_latency", "detector.batch_timeout_ms", Gain::Latency),
    ("camera, slow network", Model { infer: 90.0, ..CAMERA }, "frames_dropped", "detector.interval", Gain::Dropped),
    ("camera, secondary network starved", Model { crops: 8.0, crop: 10.0, ..CAMERA }, "crops_dropped", "secondary[].workers", Gain::Crops),
    ("camera, known objects inferred too often", Model { crops: 8.0, crop: 10.0, ..CAMERA }, "crops_dropped", "secondary[].reinfer_interval", Gain::Crops),
    ("slow broker", Model { messages: 20.0, broker: 200.0, ..CAMERA }, "messages_lost", "publish.update_interval_ms", Gain::Lost),
];

#[test]
fn following_the_advice_improves_what_it_is_about() {
    assert!(CASES.len() >= 20);
    let mut wrong = Vec::new();
    for (name, model, rule, key, gain) in CASES {
        let before = model.reached();
        let meta = json!({"versions": {"detector": "onnxruntime picodet (cpu)"}});
        let findings = run_findings(&before.run, Some(&meta));
        let Some(finding) = findings.iter().find(|finding| finding.rule == *rule) else {
            wrong.push(format!("{name}: {rule} is not in {findings:?}"));
            continue;
        };
        if !finding.keys.contains(key) {
            wrong.push(format!("{name}: {key} is not in {finding:?}"));
            continue;
        }
        let mut changed = model.clone();
        changed.follow(rule, key);
        let after = changed.reached();
        let (old, new) = match gain {
            Gain::Fps => (1.0 / before.fps, 1.0 / after.fps),
            Gain::Latency => (before.latency_ms, after.latency_ms),
            Gain::Dropped => (before.dropped, after.dropped),
            Gain::Crops => (before.crops_dropped, after.crops_dropped),
            Gain::Lost => (before.lost, after.lost),
        };
        if new > 0.9 * old {
            wrong.push(format!(
                "{name}: {key} does not help ({gain:?} {old} to {new})"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn keys_that_do_not_help_are_not_named() {
    for model in [
        Model {
            workers: 4.0,
            ..QUICK
        },
        Model {
            workers: 6.0,
            ..QUICK
        },
    ] {
        let before = model.reached();
        let mut changed = model.clone();
        changed.follow("", "detector.workers");
        assert_eq!(changed.reached().fps, before.fps, "no core is idle");
        let findings = run_findings(&before.run, None);
        let names =
            |finding: &&jetwatch_nsys::report::Finding| finding.keys.contains(&"detector.workers");
        assert!(
            !findings.iter().any(|finding| names(&finding)),
            "{findings:?}"
        );
    }
}
