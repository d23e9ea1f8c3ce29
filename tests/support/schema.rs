// SPDX-License-Identifier: Apache-2.0
//! Values against a JSON Schema, by Python's `jsonschema` in one run for all of them.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// A schema, and what it is to say of values.
pub struct Schema {
    schema: Value,
    cases: Vec<(bool, Value)>,
}

impl Schema {
    pub fn new(schema: Value) -> Self {
        let cases = Vec::new();
        Self { schema, cases }
    }

    /// `configs/NAME.schema.json`.
    pub fn of_file(name: &str) -> Self {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/configs");
        let text = std::fs::read_to_string(format!("{folder}/{name}.schema.json"));
        let text = text.expect("the schema is part of the project");
        Self::new(serde_json::from_str(&text).expect("the schema is JSON"))
    }

    pub fn accepts(&mut self, value: &Value) {
        self.cases.push((true, value.clone()));
    }

    pub fn refuses(&mut self, value: &Value) {
        self.cases.push((false, value.clone()));
    }

    /// Fails with the values that the schema judges otherwise, or says that it is not a schema.
    pub fn check(&self) {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/check_schema.py");
        let mut child = Command::new("/usr/bin/python3")
            .args(["-B", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("/usr/bin/python3 starts");
        let cases = json!({"schema": self.schema, "cases": self.cases}).to_string();
        let mut stdin = child.stdin.take().expect("piped");
        // One that ends without reading says why.
        let _ = stdin.write_all(cases.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        assert!(
            output.status.success(),
            "(install it with: .ci/setup test)\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
