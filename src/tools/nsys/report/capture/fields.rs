// SPDX-License-Identifier: Apache-2.0
//! The fields of one row: whole numbers and texts, or an error that names table, row and column.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::super::schema::{Export, TableShape};
use super::super::{ReportError, Result};

/// A number as a smaller type: `missing` where there is none, `beyond` where it does not fit.
pub(super) fn number<T: TryFrom<i64>>(value: Option<i64>, missing: T, beyond: T) -> T {
    value.map_or(missing, |value| T::try_from(value).unwrap_or(beyond))
}

/// The fields of one row, by their index in [`Export::query`].
pub(in crate::report) struct Fields<'a> {
    pub(in crate::report) export: &'a Export,
    pub(in crate::report) shape: &'static TableShape,
    pub(in crate::report) row: &'a Row<'a>,
}

/// Calls `take` with each row of a table, in the order of `order`: a clause of SQL, or empty for that of the file. Fails without the
/// table or one of its required columns.
pub(in crate::report) fn for_each_row(
    export: &Export,
    shape: &'static TableShape,
    order: &str,
    mut take: impl FnMut(&Fields<'_>) -> Result<()>,
) -> Result<()> {
    export.require(shape)?;
    let broken = |cause| export.database_error(cause);
    let connection = export.connect()?;
    let query = format!("{} {order}", export.query(shape));
    let mut statement = connection.prepare(&query).map_err(broken)?;
    let mut rows = statement.query([]).map_err(broken)?;
    while let Some(row) = rows.next().map_err(broken)? {
        take(&Fields { export, shape, row })?;
    }
    Ok(())
}

impl Fields<'_> {
    /// A required integer.
    pub(in crate::report) fn required(&self, at: usize) -> Result<i64> {
        match self.row.get_ref(at) {
            Ok(ValueRef::Integer(value)) => Ok(value),
            Ok(found) => Err(self.wrong_type(at, found, "an integer")),
            Err(cause) => Err(self.export.database_error(cause)),
        }
    }

    /// An optional integer.
    pub(in crate::report) fn optional(&self, at: usize) -> Result<Option<i64>> {
        match self.row.get_ref(at) {
            Ok(ValueRef::Integer(value)) => Ok(Some(value)),
            Ok(ValueRef::Null) => Ok(None),
            Ok(found) => Err(self.wrong_type(at, found, "an integer or NULL")),
            Err(cause) => Err(self.export.database_error(cause)),
        }
    }

    /// The correlation id of calls and operations; zero means none.
    pub(super) fn correlation(&self, at: usize) -> Result<u32> {
        let value = self.optional(at)?.unwrap_or(0);
        u32::try_from(value)
            .map_err(|_| self.wrong_type(at, ValueRef::Integer(value), "a number of 32 bits"))
    }

    /// A text; empty for NULL.
    pub(in crate::report) fn text(&self, at: usize) -> Result<&[u8]> {
        match self.row.get_ref(at) {
            Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => Ok(bytes),
            Ok(ValueRef::Null) => Ok(&[]),
            Ok(found) => Err(self.wrong_type(at, found, "a text")),
            Err(cause) => Err(self.export.database_error(cause)),
        }
    }

    /// The row's number, which is the last column.
    pub(super) fn number(&self) -> i64 {
        let last = self.shape.required.len() + self.shape.optional.len();
        self.row.get(last).unwrap_or(-1)
    }

    fn wrong_type(&self, at: usize, found: ValueRef<'_>, expected: &'static str) -> ReportError {
        let mut columns = self.shape.required.iter().chain(self.shape.optional);
        ReportError::Value {
            path: self.export.source.clone(),
            table: self.shape.name,
            row: self.number(),
            column: columns.nth(at).copied().unwrap_or("its number"),
            found: format!("{found:?}"),
            expected,
        }
    }
}
