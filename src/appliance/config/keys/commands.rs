//! `commands` and `source_templates`: what may be asked of the running daemon, and by which words.

use super::super::form::{Fallback, Form, Key, Unit};
use super::SOURCE;

/// `commands`.
pub const COMMANDS: &[Key] = &[Key::or(
    "enabled",
    Form::Boolean,
    Fallback::Boolean(false),
    "Listen for commands at PREFIX/DEVICE/command and answer at PREFIX/DEVICE/command/reply. Whoever may publish there at the broker may add sources of source_templates, and remove them.",
)];

/// One of `source_templates`.
pub const TEMPLATE: &[Key] = &[
    Key::required(
        "name",
        Form::Text("letters, digits, `-` and `_`, at most 64"),
        "Name of the template in commands; unique.",
    ),
    Key::new(
        "parameters",
        Form::Maps(PARAMETER),
        "What a command chooses; each stands as {NAME} in the address, which begins with rtsp://, rtsps://, v4l2://, csi:// or synthetic://. Default: none.",
    ),
    Key::required(
        "source",
        Form::Map(TEMPLATE_SOURCE),
        "The source: all keys of one of `sources` but its name.",
    ),
];

/// One of `source_templates.parameters`.
pub const PARAMETER: &[Key] = &[
    Key::required(
        "name",
        Form::Text("letters, digits, `-` and `_`, at most 64"),
        "Name of the parameter.",
    ),
    Key::new(
        "values",
        Form::Texts("a value"),
        "All values that it may have. Either these, or min and max.",
    ),
    Key::new(
        "min",
        NUMBER,
        "It is a whole number, and this is the least.",
    ),
    Key::new("max", NUMBER, "The greatest such number."),
];

/// `source_templates.source`: a source whose name comes with the command.
pub const TEMPLATE_SOURCE: &[Key] = match SOURCE.split_first() {
    Some((_, others)) => others,
    None => &[],
};

const NUMBER: Form = Form::Integer {
    min: 0,
    max: u32::MAX as i64,
    unit: Unit::None,
};
