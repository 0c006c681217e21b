//! What a workspace has been through, for people, for programs and for logs.

use std::fmt;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::{Bytes, DeviceId};

/// The counts of one workspace since it was made. Sizes are bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// The platform.
    pub platform: &'static str,
    /// The device.
    pub device: DeviceId,
    /// Size of the slab.
    pub size: usize,
    /// How far it may grow; none for a slab of fixed size.
    pub cap: Option<usize>,
    /// How often it has grown.
    pub growths: u64,
    /// The part of it that reservations hold.
    pub reserved: usize,
    /// Requests that found the workspace cached.
    pub hits: u64,
    /// Requests that had to make it, or to wait for whoever did.
    pub misses: u64,
    /// Leases granted.
    pub leases: u64,
    /// Bytes that are leased now: all that is not reserved, or none.
    pub leased: usize,
    /// The most bytes that the frames of one lease ever used: the size that would have done.
    pub high_water: usize,
    /// Hand-overs from one stream to another: an event record and a wait each.
    pub cross_stream_waits: u64,
    /// Leases that had to wait for the one before.
    pub waits: u64,
    /// How long they waited, in sum.
    #[serde(rename = "waited_seconds", serialize_with = "seconds")]
    pub waited: Duration,
    /// Writes outside arrays that guard mode found.
    pub guard_violations: u64,
    /// The programs that leased under a name, in the order in which they first did.
    pub programs: Vec<ProgramStatistics>,
}

/// The counts of one program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProgramStatistics {
    /// The program's name.
    pub name: String,
    /// Leases granted to it.
    pub leases: u64,
    /// The most bytes that its frames used in one lease.
    pub high_water: usize,
}

fn seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

impl Statistics {
    /// The counts as a table of two columns, and one of the programs below it if there are any.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header([
            "workspace",
            &format!("{} device {}", self.platform, self.device),
        ]);
        let mut row = |name: &str, value: String| {
            table.add_row([name, &value]);
        };
        row("size", Bytes(self.size).short());
        if let Some(cap) = self.cap {
            row("grows up to", Bytes(cap).short());
            row("times grown", self.growths.to_string());
        }
        row("reserved", Bytes(self.reserved).short());
        row("leased now", Bytes(self.leased).short());
        row("high-water mark", Bytes(self.high_water).short());
        row("hits / misses", format!("{} / {}", self.hits, self.misses));
        row("leases", self.leases.to_string());
        row("cross-stream waits", self.cross_stream_waits.to_string());
        row(
            "leases that waited",
            format!("{} ({:.3} ms)", self.waits, self.waited.as_secs_f64() * 1e3),
        );
        row("guard violations", self.guard_violations.to_string());
        align_right(&mut table, 1..2);
        let mut text = table.to_string();
        if !self.programs.is_empty() {
            let mut programs = Table::new();
            programs.load_style(presets::UTF8_BORDERS_ONLY);
            programs.set_header(["program", "leases", "high-water mark"]);
            for program in &self.programs {
                programs.add_row([
                    program.name.clone(),
                    program.leases.to_string(),
                    Bytes(program.high_water).short(),
                ]);
            }
            align_right(&mut programs, 1..3);
            text.push('\n');
            text.push_str(&programs.to_string());
        }
        text
    }
}

fn align_right(table: &mut Table, columns: std::ops::Range<usize>) {
    for index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table())
    }
}
