//! Reading instances from files, and writing plans.
//!
//! | file | what it begins with |
//! | --- | --- |
//! | MiniMalloc's and idealloc's CSV | a header with a size and lifetimes: see [`read`] |
//! | RMM's log (`logging_resource_adaptor`) | the header `Thread,Time,Action,Pointer,Size,Stream` |
//! | an instance as JSON | `{"buffers": [{"name": "a", "size": 8, "lifetime": [0, 3]}]}` |
//! | programs with symbolic shapes as JSON | `{"programs": […]}`: see [`programs`](crate::programs) |
//!
//! CSV is read line by line, and a line that cannot be used is named with its number.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::ops::Range;

use thiserror::Error;

use crate::programs::Programs;
use crate::{Buffer, Instance, Plan};

/// What a file holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Contents {
    /// One instance.
    Instance(Instance),
    /// Programs with symbolic shapes; on a grid each is an instance.
    Programs(Programs),
}

/// Why a file cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read at all.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It is of no known kind.
    #[error(
        "it is no instance: a CSV file has a header with size, lower and upper (or begin and end), or is a log of RMM's; a JSON file has buffers or programs"
    )]
    Unknown,
    /// A line is wrong.
    #[error("line {line}: {problem}")]
    Line {
        /// Which, from 1.
        line: u64,
        /// Why.
        problem: String,
    },
    /// JSON that is wrong; the text says where.
    #[error("{0}")]
    Json(String),
}

/// Reads a file of any kind.
///
/// A CSV file has a header, and the columns in any order: `id` (or `buffer`, `buffer_id`, `name`),
/// `lower` (or `begin`, `start`), `upper` (the first time at which the buffer no longer lives) or `end`
/// (the last at which it does), `size`; and, where wanted, `alignment`, `gaps` (times like `3-5`, half
/// open, separated by blanks), `offset` (the buffer must not move; nothing or -1: it may) and `hint` (read and
/// not used). A gap that keeps a part of the buffer, `3-5@0:8`, counts as no gap: that is safe, if not
/// as tight as it could be.
///
/// # Errors
/// [`FileError`].
pub fn read(mut from: impl BufRead) -> Result<Contents, FileError> {
    let unreadable = |error: std::io::Error| FileError::Unreadable(error.to_string());
    let start = loop {
        let bytes = from.fill_buf().map_err(unreadable)?;
        let blank = bytes.iter().take_while(|b| b.is_ascii_whitespace()).count();
        match bytes.get(blank) {
            Some(&byte) => break byte,
            None if bytes.is_empty() => return Err(FileError::Unknown),
            None => from.consume(blank),
        }
    };
    if start == b'{' {
        let value: serde_json::Value = serde_json::from_reader(from).map_err(json)?;
        return match (value.get("buffers"), value.get("programs")) {
            (Some(_), None) => serde_json::from_value(value)
                .map(Contents::Instance)
                .map_err(json),
            (None, Some(_)) => serde_json::from_value(value)
                .map(Contents::Programs)
                .map_err(json),
            _ => Err(FileError::Unknown),
        };
    }
    csv_file(from).map(Contents::Instance)
}

fn json(error: serde_json::Error) -> FileError {
    FileError::Json(error.to_string())
}

fn csv_file(from: impl BufRead) -> Result<Instance, FileError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(from);
    let header = reader.headers().map_err(|error| at(0, &error))?.clone();
    let names: Vec<String> = header.iter().map(str::to_ascii_lowercase).collect();
    let rmm = ["action", "pointer", "size"];
    if rmm
        .iter()
        .all(|wanted| names.iter().any(|name| name == wanted))
    {
        return rmm_log(&names, &mut reader);
    }
    buffers(&names, &mut reader)
}

fn at(line: u64, error: &csv::Error) -> FileError {
    let line = error.position().map_or(line, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::Io(error) => FileError::Unreadable(error.to_string()),
        csv::ErrorKind::Utf8 { .. } => FileError::Line {
            line,
            problem: "is not text in UTF-8".into(),
        },
        _ => FileError::Line {
            line,
            problem: error.to_string(),
        },
    }
}

/// One line of a CSV file.
struct Line<'r> {
    record: &'r csv::StringRecord,
    number: u64,
}

impl<'r> Line<'r> {
    fn bad(&self, problem: String) -> FileError {
        FileError::Line {
            line: self.number,
            problem,
        }
    }

    fn text(&self, column: Option<usize>) -> Option<&'r str> {
        self.record.get(column?).filter(|text| !text.is_empty())
    }

    fn number(&self, column: Option<usize>, name: &str) -> Result<u64, FileError> {
        let text = self.text(column);
        let text = text.ok_or_else(|| self.bad(format!("the {name} is missing")))?;
        self.parse(text, name)
    }

    fn parse(&self, text: &str, name: &str) -> Result<u64, FileError> {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !plain {
            return Err(self.bad(format!("{name} {text:?} is no number")));
        }
        let number = text.parse();
        number.map_err(|_| self.bad(format!("{name} {text} is more than {}", u64::MAX)))
    }
}

