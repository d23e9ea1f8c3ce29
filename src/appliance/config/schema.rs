//! The JSON schema of `jetwatch.yaml` for editors, made from the tables of [`keys`](super::keys).
//!
//! It knows names, forms, ranges, words and defaults. What holds between keys (a transport needs an RTSP address) only
//! the loader knows. `configs/jetwatch.schema.json` is this, written to a file; a test compares the two.

use serde_json::{Value, json};

use super::form::{Fallback, Form, Key};
use super::keys::ROOT;

/// The schema, in JSON Schema 2020-12.
#[must_use]
pub fn json_schema() -> Value {
    let mut schema = object(ROOT);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("jetwatch configuration");
    schema
}

fn object(keys: &[Key]) -> Value {
    let properties: serde_json::Map<String, Value> = keys
        .iter()
        .map(|key| (key.name.to_owned(), property(key)))
        .collect();
    let required: Vec<_> = keys
        .iter()
        .filter(|key| key.default == Fallback::Required)
        .map(|key| key.name)
        .collect();
    let mut object =
        json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn property(key: &Key) -> Value {
    let mut property = form(&key.form);
    property["description"] = json!(key.about);
    match key.default {
        Fallback::Required | Fallback::Absent => {}
        Fallback::Boolean(value) => property["default"] = json!(value),
        Fallback::Integer(value) => property["default"] = json!(value),
        Fallback::Number(value) => property["default"] = json!(value),
        Fallback::Text(value) => property["default"] = json!(value),
    }
    property
}

fn form(form: &Form) -> Value {
    match form {
        Form::Text(_) | Form::Path => json!({ "type": "string", "minLength": 1 }),
        Form::Secret => json!({ "type": "string" }),
        Form::Boolean => json!({ "type": "boolean" }),
        Form::Integer { min, max, .. } => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        Form::WordOrCount { word, max, .. } => {
            let count = json!({ "type": "integer", "minimum": 0, "maximum": max });
            json!({ "anyOf": [{ "const": word }, count] })
        }
        Form::Number {
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
        Form::Words(words) => json!({ "enum": words }),
        Form::Texts(_) => {
            let item = json!({ "type": "string", "minLength": 1 });
            json!({ "type": "array", "items": item, "uniqueItems": true })
        }
        Form::Map(keys) => {
            let mut map = object(keys);
            // Nothing behind the colon is a map without keys; one that needs a key cannot be that.
            if map.get("required").is_none() {
                map["type"] = json!(["object", "null"]);
            }
            map
        }
        Form::WordOrMap(word, keys) => {
            json!({ "anyOf": [{ "const": word }, self::form(&Form::Map(keys))] })
        }
        Form::Maps(keys) => json!({ "type": "array", "items": object(keys), "minItems": 1 }),
    }
}
