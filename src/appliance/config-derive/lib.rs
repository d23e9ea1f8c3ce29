// SPDX-License-Identifier: Apache-2.0
//! Derive macros of `jetwatch-config`: a struct declares the keys of one section, an enum the words of one key.
//!
//! From one declaration come the key specification (unknown keys, JSON Schema, reference page), the reader that reports all
//! problems, and the default values. What the attributes mean is documented at `jetwatch_config::Section`. The generated
//! code names `::jetwatch_config`, so a crate that derives must depend on it under that name. Nothing here reads YAML.

mod field;
mod section;
mod words;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `Section` for a struct with named fields.
#[proc_macro_derive(Section, attributes(key, section))]
pub fn derive_section(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    section::expand(&input)
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

/// Implements `KeyValue` for an enum without data: one word for each variant.
#[proc_macro_derive(Words, attributes(word))]
pub fn derive_words(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    words::expand(&input)
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
