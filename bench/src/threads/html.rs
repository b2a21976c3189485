//! The report as one page that stands by itself: no script, no other file, light and dark.

use super::Report;
use super::cells::{VARIANTS, Work, variant};
use super::compare::Compared;
use super::ledger::{self, Place};
use super::session::{SESSIONS, Session};
use super::svg::{Bar, COLOURS, Group, bars, escape, lines};
use super::tables::{number, size_names, summary, theirs, waived};
use super::words::conclusions;
use crate::provenance::Provenance;
use anyhow::Result;
use std::fmt::Write;

const HEAD: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
    <meta name=\"color-scheme\" content=\"light dark\">\
    <title>The three threads, reproduced in virtual time</title><style>\
    :root{color-scheme:light dark}\
    body{font-family:sans-serif;line-height:1.4;max-width:60rem;margin:1rem auto;padding:0 1rem;\
    background:#ffffff;color:#1a1a1a}\
    table{border-collapse:collapse;font-size:.8rem;display:block;overflow-x:auto}\
    th,td{border:1px solid #9995;padding:.15rem .4rem;text-align:right;white-space:nowrap}\
    th:first-child,td:first-child{text-align:left}\
    .bad{font-weight:bold;color:#c0392b}\
    @media (prefers-color-scheme: dark){body{background:#16181c;color:#e6e6e6}.bad{color:#ff7b6b}}\
    </style></head><body>\n";

fn heading(out: &mut String, text: &str) {
    let _ = writeln!(out, "<h2>{}</h2>", escape(text));
}

fn paragraph(out: &mut String, text: &str) {
    let _ = writeln!(out, "<p>{}</p>", escape(text));
}

fn list(out: &mut String, items: &[String]) {
    out.push_str("<ul>");
    for i in items {
        let _ = write!(out, "<li>{}</li>", escape(i));
    }
    out.push_str("</ul>\n");
}

