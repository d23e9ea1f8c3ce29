// SPDX-License-Identifier: Apache-2.0
//! Rules about the machine that a run had: how much of the CPU was its own, quotas, cores, throttling, waits for memory and disks.
//! They come before those about stages, since times of a disturbed run say little about the pipeline.

use jetwatch_platform::Occupancy;
use jetwatch_telemetry::Stage;

use super::rules::is_infer_limit;
use super::{Cause, Rule, percent, rule};
use crate::report::metrics::CaptureMetrics;

/// Share of the time in which programs wait for memory from which it is reported.
const MEMORY_PRESSURE: f64 = 0.1;

/// The same for reading and writing.
const IO_PRESSURE: f64 = 0.5;

/// Who used the CPU where this program alone fills all cores, and that is not the network's doing.
pub(super) fn full_cpu(metrics: &CaptureMetrics) -> Option<&Occupancy> {
    let found = metrics.run.occupancy.as_ref()?;
    let is_own = !found.is_disturbed() && !found.is_held_by_quota();
    let is_full = !found.has_idle_core() && found.allowed_cores == found.cores;
    let is_other = metrics.limit.is_some() && !is_infer_limit(metrics);
    (is_own && is_full && is_other).then_some(found)
}

/// How long threads waited for a core, where it is known.
fn core_waits(found: &Occupancy) -> String {
    let text =
        |share| format!("; threads that could run waited for a core for {share} of the time");
    found.core_wait.map(percent).map(text).unwrap_or_default()
}

/// Rules about the machine.
#[rustfmt::skip]
pub(super) const CONDITIONS: &[Rule] = &[
    rule("too_short", &[], "measure more frames (--frames, --duration)", "",
        Cause::Found("the run is too short to say which stage limits it", |metrics| {
            let run = &metrics.run;
            run.is_short().then(|| format!("{} frames were measured, in {:.2} s", run.frames, run.duration_s))
        })),
    rule("cpu_taken", &[],
        "stop them, or keep them off these cores (CPUAffinity, CPUQuota or Nice of their units), and measure again; until then compare the CPU time of a frame",
        "",
        Cause::Found("other programs take the CPU: frames/s and times are not those of this program alone", |metrics| {
            let found = metrics.run.occupancy.as_ref().filter(|found| found.is_disturbed())?;
            let (others, idle) = (found.describe_others(), found.idle_cores());
            let is_unknown = metrics.limit.is_none() && metrics.span_ns > 0 && !metrics.run.is_short();
            let more = match metrics.cores_needed {
                Some(needed) => format!("; alone, it would keep up: all its frames need {needed:.2} of {} cores", found.allowed_cores),
                None if is_unknown => "; which stage limits is not measurable on this machine now".to_owned(),
                None => String::new(),
            };
            Some(format!("{others}, this one {:.2} cores; {idle:.2} were idle{}{more}", found.own_cores, core_waits(found)))
        })),
    rule("cpu_quota", &[], "raise CPUQuota of the unit, or the limit of the container; more workers do not help", "",
        Cause::Found("the CPU quota of the control group holds this program back", |metrics| {
            let found = metrics.run.occupancy.as_ref()?;
            let quota = found.quota_cores.filter(|_| found.is_held_by_quota())?;
            Some(format!(
                "it allows {quota:.2} cores, and was used up in {} of its periods; this program used {:.2} cores of {}",
                percent(found.quota_throttled.unwrap_or_default()), found.own_cores, found.allowed_cores
            ))
        })),
    rule("cores_restricted", &[],
        "allow it more cores (CPUAffinity or AllowedCPUs of the unit, taskset, cpuset of the container); more workers do not help", "",
        Cause::Found("this program may use a part of the cores only, and that is full", |metrics| {
            let found = metrics.run.occupancy.as_ref()?;
            let is_restricted = found.allowed_cores < found.cores && !found.has_idle_core();
            (is_restricted && !found.is_held_by_quota()).then(|| format!(
                "{} of {} cores are allowed by its affinity or its cpuset; it used {:.2} of them, and {:.2} were idle",
                found.allowed_cores, found.cores, found.own_cores, found.idle_cores()
            ))
        })),
    rule("cpu_full", &Stage::ALL,
        "give the cores less to do: decode in hardware, scale on the VIC, skip frames, or let the cameras send fewer or smaller images; more threads or workers do not help",
        "sources[].decoder sources[].scaling sources[].max_fps detector.interval sources[].uri",
        Cause::Found("the CPU is full, and the network is not the limit", |metrics| {
            let found = full_cpu(metrics)?;
            Some(format!("this program used {:.2} of {} cores{}", found.own_cores, found.cores, core_waits(found)))
        })),
    rule("throttled", &[], "cool it, give it more power, or choose a power mode that it can hold; see `jetwatch tune status`", "tune",
        Cause::Found("the machine was throttled: its clocks were lower than its settings say", |metrics| {
            let causes = &metrics.run.throttled;
            (!causes.is_empty()).then(|| causes.join("; "))
        })),
    rule("machine_waits", &[],
        "give the machine less to do beside, or more memory and a faster disk; `systemd-cgtop` shows who uses them", "",
        Cause::Varies(|metrics| {
            let found = metrics.run.occupancy.as_ref()?;
            let memory = found.memory_pressure.filter(|share| *share >= MEMORY_PRESSURE);
            let io = found.io_pressure.filter(|share| *share >= IO_PRESSURE);
            let waits = memory.map(|share| ("memory", share)).or(io.map(|share| ("disks", share)));
            let (what, share) = waits?;
            Some((
                format!("programs of this machine wait for {what}"),
                format!("some of them waited for {} of the time", percent(share)),
            ))
        })),
];
