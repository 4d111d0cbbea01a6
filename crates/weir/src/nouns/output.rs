//! Output of lists: a table, `--json`, or `-p` as in dladm, with fields separated by colons.

use clap::Args;
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use node::error::Error;
use serde::Serialize;
use vmm::printable;

use super::Result;
use crate::host::print_on;

/// How to show a list.
#[derive(Clone, Debug, Default, Args)]
pub struct Output {
    /// Print JSON
    #[arg(long, conflicts_with_all = ["parsable", "fields"])]
    pub json: bool,
    /// Print fields separated by colons, without a header; a backslash escapes a colon or
    /// backslash in a field
    #[arg(short, long)]
    pub parsable: bool,
    /// Fields to print, separated by commas; ‘all’ prints all fields
    #[arg(
        short = 'o',
        long = "output",
        value_delimiter = ',',
        value_name = "FIELD"
    )]
    pub fields: Vec<String>,
}

/// Fewest characters of a column in a list that goes on.
const GROWING: u16 = 12;

/// Which part of a list is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    /// All of it.
    Whole,
    /// The first of several.
    First,
    /// One behind it, without a header.
    Next,
}

/// One column of a list.
pub struct Column<T> {
    name: &'static str,
    shown: bool,
    value: fn(&T) -> String,
}

// Derived, they would ask the same of the rows.
impl<T> Clone for Column<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Column<T> {}

impl<T> Column<T> {
    /// A column that is always shown.
    pub const fn new(name: &'static str, value: fn(&T) -> String) -> Column<T> {
        Column {
            name,
            shown: true,
            value,
        }
    }

    /// A column that is shown when it is asked for.
    pub const fn extra(name: &'static str, value: fn(&T) -> String) -> Column<T> {
        Column {
            name,
            shown: false,
            value,
        }
    }
}

impl<T> Column<T> {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its value for a row.
    pub fn value(&self, row: &T) -> String {
        (self.value)(row)
    }
}

impl Output {
    /// Shows `rows`.
    pub fn show<T: Serialize>(&self, rows: &[T], columns: &[Column<T>]) -> Result {
        self.show_part(rows, columns, Section::Whole).map(drop)
    }

    /// Shows `rows`, as [`show`](Self::show) does. Returns whether the output still has a reader.
    pub fn show_again<T: Serialize>(&self, rows: &[T], columns: &[Column<T>]) -> Result<bool> {
        self.show_part(rows, columns, Section::Whole)
    }

    /// Shows `rows` of a list that goes on: the header only if it is the `first` part. Returns
    /// whether the output still has a reader.
    pub fn show_next<T: Serialize>(
        &self,
        rows: &[T],
        columns: &[Column<T>],
        first: bool,
    ) -> Result<bool> {
        let part = if first { Section::First } else { Section::Next };
        self.show_part(rows, columns, part)
    }

    fn show_part<T: Serialize>(
        &self,
        rows: &[T],
        columns: &[Column<T>],
        part: Section,
    ) -> Result<bool> {
        let text = if self.json {
            let json = serde_json::to_string_pretty(rows);
            json.map_err(Error::failed)? + "\n"
        } else {
            self.text(rows, &self.columns(columns)?, part)
        };
        is_read(&text)
    }

    fn columns<'a, T>(&self, all: &'a [Column<T>]) -> Result<Vec<&'a Column<T>>> {
        match self.fields.as_slice() {
            [] => Ok(all.iter().filter(|column| column.shown).collect()),
            [every] if every == "all" => Ok(all.iter().collect()),
            fields => fields.iter().map(|field| find(all, field)).collect(),
        }
    }

    fn text<T>(&self, rows: &[T], columns: &[&Column<T>], part: Section) -> String {
        // Text of a user or a guest may have line ends and control characters.
        let cells = |row: &T| -> Vec<String> {
            let values = columns.iter().map(|column| (column.value)(row));
            values.map(|value| printable(&value)).collect()
        };
        if self.parsable {
            let line = |row| {
                let cells: Vec<_> = cells(row).iter().map(|cell| escaped(cell)).collect();
                cells.join(":") + "\n"
            };
            return rows.iter().map(line).collect();
        }
        let mut table = Table::new();
        table
            .load_preset(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(columns.iter().map(|column| column.name.to_uppercase()));
        for row in rows {
            let cells = cells(row);
            // A table has no empty cells: one can see that there is nothing.
            let cells = cells.into_iter().map(|cell| {
                if cell.is_empty() {
                    "--".to_string()
                } else {
                    cell
                }
            });
            table.add_row(cells);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
            if part != Section::Whole {
                // Later numbers are longer than the present ones.
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(GROWING)));
            }
        }
        let lines = table.lines().map(|line| line.trim_end().to_string() + "\n");
        lines.skip(usize::from(part == Section::Next)).collect()
    }
}

