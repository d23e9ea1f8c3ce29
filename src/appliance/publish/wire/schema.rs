// SPDX-License-Identifier: Apache-2.0
//! The JSON Schema of the messages, from the structs that are written, and the reference page from the schema.
//!
//! `configs/messages.schema.json` is [`message_schema`] and `docs/src/reference/messages.md` is [`message_page`], written to
//! files; a test compares them. The daemon calls neither.

use std::fmt::Write as _;

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::value::Device;
use super::{SCHEMA_VERSION, envelope};
use crate::topics::{Delivery, MESSAGE_TOPICS, MessageTopic};
use jetwatch_config::{escape_markdown, heading_slug};
use jetwatch_telemetry::Stage;

/// Describes what is common to all messages.
const ABOUT: &str = "Every JSON message that jetwatch publishes, over MQTT or as a JSON line. \
    On MQTT, `<prefix>/<device>/status` is the plain text `online` or `offline` (retained; `offline` is also the last will), \
    and `<prefix>/<device>/<source>/counts/<label>` is a bare integer (retained): the number of active tracks; \
    `<prefix>/<device>/<source>/groups/<group>` is the same for a group of labels. \
    `<prefix>/<device>/<source>/detect` and `<prefix>/<device>/<source>/rules/<rule>` are `ON` or `OFF`, \
    and so is `<prefix>/<device>/<source>/motion`; `<prefix>/<device>/<source>/score_threshold` is a bare number (all retained). \
    `<prefix>/<device>/<source>/detect/active` and `<prefix>/<device>/<source>/rules/<rule>/active` are objects of kind `active`. \
    `<prefix>/<device>/<source>/snapshots/<label>` (retained) and `<prefix>/<device>/<source>/tracks/<track_id>/snapshot` are JPEG files, \
    only with `record.snapshots.mqtt`. \
    A JSON line is one of the objects below; these are objects of kind `count`, `group_count`, `switch`, `motion` and `score_threshold` there. \
    A new version number means that subscribers must change; fields may be added without one.";

/// The fields that all messages have, `source` where they are about one.
const COMMON_FIELDS: [&str; 4] = ["version", "kind", "device", "source"];

/// The schema of every message, in JSON Schema 2020-12.
#[must_use]
pub fn message_schema() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings
        .with_transform(schemars::transform::RecursiveTransform(remove_format))
        .into_generator();
    let messages = envelope::definitions(&mut generator);
    let device = generator.subschema_for::<Device<'_>>();
    let mut definitions = generator.take_definitions(true);
    for (kind, name) in &messages {
        let definition = &mut definitions[name];
        add_envelope(definition, kind, &device);
        if let Some(Value::String(about)) = definition.get_mut("description") {
            for topic in MESSAGE_TOPICS.iter().filter(|topic| topic.kind == *kind) {
                let _ = write!(about, " {}", describe(topic));
            }
        }
    }
    let reference = |(_, name): &(_, String)| json!({ "$ref": format!("#/$defs/{name}") });
    let messages: Vec<Value> = messages.iter().map(reference).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("urn:jetwatch:messages:{SCHEMA_VERSION}"),
        "title": format!("Messages of jetwatch, version {SCHEMA_VERSION}"),
        "description": ABOUT,
        "oneOf": messages,
        "$defs": definitions,
    })
}

/// Formats such as `uint32` are names of Rust's types; the ranges are in the schema.
fn remove_format(schema: &mut Schema) {
    schema.remove("format");
}

/// Topic and delivery in one sentence.
fn describe(topic: &MessageTopic) -> String {
    let path = topic.levels;
    let (qos, retained) = match topic.delivery {
        Delivery::State => (1, "retained"),
        Delivery::AtLeastOnce => (1, "not retained"),
        Delivery::AtMostOnce => (0, "not retained"),
    };
    format!("Topic `<prefix>/<device>/{path}`, QoS {qos}, {retained}.")
}

/// Puts the fields of the envelope before those of a body.
fn add_envelope(definition: &mut Value, kind: &str, device: &Schema) {
    let version = json!({ "description": "Version of the messages.", "const": SCHEMA_VERSION });
    let kind = json!({ "const": kind, "type": "string" });
    let mut required = vec!["version".into(), "kind".into(), "device".into()];
    required.extend(
        definition["required"]
            .as_array()
            .into_iter()
            .flatten()
            .cloned(),
    );
    definition["required"] = Value::Array(required);
    definition["properties"]["version"] = version;
    definition["properties"]["kind"] = kind;
    definition["properties"]["device"] = device.as_value().clone();
}

