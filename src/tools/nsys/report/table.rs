// SPDX-License-Identifier: Apache-2.0
//! A table of results, and its output as text, CSV and JSON.
//!
//! CSV has nsys's headings, units and roundings, so that the same programs can read both.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use jetwatch_tables::{Align, TextTable};

/// What a column's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Texts and counts.
    Unitless,
    /// Nanoseconds.
    Ns,
    /// Percent.
    Percent,
    /// Bytes; CSV gives them in MB as nsys does.
    Bytes,
    /// Joules.
    Joules,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: Cow<'static, str>,
    /// Unit of the values.
    pub unit: Unit,
}

impl Column {
    /// With its unit, for programs; `bytes`: the unit of sizes.
    fn heading(&self, bytes: &str) -> String {
        let unit = match self.unit {
            Unit::Unitless => return self.name.to_string(),
            Unit::Ns => "ns",
            Unit::Percent => "%",
            Unit::Bytes => bytes,
            Unit::Joules => "J",
        };
        format!("{} ({unit})", self.name)
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Name on the command line and in JSON.
    pub name: &'static str,
    /// Title.
    pub title: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows, with a cell for each column: a text, a number, or null for what is unknown. A decimal has one digit behind the point, or three
    /// for bytes.
    pub rows: Vec<Vec<Value>>,
    /// Number of omitted rows.
    pub more: usize,
}

/// A table that is declared: its rows, then for each column heading, unit, and the cell of a row.
pub(super) struct Columns<'a, R> {
    table: Table,
    rows: &'a [R],
    cells: Vec<Box<dyn FnMut(&'a R) -> Value + 'a>>,
}

impl<'a, R> Columns<'a, R> {
    /// Keeps the first `max` rows.
    pub(super) fn limit(mut self, max: usize) -> Self {
        self.table.more = self.rows.len().saturating_sub(max);
        self.rows = &self.rows[..self.rows.len().min(max)];
        self
    }

    /// Adds a column.
    pub(super) fn column<C: Into<Value>>(
        mut self,
        name: impl Into<Cow<'static, str>>,
        unit: Unit,
        mut cell: impl FnMut(&'a R) -> C + 'a,
    ) -> Self {
        let name = name.into();
        self.table.columns.push(Column { name, unit });
        self.cells.push(Box::new(move |row| cell(row).into()));
        self
    }

    /// Adds columns that several tables have.
    pub(super) fn with(self, add: impl FnOnce(Self) -> Self) -> Self {
        add(self)
    }

    /// The table with a cell for each row and column.
    pub(super) fn build(mut self) -> Table {
        let row = |row| self.cells.iter_mut().map(|cell| cell(row)).collect();
        let rows = self.rows.iter().map(row).collect();
        Table { rows, ..self.table }
    }
}

/// A method for the columns of each unit.
macro_rules! columns {
    ($($name:ident: $unit:ident, $about:literal)*) => {
        impl<'a, R> Columns<'a, R> {$(
            #[doc = $about]
            pub(super) fn $name<C: Into<Value>>(
                self,
                name: impl Into<Cow<'static, str>>,
                cell: impl FnMut(&'a R) -> C + 'a,
            ) -> Self {
                self.column(name, Unit::$unit, cell)
            }
        )*}
    };
}

columns! {
    plain: Unitless, "Adds a column without a unit."
    ns: Ns, "Adds a column of times."
    percent: Percent, "Adds a column of shares, in percent."
    bytes: Bytes, "Adds a column of sizes."
    joules: Joules, "Adds a column of energy."
}

impl Table {
    /// Declares a table of `rows` that gets its name and its title afterwards.
    pub(super) fn unnamed<R>(rows: &[R]) -> Columns<'_, R> {
        Self::of("", "", rows)
    }

    /// Declares a table of `rows`.
    pub(super) fn of<'a, R>(
        name: &'static str,
        title: impl Into<String>,
        rows: &'a [R],
    ) -> Columns<'a, R> {
        let table = Self {
            name,
            title: title.into(),
            columns: Vec::new(),
            rows: Vec::new(),
            more: 0,
        };
        Columns {
            table,
            rows,
            cells: Vec::new(),
        }
    }

    /// Keeps the first `max` rows.
    pub fn truncate(&mut self, max: usize) {
        self.more += self.rows.len().saturating_sub(max);
        self.rows.truncate(max);
    }

    /// What people are shown: columns of which something is known in a row, and the texts of their cells by row.
    pub(super) fn shown(&self) -> (Vec<usize>, Vec<Vec<String>>) {
        let visible = self.visible_columns();
        let text = |row: &[Value], at: usize| format_cell(&row[at], self.columns[at].unit);
        let texts = |row: &Vec<Value>| visible.iter().map(|at| text(row, *at)).collect();
        let rows = self.rows.iter().map(texts).collect();
        (visible, rows)
    }

    fn visible_columns(&self) -> Vec<usize> {
        let is_known = |at: &usize| {
            let mut rows = self.rows.iter();
            self.rows.is_empty() || rows.any(|row| !row[*at].is_null())
        };
        (0..self.columns.len()).filter(is_known).collect()
    }

    /// For a terminal: times and sizes with a fitting unit, numbers to the right. Unknown values are `-`; columns without any
    /// value are left out.
    #[must_use]
    pub fn to_text(&self) -> String {
        let (visible, rows) = self.shown();
        let columns = visible.iter().map(|at| {
            let is_text = self.rows.iter().any(|row| row[*at].is_string());
            let align = if is_text { Align::Left } else { Align::Right };
            (&*self.columns[*at].name, align)
        });
        let columns: Vec<(&str, Align)> = columns.collect();
        let mut table = TextTable::new(&columns).indented(2);
        rows.into_iter().for_each(|row| table.push(row));
        let mut text = format!("{}\n{table}\n", self.title);
        if self.rows.is_empty() {
            text.push_str("  nothing\n");
        }
        if self.more > 0 {
            let _ = writeln!(text, "  and {} more rows (report --rows)", self.more);
        }
        text
    }