fn for_each_line(
    reader: &mut csv::Reader<impl BufRead>,
    mut work: impl FnMut(&Line<'_>) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let mut record = csv::StringRecord::new();
    let mut last = 1;
    while reader
        .read_record(&mut record)
        .map_err(|error| at(last + 1, &error))?
    {
        let number = record.position().map_or(last + 1, csv::Position::line);
        last = number;
        work(&Line {
            record: &record,
            number,
        })?;
    }
    Ok(())
}

fn buffers(
    names: &[String],
    reader: &mut csv::Reader<impl BufRead>,
) -> Result<Instance, FileError> {
    let column = |wanted: &[&str]| {
        names
            .iter()
            .position(|name| wanted.contains(&name.as_str()))
    };
    let id = column(&["id", "buffer", "buffer_id", "name"]);
    let lower = column(&["lower", "begin", "start"]);
    let (upper, end) = (column(&["upper"]), column(&["end"]));
    let size = column(&["size"]);
    let (alignment, gaps, offset) = (
        column(&["alignment"]),
        column(&["gaps"]),
        column(&["offset"]),
    );
    if lower.is_none() || size.is_none() || (upper.is_none() && end.is_none()) {
        return Err(FileError::Unknown);
    }
    let mut buffers = Vec::new();
    for_each_line(reader, |line| {
        if line.record.len() != names.len() {
            return Err(line.bad(format!(
                "has {} fields instead of {}",
                line.record.len(),
                names.len()
            )));
        }
        let start = line.number(lower, "start")?;
        let end = match upper {
            Some(_) => line.number(upper, "end")?,
            // The last time at which it lives.
            None => line
                .number(end, "end")?
                .checked_add(1)
                .ok_or_else(|| line.bad("the end is too late to be counted".into()))?,
        };
        if end < start {
            return Err(line.bad(format!("ends at {end} before it starts at {start}")));
        }
        let mut buffer = Buffer::new(
            line.text(id).unwrap_or(""),
            line.number(size, "size")?,
            start..end,
        );
        if line.text(alignment).is_some() {
            buffer.alignment = line.number(alignment, "alignment")?;
            if buffer.alignment == 0 {
                return Err(line.bad("the alignment is 0; it must be at least 1".into()));
            }
        }
        if let Some(text) = line.text(offset).filter(|text| *text != "-1") {
            buffer.offset = Some(line.parse(text, "offset")?);
        }
        for gap in line.text(gaps).unwrap_or("").split_whitespace() {
            buffer.gaps.extend(read_gap(line, gap)?);
        }
        buffers.push(buffer);
        Ok(())
    })?;
    Ok(Instance::new(buffers))
}

fn read_gap(line: &Line<'_>, text: &str) -> Result<Option<Range<u64>>, FileError> {
    let (times, part) = match text.split_once('@') {
        Some((times, part)) => (times, Some(part)),
        None => (text, None),
    };
    let bad = || line.bad(format!("gap {text:?} is not like 3-5 or 3-5@0:8"));
    let (start, end) = times.split_once('-').ok_or_else(bad)?;
    let (start, end) = (line.parse(start, "gap")?, line.parse(end, "gap")?);
    if end < start {
        return Err(bad());
    }
    if let Some(part) = part {
        let (from, to) = part.split_once(':').ok_or_else(bad)?;
        line.parse(from, "gap")?;
        line.parse(to, "gap")?;
        return Ok(None);
    }
    Ok(Some(start..end))
}

/// A buffer per allocation; times are the numbers of the events. What is never freed lives to the end.
fn rmm_log(
    names: &[String],
    reader: &mut csv::Reader<impl BufRead>,
) -> Result<Instance, FileError> {
    let column = |wanted: &str| names.iter().position(|name| name == wanted);
    let (action, pointer, size) = (column("action"), column("pointer"), column("size"));
    let mut buffers: Vec<Buffer> = Vec::new();
    let mut live: HashMap<String, usize> = HashMap::new();
    let mut time = 0;
    for_each_line(reader, |line| {
        let what = line.text(action);
        let what = what.ok_or_else(|| line.bad("the action is missing".into()))?;
        if what.contains("failure") {
            return Ok(()); // nothing was allocated
        }
        let address = line.text(pointer);
        let address = address.ok_or_else(|| line.bad("the pointer is missing".into()))?;
        match what {
            "allocate" => {
                let bytes = line.number(size, "size")?;
                if live.contains_key(address) && bytes > 0 {
                    return Err(line.bad(format!("{address} is allocated twice without a free")));
                }
                if bytes > 0 {
                    live.insert(address.to_owned(), buffers.len());
                }
                buffers.push(Buffer::new(
                    format!("line {}", line.number),
                    bytes,
                    time..u64::MAX,
                ));
            }
            "free" => match live.remove(address) {
                Some(buffer) => buffers[buffer].lifetime.end = time,
                None if line.text(size) == Some("0") => {}
                None => return Err(line.bad(format!("{address} is freed and was not allocated"))),
            },
            other => {
                return Err(line.bad(format!(
                    "the action is {other:?} instead of allocate or free"
                )));
            }
        }
        time += 1;
        Ok(())
    })?;
    for buffer in &mut buffers {
        buffer.lifetime.end = buffer.lifetime.end.min(time);
    }
    Ok(Instance::new(buffers))
}

/// Writes a plan as MiniMalloc's CSV, with a column of offsets.
///
/// # Errors
/// What the writer says.
pub fn write_csv(instance: &Instance, plan: &Plan, to: impl Write) -> std::io::Result<()> {
    let mut writer = csv::Writer::from_writer(to);
    writer.write_record([
        "id",
        "lower",
        "upper",
        "size",
        "alignment",
        "gaps",
        "offset",
    ])?;
    for (buffer, offset) in instance.buffers.iter().zip(&plan.offsets) {
        let gaps: Vec<String> = buffer
            .gaps
            .iter()
            .map(|gap| format!("{}-{}", gap.start, gap.end))
            .collect();
        writer.write_record([
            &buffer.name,
            &buffer.lifetime.start.to_string(),
            &buffer.lifetime.end.to_string(),
            &buffer.size.to_string(),
            &buffer.alignment.to_string(),
            &gaps.join(" "),
            &offset.to_string(),
        ])?;
    }
    writer.flush()
}
