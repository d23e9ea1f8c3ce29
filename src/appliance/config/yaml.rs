// SPDX-License-Identifier: Apache-2.0
//! YAML as a tree that knows its lines, and its readers.
//!
//! [`tree`] builds the tree from the parser's events, [`document`] holds it with the problems found in it, [`node`] reads
//! single values, [`map`] a map with specified keys, and [`fields`] a map whose keys the caller lists or the file chooses.
//! [`characters`] finds what only looks like YAML.
//! Nothing here knows what the keys mean.

pub(crate) mod characters;
pub(crate) mod document;
mod fields;
pub(crate) mod map;
pub(crate) mod node;
pub(crate) mod tree;
