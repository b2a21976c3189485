//! Plots as inline SVG: axes from 0, units stated, labels at what they name, no script. Text takes
//! the colour of the page, so they are readable on light and on dark.

use super::tables::number;
use std::fmt::Write;

/// Colours of middle lightness, readable on white and on black.
pub(super) const COLOURS: [&str; 5] = ["#888888", "#3f87cf", "#d9822b", "#3a9d6a", "#9a6dd0"];

const WIDTH: f64 = 720.0;
const LEFT: f64 = 170.0;
const RIGHT: f64 = 110.0;
const ROW: f64 = 16.0;

/// Text as it may stand in HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A bar of parts that follow each other.
pub(super) struct Bar {
    /// At its left.
    pub(super) label: String,
    /// Parts: colour, length.
    pub(super) parts: Vec<(usize, f64)>,
    /// At its right.
    pub(super) note: String,
}

/// Bars of one group stand together.
pub(super) struct Group {
    /// Above them.
    pub(super) title: String,
    /// See [`Bar`].
    pub(super) bars: Vec<Bar>,
}

/// A step for ticks: 1, 2 or 5 times a power of ten, about five of them.
fn step(most: f64) -> f64 {
    let raw = (most / 5.0).max(1e-9);
    let power = 10f64.powf(raw.log10().floor());
    let wanted = [1.0, 2.0, 5.0, 10.0].into_iter().find(|s| s * power >= raw);
    wanted.unwrap_or(10.0) * power
}

fn open(out: &mut String, title: &str, height: f64) {
    let title = escape(title);
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{title}\" \
         viewBox=\"0 0 {WIDTH} {height}\" width=\"100%\" style=\"max-width:{WIDTH}px\" \
         font-family=\"sans-serif\" font-size=\"11\" fill=\"currentColor\">\
         <title>{title}</title>"
    );
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, what: &str) {
    let what = escape(what);
    let _ = write!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"currentColor\">{what}\
         </text>"
    );
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), opacity: f64) {
    let _ = write!(
        out,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"currentColor\" \
         stroke-opacity=\"{opacity}\"/>",
        from.0, from.1, to.0, to.1
    );
}

/// Horizontal bars.
pub(super) fn bars(title: &str, unit: &str, groups: &[Group]) -> String {
    let all = || groups.iter().flat_map(|g| &g.bars);
    let most = all().map(|b| b.parts.iter().map(|p| p.1).sum::<f64>()).fold(0.0, f64::max);
    let tick = step(most);
    let end = (most / tick).ceil().max(1.0) * tick;
    let scale = (WIDTH - LEFT - RIGHT) / end;
    let rows: f64 = groups.iter().map(|g| g.bars.len() as f64 + 1.5).sum();
    let (top, bottom) = (6.0, rows * ROW + 10.0);
    let mut out = String::new();
    open(&mut out, title, bottom + 34.0);
    let ticks = (end / tick).round() as u32;
    for n in 0..=ticks {
        let at = f64::from(n) * tick;
        let x = LEFT + at * scale;
        line(&mut out, (x, top), (x, bottom), if n == 0 { 0.8 } else { 0.15 });
        text(&mut out, x, bottom + 14.0, "middle", &trim(at));
    }
    text(&mut out, LEFT + end * scale / 2.0, bottom + 29.0, "middle", unit);
    let mut y = top;
    for g in groups {
        y += ROW;
        let title = escape(&g.title);
        let _ = write!(
            out,
            "<text x=\"4\" y=\"{:.1}\" font-weight=\"bold\" fill=\"currentColor\">{title}</text>",
            y
        );
        y += 4.0;
        for b in &g.bars {
            text(&mut out, LEFT - 6.0, y + 10.0, "end", &b.label);
            let mut x = LEFT;
            for (colour, length) in &b.parts {
                let colour = COLOURS.get(*colour).copied().unwrap_or("#888888");
                let w = length * scale;
                let _ = write!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{:.1}\" \
                     fill=\"{colour}\"/>",
                    ROW - 4.0
                );
                x += w;
            }
            text(&mut out, x + 4.0, y + 10.0, "start", &b.note);
            y += ROW;
        }
        y += ROW / 2.0 - 4.0;
    }
    out.push_str("</svg>");
    out
}

fn trim(v: f64) -> String {
    let text = format!("{v:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A curve: name, colour, points.
pub(super) type Line<'a> = (&'a str, usize, &'a [(f64, f64)]);

/// Curves over a common x axis from 0.
pub(super) fn lines(title: &str, x_unit: &str, y_unit: &str, list: &[Line<'_>]) -> String {
    let points = || list.iter().flat_map(|l| l.2.iter());
    let (x_most, y_most) = points().fold((0.0f64, 0.0f64), |m, p| (m.0.max(p.0), m.1.max(p.1)));
    let (x_tick, y_tick) = (step(x_most), step(y_most));
    let x_end = (x_most / x_tick).ceil().max(1.0) * x_tick;
    let y_end = (y_most / y_tick).ceil().max(1.0) * y_tick;
    let (left, top, bottom) = (64.0, 22.0, 222.0);
    let x_scale = (WIDTH - left - RIGHT) / x_end;
    let y_scale = (bottom - top) / y_end;
    let mut out = String::new();
    open(&mut out, title, bottom + 36.0);
    text(&mut out, 4.0, 12.0, "start", y_unit);
    for n in 0..=(x_end / x_tick).round() as u32 {
        let at = f64::from(n) * x_tick;
        let x = left + at * x_scale;
        line(&mut out, (x, top), (x, bottom), if n == 0 { 0.8 } else { 0.1 });
        text(&mut out, x, bottom + 14.0, "middle", &trim(at));
    }
    for n in 0..=(y_end / y_tick).round() as u32 {
        let at = f64::from(n) * y_tick;
        let y = bottom - at * y_scale;
        line(&mut out, (left, y), (left + x_end * x_scale, y), if n == 0 { 0.8 } else { 0.1 });
        text(&mut out, left - 6.0, y + 4.0, "end", &trim(at));
    }
    text(&mut out, left + x_end * x_scale / 2.0, bottom + 31.0, "middle", x_unit);
    let mut labels: Vec<(f64, String, &str)> = Vec::new();
    for (name, colour, points) in list {
        let colour = COLOURS.get(*colour).copied().unwrap_or("#888888");
        let path: Vec<String> = points
            .iter()
            .map(|p| format!("{:.1},{:.1}", left + p.0 * x_scale, bottom - p.1 * y_scale))
            .collect();
        let _ = write!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        let last = points.last().map_or(0.0, |p| p.1);
        labels.push((bottom - last * y_scale, format!("{name} {}", number(last)), colour));
    }
    labels.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut floor = f64::INFINITY;
    for (y, name, colour) in labels {
        // Labels of curves that end together stand above each other.
        let y = y.min(floor - 12.0);
        floor = y;
        let (x, name) = (left + x_end * x_scale + 6.0, escape(&name));
        let _ =
            write!(out, "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{colour}\">{name}</text>", y + 4.0);
    }
    out.push_str("</svg>");
    out
}
