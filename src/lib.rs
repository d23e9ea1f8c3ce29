//! jetwatch: video in, tracked objects out over MQTT.
#![doc = ""]
pub mod cli;
pub mod config;
pub mod detect;
pub mod pipeline;
pub mod publish;
pub mod source;
pub mod telemetry;
pub mod track;
pub mod types;
