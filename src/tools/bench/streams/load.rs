// SPDX-License-Identifier: Apache-2.0
//! Which part of the pipeline is nearest its limit: the share of the time in which its threads work.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use jetwatch_platform::Occupancy;
use jetwatch_publish::Stats;
use jetwatch_telemetry::{Stage, StageSummary};

/// Share of the time from which on a part counts as full. Forming batches and waking threads take what is left.
const FULL: f64 = 0.85;

/// Load of one part over a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PartLoad {
    /// Its name.
    pub part: String,
    /// Number of its threads; of cores for the CPU.
    pub threads: usize,
    /// Share of their time in which they work, 0 to 1.
    pub share: f64,
    /// Keys that change it.
    pub keys: Vec<String>,
}

/// What keeps one more stream from fitting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limit {
    /// The part.
    pub part: String,
    /// The reason in a sentence.
    pub text: String,
    /// Keys that change it.
    pub keys: Vec<String>,
}

/// What is counted at both ends of a trial.
#[derive(Debug)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    pub(super) stats: Stats,
}

/// Threads of the parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Threads {
    /// Inference workers.
    pub(super) workers: usize,
    /// CPU cores that the process may use.
    pub(super) cores: usize,
}

/// The loads of all parts between two counts, the CPU first; `secondary` are names and workers of the secondary networks.
pub(super) fn loads(
    from: &Usage,
    to: &Usage,
    time: Duration,
    threads: Threads,
    secondary: &[(String, usize)],
) -> Vec<PartLoad> {
    let ms = time.as_secs_f64().max(1e-3) * 1e3;
    let spent = |stages: &[Stage]| -> f64 {
        let sum = |stats: &Stats| -> f64 {
            let of = |stage: &StageSummary| stages.contains(&stage.stage);
            let all = stats.stages.iter().filter(|stage| of(stage));
            all.map(|stage| stage.total_ms).sum()
        };
        (sum(&to.stats) - sum(&from.stats)).max(0.0)
    };
    let part = |part: &str, threads: usize, spent_ms: f64, keys: &[&str]| PartLoad {
        part: part.to_owned(),
        threads,
        share: spent_ms / ms / threads.max(1) as f64,
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
    };
    let cpu = to.cpu.saturating_sub(from.cpu).as_secs_f64() * 1e3;
    let mut parts = vec![
        part(
            "CPU",
            threads.cores,
            cpu,
            &[
                "detector.interval",
                "detector.precision",
                "sources[].max_fps",
            ],
        ),
        part(
            "inference",
            threads.workers,
            spent(&[Stage::Tensor, Stage::Infer, Stage::Decode]),
            &[
                "detector.interval",
                "detector.batch_size",
                "detector.precision",
                "detector.workers",
            ],
        ),
        part(
            "tracking",
            1,
            spent(&[Stage::Track, Stage::Publish]),
            &["tracker.type", "publish.detections"],
        ),
    ];
    let on_gpu = [
        Stage::GpuCopyIn,
        Stage::GpuTensor,
        Stage::GpuNetwork,
        Stage::GpuCopyOut,
    ];
    let gpu = spent(&on_gpu);
    if gpu > 0.0 {
        let keys = [
            "detector.interval",
            "detector.batch_size",
            "detector.precision",
        ];
        parts.push(part("GPU", 1, gpu, &keys));
    }
    for (name, workers) in secondary {
        let sum = |stats: &Stats| -> f64 {
            let own = stats
                .secondary
                .iter()
                .filter(|network| network.name == *name);
            own.map(|network| network.mean_infer_ms * network.batches as f64)
                .sum()
        };
        let spent = (sum(&to.stats) - sum(&from.stats)).max(0.0);
        let keys = [
            "secondary[].batch_size",
            "secondary[].workers",
            "secondary[].reinfer_interval",
        ];
        parts.push(part(
            &format!("secondary network {name}"),
            *workers,
            spent,
            &keys,
        ));
    }
    parts
}