fn table(out: &mut String, header: &[String], rows: &[Vec<String>]) {
    out.push_str("<table border=\"1\"><tr>");
    for h in header {
        let _ = write!(out, "<th>{}</th>", escape(h));
    }
    out.push_str("</tr>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let bad = cell.starts_with("FAIL");
            let class = if bad { " class=\"bad\"" } else { "" };
            let _ = write!(out, "<td{class}>{}</td>", escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

/// Names beside their colours.
fn legend(out: &mut String, names: &[(usize, &str)]) {
    out.push_str("<p>");
    for (colour, name) in names {
        let colour = COLOURS.get(*colour).copied().unwrap_or("#888888");
        let name = escape(name);
        let _ = write!(out, "<span style=\"color:{colour}\">&#9632;</span> {name} &nbsp; ");
    }
    out.push_str("</p>\n");
}

/// A plot for each drive: their rates differ by 60.
fn rates(r: &Report, column: &str) -> String {
    let plot = |s: &Session| {
        let mut list = Vec::new();
        for policy in ["stock", "wait1", "wait0", "submit"] {
            let ours = r.values.fat(s.drive, policy, column, Work::Large, "throughput");
            let at = (s.drive, policy, column);
            let thread = theirs(r, at, Work::Large, "throughput");
            for (value, colour, who) in [(thread, 0, "thread"), (ours, 1, "ours")] {
                let Some(v) = value else { continue };
                list.push(Bar {
                    label: format!("{policy}, {who}"),
                    parts: vec![(colour, v)],
                    note: number(v),
                });
            }
        }
        let title = format!("{}: throughput of copy and sync at {column}", s.drive);
        let group = Group { title: s.drive.into(), bars: list };
        bars(&title, "MB/s (10^6 bytes a second)", &[group])
    };
    SESSIONS.iter().map(plot).collect()
}

fn moved(r: &Report) -> String {
    let plot = |s: &Session| {
        let bar = |p: &&'static str| {
            let name = variant(p, false);
            let of = |m| r.values.fat(s.drive, name, "256M", Work::Large, m).unwrap_or(0.0);
            let (cp, umount) = (of("cp_returns"), of("umount"));
            Bar {
                label: name.into(),
                parts: vec![(1, cp), (2, umount)],
                note: format!("{} + {} s", number(cp), number(umount)),
            }
        };
        let title = format!("{}: until cp returns, and the unmount after it, at 256M", s.drive);
        let group = Group { title: s.drive.into(), bars: VARIANTS.iter().map(bar).collect() };
        bars(&title, "seconds", &[group])
    };
    SESSIONS.iter().map(plot).collect()
}

fn serialised(r: &Report) -> String {
    let list = r.compared.iter().filter(|c| c.key.work == Work::Osync);
    let list = list.filter(|c| c.key.metric == "throughput");
    let bars_of = |c: &Compared| {
        let ours = c.ours.map(|v| (v, 1, "ours"));
        let all = [Some((c.theirs, 0, "thread")), ours].into_iter().flatten();
        let bar = |(v, colour, who): (f64, usize, &str)| Bar {
            label: who.into(),
            parts: vec![(colour, v)],
            note: number(v),
        };
        Group { title: c.key.policy.clone(), bars: all.map(bar).collect() }
    };
    let groups: Vec<Group> = list.map(bars_of).collect();
    bars("f2fs: 8 writers, O_SYNC, 1 MiB (model allocator)", "MiB/s", &groups)
}

fn sizes(r: &Report) -> String {
    let names = size_names();
    let groups: Vec<Group> = SESSIONS
        .iter()
        .flat_map(|s| ["stock", "wait1"].map(|p| (s.drive, p)))
        .filter_map(|(drive, p)| {
            let counts = r.values.sizes.get(&(drive.into(), p.into(), "256M".into()))?;
            let all = counts.iter().sum::<u64>().max(1);
            let bars = names
                .iter()
                .zip(counts)
                .filter(|(_, n)| **n > 0)
                .map(|(name, n)| {
                    let share = *n as f64 * 100.0 / all as f64;
                    let colour = if p == "stock" { 2 } else { 1 };
                    let note = format!("{n} ({share:.1} %)");
                    Bar { label: format!("{name} KiB"), parts: vec![(colour, share)], note }
                })
                .collect();
            Some(Group { title: format!("{drive} {p}: {all} requests"), bars })
        })
        .collect();
    bars("Requests by size at 256M, ours", "% of the requests", &groups)
}

fn pulled(r: &Report) -> String {
    let Some(study) = r.studies.iter().find(|s| s.name == "pull") else { return String::new() };
    let mut out = String::new();
    for s in SESSIONS {
        let curves: Vec<_> = study
            .curves
            .iter()
            .filter(|c| c.plot == s.drive)
            .enumerate()
            .map(|(n, c)| (c.name.as_str(), n + 1, c.points.as_slice()))
            .collect();
        let title = format!("{}: MiB lost when pulled", s.drive);
        let _ = writeln!(out, "<h3>{}</h3>", escape(s.drive));
        out.push_str(&lines(&title, "seconds after cp returned", "MiB lost", &curves));
    }
    out
}

fn values(out: &mut String, list: &[&Compared]) {
    let header = ["value", "unit", "thread", "range", "ours", "error", "tolerance", "verdict"];
    let rows: Vec<Vec<String>> = list
        .iter()
        .map(|c| {
            let range = format!("{}-{}", number(c.range.0), number(c.range.1));
            vec![
                c.name(),
                c.unit.clone(),
                if c.is_range { "range".into() } else { number(c.theirs) },
                if c.range.0 < c.range.1 { range } else { String::new() },
                c.ours.map_or("-".into(), number),
                c.error().map_or("-".into(), |e| format!("{:+.1} %", e * 100.0)),
                c.tolerance.text(&c.unit),
                c.verdict().into(),
            ]
        })
        .collect();
    table(out, &header.map(String::from), &rows);
}

fn plots(out: &mut String, r: &Report) {
    for column in ["256M", "5%"] {
        heading(out, &format!("Throughput at {column}"));
        legend(out, &[(0, "thread, mean of its repetitions"), (1, "ours, virtual time")]);
        out.push_str(&rates(r, column));
    }
    heading(out, "A cost moved is not a cost saved");
    legend(out, &[(1, "until cp returns"), (2, "unmount after it")]);
    out.push_str(&moved(r));
    heading(out, "f2fs, model allocator");
    out.push_str(&serialised(r));
    heading(out, "Request sizes");
    out.push_str(&sizes(r));
}

fn studies(out: &mut String, r: &Report) {
    for s in &r.studies {
        heading(out, &format!("Nobody measured: {}", s.title));
        for note in &s.notes {
            paragraph(out, note);
        }
        if s.name == "pull" {
            out.push_str(&pulled(r));
        }
        table(out, &s.header, &s.rows);
        list(out, &s.says);
    }
}

/// The page.
///
/// # Errors
/// A row of the source without a place.
pub(super) fn page(r: &Report, provenance: &Provenance) -> Result<String> {
    let mut out = String::from(HEAD);
    out.push_str("<h1>The three threads, reproduced in virtual time</h1>\n");
    let _ = writeln!(out, "<pre>{}</pre>", escape(&provenance.describe()));
    paragraph(&mut out, &super::tables::how(r));
    let _ = writeln!(out, "<pre>{}</pre>", escape(&summary(r)));
    heading(&mut out, "Conclusions, made from the numbers");
    list(&mut out, &conclusions(r));
    plots(&mut out, r);
    studies(&mut out, r);
    heading(&mut out, "Relations");
    let rows: Vec<Vec<String>> = r
        .relations
        .iter()
        .map(|x| {
            let verdict = if x.holds { "holds" } else { "FAILS" };
            let name = format!("{}. {}", x.number, x.claim);
            vec![name, x.found.clone(), verdict.into()]
        })
        .collect();
    table(&mut out, &["relation", "found", ""].map(String::from), &rows);
    for (title, which) in [("Held-out and waived values", false), ("Fitted values", true)] {
        heading(&mut out, title);
        let of = |c: &&Compared| (c.place == Place::Fitted) == which;
        values(&mut out, &r.compared.iter().filter(of).collect::<Vec<_>>());
    }
    heading(&mut out, "Waived by name");
    let waived: Vec<String> =
        waived(r).iter().map(|(why, list)| format!("{}: {why}", list.join("; "))).collect();
    list(&mut out, &waived);
    heading(&mut out, "Ledger of the source's rows");
    let rows: Vec<Vec<String>> =
        ledger::counts()?.iter().map(|(name, n)| vec![name.to_string(), n.to_string()]).collect();
    table(&mut out, &["place", "rows"].map(String::from), &rows);
    out.push_str("</body></html>\n");
    Ok(out)
}
