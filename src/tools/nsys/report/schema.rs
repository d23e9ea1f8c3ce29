// SPDX-License-Identifier: Apache-2.0
//! The tables and columns of nsys's SQLite exports that are read, and a file's subset of them.
//!
//! Exports are read by their content and not by their version: columns were added from 2021 to 2025, and tables that
//! would be empty are omitted. Only required columns must exist; an error names a missing column and its table.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Params, Row};

use super::{ReportError, Result};

/// One table with its required and optional columns.
#[derive(Debug)]
pub(crate) struct TableShape {
    /// Its name.
    pub name: &'static str,
    /// Content of the table, as text.
    pub content: &'static str,
    /// Remedy if it is missing.
    pub advice: &'static str,
    /// Columns that are required.
    pub required: &'static [&'static str],
    /// Columns that not every version has; read as NULL if missing.
    pub optional: &'static [&'static str],
}

pub(crate) use shapes::*;

/// The shapes that are read.
#[rustfmt::skip]
mod shapes {
    use super::TableShape;

    const TRACE_CUDA: &str = "profile with --trace=cuda, on a machine where the GPU is used";
    const SAMPLE: &str = "profile with jetwatch profile --sampling on or nsys --sample=process-tree, on a machine whose kernel.perf_event_paranoid allows it";
    const SAMPLE_GPU: &str = "profile with nsys --gpu-metrics-device=all as root, on a GPU that nsys supports for it";

    /// NVTX ranges and marks, domains and thread names.
    pub(crate) const NVTX: TableShape = TableShape {
        name: "NVTX_EVENTS", content: "NVTX range", advice: "profile with --trace=nvtx",
        required: &["start", "end", "eventType", "globalTid"],
        optional: &["text", "textId", "domainId", "endGlobalTid", "uint64Value", "int64Value", "uint32Value", "int32Value", "category"] };

    /// Calls of the CUDA runtime and driver.
    pub(crate) const CALLS: TableShape = TableShape {
        name: "CUPTI_ACTIVITY_KIND_RUNTIME", content: "call of CUDA", advice: TRACE_CUDA,
        required: &["start", "end", "globalTid", "correlationId", "nameId"],
        optional: &[] };

