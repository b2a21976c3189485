//! `docs/compat.md` holds: every row of its tables names tests, and each of them exists.

use seawall_tests::rows_name_tests;
use std::path::Path;

#[test]
fn every_row_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let seen = rows_name_tests(&root.join("../docs/compat.md"), &[&root.join("tests")]);
    assert!(seen > 40, "{seen}");
}
