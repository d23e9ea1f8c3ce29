// SPDX-License-Identifier: Apache-2.0
//! Networks for the detector: the catalogue and its downloads, ONNX inspection, and model folders.
//!
//! [`inspect()`] summarizes an ONNX file, checks it against the runtimes ([`lint()`]) and infers its output layout from shapes and
//! names ([`candidate_layouts`](jetwatch_detect::layouts::candidate_layouts)). [`create_folder`] writes the file and a `model.yaml` ([`ModelYamlTemplate`]) into a model folder.
//! [`ModelFetch`] downloads a network of the [catalogue](model_zoo) into one. The ONNX reader itself is
//! [`jetwatch_detect::graph`]: the detector needs it, too. [`serve_decoding`] decodes outputs that another program computed. Called by
//! `jetwatch model`, which prints the results.

mod atomic_write;
mod background;
mod decode_session;
mod fetch;
mod init;
mod inspect;
mod lint;
mod model_yaml_template;
mod model_yaml_template_error;
pub mod model_zoo;

pub use decode_session::serve_decoding;
pub use fetch::{CONVERTED, FIRST_MODEL, FetchOptions, ModelFetch};
pub use init::{CreatedFolder, InitOptions, Trial, create_folder};
pub use inspect::{Inspection, inspect};
pub use lint::lint;
pub use model_yaml_template::{ModelYamlTemplate, Origin};
pub use model_yaml_template_error::ModelYamlTemplateError;

#[cfg(test)]
mod tests;
