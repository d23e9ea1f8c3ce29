// SPDX-License-Identifier: Apache-2.0
//! An object on the street at one frame: class, position, and its place in painter's order.

use std::cmp::Ordering;

use super::camera::{Camera, Pose};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    /// A passenger car.
    Car,
    /// A pickup, which COCO calls a truck.
    Pickup,
    /// A truck with a box.
    Truck,
    /// A city bus.
    Bus,
    /// A motorcycle and its rider.
    Motorcycle,
    /// A bicycle and its rider.
    Bicycle,
    /// A pedestrian.
    Person,
}

impl ObjectKind {
    /// Upper bounds of half length, half width and height, in meters.
    pub(super) fn half_extent(self) -> [f32; 3] {
        match self {
            Self::Car => [2.4, 0.95, 1.5],
            Self::Pickup => [2.7, 1.0, 1.8],
            Self::Truck => [3.9, 1.2, 3.0],
            Self::Bus => [5.6, 1.27, 3.1],
            Self::Motorcycle => [1.05, 0.35, 1.6],
            Self::Bicycle => [0.9, 0.3, 1.65],
            Self::Person => [0.4, 0.25, 1.75],
        }
    }

    /// COCO label of the object itself (part 0) or of its rider (part 1).
    pub(super) fn label(self, part: usize) -> &'static str {
        match (self, part) {
            (_, 1) | (Self::Person, _) => "person",
            (Self::Car, _) => "car",
            (Self::Pickup | Self::Truck, _) => "truck",
            (Self::Bus, _) => "bus",
            (Self::Motorcycle, _) => "motorcycle",
            (Self::Bicycle, _) => "bicycle",
        }
    }
}

/// One object at one frame.
#[derive(Debug, Clone)]
pub(super) struct SceneObject {
    pub(super) kind: ObjectKind,
    /// Id of part 0; part 1 has the next one.
    pub(super) id: u32,
    /// Seed of its colors and proportions.
    pub(super) seed: u64,
    pub(super) pose: Pose,
    /// Meters travelled since it entered.
    pub(super) travelled: f32,
    /// Swing of the legs, from 0 (standing) to 1.
    pub(super) stride: f32,
    pub(super) order: Order,
}

/// Position in painter's order: by rows parallel to the road, then along the row.
///
/// A line along the road separates objects of different rows, a line across it objects of one row. In both cases only the
/// object on the camera's side of the line can hide the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Order {
    row: f32,
    along: f32,
}

impl Order {
    /// The order of an object at this position on the street.
    pub(super) fn new(camera: &Camera, street: [f32; 2]) -> Self {
        let stand = camera.stand();
        Self {
            row: ((street[1] - stand[1]).abs() * 2.0).round(),
            along: (street[0] - stand[0]).abs(),
        }
    }

    /// `Less`: farther away, drawn earlier.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        other
            .row
            .total_cmp(&self.row)
            .then(other.along.total_cmp(&self.along))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draw_order_puts_camera_side_last() {
        let appearance = super::super::appearance::Appearance::from_seed(1);
        let camera = Camera::new(&appearance, 1.0, 8.0);
        let [s, l] = camera.stand();
        let far = Order::new(&camera, [s, l + 20.0]);
        let near = Order::new(&camera, [s + 30.0, l + 5.0]);
        let nearest = Order::new(&camera, [s + 3.0, l + 5.0]);
        assert_eq!(far.compare(&near), Ordering::Less);
        assert_eq!(nearest.compare(&near), Ordering::Greater);
    }
}
