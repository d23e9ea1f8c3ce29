//! jetwatch turns a machine with cameras into a detection appliance: video in, tracked objects out over MQTT.
//!
//! # The house
//!
//! One crate, one binary. Rooms stand on floors; a room names only rooms on floors below its own, and rooms on one floor do
//! not name each other. `tests/architecture.rs` holds the table and the fences.
//!
//! ```text
//! cli        FLOOR 4  doors: one file per subcommand
//! pipeline   FLOOR 3  the only room that knows the whole chain: lanes, detector workers, reordering, the follower, secondary networks, the report, the machine's readings
//! source     FLOOR 2  pixels in: one supervised GStreamer pipeline a source, pictures, and the synthetic scene with its ground truth
//! detect     FLOOR 2  pixels to detections: model folders, tensors, decoding and NMS (pure), ONNX Runtime, scripted; engines of TensorRT
//! track      FLOOR 2  detections to tracks and to the events of their lives, and tracks against the truth: pure, no threads, no clock
//! analytics  FLOOR 2  tracks to facts about the scene: zones, lines, directions, objects at rest: pure
//! accuracy   FLOOR 2  detections against annotated pictures, by COCO's protocol: pure
//! render     FLOOR 2  pictures drawn on and recorded, without a GPU: boxes, labels, zones, a tiler, the encoder that is there
//! catalog    FLOOR 2  networks to fetch: manifests, and downloads that are resumed and verified
//! profile    FLOOR 2  profiles taken: nsys around the daemon, here or over ssh; it starts programs and knows no pipeline
//! report     FLOOR 2  profiles and benchmarks in: tables, verdicts and plots out; offline, no pipeline
//! benchmark  FLOOR 2  traces of runs to statistics, to `benchmark.json` and to comparisons; the steps of the ablation: pure
//! publish    FLOOR 2  tracks out: wire format, MQTT, JSON lines, embedded broker
//! config     FLOOR 1  YAML as a checked value; every problem with its line and key path; secrets
//! platform   FLOOR 1  what machine this is, its units for video, how it does, and its settings: Jetson model and release, loads, clocks
//! telemetry  FLOOR 1  logs (journald or terminal), stage times with NVTX ranges, what the process uses, what systemd is told
//! types      FLOOR 0  frame, box, letterbox geometry, detection, track, event, fact: plain data
//! nvidia     CELLAR   the only unsafe: TensorRT by tables of its methods, CUDA, the kernel that makes tensors, surfaces in NVMM; all loaded at run time
//! ```
//!
//! Data runs one way, each step taking its input by value:
//!
//! ```text
//! source ─► lanes ─► batch ─► detector ─► reorder ─► tracker ─► life cycle ─► analytics ─► sinks, recording
//!                                                       │ crops      ▲ attributes
//!                                                       └► secondary ┘
//! ```
//!
//! - Pictures come already scaled to the letterbox's inner size and always in `BGRx`; padding, layout and normalization are
//!   written with the tensor, in one place, and [`types::Letterbox`] alone knows the way there and back.
//! - On a Jetson whose detector is TensorRT they stay in NVMM: the VIC writes them, the GPU reads them in place.
//! - Workers take frames from the lanes when they are free, so that no batch grows old in a queue. A live lane keeps the
//!   newest frame and counts what it replaces; a file's lane makes its reader wait.
//! - Secondary networks look at crops that the follower cuts for them, on threads of their own and behind bounded queues; what
//!   they say counts for a track whenever it comes.
//! - There is no async runtime in the chain. The MQTT client and the embedded broker have one each, on their own threads.
//! - NVIDIA's libraries and ONNX Runtime are opened at run time and never linked. Unsafe code stands in the cellar `nvidia` alone.

pub mod accuracy;
pub mod analytics;
pub mod benchmark;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod detect;
pub mod nvidia;
pub mod pipeline;
pub mod platform;
pub mod profile;
pub mod publish;
pub mod render;
pub mod report;
pub mod source;
pub mod telemetry;
pub mod track;
pub mod types;
