// SPDX-License-Identifier: Apache-2.0
//! What a run states beside its stages, as tables: its outputs, which may lose messages, and the latency of live sources.

use super::metrics::RunNotes;
use super::table::Table;

/// Milliseconds to ns.
const MS: f64 = 1e6;

/// The tables of a run that have rows.
pub(super) fn run_tables(run: &RunNotes) -> Vec<Table> {
    let used = run.outputs.iter();
    let used = used.filter(|output| output.accepted + output.lost > 0);
    let outputs: Vec<_> = used.collect();
    let share = |busy_ms: f64| 100.0 * busy_ms / (run.duration_s * 1e3).max(1.0);
    let outputs = Table::of(
        "outputs",
        "Outputs, each a step that nothing waits for",
        &outputs,
    )
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
    let tables = [outputs, latency].into_iter();
    tables.filter(|table| !table.rows.is_empty()).collect()
}
