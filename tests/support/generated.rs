// SPDX-License-Identifier: Apache-2.0
//! Files of the source tree that are generated from declarations.

use std::fs;

use super::project::root;

/// Compares the file `name` of the source tree with `wanted`, or writes it with `UPDATE_GOLDEN`.
pub fn check_generated(name: &str, wanted: &str) {
    let path = root().join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, wanted).expect("written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == wanted,
        "{name} differs from the declarations: run this test with UPDATE_GOLDEN=1"
    );
}
