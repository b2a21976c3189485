//! The tables of the three threads: values, relations, determinism, forms of the report.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use seawall_bench::Provenance;
use seawall_bench::threads::{Options, Report, report};

fn run(options: Options) -> Report {
    report(&options, &|| ()).unwrap()
}

#[test]
fn every_value_is_inside_its_tolerance_and_every_relation_holds() {
    let r = run(Options { seed: 1, runs: 1, short: false });
    assert_eq!(r.failures(), Vec::<String>::new());
    assert!(r.passes());

    let text = r.tables().unwrap();
    for wanted in [
        "relations: 12 of 12 hold",
        "Waived by name:",
        "FITTED values",
        "HELD-OUT and waived values",
        "So no slowdown for other drives?",
        "PASS",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    let page = r.html(&Provenance::collect(1)).unwrap();
    assert!(page.contains("<svg") && page.contains("prefers-color-scheme: dark"));
    assert!(!page.contains("<script") && !page.contains("src="));
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());

    let csv = r.csv();
    let columns = csv.lines().next().unwrap().split(',').count();
    let plain = csv.lines().filter(|l| !l.contains('"'));
    assert!(plain.clone().count() > 1000);
    for line in plain {
        assert_eq!(line.split(',').count(), columns, "{line}");
    }
    let json = r.json(&Provenance::collect(1)).unwrap();
    assert_eq!(json["passes"], true);
    let rows: u64 =
        json["ledger"].as_array().unwrap().iter().map(|p| p["rows"].as_u64().unwrap()).sum();
    assert_eq!(rows, 322);
}

#[test]
fn a_seed_gives_the_same_bytes_and_another_moves_little() {
    let short = |seed, runs| run(Options { seed, runs, short: true });
    let (a, b) = (short(7, 1), short(7, 1));
    assert_eq!(a.csv(), b.csv());
    assert_eq!(a.tables().unwrap(), b.tables().unwrap());
    let c = short(8, 2);
    assert_ne!(a.csv(), c.csv(), "another seed draws other runs");
    let (most, which) = c.seed_moves();
    assert!(most <= 0.02, "{which}: {most}");
    assert!(!c.passes(), "most values are missing");
}