    /// As CSV with a line of headings.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text = csv_line(self.columns.iter().map(|column| column.heading("MB")));
        for row in &self.rows {
            let cells = row.iter().zip(&self.columns);
            let cells = cells.map(|(cell, column)| format_exact(cell, column.unit));
            text.push_str(&csv_line(cells));
        }
        text
    }

    /// As a list of objects, times in ns and sizes in bytes.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let cells = self.columns.iter().zip(row);
            let cells = cells.map(|(column, cell)| (column.heading("bytes"), cell.clone()));
            Value::Object(Map::from_iter(cells))
        });
        Value::Array(rows.collect())
    }
}

/// Names with commas between them, or that there is none.
pub(super) fn listed(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

fn csv_line(cells: impl Iterator<Item = String>) -> String {
    let quoted = cells.map(|cell| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

/// One digit behind the point, halves away from zero as SQLite rounds, where Rust's formatting takes the even one.
fn one_digit(value: f64) -> String {
    let tenths = (value * 10.0).round() / 10.0;
    format!("{tenths:.1}")
}

/// As nsys writes it.
fn format_exact(cell: &Value, unit: Unit) -> String {
    const MEGABYTE: f64 = 1e6;
    match (cell, cell.as_f64(), unit) {
        (Value::String(text), ..) => text.clone(),
        (_, None, _) => "None".to_owned(),
        (_, Some(number), Unit::Bytes) => format!("{:.3}", number / MEGABYTE),
        (_, Some(number), Unit::Joules) if cell.is_f64() => format!("{number:.4}"),
        (_, Some(number), _) if cell.is_f64() => one_digit(number),
        _ => cell.to_string(),
    }
}

/// As text for people.
fn format_cell(cell: &Value, unit: Unit) -> String {
    let number = match (cell, cell.as_f64()) {
        (Value::String(text), _) => return text.clone(),
        (_, None) => return "-".to_owned(),
        (_, Some(_)) if unit == Unit::Unitless && !cell.is_f64() => return cell.to_string(),
        (_, Some(number)) => number,
    };
    match unit {
        Unit::Unitless => one_digit(number),
        Unit::Percent => format!("{} %", one_digit(number)),
        Unit::Ns => scaled(number, &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)]),
        Unit::Joules => scaled(number * 1e3, &[("mJ", 1.0), ("J", 1e3), ("kJ", 1e6)]),
        Unit::Bytes => scaled(number, &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)]),
    }
}

/// With the largest unit that fits.
fn scaled(number: f64, units: &[(&str, f64)]) -> String {
    let mut units_down = units.iter().rev();
    match units_down.find(|(_, factor)| number.abs() >= *factor) {
        Some((unit, factor)) if *factor > 1.0 => format!("{:.2} {unit}", number / factor),
        _ => format!("{number:.0} {}", units[0].0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table() -> Table {
        let rows = [
            (Some("a, \"b\""), 1_234.25, 99.95, 1_500_000_i64),
            (None, 7.0, 0.05, 0),
        ];
        Table::of("t", "A table", &rows)
            .plain("Name", |row| row.0)
            .ns("Avg", |row| row.1)
            .percent("Time", |row| row.2)
            .bytes("Size", |row| row.3)
            .build()
    }

    #[test]
    fn csv_is_quoted_and_rounded_as_nsys_does() {
        assert_eq!(
            table().to_csv(),
            "Name,Avg (ns),Time (%),Size (MB)\n\"a, \"\"b\"\"\",1234.3,100.0,1.500\nNone,7.0,0.1,0.000\n"
        );
    }

    #[test]
    fn text_table_shows_units() {
        let mut table = table();
        table.truncate(1);
        assert_eq!(
            table.to_text(),
            "A table\n  Name        Avg     Time     Size\n  a, \"b\"  1.23 µs  100.0 %  1.50 MB\n  and 1 more rows (report --rows)\n"
        );
        table.rows.clear();
        assert!(table.to_text().contains("  nothing\n"));
    }

    #[test]
    fn columns_without_values_are_not_shown() {
        let mut table = table();
        for row in &mut table.rows {
            row[1] = Value::Null;
        }
        assert_eq!(table.visible_columns(), [0, 2, 3]);
        assert!(!table.to_text().contains("Avg"));
        assert!(
            table.to_csv().starts_with("Name,Avg (ns),"),
            "programs read all"
        );
        table.rows.clear();
        assert_eq!(table.visible_columns(), [0, 1, 2, 3]);
    }

    #[test]
    fn energy_has_a_fitting_unit() {
        let shown = |joules: f64| format_cell(&joules.into(), Unit::Joules);
        assert_eq!([shown(0.25), shown(12.5)], ["250 mJ", "12.50 J"]);
        assert_eq!(format_exact(&0.123_45.into(), Unit::Joules), "0.1235");
    }

    #[test]
    fn json_keeps_exact_numbers() {
        let value = table().to_json();
        assert_eq!(value[0]["Avg (ns)"], json!(1_234.25));
        assert_eq!(value[0]["Size (bytes)"], json!(1_500_000));
        assert_eq!(value[1]["Name"], Value::Null);
    }
}
