//! The tables and columns of nsys's SQLite exports that are read, and what a given file has of them.
//!
//! Exports are read by what stands in them and not by their version: columns were added from 2021 to 2025, and tables that
//! would be empty are left out. Only what is needed must be there; a missing column is named with its table.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::ReportError;

/// One table: what must be there to read it, and what is read where it is.
#[derive(Debug)]
pub struct TableShape {
    /// Its name.
    pub name: &'static str,
    /// What stands in it, in words.
    pub content: &'static str,
    /// What to do where it is missing.
    pub advice: &'static str,
    /// Columns without which it says nothing.
    pub required: &'static [&'static str],
    /// Columns that not every version has; NULL stands for them.
    pub optional: &'static [&'static str],
}

const TRACE_CUDA: &str = "profile with --trace=cuda, on a machine where the GPU is used";

/// NVTX ranges and marks, domains and thread names.
pub const NVTX: TableShape = TableShape {
    name: "NVTX_EVENTS",
    content: "NVTX range",
    advice: "profile with --trace=nvtx",
    required: &["start", "end", "eventType", "globalTid"],
    optional: &[
        "text",
        "textId",
        "domainId",
        "endGlobalTid",
        "uint64Value",
        "int64Value",
        "uint32Value",
        "int32Value",
    ],
};

/// Calls of the CUDA runtime and driver.
pub const CALLS: TableShape = TableShape {
    name: "CUPTI_ACTIVITY_KIND_RUNTIME",
    content: "call of CUDA",
    advice: TRACE_CUDA,
    required: &["start", "end", "globalTid", "correlationId", "nameId"],
    optional: &[],
};

/// Kernels.
pub const KERNELS: TableShape = TableShape {
    name: "CUPTI_ACTIVITY_KIND_KERNEL",
    content: "kernel",
    advice: TRACE_CUDA,
    required: &["start", "end", "correlationId", "demangledName"],
    optional: &[
        "globalPid",
        "deviceId",
        "contextId",
        "streamId",
        "gridX",
        "gridY",
        "gridZ",
        "blockX",
        "blockY",
        "blockZ",
    ],
};

/// Copies.
pub const COPIES: TableShape = TableShape {
    name: "CUPTI_ACTIVITY_KIND_MEMCPY",
    content: "copy",
    advice: TRACE_CUDA,
    required: &["start", "end", "correlationId", "bytes", "copyKind"],
    optional: &[
        "globalPid",
        "deviceId",
        "contextId",
        "streamId",
        "srcKind",
        "dstKind",
        "srcDeviceId",
        "dstDeviceId",
    ],
};

/// Memory sets.
pub const SETS: TableShape = TableShape {
    name: "CUPTI_ACTIVITY_KIND_MEMSET",
    content: "memory set",
    advice: TRACE_CUDA,
    required: &["start", "end", "correlationId", "bytes"],
    optional: &["globalPid", "deviceId", "contextId", "streamId", "memKind"],
};

/// CUDA graphs that were traced as a whole.
pub const GRAPHS: TableShape = TableShape {
    name: "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    content: "CUDA graph",
    advice: TRACE_CUDA,
    required: &["start", "end", "correlationId"],
    optional: &["globalPid", "deviceId", "contextId", "streamId"],
};

/// Calls of the operating system's libraries.
pub const WAITS: TableShape = TableShape {
    name: "OSRT_API",
    content: "wait in the operating system's libraries",
    advice: "profile with --trace=osrt",
    required: &["start", "end", "globalTid", "nameId"],
    optional: &["eventClass"],
};

/// All texts.
pub const STRINGS: TableShape = TableShape {
    name: "StringIds",
    content: "text",
    advice: "it is no export of nsys, or one that was cut off: export it again with nsys export --type sqlite",
    required: &["id", "value"],
    optional: &[],
};

/// Names of threads as the operating system has them.
pub const THREADS: TableShape = TableShape {
    name: "ThreadNames",
    content: "thread name",
    advice: "export it again",
    required: &["nameId", "globalTid"],
    optional: &[],
};

/// A database that is an export of nsys.
#[derive(Debug)]
pub struct Export {
    /// The file.
    pub path: PathBuf,
    /// The file that errors name: the report that nsys made this one of, or itself.
    pub source: PathBuf,
    tables: HashMap<String, Vec<String>>,
    /// The version of nsys that exported it, where it says so (from 2022 on).
    pub nsys: Option<String>,
    /// The version of the schema, where it says so.
    pub schema: Option<String>,
}

