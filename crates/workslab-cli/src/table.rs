//! How tables and JSON are printed.

use std::io::Write;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::CliError;

/// A table with these heads; the columns in `right` are numbers.
pub fn new<const N: usize>(heads: [&str; N], right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(heads);
    for &index in right {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Writes `text` and a line end to standard output. A reader that has gone away is no error.
pub fn print(text: &str) -> Result<(), CliError> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CliError::Output(error.to_string()))
        }
        _ => Ok(()),
    }
}

/// Writes `value` as JSON.
pub fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| CliError::Output(error.to_string()))?;
    print(&text)
}
