// SPDX-License-Identifier: Apache-2.0
//! Expensive single events: calls that wait for the GPU, and copies and memory sets that block the CPU.
//!
//! nsys checks only functions of the runtime. jetwatch and TensorRT also call the driver, so its functions are checked
//! with the same rules; in a capture without them, the tables equal nsys's.

use std::cmp::Reverse;

use super::super::capture::{Call, Capture, Kind, Operation, Transfer};
use super::super::table::{Cell, Table, bytes, ns, unitless};
use super::AnalysisContext;

/// Whether the name is one of a function of CUDA with this stem, of the runtime (`cuda…`) or of the driver (`cu…`).
fn is_function(name: &str, stem: &str) -> bool {
    ["cuda", "cu"].iter().any(|family| {
        name.strip_prefix(family)
            .is_some_and(|rest| rest.starts_with(stem))
    })
}

/// Whether a call waits until the GPU has finished all submitted work.
pub(in crate::report) fn waits_for_gpu(name: &str) -> bool {
    ["DeviceSynchronize", "StreamSynchronize", "CtxSynchronize"]
        .iter()
        .any(|stem| is_function(name, stem))
}

pub(super) fn api_sync(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let waits: Vec<bool> = capture
        .names
        .iter()
        .map(|name| waits_for_gpu(name))
        .collect();
    let mut calls: Vec<&Call> = capture
        .calls
        .iter()
        .filter(|call| waits[call.name as usize])
        .collect();
    calls.sort_by_key(|call| (Reverse(call.end - call.start), call.start));
    let columns = [
        ns("Duration"),
        ns("Start"),
        unitless("PID"),
        unitless("TID"),
        unitless("API Name"),
    ];
    let mut table = Table::new(
        "cuda_api_sync",
        "Calls that wait until the GPU is done",
        &columns,
    );
    table.more = calls.len().saturating_sub(context.rows);
    table
        .rows
        .extend(calls.iter().take(context.rows).map(|call| {
            let thread = &capture.threads[usize::from(call.thread)];
            vec![
                (call.end - call.start).into(),
                call.start.into(),
                thread.process().into(),
                thread.number().into(),
                capture.name(call.name).into(),
            ]
        }));
    table
}

/// CUPTI's numbers of kinds of memory.
const PAGEABLE: i8 = 0;
const PINNED: i8 = 1;
const MANAGED: i8 = 4;
const KINDS: [&str; 8] = [
    "Pageable",
    "Pinned",
    "Device",
    "Array",
    "Managed",
    "Device Static",
    "Managed Static",
    "Unknown",
];

/// Copies of this direction from the host return at once up to this size, as nsys has it.
const HOST_TO_DEVICE: i8 = 1;
const SMALL: i64 = 64_000;

/// An asynchronous copy that waits nevertheless.
pub(in crate::report) fn is_pageable_async(name: &str, transfer: &Transfer) -> bool {
    is_function(name, "Memcpy")
        && name.contains("Async")
        && (transfer.source == PAGEABLE || transfer.target == PAGEABLE)
}

/// A copy that waits.
pub(in crate::report) fn is_sync_copy(name: &str, transfer: &Transfer) -> bool {
    let returns_at_once = transfer.bytes <= SMALL && transfer.direction == HOST_TO_DEVICE;
    let is_sync = is_function(name, "Memcpy") && !name.contains("Async");
    is_sync && !returns_at_once && !transfer.within_device
}

fn is_sync_set(name: &str, transfer: &Transfer) -> bool {
    is_function(name, "Memset")
        && !name.to_ascii_lowercase().contains("async")
        && matches!(transfer.target, PINNED | MANAGED)
}

fn memory_kind(kind: i8) -> Cell {
    usize::try_from(kind)
        .ok()
        .and_then(|kind| KINDS.get(kind).copied())
        .into()
}

/// Operations of a kind with the calls that made them, the longest first, whose function and size fit.
fn transfers<'a>(
    context: &AnalysisContext<'a>,
    kind: Kind,
    fits: fn(&str, &Transfer) -> bool,
) -> Vec<(&'a Operation, &'a Call, Transfer)> {
    let capture = context.capture;
    let mut found: Vec<(&Operation, &Call, Transfer)> = context
        .pairs()
        .iter()
        .map(|(call, done)| {
            (
                &capture.operations[*done as usize],
                &capture.calls[*call as usize],
            )
        })
        .filter(|(done, _)| done.kind == kind)
        .map(|(done, call)| (done, call, capture.transfers[done.detail as usize]))
        .filter(|(_, call, transfer)| fits(capture.name(call.name), transfer))
        .collect();
    found.sort_by_key(|(done, ..)| (Reverse(done.end - done.start), done.start));
    found
}

fn copies(
    context: &AnalysisContext<'_>,
    name: &'static str,
    title: &str,
    fits: fn(&str, &Transfer) -> bool,
) -> Table {
    let columns = [
        ns("Duration"),
        ns("Start"),
        unitless("Src Kind"),
        unitless("Dst Kind"),
        bytes("Bytes"),
        unitless("PID"),
        unitless("Device ID"),
        unitless("Context ID"),
        unitless("Stream ID"),
        unitless("API Name"),
    ];
    let mut table = Table::new(name, title, &columns);
    let found = transfers(context, Kind::Copy, fits);
    table.more = found.len().saturating_sub(context.rows);
    for (done, call, transfer) in found.iter().take(context.rows) {
        let mut row = vec![
            (done.end - done.start).into(),
            done.start.into(),
            memory_kind(transfer.source),
            memory_kind(transfer.target),
        ];
        row.extend(rest(context.capture, done, call, transfer));
        table.rows.push(row);
    }
    table
}

/// Size, place and function.
fn rest(capture: &Capture, done: &Operation, call: &Call, transfer: &Transfer) -> [Cell; 6] {
    let thread = &capture.threads[usize::from(call.thread)];
    let stream = &capture.streams[usize::from(done.stream)];
    [
        transfer.bytes.into(),
        thread.process().into(),
        stream.device.into(),
        i64::from(transfer.context).into(),
        stream.number.into(),
        capture.name(call.name).into(),
    ]
}

pub(super) fn copies_async(context: &AnalysisContext<'_>) -> Table {
    let title = "Asynchronous copies of pageable memory, which wait";
    copies(context, "cuda_memcpy_async", title, is_pageable_async)
}

pub(super) fn copies_sync(context: &AnalysisContext<'_>) -> Table {
    copies(
        context,
        "cuda_memcpy_sync",
        "Synchronous copies",
        is_sync_copy,
    )
}

pub(super) fn sets_sync(context: &AnalysisContext<'_>) -> Table {
    let columns = [
        ns("Duration"),
        ns("Start"),
        unitless("Memory Kind"),
        bytes("Bytes"),
        unitless("PID"),
        unitless("Device ID"),
        unitless("Context ID"),
        unitless("Stream ID"),
        unitless("API Name"),
    ];
    let mut table = Table::new("cuda_memset_sync", "Synchronous memory sets", &columns);
    let found = transfers(context, Kind::Set, is_sync_set);
    table.more = found.len().saturating_sub(context.rows);
    for (done, call, transfer) in found.iter().take(context.rows) {
        let mut row = vec![
            (done.end - done.start).into(),
            done.start.into(),
            memory_kind(transfer.target),
        ];
        row.extend(rest(context.capture, done, call, transfer));
        table.rows.push(row);
    }
    table
}