impl Export {
    /// Looks into a file that is a SQLite database; errors name `source`. Errors where it is damaged or no export of nsys.
    pub fn open(path: &Path, shown: &Path) -> Result<Self, ReportError> {
        let mut export = Self {
            path: path.to_owned(),
            source: shown.to_owned(),
            tables: HashMap::new(),
            nsys: None,
            schema: None,
        };
        let connection = export.connect()?;
        let fail = |cause| export.database_error(cause);
        let mut tables: HashMap<String, Vec<String>> = HashMap::new();
        let mut found = connection
            .prepare("SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c WHERE t.type = 'table'")
            .map_err(fail)?;
        let mut rows = found.query([]).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            let table: String = row.get(0).map_err(fail)?;
            tables
                .entry(table)
                .or_default()
                .push(row.get(1).map_err(fail)?);
        }
        // The table of the export's own facts was renamed in 2023.
        let metadata_table = ["META_DATA_EXPORT", "EXPORT_META_DATA"]
            .into_iter()
            .find(|name| tables.contains_key(*name));
        let metadata = |name: &str| {
            let query = format!("SELECT value FROM {} WHERE name = ?1", metadata_table?);
            connection.query_row(&query, [name], |row| row.get(0)).ok()
        };
        let (nsys, schema) = (
            metadata("EXPORT_PRODUCT_VERSION"),
            metadata("EXPORT_SCHEMA_VERSION"),
        );
        export = Self {
            tables,
            nsys,
            schema,
            ..export
        };
        export.require(&STRINGS)?;
        Ok(export)
    }

    /// A connection that only reads. The file is taken as unchanging: no lock and no journal is made beside it.
    pub fn connect(&self) -> Result<Connection, ReportError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)
            .map_err(|cause| self.database_error(cause))?;
        connection
            .execute_batch("PRAGMA query_only = 1; PRAGMA cache_size = -4096;")
            .map_err(|cause| self.database_error(cause))?;
        Ok(connection)
    }

    /// The version in words, for errors and headings.
    #[must_use]
    pub fn version(&self) -> String {
        match (&self.nsys, &self.schema) {
            (Some(nsys), Some(schema)) => format!("nsys {nsys}, schema {schema}"),
            (Some(nsys), None) => format!("nsys {nsys}"),
            (None, Some(schema)) => format!("schema {schema}"),
            (None, None) => "nsys before 2022, which names no version".to_owned(),
        }
    }

    /// Whether the table is there.
    #[must_use]
    pub fn has(&self, shape: &TableShape) -> bool {
        self.tables.contains_key(shape.name)
    }

    /// Whether the table has the column.
    #[must_use]
    pub fn has_column(&self, shape: &TableShape, column: &str) -> bool {
        self.tables
            .get(shape.name)
            .is_some_and(|columns| columns.iter().any(|name| name == column))
    }

    /// An error where the table is missing, or one of its needed columns.
    pub fn require(&self, shape: &TableShape) -> Result<(), ReportError> {
        if !self.has(shape) {
            return Err(ReportError::NoTable {
                path: self.source.clone(),
                table: shape.name,
                what: shape.content,
                advice: shape.advice,
            });
        }
        for column in shape.required {
            if !self.has_column(shape, column) {
                return Err(self.no_column(shape, column));
            }
        }
        Ok(())
    }

    /// A query for the needed and the optional columns in their order, NULL for what is not there, the row's number last.
    #[must_use]
    pub fn query(&self, shape: &TableShape) -> String {
        let needed = shape.required.iter().map(|column| format!("\"{column}\""));
        let optional = shape.optional.iter().map(|column| {
            if self.has_column(shape, column) {
                format!("\"{column}\"")
            } else {
                "NULL".to_owned()
            }
        });
        let columns: Vec<String> = needed.chain(optional).collect();
        format!("SELECT {}, rowid FROM {}", columns.join(", "), shape.name)
    }

    /// The error for a missing column.
    #[must_use]
    pub fn no_column(&self, shape: &TableShape, column: &str) -> ReportError {
        ReportError::NoColumn {
            path: self.source.clone(),
            table: shape.name.to_owned(),
            column: column.to_owned(),
            version: self.version(),
        }
    }

    /// The error for what SQLite says.
    #[must_use]
    pub fn database_error(&self, cause: rusqlite::Error) -> ReportError {
        ReportError::Database {
            path: self.source.clone(),
            cause,
        }
    }
}