/// What limits a trial that did not keep up: with these loads, frames that were decoded late, crops dropped, and who used the CPU.
pub(crate) fn find_limit(
    loads: &[PartLoad],
    late: u64,
    dropped_crops: u64,
    occupancy: Option<&Occupancy>,
) -> Option<Limit> {
    let limit = |part: &str, text: String, keys: &[String]| {
        let (part, keys) = (part.to_owned(), keys.to_vec());
        Some(Limit { part, text, keys })
    };
    if let Some(taken) = occupancy.filter(|found| found.is_disturbed()) {
        return limit("other programs", taken.describe_others(), &[]);
    }
    if let Some(held) = occupancy.filter(|found| found.is_held_by_quota()) {
        let quota = held.quota_cores.unwrap_or_default();
        let text = format!("the CPU quota of the control group: {quota:.2} cores, used up");
        return limit("CPU quota", text, &[]);
    }
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let of = |part: &PartLoad, text: String| limit(&part.part, text, &part.keys);
    let is_cpu = |part: &&PartLoad| part.part == "CPU";
    let cpu = loads.iter().find(is_cpu);
    let parts = || loads.iter().filter(|part| !is_cpu(part));
    let busiest = |all: &mut dyn Iterator<Item = &PartLoad>| -> Option<PartLoad> {
        all.max_by(|a, b| a.share.total_cmp(&b.share)).cloned()
    };
    let first = busiest(&mut parts())?;
    let (name, share) = (&first.part, percent(first.share));
    if let Some(cpu) = cpu.filter(|cpu| cpu.share >= FULL) {
        let used = percent(cpu.share);
        let text = format!(
            "the CPU: this process used {used} of the time of {} cores; of the parts, {name} was the fullest, with {share}",
            cpu.threads
        );
        return of(cpu, text);
    }
    if first.share >= FULL {
        let threads = first.threads;
        let text = format!("{name}: its threads ({threads}) worked {share} of the time");
        return of(&first, text);
    }
    if dropped_crops > 0 {
        let secondary = &mut parts().filter(|part| part.part.starts_with("secondary"));
        if let Some(network) = busiest(secondary) {
            let text = format!(
                "{}: {dropped_crops} crops found its queue full, with {} of its time at work",
                network.part,
                percent(network.share)
            );
            return of(&network, text);
        }
    }
    if late > 0 {
        let keys = ["sources[].decoder", "sources[].decoder_threads"].map(str::to_owned);
        let text = format!("decoding: {late} frames could not be given in time");
        return limit("decoding", text, &keys);
    }
    let used = cpu.map_or("an unknown share".to_owned(), |cpu| percent(cpu.share));
    let text = format!(
        "no part was full: {name} was nearest, with {share} of its time; this process used {used} of the CPU, so that frames that \
         come at the same moment may have caused the drops"
    );
    of(&first, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, share: f64) -> PartLoad {
        PartLoad {
            part: name.to_owned(),
            threads: 2,
            share,
            keys: vec![format!("{name}.key")],
        }
    }

    #[test]
    fn the_fullest_part_is_the_limit() {
        let found = |cpu: f64, inference: f64, secondary: f64, late: u64, crops: u64| {
            let loads = [
                part("CPU", cpu),
                part("inference", inference),
                part("secondary network n", secondary),
            ];
            let limit = find_limit(&loads, late, crops, None).expect("a limit");
            assert!(!limit.keys.is_empty(), "{limit:?}");
            (limit.part, limit.text)
        };
        let (part, text) = found(0.97, 0.9, 0.1, 0, 0);
        assert_eq!(part, "CPU");
        assert!(
            text.contains("inference was the fullest, with 90 %"),
            "{text}"
        );
        assert_eq!(found(0.5, 0.99, 0.2, 3, 0).0, "inference");
        assert_eq!(found(0.5, 0.3, 0.95, 0, 9).0, "secondary network n");
        assert_eq!(found(0.5, 0.6, 0.3, 0, 9).0, "secondary network n");
        assert_eq!(found(0.5, 0.6, 0.3, 7, 0).0, "decoding");
        let (part, text) = found(0.5, 0.6, 0.3, 0, 0);
        assert_eq!(part, "inference");
        assert!(text.starts_with("no part was full"), "{text}");
        assert_eq!(find_limit(&[], 0, 0, None), None);
    }

    #[test]
    fn other_programs_and_quotas_are_limits() {
        let taken = Occupancy {
            allowed_cores: 2,
            foreign_cores: 1.0,
            ..Occupancy::default()
        };
        let limit = find_limit(&[part("CPU", 0.97)], 0, 0, Some(&taken)).expect("a limit");
        assert_eq!(limit.part, "other programs");
        let quota = Occupancy {
            allowed_cores: 2,
            quota_cores: Some(0.5),
            quota_throttled: Some(0.9),
            ..Occupancy::default()
        };
        let limit = find_limit(&[part("CPU", 0.25)], 0, 0, Some(&quota)).expect("a limit");
        assert_eq!(limit.part, "CPU quota");
    }
}
