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

/// A table that is declared: its rows, then for each column heading, alignment, and the text of a row's cell.
#[derive(Debug)]
pub struct TextColumns<'a, R> {
    rows: &'a [R],
    headings: Vec<(&'a str, Align)>,
    /// By row.
    cells: Vec<Vec<String>>,
}

impl<'a, R> TextColumns<'a, R> {
    /// Adds a column of text.
    pub fn left<T: Into<String>>(self, heading: &'a str, cell: impl FnMut(&'a R) -> T) -> Self {
        self.column(heading, Align::Left, cell)
    }

    /// Adds a column of numbers.
    pub fn right<T: Into<String>>(self, heading: &'a str, cell: impl FnMut(&'a R) -> T) -> Self {
        self.column(heading, Align::Right, cell)
    }

    fn column<T: Into<String>>(
        mut self,
        heading: &'a str,
        align: Align,
        mut cell: impl FnMut(&'a R) -> T,
    ) -> Self {
        self.headings.push((heading, align));
        for (row, cells) in self.rows.iter().zip(&mut self.cells) {
            cells.push(cell(row).into());
        }
        self
    }

    /// The table.
    pub fn build(self) -> TextTable {
        let mut table = TextTable::new(&self.headings);
        for cells in self.cells {
            table.push(cells);
        }
        table
    }
}

impl TextTable {
    /// Declares a table of `rows`.
    pub fn of<R>(rows: &[R]) -> TextColumns<'_, R> {
        TextColumns {
            rows,
            headings: Vec::new(),
            cells: rows.iter().map(|_| Vec::new()).collect(),
        }
    }

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
        let table = TextTable::of(&[("infer", 1.5)])
            .left("range", |(range, _)| format!("  {range}"))
            .right("ms", |(_, ms)| ms.to_string())
            .build();
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