/// The names of all stages that are measured.
pub(super) fn stage(_: &mut SchemaGenerator) -> Schema {
    let stages = Stage::ALL
        .into_iter()
        .filter(|stage| *stage != Stage::Input);
    let names: Vec<&str> = stages.map(Stage::name).collect();
    schemars::json_schema!({ "enum": names })
}

/// The page of the book about the messages.
#[must_use]
pub fn message_page() -> String {
    let schema = message_schema();
    let mut page = "# Messages\n\n\
        This page is generated from the structs in `src/appliance/publish`; do not edit it.\n\
        `configs/messages.schema.json` is the JSON Schema of the messages, and [Topics and messages](../guide/topics.md) the overview.\n\n\
        A new version number means that subscribers must change; fields may be added without one. Integers are not negative. A type\n\
        with `?` may be null. `_ms` is in milliseconds, `_bytes` in bytes. Topics are those below `<prefix>/<device>`.\n"
        .to_owned();
    page.push_str("\n## Common fields\n\nEvery message has these fields; only messages below `<source>` have `source`.\n\n");
    list_of_fields(&schema, definition_of("event"), &COMMON_FIELDS, &mut page);
    let messages = schema["oneOf"].as_array().into_iter().flatten();
    let messages: Vec<&str> = messages.filter_map(|message| reference(message)).collect();
    let definitions = schema["$defs"].as_object().into_iter().flatten();
    let parts = definitions
        .filter(|(name, part)| {
            !messages.contains(&name.as_str()) && part.get("properties").is_some()
        })
        .map(|(name, _)| name.as_str());
    for name in messages.iter().copied().chain(parts) {
        section(&schema, name, &mut page);
    }
    page
}

/// Name of the definition of a kind of messages.
fn definition_of(kind: &str) -> &str {
    // `source` is the definition of the name of a source.
    if kind == "source" {
        "source_state"
    } else {
        kind
    }
}

/// Heading of the definition `name`.
fn title_of<'s>(schema: &'s Value, name: &'s str) -> &'s str {
    schema["$defs"][name]["title"].as_str().unwrap_or(name)
}

/// The anchor of the definition `name`.
fn slug_of(schema: &Value, name: &str) -> String {
    heading_slug(title_of(schema, name))
}

/// Name of the definition that `schema` refers to.
fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

/// Heading, description and list of fields of the object `name`. What all messages have is left out: topic and common fields.
fn section(schema: &Value, name: &str, page: &mut String) {
    let definition = &schema["$defs"][name];
    let about = definition["description"].as_str().unwrap_or_default();
    let about = about.split(" Topic `<prefix>").next().unwrap_or(about);
    let title = title_of(schema, name);
    let _ = write!(page, "\n## {title}\n\n{}\n\n", escape_markdown(about));
    let kind = definition
        .pointer("/properties/kind/const")
        .and_then(Value::as_str);
    let mut topics = MESSAGE_TOPICS
        .iter()
        .filter(|topic| Some(topic.kind) == kind);
    if let Some(topic) = topics.next() {
        let mut levels = format!("`{}`", topic.levels);
        topics.for_each(|other| levels += &format!(" and `{}`", other.levels));
        let delivery = match topic.delivery {
            Delivery::State => "QoS 1, retained",
            Delivery::AtLeastOnce => "QoS 1",
            Delivery::AtMostOnce => "QoS 0",
        };
        let _ = write!(
            page,
            "Kind `{}`; topic {levels}, {delivery}.\n\n",
            topic.kind
        );
    }
    let required = definition["required"].as_array().into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    let properties = definition["properties"].as_object().into_iter().flatten();
    let optional = properties
        .map(|(field, _)| field.as_str())
        .filter(|field| !required.contains(field));
    let mut fields: Vec<&str> = required.iter().copied().chain(optional).collect();
    fields.retain(|field| kind.is_none() || !COMMON_FIELDS.contains(field));
    list_of_fields(schema, name, &fields, page);
}

