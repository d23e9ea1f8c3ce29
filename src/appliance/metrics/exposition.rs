// SPDX-License-Identifier: Apache-2.0
//! The text exposition format of Prometheus, version 0.0.4: lines of samples below the help and the type of their family.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>. No timestamps: a figure is as old as the request.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use super::families::Family;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Begin of the names of families that every program has.
const PROCESS: &str = "process_";

/// Where the text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form<'f> {
    /// To a server that knows which daemon it has asked.
    Http,
    /// To a file that node_exporter reads beside its own figures and those of other daemons. Each sample names the device, and the
    /// families `process_…` are called `jetwatch_process_…`.
    File {
        /// Name of the device.
        device: &'f str,
    },
}

/// Appends the figures of now to a text. Called on the threads of this crate; it must not wait for long.
pub type WriteFigures = Arc<dyn Fn(Form<'_>, &mut String) + Send + Sync>;

/// Appends families to a text.
pub(super) struct Exposition<'t> {
    text: &'t mut String,
    form: Form<'t>,
}

impl<'t> Exposition<'t> {
    pub(super) fn new(text: &'t mut String, form: Form<'t>) -> Self {
        Self { text, form }
    }

    /// Begins a family. Help and type are written with its first sample: a family without one is left out. The samples of a
    /// family must be written together.
    pub(super) fn family(&mut self, family: &'static Family) -> Samples<'_, 't> {
        Samples {
            exposition: self,
            family,
            is_begun: false,
        }
    }

    fn push_name(&mut self, family: &Family) {
        if self.form != Form::Http && family.name.starts_with(PROCESS) {
            self.text.push_str("jetwatch_");
        }
        self.text.push_str(family.name);
    }
}

/// The samples of one family.
pub(super) struct Samples<'e, 't> {
    exposition: &'e mut Exposition<'t>,
    family: &'static Family,
    is_begun: bool,
}

impl Samples<'_, '_> {
    /// A sample with the values of the family's labels.
    pub(super) fn add(&mut self, labels: &[&str], value: impl Display) {
        self.line("", labels, None, value);
    }

    /// A histogram: `counts` are those of each bucket, one more than there are `limits`.
    pub(super) fn add_histogram(
        &mut self,
        labels: &[&str],
        mut limits: impl Iterator<Item = f64>,
        counts: &[u64],
        sum: f64,
    ) {
        let mut so_far = 0;
        for count in counts {
            so_far += count;
            let mut limit = String::from("+Inf");
            if let Some(finite) = limits.next() {
                limit = finite.to_string();
            }
            self.line("_bucket", labels, Some(("le", &limit)), so_far);
        }
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, so_far);
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[&str],
        more: Option<(&str, &str)>,
        value: impl Display,
    ) {
        debug_assert_eq!(
            labels.len(),
            self.family.labels.len(),
            "{}",
            self.family.name
        );
        self.begin();
        self.exposition.push_name(self.family);
        let form = self.exposition.form;
        let text = &mut *self.exposition.text;
        text.push_str(suffix);
        let device = match form {
            Form::Http => None,
            Form::File { device } => Some(("device", device)),
        };
        let own = self
            .family
            .labels
            .iter()
            .copied()
            .zip(labels.iter().copied());
        let mut separator = '{';
        for (name, value) in device.into_iter().chain(own).chain(more) {
            text.push(separator);
            separator = ',';
            text.push_str(name);
            text.push_str("=\"");
            push_escaped(text, value, true);
            text.push('"');
        }
        if separator == ',' {
            text.push('}');
        }
        // A string takes everything.
        let _ = writeln!(text, " {value}");
    }

    fn begin(&mut self) {
        if std::mem::replace(&mut self.is_begun, true) {
            return;
        }
        let family = self.family;
        self.exposition.text.push_str("# HELP ");
        self.exposition.push_name(family);
        self.exposition.text.push(' ');
        push_escaped(self.exposition.text, family.help, false);
        self.exposition.text.push_str("\n# TYPE ");
        self.exposition.push_name(family);
        let _ = writeln!(self.exposition.text, " {}", family.kind.name());
    }
}

