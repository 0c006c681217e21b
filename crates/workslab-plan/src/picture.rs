//! Pictures of plans: lifetimes to the right, addresses upward, one rectangle a buffer.

use std::fmt::Write;

use crate::{Instance, Plan};

/// What a picture shows beside the plan.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Caption {
    /// What stands above it.
    pub title: String,
    /// A capacity to be marked, in bytes.
    pub capacity: Option<u64>,
}

impl Caption {
    /// A title, and nothing else.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            capacity: None,
        }
    }

    /// With a line at a capacity.
    #[must_use]
    pub fn with_capacity(mut self, capacity: Option<u64>) -> Self {
        self.capacity = capacity;
        self
    }
}

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 640.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 46.0;
/// A buffer of less than this, in both directions, is drawn together with others.
const SMALL: f64 = 1.5;
/// The side of the squares that small buffers are gathered in.
const CELL: f64 = 2.0;
/// From this many buffers on small ones are gathered.
const MANY: usize = 3000;

/// Colours that stay apart for the colour-blind (Okabe and Ito, Color Universal Design, 2008), without
/// the black that the lines are drawn in.
const COLOURS: [&str; 6] = [
    "#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00",
];

/// The picture's frame: from times and bytes to the page.
struct Frame {
    from: u64,
    to: u64,
    bytes: u64,
}

impl Frame {
    fn new(instance: &Instance, plan: &Plan, caption: &Caption) -> Self {
        let lives = || {
            instance
                .buffers
                .iter()
                .filter(|buffer| !buffer.spans().is_empty())
        };
        let from = lives()
            .map(|buffer| buffer.lifetime.start)
            .min()
            .unwrap_or(0);
        let to = lives().map(|buffer| buffer.lifetime.end).max().unwrap_or(1);
        let bytes = plan.makespan.max(caption.capacity.unwrap_or(0)).max(1);
        Self { from, to, bytes }
    }

    fn x(&self, time: u64) -> f64 {
        let length = (self.to - self.from).max(1) as f64;
        LEFT + (time - self.from) as f64 / length * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, bytes: u64) -> f64 {
        HEIGHT - BOTTOM - bytes as f64 / self.bytes as f64 * (HEIGHT - TOP - BOTTOM)
    }
}

/// The picture as SVG, for light and for dark pages.
#[must_use]
pub fn svg(instance: &Instance, plan: &Plan, caption: &Caption) -> String {
    let frame = Frame::new(instance, plan, caption);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = draw(&mut out, &frame, instance, plan, caption);
    out
}

