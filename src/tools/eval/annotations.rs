// SPDX-License-Identifier: Apache-2.0
//! Annotations and predictions of a set of images: plain data.

use jetwatch_types::{Detection, Size};

/// A box as `[left, top, width, height]` in source pixels.
pub type Xywh = [f64; 4];

/// An annotated set of images.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Truth {
    /// The images, by ascending id.
    pub images: Vec<Image>,
    /// The categories, by ascending id.
    pub categories: Vec<Category>,
    /// The annotated objects, in the order of the file.
    pub objects: Vec<Object>,
}

/// One image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Id in the file.
    pub id: i64,
    /// File name, relative to the folder of images.
    pub file_name: String,
    /// Width and height in pixels, as annotated.
    pub size: Size,
}

/// One category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Category {
    /// Id in the file.
    pub id: i64,
    /// Name in the file.
    pub name: String,
}

/// One annotated object, or one crowd of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Object {
    /// Index into [`Truth::images`].
    pub image: usize,
    /// Index into [`Truth::categories`].
    pub category: usize,
    /// Bounding box.
    pub xywh: Xywh,
    /// Area in square pixels; that of an outline is less than that of the box.
    pub area: f64,
    /// Whether it is a group that is not annotated individually: a match with it is neither right nor wrong.
    pub crowd: bool,
}

/// One detection in one image.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Index into [`Truth::images`].
    pub image: usize,
    /// Index into [`Truth::categories`].
    pub category: usize,
    /// Confidence.
    pub score: f64,
    /// Bounding box.
    pub xywh: Xywh,
}

impl Prediction {
    /// A detection of category `category` in image `image`; both are indices into [`Truth`].
    pub fn new(image: usize, category: usize, detection: &Detection) -> Self {
        let [left, top, right, bottom] = detection.xyxy.map(f64::from);
        Self {
            image,
            category,
            score: f64::from(detection.score),
            xywh: [left, top, right - left, bottom - top],
        }
    }
}

impl Truth {
    /// The truth with only the images and categories of these indices, and their annotations.
    ///
    /// An unreadable image must not count as one without detections, nor an untrained category as a missed one.
    pub(crate) fn restricted(
        &self,
        keeps_image: impl Fn(usize) -> bool,
        keeps_category: impl Fn(usize) -> bool,
    ) -> Self {
        let images = new_indices(self.images.len(), keeps_image);
        let categories = new_indices(self.categories.len(), keeps_category);
        let objects = self.objects.iter().filter_map(|object| {
            Some(Object {
                image: images[object.image]?,
                category: categories[object.category]?,
                ..*object
            })
        });
        Self {
            objects: objects.collect(),
            images: kept(&self.images, &images),
            categories: kept(&self.categories, &categories),
        }
    }
}

/// The new index of each kept old index.
fn new_indices(count: usize, keeps: impl Fn(usize) -> bool) -> Vec<Option<usize>> {
    let mut next = 0..;
    (0..count)
        .map(|index| keeps(index).then(|| next.next()).flatten())
        .collect()
}

fn kept<T: Clone>(items: &[T], places: &[Option<usize>]) -> Vec<T> {
    items
        .iter()
        .zip(places)
        .filter(|(_, place)| place.is_some())
        .map(|(item, _)| item.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_of_kept_images_and_categories_get_new_indices() {
        let image = |id| Image {
            id,
            file_name: format!("{id}.jpg"),
            size: Size::new(4, 3),
        };
        let category = |id| Category {
            id,
            name: format!("c{id}"),
        };
        let object = |image, category| Object {
            image,
            category,
            xywh: [0.0; 4],
            area: 0.0,
            crowd: false,
        };
        let truth = Truth {
            images: vec![image(5), image(6), image(7)],
            categories: vec![category(1), category(2)],
            objects: vec![object(0, 1), object(1, 1), object(2, 0), object(2, 1)],
        };
        let less = truth.restricted(|image| image != 1, |category| category == 1);
        assert_eq!(less.images, [image(5), image(7)]);
        assert_eq!(less.categories, [category(2)]);
        assert_eq!(less.objects, [object(0, 0), object(1, 0)]);
        assert_eq!(truth.restricted(|_| true, |_| true), truth);
    }

    #[test]
    fn a_detection_becomes_a_box_with_width_and_height() {
        let detection = Detection {
            class: 3,
            score: 0.5,
            xyxy: [1.0, 2.0, 11.0, 22.5],
        };
        let found = Prediction::new(4, 2, &detection);
        assert_eq!((found.image, found.category, found.score), (4, 2, 0.5));
        assert_eq!(found.xywh, [1.0, 2.0, 10.0, 20.5]);
    }
}
