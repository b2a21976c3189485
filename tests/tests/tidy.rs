//! Housekeeping: what a reviewer should not have to look for.
//!
//! The list of files is git's, so this works in a fresh clone and ignores what is not tracked.
//! Words that must not appear are put together here from pieces, since this file is read too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use seawall_tests::{run, tool};
use std::fs;
use std::path::{Component, Path, PathBuf};

const COLUMNS: usize = 100;
const LINES: usize = 800;
const FUNCTION_LINES: usize = 70;

/// Crates that do without `unsafe`, and whose own source says so.
const SAFE: &[&str] = &["blockdev", "diskfs", "ext2srv", "fatsrv"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Tracked text files: path from the root, content.
fn files() -> Vec<(String, String)> {
    let listed = run(tool("git").args(["ls-files", "-z"]).current_dir(root())).ok().stdout;
    let mut files = Vec::new();
    for name in listed.split_terminator('\0') {
        // A file that is deleted and not yet committed is still listed; a link is no text of ours.
        let path = root().join(name);
        if !path.is_file() || path.is_symlink() {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        if !bytes.contains(&0) {
            files.push((name.to_owned(), String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    assert!(files.len() > 10, "git lists {} text files", files.len());
    files
}

fn rust_files() -> impl Iterator<Item = (String, String)> {
    files().into_iter().filter(|(name, _)| name.ends_with(".rs"))
}

#[track_caller]
fn none(what: &str, found: &[String]) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn text_is_ascii_and_rust_fits_100_columns() {
    let mut found = Vec::new();
    for (name, text) in files() {
        for (i, line) in text.lines().enumerate() {
            let number = i + 1;
            if let Some(c) = line.chars().find(|c| !c.is_ascii()) {
                found.push(format!("{name}:{number}: not ASCII: U+{:04X}", u32::from(c)));
            }
            if name.ends_with(".rs") && line.chars().count() > COLUMNS {
                found.push(format!("{name}:{number}: more than {COLUMNS} columns"));
            }
        }
    }
    none("text", &found);
}

#[test]
fn files_and_functions_stay_short() {
    let mut found = Vec::new();
    for (name, text) in rust_files() {
        let lines: Vec<&str> = text.lines().collect();
        if lines.len() > LINES {
            found.push(format!("{name}: {} lines, at most {LINES}", lines.len()));
        }
        if Path::new(&name).file_stem().is_some_and(|s| s == "mod") {
            found.push(format!("{name}: name it after its folder and put it beside that"));
        }
        for (start, length) in functions(&lines) {
            if length > FUNCTION_LINES {
                let start = start + 1;
                found.push(format!("{name}:{start}: {length} lines, at most {FUNCTION_LINES}"));
            }
        }
    }
    none("size", &found);
}

/// First line and length of every function, by indentation: formatted code closes a body with a
/// brace under the `fn` line's first letter.
fn functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let is_fn = code.split(" fn ").next().is_some_and(|before| {
            code.starts_with("fn ")
                || (before != code
                    && before.split(' ').all(|w| {
                        ["const", "async", "unsafe", "extern", "\"C\"", "pub"].contains(&w)
                            || w.starts_with("pub(")
                    }))
        });
        if !is_fn || line.ends_with(';') || line.ends_with('}') {
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        let closes = |l: &&str| *l == format!("{indent}}}");
        let declares = |l: &&str| {
            l.strip_prefix(indent).is_some_and(|l| l.starts_with([')', 'w']) && l.ends_with(';'))
        };
        let end = lines[start..].iter().position(|l| closes(l) || declares(l));
        found.push((start, end.map_or(lines.len() - start, |n| n + 1)));
    }
    found
}

#[test]
fn functions_are_measured() {
    let plain = "fn a() {\n    b\n}\n";
    let method = "    pub(crate) async fn b(\n        c: u8,\n    ) -> u8 {\n    }\n";
    let declared = "trait T {\n    fn d(\n        &self,\n    );\n    fn e();\n}";
    let text = [plain, method, declared].concat();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(functions(&lines), [(0, 3), (3, 4), (8, 3)]);
}

#[test]
fn nothing_is_put_off_or_left_out() {
    let words = [["TO", "DO"], ["FIX", "ME"], ["#[ign", "ore"]].map(|w| w.concat());
    let mut found = Vec::new();
    for (name, text) in files() {
        for (i, line) in text.lines().enumerate() {
            for word in words.iter().filter(|w| line.contains(w.as_str())) {
                found.push(format!("{name}:{}: {word}", i + 1));
            }
        }
    }
    none("words", &found);
}

#[test]
fn no_path_of_one_machine_is_named() {
    let places = [["/wo", "rk/"], ["/tmp", "/wt"]].map(|w| w.concat());
    let mut found = Vec::new();
    for (name, text) in files() {
        for (i, line) in text.lines().enumerate() {
            // A path starts there: not `net/..` or `a.b/..`.
            let starts = |at: usize| {
                let before = line[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || "._-~".contains(c))
            };
            for place in &places {
                if line.match_indices(place.as_str()).any(|(at, _)| starts(at)) {
                    found.push(format!("{name}:{}: {place}", i + 1));
                }
            }
        }
    }
    none("machine paths", &found);
}

#[test]
fn relative_links_lead_somewhere() {
    let mut found = Vec::new();
    for (name, text) in files().into_iter().filter(|(name, _)| name.ends_with(".md")) {
        let folder = root().join(&name).parent().unwrap().to_path_buf();
        for (i, line) in text.lines().enumerate() {
            for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let file = target.split(['#', ' ']).next().unwrap();
                let elsewhere = file.is_empty() || file.contains("://") || file.contains("mailto:");
                if !elsewhere && !inside(&folder.join(file)) {
                    found.push(format!("{name}:{}: {target} is not there", i + 1));
                }
            }
        }
    }
    none("links", &found);
}

/// True when the path exists and does not leave the repository.
fn inside(path: &Path) -> bool {
    let mut clean = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            clean.pop();
        } else {
            clean.push(part);
        }
    }
    clean.starts_with(root()) && clean.exists()
}

#[test]
fn engines_forbid_unsafe() {
    let mut found = Vec::new();
    for krate in SAFE.iter().filter(|c| root().join(c).join("Cargo.toml").exists()) {
        let text = fs::read_to_string(root().join(krate).join("src/lib.rs")).unwrap();
        let written = !text.contains("//! Not written yet.");
        if written && !text.lines().any(|l| l == "#![forbid(unsafe_code)]") {
            found.push(format!("{krate}/src/lib.rs"));
        }
    }
    none("without #![forbid(unsafe_code)]", &found);
}

#[test]
fn manifests_follow_the_workspace() {
    let mut found = Vec::new();
    for (name, text) in files() {
        let member = name.ends_with("/Cargo.toml") && !name.starts_with("tests/nostd/");
        if !member {
            continue;
        }
        if !text.contains("[lints]\nworkspace = true") {
            found.push(format!("{name}: [lints] workspace = true is missing"));
        }
        let mut section = "";
        for (i, line) in text.lines().enumerate() {
            if line.starts_with('[') {
                section = line;
            }
            let names_one = line.contains('=') && !line.starts_with([' ', '#', '[', ']']);
            let inherits = line.contains("workspace = true");
            if section.ends_with("dependencies]") && names_one && !inherits {
                found.push(format!("{name}:{}: give the version in the root manifest", i + 1));
            }
        }
    }
    none("manifests", &found);
}
