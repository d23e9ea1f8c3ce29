// SPDX-License-Identifier: Apache-2.0
//! Load balance: what each process and each GPU did of the whole.

use super::super::summary::{Load, ReportSummary};
use super::super::table::{Cell, Table, ns, percent, unitless};

/// What is added up.
type Quantity = fn(&Load) -> Option<f64>;

/// The quantities, with the titles of their columns and of the sentence.
const QUANTITIES: [(&str, Quantity); 3] = [
    ("frames/s", |load| load.fps),
    ("work", |load| load.work_ns),
    ("GPU time", |load| load.gpu_ns),
];

/// Shares of the processes and GPUs in all reports together; without rows where there is only one of each.
#[must_use]
pub fn balance(digests: &[ReportSummary]) -> Table {
    let columns = [
        unitless("Report"),
        unitless("Part"),
        unitless("Frames/s"),
        percent("Of Frames/s"),
        ns("Work"),
        percent("Of Work"),
        ns("GPU Time"),
        percent("Of GPU Time"),
    ];
    let all: Vec<(&ReportSummary, &Load)> = digests
        .iter()
        .flat_map(|digest| digest.loads.iter().map(move |load| (digest, load)))
        .collect();
    let of_kind = |is_gpu: bool| -> Vec<(&ReportSummary, &Load)> {
        let all = all.iter().copied();
        all.filter(|(_, load)| load.part.starts_with("GPU") == is_gpu)
            .collect()
    };
    let mut sentences = Vec::new();
    let mut rows = Vec::new();
    for parts in [of_kind(false), of_kind(true)] {
        if parts.len() < 2 {
            continue;
        }
        let mut shares: Vec<Vec<Cell>> = parts
            .iter()
            .map(|(digest, load)| vec![digest.title.as_str().into(), load.part.as_str().into()])
            .collect();
        for (name, quantity) in QUANTITIES {
            let values: Vec<Option<f64>> = parts.iter().map(|(_, load)| quantity(load)).collect();
            let known: Vec<f64> = values.iter().copied().flatten().collect();
            let sum: f64 = known.iter().sum();
            // A part without a value would make the others look larger than they are.
            let is_whole = known.len() == values.len() && sum > 0.0;
            if is_whole {
                let mean = sum / known.len() as f64;
                let most = known.iter().copied().fold(0.0, f64::max);
                let is_gpu = parts[0].1.part.starts_with("GPU");
                let what = if is_gpu { "GPUs" } else { "processes" };
                sentences.push(format!(
                    "{name} of {} {what}: max/mean {:.2}",
                    known.len(),
                    most / mean
                ));
            }
            for (row, value) in shares.iter_mut().zip(values) {
                row.push(value.into());
                row.push(
                    value
                        .filter(|_| is_whole)
                        .map(|value| value * 100.0 / sum)
                        .into(),
                );
            }
        }
        rows.extend(shares);
    }
    let title = match sentences.is_empty() {
        true => "Load balance".to_owned(),
        false => format!("Load balance; {}", sentences.join(", ")),
    };
    let mut table = Table::new("balance", title, &columns);
    table.rows = rows;
    table
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
