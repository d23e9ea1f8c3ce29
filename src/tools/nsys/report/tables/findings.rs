// SPDX-License-Identifier: Apache-2.0
//! Expensive single events: calls that wait for the GPU, and copies and memory sets that block the CPU.
//!
//! nsys checks only functions of the runtime. jetwatch and TensorRT also call the driver, so its functions are checked
//! with the same rules; in a capture without them, the tables equal nsys's.

use std::cmp::Reverse;

use super::super::capture::{Call, Capture, Kind, Operation, Transfer};
use super::super::table::{Columns, Table};
use super::AnalysisContext;

/// Whether the name is one of a function of CUDA with this stem, of the runtime (`cuda…`) or of the driver (`cu…`).
fn is_function(name: &str, stem: &str) -> bool {
    let rests = ["cuda", "cu"].map(|family| name.strip_prefix(family));
    rests
        .into_iter()
        .flatten()
        .any(|rest| rest.starts_with(stem))
}

/// Whether a call waits until the GPU has finished all submitted work.
pub(in crate::report) fn waits_for_gpu(name: &str) -> bool {
    let stems = ["DeviceSynchronize", "StreamSynchronize", "CtxSynchronize"];
    stems.iter().any(|stem| is_function(name, stem))
}

pub(super) fn api_sync(context: &AnalysisContext<'_>) -> Table {
    let capture = context.capture;
    let waits = capture.names_that(waits_for_gpu);
    let calls = capture.calls.iter();
    let mut calls: Vec<&Call> = calls.filter(|call| waits[call.name as usize]).collect();
    calls.sort_by_key(|call| (Reverse(call.duration()), call.start));
    let thread = |call: &Call| capture.thread(call.thread);
    Table::unnamed(&calls)
        .limit(context.rows)
        .ns("Duration", |call| call.duration())
        .ns("Start", |call| call.start)
        .plain("PID", |call| thread(call).process())
        .plain("TID", |call| thread(call).number())
        .plain("API Name", |call| capture.name(call.name))
        .build()
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

fn memory_kind(kind: i8) -> Option<&'static str> {
    let kind = usize::try_from(kind).ok()?;
    KINDS.get(kind).copied()
}

/// An operation with the call that made it.
type Made<'a> = (&'a Operation, &'a Call, Transfer);

/// Operations of a kind with the calls that made them, the longest first, whose function and size fit.
fn transfers<'a>(
    context: &AnalysisContext<'a>,
    kind: Kind,
    fits: fn(&str, &Transfer) -> bool,
) -> Vec<Made<'a>> {
    let capture = context.capture;
    let made = context.pairs.iter().filter_map(|(call, done)| {
        let call = &capture.calls[*call as usize];
        let done = &capture.operations[*done as usize];
        let transfer = || capture.transfers[done.detail as usize];
        let made = (done.kind == kind).then(|| (done, call, transfer()));
        made.filter(|(_, call, transfer)| fits(capture.name(call.name), transfer))
    });
    let mut found: Vec<Made<'a>> = made.collect();
    found.sort_by_key(|(done, ..)| (Reverse(done.duration()), done.start));
    found
}

/// Adds when it was.
fn time<'a>(table: Columns<'a, Made<'a>>) -> Columns<'a, Made<'a>> {
    table
        .ns("Duration", |(done, ..)| done.duration())
        .ns("Start", |(done, ..)| done.start)
}

/// Adds size, place and function.
fn place<'a>(table: Columns<'a, Made<'a>>, capture: &'a Capture) -> Columns<'a, Made<'a>> {
    let stream = |done: &Operation| capture.stream(done);
    table
        .bytes("Bytes", |(.., transfer)| transfer.bytes)
        .plain("PID", |(_, call, _)| capture.thread(call.thread).process())
        .plain("Device ID", move |(done, ..)| stream(done).device)
        .plain("Context ID", |(.., transfer)| transfer.context)
        .plain("Stream ID", move |(done, ..)| stream(done).number)
        .plain("API Name", |(_, call, _)| capture.name(call.name))
}

/// Copies that fit, the longest first.
pub(super) fn copies(context: &AnalysisContext<'_>, fits: fn(&str, &Transfer) -> bool) -> Table {
    Table::unnamed(&transfers(context, Kind::Copy, fits))
        .limit(context.rows)
        .with(time)
        .plain("Src Kind", |(.., transfer)| memory_kind(transfer.source))
        .plain("Dst Kind", |(.., transfer)| memory_kind(transfer.target))
        .with(|table| place(table, context.capture))
        .build()
}

pub(super) fn sets_sync(context: &AnalysisContext<'_>) -> Table {
    let rows = transfers(context, Kind::Set, is_sync_set);
    Table::unnamed(&rows)
        .limit(context.rows)
        .with(time)
        .plain("Memory Kind", |(.., transfer)| memory_kind(transfer.target))
        .with(|table| place(table, context.capture))
        .build()
}
