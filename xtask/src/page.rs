//! The page that `workslab plan --html` writes, in a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::{cargo, output, root, run, target};

/// Never more than 12 bytes live, and 13 needed: a plan with a hole.
const INSTANCE: &str = "examples/data/tight.csv";

/// Does to the page what a person does, and leaves in it what came of that.
const VISITOR: &str = r##"<script>
const seen = {};
const box = canvas.getBoundingClientRect();
const place = wanted => {
  const [, from, to, offset, size] = data.boxes.find(([label]) => label === wanted);
  const scale = canvas.width / box.width;
  return { clientX: box.left + toX((from + to) / 2) / scale,
           clientY: box.top + toY(offset + size / 2) / scale };
};
const send = (type, where, more = {}) =>
  canvas.dispatchEvent(new (type === "wheel" ? WheelEvent : MouseEvent)(
    type, { bubbles: true, cancelable: true, ...where, ...more }));
seen.hovered = data.boxes.map(([label]) => { send("mousemove", place(label)); return [label, name.textContent]; });
seen.painted = data.boxes.map(([label]) => {
  const { clientX, clientY } = place(label), scale = canvas.width / box.width;
  // Beside the centre, where a label may stand.
  const [r, g, b] = pen.getImageData((clientX - box.left) * scale, (clientY - box.top) * scale + 9 * scale, 1, 1).data;
  return [r, g, b].join();
});
const whole = { ...view }, target = place("b10");
send("wheel", target, { deltaY: -400 });
seen.zoom = whole.w / view.w;
send("mousemove", target);
seen.hoveredInZoom = name.textContent;
send("mousedown", target);
send("mousemove", { clientX: target.clientX - 100, clientY: target.clientY });
window.dispatchEvent(new MouseEvent("mouseup"));
seen.moved = place("b10").clientX - target.clientX;
send("dblclick", target);
seen.restored = JSON.stringify(view) === JSON.stringify(whole);
seen.page = getComputedStyle(document.body).backgroundColor;
seen.needs = performance.getEntriesByType("resource").length;
const report = document.createElement("template");
report.id = "seen";
report.innerHTML = JSON.stringify(seen);
document.body.append(report);
</script>"##;

/// Draws a plan as a page, visits it in headless Chromium in light and in dark, and keeps a screenshot of
/// each in `target/page`.
pub fn check() -> Result<(), String> {
    let browser = browser()?;
    let folder = target().join("page");
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let page = folder.join("plan.html");
    run(cargo()
        .args(["run", "--locked", "-p", "workslab-cli", "--", "plan"])
        .arg(root().join(INSTANCE))
        .arg("--html")
        .arg(&page))?;
    let read = std::fs::read_to_string(&page);
    let text = read.map_err(|error| format!("{}: {error}", page.display()))?;
    let visited = folder.join("visited.html");
    std::fs::write(&visited, format!("{text}{VISITOR}"))
        .map_err(|error| format!("{}: {error}", visited.display()))?;
    let mut grounds = Vec::new();
    for (scheme, number) in [("light", 1), ("dark", 0)] {
        let chromium = |last: &[String]| {
            let mut command = Command::new(&browser);
            command
                .args([
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--no-first-run",
                ])
                .args([
                    "--disable-background-networking",
                    "--disable-component-update",
                ])
                .args(["--disable-sync", "--disable-quic", "--window-size=1200,800"])
                .arg(format!(
                    "--user-data-dir={}",
                    folder.join("profile").display()
                ))
                .arg(format!("--blink-settings=preferredColorScheme={number}"))
                .args(last);
            command
        };
        let picture = folder.join(format!("{scheme}.png"));
        let shot = format!("--screenshot={}", picture.display());
        run(&mut chromium(&[shot, url(&page)]))?;
        let dom = output(&mut chromium(&["--dump-dom".into(), url(&visited)]))?;
        grounds.push(judge(&dom)?);
        println!("{}", picture.display());
    }
    if grounds[0] == grounds[1] {
        return Err(format!("the page is {} in light and in dark", grounds[0]));
    }
    println!(
        "hovering, zooming, moving and both colour schemes work in {}",
        browser.display()
    );
    Ok(())
}

fn url(page: &Path) -> String {
    format!("file://{}", page.display())
}

fn browser() -> Result<PathBuf, String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .flat_map(|folder| {
            ["chromium", "chromium-browser", "google-chrome"].map(|name| folder.join(name))
        })
        .find(|path| path.is_file())
        .ok_or_else(|| {
            "no Chromium was found in PATH; install one (on Debian: apt-get install chromium)"
                .into()
        })
}

/// Whether the visitor saw what it should; gives the colour of the page.
fn judge(dom: &str) -> Result<String, String> {
    let seen = dom
        .split_once("<template id=\"seen\">")
        .and_then(|(_, rest)| rest.split_once("</template>"))
        .ok_or("the page's script failed: the visitor left nothing")?
        .0;
    let seen: Value = serde_json::from_str(seen).map_err(|error| format!("{error}: {seen}"))?;
    let ensure =
        |right: bool, what: &str| right.then_some(()).ok_or_else(|| format!("{what}: {seen}"));
    let hovered = seen["hovered"].as_array().map_or(&[][..], Vec::as_slice);
    ensure(hovered.len() == 12, "not every buffer was hovered")?;
    for pair in hovered {
        let (label, said) = (pair[0].as_str(), pair[1].as_str());
        let right = label.zip(said).is_some_and(|(label, said)| {
            said.starts_with(&format!("{label}: ")) && said.contains(" bytes at ")
        });
        ensure(right, "hovering does not name the buffer")?;
    }
    let painted = seen["painted"].as_array().map_or(&[][..], Vec::as_slice);
    let colours: std::collections::HashSet<_> = painted.iter().filter_map(Value::as_str).collect();
    ensure(
        colours.len() >= 4,
        "the buffers are not painted in their colours",
    )?;
    let zoom = seen["zoom"].as_f64().unwrap_or(0.0);
    ensure((zoom - 1f64.exp()).abs() < 1e-6, "the wheel does not zoom")?;
    let within = seen["hoveredInZoom"].as_str().unwrap_or_default();
    ensure(
        within.starts_with("b10: "),
        "zooming does not stay where the wheel turned",
    )?;
    // Events are at whole pixels.
    let moved = seen["moved"].as_f64().unwrap_or(0.0);
    ensure(
        (moved + 100.0).abs() < 2.0,
        "dragging does not move the plan",
    )?;
    ensure(seen["restored"] == true, "a double click does not show all")?;
    ensure(seen["needs"] == 0, "the page needs another file")?;
    Ok(seen["page"].to_string())
}
