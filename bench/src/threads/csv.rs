//! The report as CSV and as JSON: every value, relation and study.

use super::Report;
use super::compare::Compared;
use super::ledger;
use crate::provenance::Provenance;
use anyhow::Result;
use serde_json::{Value, json};
use std::fmt::Write;

const HEADER: &str = "kind,name,metric,unit,thread,thread_low,thread_high,repetitions,ours,\
                      ours_low,ours_high,error,tolerance,place,verdict";

/// A field, quoted where it must be.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_string()
}

fn exact(v: f64) -> String {
    format!("{v:.6}").trim_end_matches('0').trim_end_matches('.').to_string()
}

fn line(out: &mut String, fields: &[String]) {
    let list: Vec<String> = fields.iter().map(|f| field(f)).collect();
    let _writing_to_a_string_cannot_fail = writeln!(out, "{}", list.join(","));
}

fn compared(c: &Compared) -> Vec<String> {
    let (low, high) = if c.ours.is_some() { c.spread } else { (f64::NAN, f64::NAN) };
    let number = |v: f64| if v.is_nan() { String::new() } else { exact(v) };
    vec![
        "compared".into(),
        c.name(),
        c.key.metric.into(),
        c.unit.clone(),
        number(c.theirs),
        number(c.range.0),
        number(c.range.1),
        c.repetitions.to_string(),
        c.ours.map_or(String::new(), exact),
        number(low),
        number(high),
        c.error().map_or(String::new(), exact),
        c.tolerance.text(&c.unit),
        c.place.name().into(),
        c.verdict().into(),
    ]
}

/// The CSV form.
pub(super) fn csv(r: &Report) -> String {
    let mut out = format!("{HEADER}\n");
    for c in &r.compared {
        line(&mut out, &compared(c));
    }
    for (k, v) in r.values.iter() {
        let mean = v.iter().sum::<f64>() / v.len().max(1) as f64;
        let low = v.iter().copied().fold(f64::INFINITY, f64::min);
        let high = v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut fields = vec!["value".into(), k.text(), k.metric.into()];
        fields.extend(std::iter::repeat_n(String::new(), 5));
        fields.extend([exact(mean), exact(low), exact(high)]);
        fields.extend(std::iter::repeat_n(String::new(), 4));
        line(&mut out, &fields);
    }
    for x in &r.relations {
        let verdict = if x.holds { "holds" } else { "FAILS" };
        let mut fields = vec!["relation".into(), x.number.to_string(), x.claim.into()];
        fields.extend(std::iter::repeat_n(String::new(), 5));
        fields.push(x.found.clone());
        fields.extend(std::iter::repeat_n(String::new(), 5));
        fields.push(verdict.into());
        line(&mut out, &fields);
    }
    for s in &r.studies {
        for row in &s.rows {
            let label = row.first().cloned().unwrap_or_default();
            for (column, value) in s.header.iter().zip(row).skip(1) {
                let name = format!("{}: {label}", s.name);
                let mut fields = vec!["study".into(), name, column.clone()];
                fields.extend(std::iter::repeat_n(String::new(), 5));
                fields.push(value.clone());
                fields.extend(std::iter::repeat_n(String::new(), 6));
                line(&mut out, &fields);
            }
        }
    }
    out
}

/// The JSON form.
///
/// # Errors
/// A row of the source without a place.
pub(super) fn json(r: &Report, provenance: &Provenance) -> Result<Value> {
    let list = r.compared.iter().map(|c| {
        json!({
            "name": c.name(), "metric": c.key.metric, "unit": c.unit, "session": c.session,
            "thread": c.theirs, "thread_range": [c.range.0, c.range.1],
            "repetitions": c.repetitions, "rows": c.rows, "ours": c.ours,
            "ours_range": c.ours.map(|_| [c.spread.0, c.spread.1]),
            "error": c.error(), "tolerance": c.tolerance.text(&c.unit),
            "place": c.place.name(), "why": c.place.why(), "verdict": c.verdict(),
        })
    });
    let compared: Vec<Value> = list.collect();
    let values: Vec<Value> = r
        .values
        .iter()
        .map(|(k, v)| json!({ "name": k.text(), "metric": k.metric, "each": v }))
        .collect();
    let relations: Vec<Value> = r
        .relations
        .iter()
        .map(
            |x| json!({ "number": x.number, "claim": x.claim, "found": x.found, "holds": x.holds }),
        )
        .collect();
    let studies: Vec<Value> = r
        .studies
        .iter()
        .map(|s| {
            json!({
                "name": s.name, "title": s.title, "notes": s.notes, "header": s.header,
                "rows": s.rows, "says": s.says,
            })
        })
        .collect();
    let ledger: Vec<Value> =
        ledger::counts()?.iter().map(|(name, n)| json!({ "place": name, "rows": n })).collect();
    // In virtual time nothing depends on when it ran: the same seed gives the same bytes.
    let mut provenance = serde_json::to_value(provenance)?;
    if let Some(fields) = provenance.as_object_mut() {
        fields.remove("begun");
    }
    Ok(json!({
        "provenance": provenance,
        "seeds": r.seeds,
        "passes": r.passes(),
        "seed_moves": r.seed_moves().0,
        "compared": compared,
        "values": values,
        "relations": relations,
        "studies": studies,
        "ledger": ledger,
        "conclusions": super::words::conclusions(r),
    }))
}
