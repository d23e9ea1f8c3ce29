// SPDX-License-Identifier: Apache-2.0
//! Load balance: what each process and each GPU did of the whole.

use super::super::summary::{Load, ReportSummary};
use super::super::table::Table;

/// What is added up.
type Quantity = fn(&Load) -> Option<f64>;

/// The quantities, with their words in the title.
const QUANTITIES: [(&str, Quantity); 3] = [
    ("frames/s", |load| load.fps),
    ("work", |load| load.work_ns),
    ("GPU time", |load| load.gpu_ns),
];

/// A part of a report: its title, the load, and the share of each quantity, in percent.
type Part<'d> = (&'d str, &'d Load, [Option<f64>; QUANTITIES.len()]);

/// Shares of the processes and GPUs in all reports together; without rows where there is only one of each.
#[must_use]
pub fn balance(digests: &[ReportSummary]) -> Table {
    let mut sentences = Vec::new();
    let mut rows: Vec<Part<'_>> = Vec::new();
    for (what, is_gpu) in [("processes", false), ("GPUs", true)] {
        let loads = digests.iter().flat_map(|digest| {
            let loads = digest.loads.iter();
            loads.map(|load| (digest.title.as_str(), load, Default::default()))
        });
        let mut parts: Vec<Part<'_>> = loads
            .filter(|(_, load, _)| load.part.starts_with("GPU") == is_gpu)
            .collect();
        if parts.len() < 2 {
            continue;
        }
        for (at, (name, quantity)) in QUANTITIES.into_iter().enumerate() {
            // A part without a value would make the others look larger than they are.
            let values = parts.iter().map(|(_, load, _)| quantity(load));
            let Some(values) = values.collect::<Option<Vec<f64>>>() else {
                continue;
            };
            let sum: f64 = values.iter().sum();
            if sum <= 0.0 {
                continue;
            }
            let count = values.len();
            let most = values.iter().copied().fold(0.0, f64::max);
            sentences.push(format!(
                "{name} of {count} {what}: max/mean {:.2}",
                most / (sum / count as f64)
            ));
            for ((.., shares), value) in parts.iter_mut().zip(values) {
                shares[at] = Some(value * 100.0 / sum);
            }
        }
        rows.extend(parts);
    }
    let title = match sentences.is_empty() {
        true => "Load balance".to_owned(),
        false => format!("Load balance; {}", sentences.join(", ")),
    };
    Table::of("balance", title, &rows)
        .plain("Report", |(title, ..)| *title)
        .plain("Part", |(_, load, _)| load.part.as_str())
        .plain("Frames/s", |(_, load, _)| load.fps)
        .percent("Of Frames/s", |(.., shares)| shares[0])
        .ns("Work", |(_, load, _)| load.work_ns)
        .percent("Of Work", |(.., shares)| shares[1])
        .ns("GPU Time", |(_, load, _)| load.gpu_ns)
        .percent("Of GPU Time", |(.., shares)| shares[2])
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(title: &str, loads: Vec<Load>) -> ReportSummary {
        ReportSummary {
            title: title.to_owned(),
            loads,
            ..ReportSummary::default()
        }
    }

    fn load(part: &str, fps: Option<f64>, gpu_ns: Option<f64>) -> Load {
        Load {
            part: part.to_owned(),
            fps,
            gpu_ns,
            ..Load::default()
        }
    }

    #[test]
    fn shares_of_processes_and_gpus_are_computed() {
        let one = report(
            "a",
            vec![
                load("process 1", Some(30.0), Some(4.0)),
                load("process 2", Some(10.0), None),
                load("GPU 0", None, Some(6.0)),
                load("GPU 1", None, Some(2.0)),
            ],
        );
        let table = balance(&[one]);
        assert_eq!(
            table.title,
            "Load balance; frames/s of 2 processes: max/mean 1.50, GPU time of 2 GPUs: max/mean 1.50"
        );
        assert_eq!(
            table.to_csv(),
            "Report,Part,Frames/s,Of Frames/s (%),Work (ns),Of Work (%),GPU Time (ns),Of GPU Time (%)\n\
             a,process 1,30.0,75.0,None,None,4.0,None\n\
             a,process 2,10.0,25.0,None,None,None,None\n\
             a,GPU 0,None,None,None,None,6.0,75.0\n\
             a,GPU 1,None,None,None,None,2.0,25.0\n"
        );
    }

    #[test]
    fn processes_of_several_reports_are_compared() {
        let [one, other] = ["proc_0", "proc_1"].map(|title| {
            let fps = if title == "proc_0" { 48.0 } else { 52.0 };
            report(title, vec![load("", Some(fps), None)])
        });
        assert!(balance(std::slice::from_ref(&one)).rows.is_empty());
        assert_eq!(
            balance(&[one, other]).title,
            "Load balance; frames/s of 2 processes: max/mean 1.04"
        );
    }
}
