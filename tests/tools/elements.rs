// SPDX-License-Identifier: Apache-2.0
//! Every element and property that the code names exists in GStreamer 1.16, JetPack 5's version, and here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use gstreamer as gst;
use gstreamer::prelude::*;
use jetwatch_doctor::TEST_CLIP_ELEMENTS;
use jetwatch_source::{ELEMENTS, ElementSpec};

fn elements_of_1_16() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    listed(include_str!("../golden/gstreamer-1.16-elements.txt"))
}

/// The elements that come with L4T, with the properties that NVIDIA documents.
fn elements_of_l4t() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    listed(include_str!("../golden/l4t-elements.txt"))
}

fn listed(text: &'static str) -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.collect()))
        })
        .collect()
}

/// The elements of the daemon and of the doctor, and those that make the test clip.
fn all_elements() -> impl Iterator<Item = &'static ElementSpec> {
    ELEMENTS.iter().chain(TEST_CLIP_ELEMENTS)
}

/// All Rust files below a folder.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("the entry can be read").path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                rust_files(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The first quoted word after each occurrence of `call`.
fn quoted_after<'a>(text: &'a str, call: &str) -> Vec<&'a str> {
    text.split(call)
        .skip(1)
        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next())
        .collect()
}

#[test]
fn element_table_is_subset_of_gstreamer_1_16() {
    let (own, of_l4t) = (elements_of_1_16(), elements_of_l4t());
    for element in all_elements() {
        let known = if element.is_from_l4t() { &of_l4t } else { &own };
        let properties = known
            .get(element.name)
            .unwrap_or_else(|| panic!("{} is neither in GStreamer 1.16 nor in L4T", element.name));
        for property in element.properties {
            assert!(
                properties.contains(property),
                "{} has no property {property} in GStreamer 1.16 or L4T",
                element.name
            );
        }
    }
}

#[test]
fn element_table_matches_installed_gstreamer() {
    gst::init().expect("GStreamer starts");
    // Elements of L4T exist only on a Jetson.
    for element in all_elements().filter(|element| !element.is_from_l4t()) {
        let made = gst::ElementFactory::make(element.name)
            .build()
            .unwrap_or_else(|_| {
                panic!(
                    "{} is missing; install it with: apt-get install {}",
                    element.name, element.package
                )
            });
        for property in element.properties {
            assert!(
                made.has_property(property),
                "{} has no property {property}",
                element.name
            );
        }
    }
}

#[test]
fn code_uses_only_elements_in_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut made, mut set) = (0, 0);
    let files = ["src/appliance/source", "src/tools/doctor"]
        .into_iter()
        .flat_map(|folder| rust_files(&root.join(folder)));
    for path in files {
        let text = fs::read_to_string(&path).expect("the file can be read");
        let at = path.display();
        if path
            .file_name()
            .is_none_or(|name| name != "elements.rs" && name != "tests.rs")
        {
            assert!(
                !text.contains("ElementFactory"),
                "{at}: elements are made through elements::make only"
            );
            assert!(
                !text.contains("parse::launch"),
                "{at}: nothing is pasted into a launch line"
            );
        }
        for name in quoted_after(&text, "make(") {
            made += 1;
            assert!(
                ELEMENTS.iter().any(|element| element.name == name),
                "{at}: {name} is not in the table of elements"
            );
        }
        for call in ["set_property(", "set_property_from_str(", "set_if_known("] {
            for property in quoted_after(&text, call) {
                set += 1;
                assert!(
                    ELEMENTS
                        .iter()
                        .any(|element| element.properties.contains(&property)),
                    "{at}: property {property} is not in the table of elements"
                );
            }
        }
    }
    assert!(
        made >= 14 && set >= 22,
        "the search finds the calls: {made} elements, {set} properties"
    );
}
