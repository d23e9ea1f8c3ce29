// SPDX-License-Identifier: Apache-2.0
//! What a run states beside its stages, as tables: its outputs, which may lose messages, and the latency of live sources.

use super::metrics::{NetworkNotes, RunNotes, StageNotes};
use super::table::Table;

/// Milliseconds to ns.
pub(super) const MS: f64 = 1e6;

/// The tables of a run that have rows.
pub(super) fn run_tables(run: &RunNotes) -> Vec<Table> {
    let used = run.outputs.iter();
    let used = used.filter(|output| output.accepted + output.lost > 0);
    let outputs: Vec<_> = used.collect();
    let share = |busy_ms: f64| 100.0 * busy_ms / (run.duration_s * 1e3).max(1.0);
    let title = "Outputs, each a step that nothing waits for";
    let outputs = Table::of("outputs", title, &outputs)
        .plain("Output", |output| output.name.as_str())
        .plain("Of", |output| output.items.as_str())
        .plain("Accepted", |output| output.accepted)
        .plain("Delivered", |output| output.delivered)
        .plain("Lost", |output| output.lost)
        .plain("Waiting At End", |output| output.queued)
        .plain("Max Waiting", |output| output.max_queued.max(output.queued))
        .percent("Busy", move |output| share(output.busy_ms))
        .build();
    let whole = run.latency.iter();
    let whole = whole.map(|latency| ("whole", &latency.whole));
    let parts = run.latency.iter().flat_map(|latency| &latency.parts);
    let parts = parts.map(|part| (part.part.as_str(), &part.latency));
    let rows: Vec<_> = whole.chain(parts).collect();
    let title = "Latency of live sources, from the arrival of a frame to its messages; decode and scale are before the arrival";
    let latency = Table::of("latency", title, &rows)
        .plain("Part", |(part, _)| *part)
        .plain("Frames", |(_, latency)| latency.frames)
        .ns("Avg", |(_, latency)| latency.mean_ms * MS)
        .ns("Med", |(_, latency)| latency.median_ms * MS)
        .ns("95 %", |(_, latency)| latency.p95_ms * MS)
        .ns("Max", |(_, latency)| latency.max_ms * MS)
        .build();
    let named = run.secondary.iter().map(|network| {
        let (crops, dropped) = (network.crops, network.dropped_crops);
        let of_run = NetworkNotes {
            crops_per_s: Some(crops / run.duration_s.max(1e-3)),
            crops_per_frame: Some(crops / (run.frames as f64).max(1.0)),
            dropped_percent: Some(100.0 * dropped / (crops + dropped).max(1.0)),
            ..network.clone()
        };
        ("run".to_owned(), of_run)
    });
    let named: Vec<_> = named.collect();
    let tables = [networks("secondary", &named), outputs, latency].into_iter();
    tables.filter(|table| !table.rows.is_empty()).collect()
}

/// Secondary networks, each of a point or a run.
pub(super) fn networks(name: &'static str, rows: &[(String, NetworkNotes)]) -> Table {
    let some = |count: u64| Some(count).filter(|count| *count > 0);
    Table::of(name, "Secondary networks", rows)
        .plain("Point", |(point, _)| point.as_str())
        .plain("Secondary Network", |(_, it)| it.name.as_str())
        .plain("Crops/s", |(_, it)| it.crops_per_s)
        .plain("Crops/Frame", |(_, it)| it.crops_per_frame)
        .plain("Dropped Crops", |(_, it)| it.dropped_crops)
        .percent("Dropped", |(_, it)| it.dropped_percent)
        .plain("Too Small", |(_, it)| some(it.small_objects))
        .plain("Frames Without Pixels", |(_, it)| {
            some(it.frames_without_pixels)
        })
        .plain("Batch Size", |(_, it)| it.batch_size)
        .plain("Crops in a Batch", |(_, it)| it.mean_batch)
        .percent("Fill", |(_, it)| {
            Some(100.0 * it.mean_batch? / it.batch_size?.max(1.0))
        })
        .plain("Wait, ms", |(_, it)| it.wait_ms)
        .plain("Infer, ms", |(_, it)| it.infer_ms)
        .plain("Suggested Batch Size", |(_, it)| it.suggested_batch_size)
        .build()
}

/// Video decoding and scaling by elements, which run next to the batches: the work of their threads for an image, warm-up
/// included.
pub(super) fn elements(stages: &[StageNotes]) -> Table {
    let of_image = |stage: &StageNotes, ms: Option<f64>| Some(ms? * MS / stage.items.max(1.0));
    let ns = |ms: Option<f64>| ms.map(|ms| ms * MS);
    Table::of("elements", "Work in elements, for an image", stages)
        .plain("Stage", |stage| stage.stage.as_str())
        .plain("Images", |stage| stage.items as u64)
        .ns("Avg", move |stage| of_image(stage, stage.busy_ms))
        .ns("CPU Avg", move |stage| of_image(stage, stage.cpu_ms))
        .ns("Med", move |stage| ns(stage.p50_ms))
        .ns("99 %", move |stage| ns(stage.p99_ms))
        .ns("Max", move |stage| ns(stage.max_ms))
        .build()
}
