// SPDX-License-Identifier: Apache-2.0
//! The tools of the command line, the configuration, and the project's own files. One module per topic.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod advice;
mod architecture;
mod bench;
mod bench_ablation;
mod bench_clocks;
mod bench_streams;
mod closed_pipe;
mod config_example;
mod config_files;
mod config_mistakes;
mod discover;
mod doctor;
mod documents;
mod elements;
mod eval;
mod facts;
mod interval_trackers;
mod manual;
mod motion;
mod nsys_limits;
mod nsys_profile;
mod nsys_report;
mod nvtx_ranges;
mod pipelines;
mod profile;
mod report;
mod report_async_stages;
mod report_below_stages;
mod report_compare;
mod report_cores;
mod report_layers;
mod report_limits;
mod scene_truth;
mod symbols;
mod track_command;
mod track_mot;
mod track_properties;
mod tune;
