// SPDX-License-Identifier: Apache-2.0
//! The running program and its pipeline: sources, recordings, messages and the page. One module per topic.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod bounds;
mod clip_encoding;
mod clip_files;
mod clip_sound;
mod clips;
mod commands;
mod field;
mod field_brokers;
mod field_files;
mod field_network;
mod formats;
mod groups;
mod gstreamer_log;
mod home_assistant;
mod jetson_chain;
mod launch;
mod leak;
mod machine_stats;
mod media;
mod metrics;
mod mqtt_retained;
mod mqtt_unresponsive_broker;
mod offline_hold;
mod publish_access;
mod publish_brokers;
mod publish_embedded;
mod publish_mqtt;
mod publish_states;
mod publish_throughput;
mod publish_wire;
mod record;
mod reload;
mod run;
mod run_formats;
mod run_mqtt;
mod scene_rules;
mod schedules;
mod secrets;
mod sources;
mod sources_hostile;
mod sources_refused;
mod sources_rotated;
mod spool;
mod switches;
mod systemd_notify;
mod systemd_units;
mod virtual_jetson_gst;
mod web;
mod web_cameras;
mod web_clients;
mod web_first_user;
mod web_roles;
mod web_shares;
mod web_support;
mod webhooks;
