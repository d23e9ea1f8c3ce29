// SPDX-License-Identifier: Apache-2.0
//! The JSON Schema of `jetwatch.yaml` for editors, made from the specifications of its keys.
//!
//! It knows names, types, ranges, words and defaults. What holds between keys (a transport needs an RTSP address) only
//! the loader knows. `configs/jetwatch.schema.json` is this, written to a file; a test compares the two.

use serde_json::{Value, json};

use super::schema::{DefaultValue, KeySpec, ValueType};
use super::{Config, Section};

/// The schema of `jetwatch.yaml`.
pub fn json_schema() -> Value {
    schema_of("jetwatch configuration", Config::KEYS)
}

/// The schema of a kind of file with `keys` in its outermost map, in JSON Schema 2020-12.
#[must_use]
pub fn schema_of(title: &str, keys: &[KeySpec]) -> Value {
    let mut schema = object(keys);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!(title);
    schema
}

fn object(keys: &[KeySpec]) -> Value {
    let properties: serde_json::Map<String, Value> = keys
        .iter()
        .map(|key| (key.name.to_owned(), property(key)))
        .collect();
    let required: Vec<_> = keys
        .iter()
        .filter(|key| key.default == DefaultValue::Required)
        .map(|key| key.name)
        .collect();
    let mut object =
        json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn property(key: &KeySpec) -> Value {
    let mut property = value_type(&key.value);
    property["description"] = json!(key.about);
    match key.default {
        DefaultValue::Required | DefaultValue::Absent => {}
        DefaultValue::Boolean(value) => property["default"] = json!(value),
        DefaultValue::Integer(value) => property["default"] = json!(value),
        DefaultValue::Number(value) => property["default"] = json!(value),
        DefaultValue::Text(value) => property["default"] = json!(value),
    }
    property
}

fn value_type(value: &ValueType) -> Value {
    match value {
        ValueType::Text(_) | ValueType::Path => json!({ "type": "string", "minLength": 1 }),
        ValueType::Secret => json!({ "type": "string" }),
        ValueType::Boolean => json!({ "type": "boolean" }),
        ValueType::Integer { min, max, .. } => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        ValueType::WordOrCount { word, max, .. } => {
            let count = json!({ "type": "integer", "minimum": 0, "maximum": max });
            json!({ "anyOf": [{ "const": word }, count] })
        }
        ValueType::Number {
            min,
            min_accepted,
            max,
        } => {
            let lower = if *min_accepted {
                "minimum"
            } else {
                "exclusiveMinimum"
            };
            json!({ "type": "number", lower: min, "maximum": max })
        }
        ValueType::Words(words) => json!({ "enum": words }),
        ValueType::Texts(_) => {
            let item = json!({ "type": "string", "minLength": 1 });
            json!({ "type": "array", "items": item, "uniqueItems": true })
        }
        ValueType::Map(keys) => {
            let mut map = object(keys);
            // Nothing behind the colon is a map without keys; one that needs a key cannot be that.
            if map.get("required").is_none() {
                map["type"] = json!(["object", "null"]);
            }
            map
        }
        ValueType::WordOrMap(word, keys) => {
            json!({ "anyOf": [{ "const": word }, value_type(&ValueType::Map(keys))] })
        }
        ValueType::Maps(keys) => json!({ "type": "array", "items": object(keys), "minItems": 1 }),
        ValueType::Named(keys) => {
            json!({ "type": "object", "additionalProperties": object(keys), "minProperties": 1 })
        }
        ValueType::Other { schema, .. } => serde_json::from_str(schema)
            .unwrap_or_else(|error| panic!("BUG: {schema} is not JSON: {error}")),
    }
}
