//! Tables of documents whose rows name tests.

use std::path::Path;

/// Fails unless the last column of every row of the document's tables names tests (`file::name`,
/// or `file::*`) that exist in one of these folders, or says `same` or `-`. Returns how many are
/// named.
#[track_caller]
pub fn rows_name_tests(document: &Path, folders: &[&Path]) -> usize {
    let text = std::fs::read_to_string(document).unwrap();
    let head = |l: &str| l.starts_with("| feature") || l.starts_with("| what");
    let rows = text.lines().filter(|l| l.starts_with("| ") && !head(l));
    let mut seen = 0;
    for row in rows {
        let last = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap();
        let tests: Vec<&str> = last.split('`').filter(|w| w.contains("::")).collect();
        let without = ["same", "-"].contains(&last.trim());
        assert!(!tests.is_empty() || without, "no test: {row}");
        for test in tests {
            seen += 1;
            let (file, name) = test.split_once("::").unwrap();
            let files = folders.iter().map(|f| f.join(format!("{file}.rs")));
            let mut sources = files.filter_map(|f| std::fs::read_to_string(f).ok()).peekable();
            assert!(sources.peek().is_some(), "{test}: no such file");
            let wanted = format!("#[test]\nfn {name}()");
            assert!(name == "*" || sources.any(|s| s.contains(&wanted)), "{test} is not there");
        }
    }
    seen
}
