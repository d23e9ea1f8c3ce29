// SPDX-License-Identifier: Apache-2.0
//! Rules about the machine that a run had: how much of the CPU was its own, quotas, cores, throttling, waits for memory and disks.
//! They come before those about stages, since times of a disturbed run say little about the pipeline.

use super::{Rule, percent};

/// Share of the time in which programs wait for memory from which it is reported.
const MEMORY_PRESSURE: f64 = 0.1;

/// The same for reading and writing.
const IO_PRESSURE: f64 = 0.5;

/// Rules about the machine.
pub(super) const CONDITIONS: &[Rule] = &[
    Rule {
        name: "cpu_taken",
        evaluate: |metrics| {
            let found = metrics.run.occupancy.as_ref()?;
            found.is_disturbed().then(|| {
                let waits = found.core_wait.map_or_else(String::new, |share| {
                    format!("; threads that could run waited for a core for {} of the time", percent(share))
                });
                (
                    "other programs take the CPU: frames/s and times are not those of this program alone".to_owned(),
                    format!(
                        "{}, this one {:.2} cores; {:.2} were idle{waits}",
                        found.describe_others(),
                        found.own_cores,
                        found.idle_cores()
                    ),
                )
            })
        },
        advice: "stop them, or keep them off these cores (CPUAffinity, CPUQuota or Nice of their units), and measure again; until then compare the CPU time of a frame",
        keys: "",
        stages: &[],
    },
    Rule {
        name: "cpu_quota",
        evaluate: |metrics| {
            let found = metrics.run.occupancy.as_ref()?;
            let quota = found.quota_cores.filter(|_| found.is_held_by_quota())?;
            Some((
                "the CPU quota of the control group holds this program back".to_owned(),
                format!(
                    "it allows {quota:.2} cores, and was used up in {} of its periods; this program used {:.2} cores of {}",
                    percent(found.quota_throttled.unwrap_or_default()),
                    found.own_cores,
                    found.allowed_cores
                ),
            ))
        },
        advice: "raise CPUQuota of the unit, or the limit of the container; more workers do not help",
        keys: "",
        stages: &[],
    },
    Rule {
        name: "cores_restricted",
        evaluate: |metrics| {
            let found = metrics.run.occupancy.as_ref()?;
            let is_restricted = found.allowed_cores < found.cores && !found.has_idle_core();
            (is_restricted && !found.is_held_by_quota()).then(|| {
                (
                    "this program may use a part of the cores only, and that is full".to_owned(),
                    format!(
                        "{} of {} cores are allowed by its affinity or its cpuset; it used {:.2} of them, and {:.2} were idle",
                        found.allowed_cores,
                        found.cores,
                        found.own_cores,
                        found.idle_cores()
                    ),
                )
            })
        },
        advice: "allow it more cores (CPUAffinity or AllowedCPUs of the unit, taskset, cpuset of the container); more workers do not help",
        keys: "",
        stages: &[],
    },
    Rule {
        name: "throttled",
        evaluate: |metrics| {
            let causes = &metrics.run.throttled;
            (!causes.is_empty()).then(|| {
                (
                    "the machine was throttled: its clocks were lower than its settings say"
                        .to_owned(),
                    causes.join("; "),
                )
            })
        },
        advice: "cool it, give it more power, or choose a power mode that it can hold; see `jetwatch tune status`",
        keys: "tune",
        stages: &[],
    },
    Rule {
        name: "machine_waits",
        evaluate: |metrics| {
            let found = metrics.run.occupancy.as_ref()?;
            let memory = found
                .memory_pressure
                .filter(|share| *share >= MEMORY_PRESSURE);
            let io = found.io_pressure.filter(|share| *share >= IO_PRESSURE);
            let (what, share) = match (memory, io) {
                (Some(share), _) => ("memory", share),
                (None, Some(share)) => ("disks", share),
                (None, None) => return None,
            };
            Some((
                format!("programs of this machine wait for {what}"),
                format!("some of them waited for {} of the time", percent(share)),
            ))
        },
        advice: "give the machine less to do beside, or more memory and a faster disk; `systemd-cgtop` shows who uses them",
        keys: "",
        stages: &[],
    },
];
