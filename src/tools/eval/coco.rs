// SPDX-License-Identifier: Apache-2.0
//! Parser of COCO's JSON object annotations. Works on bytes; the caller reads the file.
//!
//! [`parse`] takes any bytes and never panics: every wrong value is an error that names its list, index, id and key.

use std::collections::HashMap;
use std::path::{Component, Path};

use serde::Deserialize;

use super::error::MAX_LISTED;
use super::fields::Field;
use super::{AccuracyError, Category, Image, Object, Problem, Truth};
use jetwatch_types::Size;

/// Maximum side of an image: the limit of JPEG.
const MAX_SIDE: i64 = 65_535;

/// Characters of text shown before a syntax error.
const EXCERPT: usize = 60;

/// Top level of the file. Further keys, such as licenses, are ignored.
#[derive(Deserialize)]
struct File {
    images: Vec<RawImage>,
    categories: Vec<RawCategory>,
    annotations: Vec<RawAnnotation>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawImage {
    id: Field,
    file_name: Field,
    width: Field,
    height: Field,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawCategory {
    id: Field,
    name: Field,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawAnnotation {
    id: Field,
    image_id: Field,
    category_id: Field,
    bbox: Field,
    area: Field,
    iscrowd: Field,
}

/// Reads an annotation file. All wrong values are reported at once, up to a limit.
///
/// A missing `iscrowd` is 0; every other key of an annotation must be there. An `ignore` key has no meaning, as in COCO's
/// own program.
///
/// # Errors
/// The bytes are not JSON of this form, or values are wrong; each is named with its list, index, id and key.
pub fn parse(bytes: &[u8]) -> Result<Truth, AccuracyError> {
    // Some editors begin a file with a byte order mark, which is not JSON.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let file: File = serde_json::from_slice(bytes).map_err(|error| AccuracyError::Syntax {
        excerpt: excerpt(bytes, error.line(), error.column()),
        reason: error.to_string(),
    })?;
    let mut problems = Problems::default();
    let (images, image_places) = images(file.images, &mut problems);
    let (categories, category_places) = categories(file.categories, &mut problems);
    let objects = objects(
        file.annotations,
        &image_places,
        &category_places,
        &mut problems,
    );
    problems.finish(Truth {
        images,
        categories,
        objects,
    })
}

/// Collects the wrong values.
#[derive(Default)]
struct Problems {
    listed: Vec<Problem>,
    more: usize,
}

impl Problems {
    fn add(&mut self, place: String, found: String, expected: &str) {
        if self.listed.len() == MAX_LISTED {
            self.more += 1;
            return;
        }
        self.listed.push(Problem {
            place,
            found,
            expected: expected.to_owned(),
        });
    }

    fn finish(self, truth: Truth) -> Result<Truth, AccuracyError> {
        if self.listed.is_empty() {
            return Ok(truth);
        }
        Err(AccuracyError::Values {
            problems: self.listed,
            more: self.more,
        })
    }
}

/// An entry of one of the lists, to locate a wrong value.
struct Entry<'a> {
    list: &'static str,
    index: usize,
    id: &'a Field,
}

impl Entry<'_> {
    fn place(&self, key: &str) -> String {
        let Self { list, index, id } = self;
        match id {
            Field::Integer(id) if key != "id" => format!("{list}[{index}] (id {id}): {key}"),
            _ => format!("{list}[{index}]: {key}"),
        }
    }

    /// The value of `key`, if `read` accepts it.
    fn read<'f, T>(
        &self,
        key: &str,
        field: &'f Field,
        expected: &str,
        problems: &mut Problems,
        read: impl FnOnce(&'f Field) -> Option<T>,
    ) -> Option<T> {
        let value = read(field);
        if value.is_none() {
            problems.add(self.place(key), field.quoted(), expected);
        }
        value
    }

    /// The id, if no other entry has it.
    fn id(&self, seen: &mut HashMap<i64, usize>, problems: &mut Problems) -> Option<i64> {
        let id = self.read("id", self.id, "a whole number", problems, Field::integer)?;
        if let Some(first) = seen.insert(id, self.index) {
            let found = format!("{id}, which {}[{first}] has too", self.list);
            problems.add(
                self.place("id"),
                found,
                "a number that no other entry of the list has",
            );
            return None;
        }
        Some(id)
    }
}