    /// Kernels.
    pub(crate) const KERNELS: TableShape = TableShape {
        name: "CUPTI_ACTIVITY_KIND_KERNEL", content: "kernel", advice: TRACE_CUDA,
        required: &["start", "end", "correlationId", "demangledName"],
        optional: &["globalPid", "deviceId", "contextId", "streamId", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"] };

    /// Copies.
    pub(crate) const COPIES: TableShape = TableShape {
        name: "CUPTI_ACTIVITY_KIND_MEMCPY", content: "copy", advice: TRACE_CUDA,
        required: &["start", "end", "correlationId", "bytes", "copyKind"],
        optional: &["globalPid", "deviceId", "contextId", "streamId", "srcKind", "dstKind", "srcDeviceId", "dstDeviceId"] };

    /// Memory sets.
    pub(crate) const SETS: TableShape = TableShape {
        name: "CUPTI_ACTIVITY_KIND_MEMSET", content: "memory set", advice: TRACE_CUDA,
        required: &["start", "end", "correlationId", "bytes"],
        optional: &["globalPid", "deviceId", "contextId", "streamId", "memKind"] };

    /// CUDA graphs that were traced as a whole.
    pub(crate) const GRAPHS: TableShape = TableShape {
        name: "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", content: "CUDA graph", advice: TRACE_CUDA,
        required: &["start", "end", "correlationId"],
        optional: &["globalPid", "deviceId", "contextId", "streamId"] };

    /// Calls of the operating system's libraries.
    pub(crate) const WAITS: TableShape = TableShape {
        name: "OSRT_API", content: "wait in the operating system's libraries", advice: "profile with --trace=osrt",
        required: &["start", "end", "globalTid", "nameId"],
        optional: &["eventClass"] };

    /// All texts.
    pub(crate) const STRINGS: TableShape = TableShape {
        name: "StringIds", content: "text", advice: "it is not an export of nsys, or a truncated one: export it again with nsys export --type sqlite",
        required: &["id", "value"],
        optional: &[] };

    /// Names of threads as the operating system has them.
    pub(crate) const THREADS: TableShape = TableShape {
        name: "ThreadNames", content: "thread name", advice: "export it again",
        required: &["nameId", "globalTid"],
        optional: &[] };

    /// Threads put on a core and taken off it.
    pub(crate) const SCHEDULING: TableShape = TableShape {
        name: "SCHED_EVENTS", content: "scheduling of threads", advice: "profile with jetwatch profile --sampling on or nsys --cpuctxsw=process-tree, on a machine whose kernel.perf_event_paranoid allows it",
        required: &["start", "cpu", "isSchedIn", "globalTid"],
        optional: &["threadState"] };

    /// Samples of running threads.
    pub(crate) const SAMPLES: TableShape = TableShape {
        name: "COMPOSITE_EVENTS", content: "sample of call stacks", advice: SAMPLE,
        required: &["id", "start", "globalTid"],
        optional: &[] };

    /// Functions on the stacks of samples.
    pub(crate) const SAMPLE_FRAMES: TableShape = TableShape {
        name: "SAMPLING_CALLCHAINS", content: "call stack", advice: SAMPLE,
        required: &["id", "symbol", "module", "stackDepth"],
        optional: &["unresolved", "specialEntry"] };

    /// Sampled metrics of GPUs.
    pub(crate) const GPU_METRICS: TableShape = TableShape {
        name: "GPU_METRICS", content: "metric of a GPU", advice: SAMPLE_GPU,
        required: &["timestamp", "typeId", "metricId", "value"],
        optional: &[] };

    /// Names of the metrics of GPUs.
    pub(crate) const GPU_METRIC_NAMES: TableShape = TableShape {
        name: "TARGET_INFO_GPU_METRICS", content: "name of a GPU's metric", advice: SAMPLE_GPU,
        required: &["typeId", "metricId", "metricName"],
        optional: &[] };
}

/// What nsys notes of a capture, from 2023 on.
const CAPTURE_METADATA: &str = "META_DATA_CAPTURE";

/// The command `jetwatch run` with its options, without those for the statistics of a profile; `None` for another command.
fn without_output_options(command: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let program = words.find(|word| *word == "jetwatch" || word.ends_with("/jetwatch"))?;
    let mut kept = vec![program];
    let mut skips_value = false;
    for word in words {
        if std::mem::take(&mut skips_value) {
            continue;
        }
        if word == "--stats" {
            skips_value = true;
        } else if !word.starts_with("--stats=") {
            kept.push(word);
        }
    }
    (kept.get(1) == Some(&"run")).then(|| kept.join(" "))
}

/// An open export of nsys.
#[derive(Debug)]
pub(crate) struct Export {
    /// The file.
    pub path: PathBuf,
    /// The file that errors name: the report from which nsys exported it, or itself.
    pub source: PathBuf,
    tables: HashMap<String, Vec<String>>,
    /// The versions of nsys that exported it and of the schema as text, for errors and headings.
    pub version: String,
}

impl Export {
    /// Opens a SQLite database; errors name `source`.
    ///
    /// # Errors
    /// The file is damaged, or not an export of nsys.
    pub(crate) fn open(path: &Path, shown: &Path) -> Result<Self> {
        let mut export = Self {
            path: path.to_owned(),
            source: shown.to_owned(),
            tables: HashMap::new(),
            version: String::new(),
        };
        let query = "SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table'";
        for (table, column) in export.select(query, [], |row| Ok((row.get(0)?, row.get(1)?)))? {
            export.tables.entry(table).or_default().push(column);
        }
        // The metadata table of the export was renamed in 2023.
        let metadata_table = ["META_DATA_EXPORT", "EXPORT_META_DATA"]
            .into_iter()
            .find(|name| export.tables.contains_key(*name));
        let metadata = |name: &str| {
            let query = format!("SELECT value FROM {} WHERE name = ?1", metadata_table?);
            export.select(&query, [name], |row| row.get(0)).ok()?.pop()
        };
        let names = ["EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION"];
        let [nsys, schema]: [Option<String>; 2] = names.map(metadata);
        export.version = match (nsys, schema) {
            (Some(nsys), Some(schema)) => format!("nsys {nsys}, schema {schema}"),
            (Some(nsys), None) => format!("nsys {nsys}"),
            (None, Some(schema)) => format!("schema {schema}"),
            (None, None) => "nsys before 2022, which names no version".to_owned(),
        };
        export.require(&STRINGS)?;
        Ok(export)
    }

    /// Opens a read-only connection. The file is treated as immutable: no lock and no journal is created next to it.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(crate) fn connect(&self) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&self.path, flags);
        let connection = opened.map_err(|cause| self.database_error(cause))?;
        let set = connection.execute_batch("PRAGMA query_only = 1; PRAGMA cache_size = -4096;");
        set.map_err(|cause| self.database_error(cause))?;
        Ok(connection)
    }

    /// What `read` makes of each row of a query.
    pub(crate) fn select<T>(
        &self,
        query: &str,
        parameters: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let broken = |cause| self.database_error(cause);
        let connection = self.connect()?;
        let mut statement = connection.prepare(query).map_err(broken)?;
        let rows = statement.query_map(parameters, read).map_err(broken)?;
        rows.collect::<rusqlite::Result<_>>().map_err(broken)
    }

    /// The command line of the profiled program, where the metadata of the capture has one that runs jetwatch.
    pub(crate) fn command(&self) -> Option<String> {
        let columns = self.tables.get(CAPTURE_METADATA)?;
        if !columns.iter().any(|column| column == "value") {
            return None;
        }
        let query = format!("SELECT value FROM {CAPTURE_METADATA} WHERE value LIKE '%--config%'");
        let texts = self.select(&query, [], |row| Ok(row.get::<_, String>(0).ok()));
        let mut texts = texts.ok()?.into_iter().flatten();
        texts.find_map(|text| without_output_options(&text))
    }

    /// Whether the table is there.
    pub(crate) fn has(&self, shape: &TableShape) -> bool {
        self.tables.contains_key(shape.name)
    }

    /// Whether the table has the column.
    pub(crate) fn has_column(&self, shape: &TableShape, column: &str) -> bool {
        let columns = self.tables.get(shape.name);
        columns.is_some_and(|columns| columns.iter().any(|name| name == column))
    }

    /// Checks that the table and its required columns exist.
    ///
    /// # Errors
    /// The table or one of the columns is missing.
    pub(crate) fn require(&self, shape: &TableShape) -> Result<()> {
        if !self.has(shape) {
            return Err(ReportError::NoTable {
                path: self.source.clone(),
                table: shape.name,
                what: shape.content,
                advice: shape.advice,
            });
        }
        let mut required = shape.required.iter();
        let missing = required.find(|column| !self.has_column(shape, column));
        missing.map_or(Ok(()), |column| Err(self.no_column(shape, column)))
    }

    /// The number of rows of a table, without reading them: its last row's number.
    pub(super) fn row_count(&self, shape: &TableShape) -> Result<u64> {
        let query = format!("SELECT coalesce(max(rowid), 0) FROM {}", shape.name);
        let last = self.select(&query, [], |row| row.get::<_, i64>(0))?;
        Ok(last.first().map_or(0, |last| last.unsigned_abs()))
    }

    /// A query for the required and the optional columns in order, NULL for missing ones, the row's number last.
    pub(crate) fn query(&self, shape: &TableShape) -> String {
        let columns = shape.required.iter().chain(shape.optional);
        let columns = columns.map(|column| match self.has_column(shape, column) {
            true => format!("\"{column}\""),
            false => "NULL".to_owned(),
        });
        let columns: Vec<String> = columns.collect();
        format!("SELECT {}, rowid FROM {}", columns.join(", "), shape.name)
    }

    /// The error for a missing column.
    pub(crate) fn no_column(&self, shape: &TableShape, column: &str) -> ReportError {
        ReportError::NoColumn {
            path: self.source.clone(),
            table: shape.name.to_owned(),
            column: column.to_owned(),
            version: self.version.clone(),
        }
    }

    /// The error for a failure of SQLite.
    pub(crate) fn database_error(&self, cause: rusqlite::Error) -> ReportError {
        ReportError::Database(self.source.clone(), cause)
    }
}

#[cfg(test)]
mod tests {
    use super::without_output_options;

    #[test]
    fn command_of_a_capture_is_one_that_runs_again() {
        let found = |text: &str| without_output_options(text);
        assert_eq!(
            found("nsys profile /usr/bin/jetwatch run --config=a.yaml --stats=x.json").as_deref(),
            Some("/usr/bin/jetwatch run --config=a.yaml")
        );
        assert_eq!(
            found("jetwatch run --stats s.json --config a.yaml --batch-size 4").as_deref(),
            Some("jetwatch run --config a.yaml --batch-size 4")
        );
        assert_eq!(found("jetwatch bench --config a.yaml"), None);
        assert_eq!(found("python3 train.py --config a.yaml"), None);
    }
}
