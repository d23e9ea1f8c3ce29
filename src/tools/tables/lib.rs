// SPDX-License-Identifier: Apache-2.0
//! Tables of text for a terminal: aligned columns without borders, two blanks between them, as wide as their contents. No line
//! ends in blanks. Widths are those of a terminal, so a wide character counts twice.
//!
//! For what people read; JSON and CSV are the forms for programs.

use std::fmt;

use comfy_table::{CellAlignment, Table, presets};

/// Where the text of a column's cells is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// For text.
    Left,
    /// For numbers.
    Right,
}

/// A table with a heading for each column. Its text has no line break at the end.
#[derive(Debug, Clone)]
pub struct TextTable {
    table: Table,
}

impl TextTable {
    /// A table without rows, with these headings and alignments.
    #[must_use]
    pub fn new(columns: &[(&str, Align)]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(columns.iter().map(|(heading, _)| *heading));
        let first = std::iter::once(0).chain(std::iter::repeat(2));
        for ((column, (_, align)), gap) in table.column_iter_mut().zip(columns).zip(first) {
            column.set_padding((gap, 0));
            column.set_cell_alignment(match align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        Self { table }
    }

    /// The same with `blanks` before the first column.
    #[must_use]
    pub fn indented(mut self, blanks: u16) -> Self {
        if let Some(first) = self.table.column_mut(0) {
            first.set_padding((blanks, 0));
        }
        self
    }

    /// The line of the headings, then one for each row, for callers that put notes between them.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.table.lines().map(|line| line.trim_end().to_owned())
    }

    /// Appends a row; cells that are missing at its end are empty.
    pub fn push<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(Into::<String>::into);
        self.table.add_row(cells);
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table.trim_fmt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_contents() {
        let columns = [
            ("name", Align::Left),
            ("n", Align::Right),
            ("unit", Align::Left),
        ];
        let mut table = TextTable::new(&columns);
        table.push(["a long name", "1", "ms"]);
        table.push(["b", "1234", ""]);
        table.push(["車", "5"]);
        let wanted =
            "name            n  unit\na long name     1  ms\nb            1234\n車              5";
        assert_eq!(table.to_string(), wanted);
    }

    #[test]
    fn lines_are_headings_and_rows() {
        let mut table = TextTable::new(&[("range", Align::Left), ("ms", Align::Right)]);
        table.push(["  infer", "1.5"]);
        let lines: Vec<String> = table.lines().collect();
        assert_eq!(lines, ["range     ms", "  infer  1.5"]);
    }

    #[test]
    fn indentation_is_on_every_line() {
        let mut table = TextTable::new(&[("a", Align::Right), ("b", Align::Left)]).indented(2);
        assert_eq!(table.to_string(), "  a  b");
        table.push(["10", "x"]);
        assert_eq!(table.to_string(), "   a  b\n  10  x");
    }
}