/// The images by id, and the index of each id.
fn images(raw: Vec<RawImage>, problems: &mut Problems) -> (Vec<Image>, HashMap<i64, usize>) {
    let mut seen = HashMap::with_capacity(raw.len());
    let mut images = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let entry = Entry {
            list: "images",
            index,
            id: &raw.id,
        };
        let id = entry.id(&mut seen, problems);
        let name = "the name of a file below the folder of images, such as 000000000009.jpg";
        let file_name = entry.read("file_name", &raw.file_name, name, problems, |field| {
            field.text().filter(|text| is_inside(text))
        });
        let mut side = |key, field: &Field| {
            entry.read(key, field, "1 to 65535 pixels", problems, |field| {
                let side = field
                    .integer()
                    .filter(|side| (1..=MAX_SIDE).contains(side))?;
                u32::try_from(side).ok()
            })
        };
        let (width, height) = (side("width", &raw.width), side("height", &raw.height));
        if let (Some(id), Some(file_name), Some(width), Some(height)) =
            (id, file_name, width, height)
        {
            images.push(Image {
                id,
                file_name: file_name.to_owned(),
                size: Size::new(width, height),
            });
        }
    }
    images.sort_by_key(|image| image.id);
    sorted_indices(images, |image| image.id, &seen)
}

/// The categories by id, and the index of each id.
fn categories(
    raw: Vec<RawCategory>,
    problems: &mut Problems,
) -> (Vec<Category>, HashMap<i64, usize>) {
    let mut seen = HashMap::with_capacity(raw.len());
    let mut names = HashMap::with_capacity(raw.len());
    let mut categories = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let entry = Entry {
            list: "categories",
            index,
            id: &raw.id,
        };
        let id = entry.id(&mut seen, problems);
        let name = entry.read("name", &raw.name, "a name", problems, Field::text);
        let (Some(id), Some(name)) = (id, name) else {
            continue;
        };
        if let Some(first) = names.insert(name, index) {
            let found = format!("{name:?}, which categories[{first}] has too");
            problems.add(
                entry.place("name"),
                found,
                "a name that no other category has",
            );
        }
        categories.push(Category {
            id,
            name: name.to_owned(),
        });
    }
    categories.sort_by_key(|category| category.id);
    sorted_indices(categories, |category| category.id, &seen)
}

/// Items with the index of each id. The id of an invalid entry is registered too, so that references to it are not reported
/// as well; its index is never used, because parsing fails.
fn sorted_indices<T>(
    items: Vec<T>,
    id: impl Fn(&T) -> i64,
    seen: &HashMap<i64, usize>,
) -> (Vec<T>, HashMap<i64, usize>) {
    let mut places: HashMap<i64, usize> = seen.keys().map(|id| (*id, 0)).collect();
    places.extend(
        items
            .iter()
            .enumerate()
            .map(|(place, item)| (id(item), place)),
    );
    (items, places)
}

fn objects(
    raw: Vec<RawAnnotation>,
    images: &HashMap<i64, usize>,
    categories: &HashMap<i64, usize>,
    problems: &mut Problems,
) -> Vec<Object> {
    let mut seen = HashMap::with_capacity(raw.len());
    let mut objects = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let entry = Entry {
            list: "annotations",
            index,
            id: &raw.id,
        };
        let id = entry.id(&mut seen, problems);
        let image = entry.read(
            "image_id",
            &raw.image_id,
            "the id of one of the images",
            problems,
            |field| images.get(&field.integer()?).copied(),
        );
        let category = entry.read(
            "category_id",
            &raw.category_id,
            "the id of one of the categories",
            problems,
            |field| categories.get(&field.integer()?).copied(),
        );
        let xywh = entry.read(
            "bbox",
            &raw.bbox,
            "[left, top, width, height] in pixels, width and height not negative",
            problems,
            Field::xywh,
        );
        let area = entry.read(
            "area",
            &raw.area,
            "an area in square pixels, not negative",
            problems,
            Field::not_negative,
        );
        let crowd = entry.read(
            "iscrowd",
            &raw.iscrowd,
            "0 or 1",
            problems,
            |field| match field {
                Field::Missing | Field::Integer(0) => Some(false),
                Field::Integer(1) => Some(true),
                _ => None,
            },
        );
        if let (Some(_), Some(image), Some(category), Some(xywh), Some(area), Some(crowd)) =
            (id, image, category, xywh, area, crowd)
        {
            objects.push(Object {
                image,
                category,
                xywh,
                area,
                crowd,
            });
        }
    }
    objects
}

/// Whether a file name stays below its folder.
fn is_inside(name: &str) -> bool {
    !name.contains('\0')
        && Path::new(name)
            .components()
            .all(|step| matches!(step, Component::Normal(_) | Component::CurDir))
}

/// The last characters before `line` and `column`, both from 1.
fn excerpt(bytes: &[u8], line: usize, column: usize) -> String {
    let starts = std::iter::once(0).chain(
        bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'\n')
            .map(|(at, _)| at + 1),
    );
    let Some(start) = starts.take(line).last() else {
        return String::new();
    };
    let end = start.saturating_add(column).min(bytes.len());
    let begin = end.saturating_sub(EXCERPT);
    let text = String::from_utf8_lossy(&bytes[begin..end]);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