/// The list of `fields` of the object `name`.
fn list_of_fields(schema: &Value, name: &str, fields: &[&str], page: &mut String) {
    for field in fields {
        let property = &schema["$defs"][name]["properties"][field];
        let (kind, about) = match *field {
            "kind" if property.get("const").is_some() => {
                ("string".to_owned(), "Kind of the message.".to_owned())
            }
            _ => {
                let kind = type_of(schema, property).replace(" or null", "?");
                let about = about_of(schema, property);
                // The page explains the words of a type once, and names them once.
                match about.find('\n') {
                    Some(at) if page.contains(&about[at..]) => (kind, about[..at].to_owned()),
                    Some(_) if kind.ends_with('?') => ("string?".to_owned(), about),
                    Some(_) => ("string".to_owned(), about),
                    None => (kind, about),
                }
            }
        };
        let colon = if about.is_empty() { "" } else { ": " };
        let row = format!("- `{field}` ({kind}){colon}{about}\n");
        match shown_in(page, &row) {
            Some(title) => {
                let reference = format!(": as in [{title}](#{}).\n", heading_slug(title));
                match page.strip_suffix(&reference).map(str::len) {
                    Some(end) => page.replace_range(end.., &format!(", `{field}`{reference}")),
                    None => *page += &format!("- `{field}`{reference}"),
                }
            }
            None => *page += &row,
        }
    }
}

/// Heading of the list above that has `row`, unless that is short.
fn shown_in<'p>(page: &'p str, row: &str) -> Option<&'p str> {
    const MIN_CHARS: usize = 90;
    let above = &page[..page.find(row).filter(|_| row.len() >= MIN_CHARS)?];
    let title = above.rsplit("\n## ").next()?;
    title.lines().next()
}

/// The type of a field in words, with its range; objects link to their list.
fn type_of(schema: &Value, property: &Value) -> String {
    if let Some(name) = reference(property) {
        let definition = &schema["$defs"][name];
        return match definition.get("properties") {
            Some(_) => format!("[{name}](#{})", slug_of(schema, name)),
            None => type_of(schema, definition),
        };
    }
    if let Some(value) = property.get("const") {
        return format!("`{value}`");
    }
    if let Some(words) = words_of(property) {
        return words
            .iter()
            .map(|(word, _)| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", ");
    }
    if let Some(choices) = property["anyOf"].as_array() {
        let choices: Vec<_> = choices
            .iter()
            .map(|choice| type_of(schema, choice))
            .collect();
        return choices.join(" or ");
    }
    let types = match &property["type"] {
        Value::Array(types) => types
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" or "),
        name => name.as_str().unwrap_or("value").to_owned(),
    };
    let range = match (property["minimum"].as_f64(), property["maximum"].as_f64()) {
        (Some(min), Some(max)) => format!(", {min} to {max}"),
        // Integers are not negative.
        (Some(0.0), None) if types.starts_with("integer") => String::new(),
        (Some(min), None) => format!(", from {min}"),
        _ => String::new(),
    };
    match property.get("items") {
        Some(items) => {
            let count = property["minItems"]
                .as_u64()
                .map_or(String::new(), |count| format!("{count} × "));
            format!("{types} of {count}{}", type_of(schema, items))
        }
        None => format!("{types}{range}"),
    }
}

/// The description of a field, or of the words that it may have, with those of each word below it.
fn about_of(schema: &Value, property: &Value) -> String {
    let choices = property["anyOf"].as_array().into_iter().flatten();
    let kind = [property].into_iter().chain(choices);
    let kind = kind
        .filter_map(reference)
        .map(|name| &schema["$defs"][name])
        .next();
    let own = property["description"].as_str();
    // The section of an object has its description.
    let words = kind.filter(|kind| kind.get("properties").is_none());
    let about = own.or_else(|| words.and_then(|kind| kind["description"].as_str()));
    let mut about = escape_markdown(about.unwrap_or_default());
    for (word, meaning) in kind.and_then(words_of).unwrap_or_default() {
        if let Some(meaning) = meaning {
            let _ = write!(about, "\n  - `{word}`: {}", escape_markdown(meaning));
        }
    }
    about
}

/// The words of a text with a fixed set of values, and their descriptions.
fn words_of(property: &Value) -> Option<Vec<(&str, Option<&str>)>> {
    if let Some(words) = property["enum"].as_array() {
        return Some(
            words
                .iter()
                .filter_map(Value::as_str)
                .map(|word| (word, None))
                .collect(),
        );
    }
    let words = property["oneOf"].as_array()?.iter();
    words
        .map(|word| Some((word["const"].as_str()?, word["description"].as_str())))
        .collect()
}
