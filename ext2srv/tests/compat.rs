//! `docs/compat.md` holds: every row of its tables names tests, and each of them exists.

// Tests throughout: a panic is how one fails.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::path::Path;

#[test]
fn every_row_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("../docs/compat.md")).unwrap();
    let rows = text.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| feature"));
    let mut seen = 0;
    for row in rows {
        let last = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap();
        let tests: Vec<&str> = last.split('`').filter(|w| w.contains("::")).collect();
        assert!(!tests.is_empty() || last.trim() == "same", "no test: {row}");
        for test in tests {
            seen += 1;
            let (file, name) = test.split_once("::").unwrap();
            let source = std::fs::read_to_string(root.join(format!("tests/{file}.rs")));
            let source = source.unwrap_or_else(|e| panic!("{test}: {e}"));
            let wanted = format!("#[test]\nfn {name}()");
            assert!(name == "*" || source.contains(&wanted), "{test} is not there");
        }
    }
    assert!(seen > 40, "{seen}");
}