fn find<'a, T>(all: &'a [Column<T>], name: &str) -> Result<&'a Column<T>> {
    let found = all.iter().find(|column| column.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|column| column.name).collect();
        Error::invalid(format_args!(
            "no field ‘{}’: the fields are {}",
            name.escape_debug(),
            names.join(", ")
        ))
    })
}

/// A field as dladm's parsable output has it.
fn escaped(field: &str) -> String {
    field.replace('\\', "\\\\").replace(':', "\\:")
}

/// Writes to standard output; its reader may stop at any time.
pub fn print(text: &str) -> Result {
    is_read(text).map(drop)
}

/// Writes to standard output; returns whether it still has a reader.
pub fn is_read(text: &str) -> Result<bool> {
    print_on(text).map_err(|error| Error::failed(format_args!("standard output: {error}")))
}

/// Prints a new resource as JSON if asked for, else nothing.
pub fn made<T: Serialize>(json: bool, what: &T) -> Result {
    if json {
        print(&(serde_json::to_string_pretty(what).map_err(Error::failed)? + "\n"))
    } else {
        Ok(())
    }
}

/// A name that serde gives a value, as users see it.
pub fn name<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// A value that may not be there.
pub fn maybe<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(String::new, T::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Row {
        name: &'static str,
        mac: &'static str,
    }

    const COLUMNS: &[Column<Row>] = &[
        Column::new("name", |row| row.name.into()),
        Column::new("mac", |row| row.mac.into()),
        Column::extra("both", |row| format!("{}\\{}", row.name, row.mac)),
    ];
    const ROWS: [Row; 2] = [
        Row {
            name: "a",
            mac: "02:01",
        },
        Row {
            name: "longer",
            mac: "",
        },
    ];

    fn text(output: &Output) -> String {
        let columns = output.columns(COLUMNS).unwrap();
        output.text(&ROWS, &columns, Section::Whole)
    }

    #[test]
    fn parts_of_a_list_that_goes_on_stand_below_each_other() {
        let output = Output::default();
        let columns = output.columns(COLUMNS).unwrap();
        let first = output.text(&ROWS[..1], &columns, Section::First);
        let next = output.text(&ROWS[1..], &columns, Section::Next);
        let [header, row] = first.lines().collect::<Vec<_>>()[..] else {
            panic!("{first}");
        };
        assert_eq!(header.find("MAC"), row.find("02:01"));
        assert_eq!(header.find("MAC"), next.find("--"));
        assert_eq!(next.lines().count(), 1);
    }

    #[test]
    fn a_table_shows_what_is_not_there() {
        let output = Output::default();
        assert_eq!(text(&output), "NAME    MAC\na       02:01\nlonger  --\n");
    }

    #[test]
    fn parsable_fields_are_escaped_as_dladm_does() {
        let output = Output {
            parsable: true,
            fields: vec!["both".into(), "name".into()],
            ..Output::default()
        };
        assert_eq!(text(&output), "a\\\\02\\:01:a\nlonger\\\\:longer\n");
    }

    #[test]
    fn what_controls_a_terminal_is_shown() {
        let rows = [Row {
            name: "a\nb",
            mac: "\u{1b}[2J",
        }];
        for (parsable, expected) in [
            (true, "a\\\\nb:\\\\u{1b}[2J\n"),
            (false, "NAME  MAC\na\\nb  \\u{1b}[2J\n"),
        ] {
            let output = Output {
                parsable,
                ..Output::default()
            };
            let columns = output.columns(COLUMNS).unwrap();
            assert_eq!(output.text(&rows, &columns, Section::Whole), expected);
        }
    }

    #[test]
    fn a_field_that_is_not_there_is_told_with_those_that_are() {
        let output = Output {
            fields: vec!["speed".into()],
            ..Output::default()
        };
        let error = output.columns(COLUMNS).err().unwrap();
        assert_eq!(
            error.error,
            "no field ‘speed’: the fields are name, mac, both"
        );
    }
}