/// Appends a text with its backslashes and line ends escaped, and its quotation marks where it stands between such.
fn push_escaped(text: &mut String, value: &str, is_quoted: bool) {
    let is_plain = |c: char| !(c == '\\' || c == '\n' || (c == '"' && is_quoted));
    if value.chars().all(is_plain) {
        text.push_str(value);
        return;
    }
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '"' if is_quoted => text.push_str("\\\""),
            c => text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::Kind;

    static EVENTS: Family = Family {
        name: "jetwatch_events_total",
        kind: Kind::Counter,
        labels: &["source", "type"],
        help: "Events of a \"track\" \\ all.\nOf it.",
    };
    static TIMES: Family = Family {
        name: "jetwatch_stage_seconds",
        kind: Kind::Histogram,
        labels: &["stage"],
        help: "Times.",
    };
    static MEMORY: Family = Family {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        labels: &[],
        help: "Memory.",
    };

    #[test]
    fn labels_and_help_are_escaped() {
        let mut text = String::new();
        let mut exposition = Exposition::new(&mut text, Form::Http);
        let mut events = exposition.family(&EVENTS);
        events.add(&["a\"b\\c\nd", "new"], 3);
        events.add(&["tür", ""], 1.5);
        assert_eq!(
            text,
            "# HELP jetwatch_events_total Events of a \"track\" \\\\ all.\\nOf it.\n\
             # TYPE jetwatch_events_total counter\n\
             jetwatch_events_total{source=\"a\\\"b\\\\c\\nd\",type=\"new\"} 3\n\
             jetwatch_events_total{source=\"tür\",type=\"\"} 1.5\n"
        );
    }

    #[test]
    fn buckets_of_a_histogram_are_cumulative() {
        let mut text = String::new();
        let mut exposition = Exposition::new(&mut text, Form::Http);
        let limits = [0.0001, 0.5, 1.0];
        exposition.family(&TIMES).add_histogram(
            &["infer"],
            limits.into_iter(),
            &[1, 0, 2, 4],
            7.25,
        );
        assert_eq!(
            text,
            "# HELP jetwatch_stage_seconds Times.\n# TYPE jetwatch_stage_seconds histogram\n\
             jetwatch_stage_seconds_bucket{stage=\"infer\",le=\"0.0001\"} 1\n\
             jetwatch_stage_seconds_bucket{stage=\"infer\",le=\"0.5\"} 1\n\
             jetwatch_stage_seconds_bucket{stage=\"infer\",le=\"1\"} 3\n\
             jetwatch_stage_seconds_bucket{stage=\"infer\",le=\"+Inf\"} 7\n\
             jetwatch_stage_seconds_sum{stage=\"infer\"} 7.25\n\
             jetwatch_stage_seconds_count{stage=\"infer\"} 7\n"
        );
    }

    #[test]
    fn a_family_without_samples_is_left_out() {
        let mut text = String::new();
        let mut exposition = Exposition::new(&mut text, Form::Http);
        let _ = exposition.family(&EVENTS);
        exposition.family(&MEMORY).add(&[], 4096);
        assert_eq!(
            text,
            "# HELP process_resident_memory_bytes Memory.\n\
             # TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 4096\n"
        );
    }

    #[test]
    fn a_file_names_the_device_and_no_family_of_node_exporter() {
        let mut text = String::new();
        let mut exposition = Exposition::new(&mut text, Form::File { device: "gate" });
        exposition.family(&MEMORY).add(&[], 1);
        exposition.family(&EVENTS).add(&["cam", "new"], 2);
        assert!(
            text.contains("# HELP jetwatch_process_resident_memory_bytes Memory.\n")
                && text.contains("\njetwatch_process_resident_memory_bytes{device=\"gate\"} 1\n")
                && text.contains(
                    "\njetwatch_events_total{device=\"gate\",source=\"cam\",type=\"new\"} 2\n"
                ),
            "{text}"
        );
    }
}