fn draw(
    out: &mut String,
    frame: &Frame,
    instance: &Instance,
    plan: &Plan,
    caption: &Caption,
) -> std::fmt::Result {
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">
<style>
.page {{ fill: #ffffff }} .ink {{ fill: #1a1a1a }} .axis {{ stroke: #1a1a1a }} .b {{ stroke: #ffffff; stroke-width: 0.6 }}
.live {{ fill: none; stroke: #1a1a1a; stroke-width: 1.8 }} .rim {{ fill: none; stroke: #ffffff; stroke-width: 4 }} .bound {{ stroke: #1a1a1a; stroke-dasharray: 7 4 }}
.capacity {{ stroke: #d55e00; stroke-width: 2; stroke-dasharray: 2 3 }} .many {{ fill: #9aa0a6 }} .l {{ fill: #111111; font-size: 11px }}
@media (prefers-color-scheme: dark) {{
.page {{ fill: #16181c }} .ink {{ fill: #e8e8e8 }} .axis, .live, .bound {{ stroke: #e8e8e8 }} .b, .rim {{ stroke: #16181c }}
}}
</style>
<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>
<text class="ink" x="{LEFT}" y="26" font-size="17" font-weight="bold">{}</text>
<text class="ink" x="{LEFT}" y="47">{} buffers · {} bytes · lower bound {} · ratio {:.4}{}</text>"#,
        escape(&caption.title),
        instance.buffers.len(),
        plan.makespan,
        plan.lower_bound,
        plan.ratio(),
        if plan.optimal { " · optimal" } else { "" },
    )?;
    axes(out, frame)?;
    rectangles(out, frame, instance, plan)?;
    live_line(out, frame, instance)?;
    let right = WIDTH - RIGHT;
    let mut marks = vec![("bound", "lower bound", plan.lower_bound)];
    if plan.makespan != plan.lower_bound {
        marks.push(("bound", "plan", plan.makespan));
    }
    marks.extend(
        caption
            .capacity
            .map(|bytes| ("capacity", "capacity", bytes)),
    );
    marks.sort_by_key(|(_, _, bytes)| *bytes);
    let mut lowest_free = f64::INFINITY;
    for (class, name, bytes) in marks {
        let y = frame.y(bytes);
        // Labels of lines that lie close together are kept apart.
        let text = (y + 4.0).min(lowest_free - 15.0);
        lowest_free = text;
        writeln!(
            out,
            r#"<line class="{class}" x1="{LEFT}" x2="{right}" y1="{y:.1}" y2="{y:.1}"/><text class="ink" x="{:.1}" y="{text:.1}">{name} {}</text>"#,
            right + 6.0,
            short(bytes),
        )?;
    }
    writeln!(out, "</svg>")
}

fn axes(out: &mut String, frame: &Frame) -> std::fmt::Result {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    writeln!(
        out,
        r#"<path class="axis" fill="none" d="M{LEFT} {TOP}V{bottom}H{right}"/>"#
    )?;
    for part in 0..=4 {
        let bytes = (u128::from(frame.bytes) * part / 4) as u64;
        let y = frame.y(bytes);
        writeln!(
            out,
            r#"<path class="axis" d="M{:.1} {y:.1}H{LEFT}"/><text class="ink" text-anchor="end" x="{:.1}" y="{:.1}">{}</text>"#,
            LEFT - 5.0,
            LEFT - 9.0,
            y + 4.0,
            short(bytes)
        )?;
        let time = frame.from + (u128::from(frame.to - frame.from) * part / 4) as u64;
        let x = frame.x(time);
        writeln!(
            out,
            r#"<path class="axis" d="M{x:.1} {bottom}v5"/><text class="ink" text-anchor="middle" x="{x:.1}" y="{:.1}">{time}</text>"#,
            bottom + 19.0
        )?;
    }
    writeln!(
        out,
        r#"<text class="ink" text-anchor="middle" x="{:.1}" y="{:.1}">time</text><text class="ink" text-anchor="middle" transform="translate(20 {:.1}) rotate(-90)">address</text>"#,
        (LEFT + right) / 2.0,
        HEIGHT - 8.0,
        (TOP + bottom) / 2.0
    )
}

fn rectangles(
    out: &mut String,
    frame: &Frame,
    instance: &Instance,
    plan: &Plan,
) -> std::fmt::Result {
    let gather = instance.buffers.len() > MANY;
    let columns = ((WIDTH - LEFT - RIGHT) / CELL).ceil() as usize;
    let rows = ((HEIGHT - TOP - BOTTOM) / CELL).ceil() as usize;
    let mut cells = vec![false; if gather { columns * rows } else { 0 }];
    for (index, (buffer, &offset)) in instance.buffers.iter().zip(&plan.offsets).enumerate() {
        for (part, span) in buffer.spans().iter().enumerate() {
            let (x, y) = (frame.x(span.start), frame.y(offset + buffer.size));
            let (width, height) = (frame.x(span.end) - x, frame.y(offset) - y);
            if gather && (width < SMALL || height < SMALL) {
                let column = |x: f64| (((x - LEFT) / CELL) as usize).min(columns - 1);
                let row = |y: f64| (((y - TOP) / CELL) as usize).min(rows - 1);
                for row in row(y)..=row(y + height - 1e-9) {
                    let line = row * columns;
                    cells[line + column(x)..=line + column(x + width - 1e-9)].fill(true);
                }
                continue;
            }
            let colour = COLOURS[index % COLOURS.len()];
            write!(
                out,
                r#"<rect class="b" x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="{colour}">"#
            )?;
            writeln!(
                out,
                "<title>{}: {} bytes at {offset}, {} to {}</title></rect>",
                escape(&buffer.name),
                buffer.size,
                buffer.lifetime.start,
                buffer.lifetime.end
            )?;
            let room = 6.4 * buffer.name.chars().count() as f64 + 4.0;
            if part == 0 && !buffer.name.is_empty() && width > room && height > 12.0 {
                writeln!(
                    out,
                    r#"<text class="l" text-anchor="middle" x="{:.1}" y="{:.1}">{}</text>"#,
                    x + width / 2.0,
                    y + height / 2.0 + 4.0,
                    escape(&buffer.name)
                )?;
            }
        }
    }
    if !gather {
        return Ok(());
    }
    write!(out, r#"<path class="many" d=""#)?;
    for row in 0..rows {
        let line = &cells[row * columns..(row + 1) * columns];
        let mut column = 0;
        while column < columns {
            let length = line[column..].iter().take_while(|cell| **cell).count();
            if length > 0 {
                let (x, y) = (LEFT + column as f64 * CELL, TOP + row as f64 * CELL);
                write!(
                    out,
                    "M{x} {y}h{}v{CELL}h-{}z",
                    length as f64 * CELL,
                    length as f64 * CELL
                )?;
            }
            column += length.max(1);
        }
    }
    writeln!(out, r#""/>"#)
}

/// The bytes that are live at each time, as a line.
fn live_line(out: &mut String, frame: &Frame, instance: &Instance) -> std::fmt::Result {
    let mut changes: Vec<(u64, bool, u64)> = Vec::new();
    for buffer in &instance.buffers {
        for span in buffer.spans() {
            changes.push((span.start, true, buffer.size));
            changes.push((span.end, false, buffer.size));
        }
    }
    changes.sort_unstable();
    let mut path = format!("M{LEFT} {:.1}", frame.y(0));
    let mut live = 0;
    // On one column of the page only the extremes show.
    let mut column = i64::MIN;
    let (mut least, mut most) = (0, 0);
    let flush = |out: &mut String, column: i64, least: u64, most: u64, last: u64| {
        if column == i64::MIN {
            return Ok(());
        }
        let x = column as f64 / 2.0;
        write!(out, "H{x:.1}V{:.1}", frame.y(most))?;
        if least != most {
            write!(out, "V{:.1}", frame.y(least))?;
        }
        if last != least {
            write!(out, "V{:.1}", frame.y(last))?;
        }
        Ok::<(), std::fmt::Error>(())
    };
    let mut at = 0;
    while at < changes.len() {
        let time = changes[at].0;
        let before = live;
        while at < changes.len() && changes[at].0 == time {
            let (_, starts, size) = changes[at];
            live = if starts { live + size } else { live - size };
            at += 1;
        }
        let here = (frame.x(time) * 2.0) as i64;
        if here == column {
            least = least.min(live);
            most = most.max(live);
        } else {
            flush(&mut path, column, least, most, before)?;
            column = here;
            (least, most) = (live, live);
        }
    }
    flush(&mut path, column, least, most, live)?;
    // With a rim, to be seen on every colour.
    for class in ["rim", "live"] {
        writeln!(out, r#"<path class="{class}" d="{path}"/>"#)?;
    }
    Ok(())
}

/// One page that needs nothing else: hovering names a buffer, the wheel zooms, dragging moves.
#[must_use]
pub fn html(instance: &Instance, plan: &Plan, caption: &Caption) -> String {
    let frame = Frame::new(instance, plan, caption);
    let mut boxes = Vec::new();
    for (buffer, offset) in instance.buffers.iter().zip(&plan.offsets) {
        for span in buffer.spans() {
            boxes.push(serde_json::json!([
                buffer.name,
                span.start,
                span.end,
                offset,
                buffer.size
            ]));
        }
    }
    let data = serde_json::json!({
        "boxes": boxes, "from": frame.from, "to": frame.to, "bytes": frame.bytes,
        "bound": plan.lower_bound, "makespan": plan.makespan, "capacity": caption.capacity,
        "colours": COLOURS,
    });
    // The one thing that may not stand inside of a script.
    let data = data.to_string().replace("</", "<\\/");
    let summary = format!(
        "{} buffers, {} bytes, lower bound {}, ratio {:.4}{}",
        instance.buffers.len(),
        plan.makespan,
        plan.lower_bound,
        plan.ratio(),
        if plan.optimal { ", optimal" } else { "" }
    );
    include_str!("picture.html")
        .replace("{{title}}", &escape(&caption.title))
        .replace("{{summary}}", &escape(&summary))
        .replace("{{data}}", &data)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A number of bytes in three digits or so.
fn short(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut value = bytes as f64;
    let mut unit = "";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    let digits = if value < 10.0 {
        2
    } else {
        usize::from(value < 100.0)
    };
    format!("{value:.digits$} {unit}")
}
