// SPDX-License-Identifier: Apache-2.0
//! The drawn traffic scene: a street with moving vehicles and people, made from a seed, with their ground truth.
//!
//! It replaces a camera in the demo, in tests and in benchmarks, and gives labeled images for training. Frame `n` of a seed
//! does not depend on the frames drawn before it, so that loops, restarts and parallel sources agree. Objects move
//! straight and do not react to each other: a person on a crossing may walk through a car. The synthetic source and the
//! dataset generator call it.
//!
//! ```text
//!   seed ─► Appearance ─► Camera, Street ─► GroundShader ─► Backdrop (once per target size)
//!               └──► Traffic ─► objects of frame n, farthest first ─► Projector ─┬─► Raster            pixels
//!                                                                                └─► VisibilityBuffer  boxes, visible shares
//! ```
//!
//! Pixels and boxes come from the same shapes: a box is the extent of all shapes of an object, without its shadow. As in
//! COCO, rider and vehicle are two objects: a `person` and a `bicycle` or `motorcycle`. Labels: `person`, `bicycle`, `car`,
//! `motorcycle`, `bus`, `truck`.

mod appearance;
mod backdrop;
mod bounds;
mod bus;
mod camera;
mod car;
mod ground_shader;
mod object;
mod person;
mod projector;
mod prop;
mod raster;
mod rider;
mod rng;
mod shadow;
mod shake;
mod street;
#[cfg(test)]
mod tests;
mod traffic;
mod truck;
mod two_wheeler;
mod visibility;
mod wheel;

use jetwatch_config::SyntheticScene;
use jetwatch_types::{GroundTruthBox, PIXEL_BYTES, Size, Xyxy, area, hash64};

pub use appearance::{Appearance, Layout, Rgb, TimeOfDay};

use backdrop::{Backdrop, draw_prop};
use bus::Bus;
use camera::Camera;
use car::Car;
use ground_shader::GroundShader;
use object::{ObjectKind, SceneObject};
use person::{Person, draw_walker};
use projector::{Canvas, Projector};
use prop::Prop;
use raster::{Raster, Scratch};
use rng::Rng;
use shadow::draw_shadow;
use shake::Shake;
use street::Street;
use traffic::Traffic;
use truck::Truck;
use two_wheeler::TwoWheeler;
use visibility::{Entry, Mask, VisibilityBuffer};

/// Shortest side of a box in the truth, in source pixels.
const MIN_SIDE: f32 = 1.0;

/// A street in front of a camera. Make one per source: it keeps the backdrop of the last target size and its working memory.
#[derive(Debug)]
pub struct Scene {
    size: Size,
    fps: f64,
    salt: u32,
    appearance: Appearance,
    camera: Camera,
    street: Street,
    traffic: Traffic,
    props: Vec<Prop>,
    /// The cells of the visibility buffer that each prop hides.
    masks: Vec<Mask>,
    backdrop: Option<Backdrop>,
    scratch: Scratch,
    objects: Vec<SceneObject>,
    visibility: VisibilityBuffer,
    /// `None` for a still camera.
    shake: Option<Shake>,
}

impl Scene {
    /// The scene with these parameters and the [`Appearance`] of its seed. `frames` and `pacing` are not used here.
    pub fn new(parameters: &SyntheticScene) -> Self {
        Self::with_appearance(parameters, Appearance::from_seed(parameters.seed))
    }

    /// The same traffic with another appearance. Width, height and fps of 0 become 1.
    pub fn with_appearance(parameters: &SyntheticScene, appearance: Appearance) -> Self {
        let size = Size::new(parameters.width.max(1), parameters.height.max(1));
        let seed = parameters.seed;
        let camera = Camera::new(
            &appearance,
            size.width as f32 / size.height as f32,
            Street::corridor_half(&appearance),
        );
        let street = Street::new(&appearance, &camera, seed);
        let traffic = Traffic::new(seed, parameters.objects, &street);
        let props = prop::place_props(&appearance, &street, &camera, seed);
        // 24 bits: the textures add small numbers to it.
        let salt = (hash64(seed) >> 40) as u32;
        let mut visibility = VisibilityBuffer::new(size.width, size.height);
        let shader = GroundShader {
            appearance: &appearance,
            camera: &camera,
            street: &street,
            salt,
        };
        let mask_of = |prop: &Prop| {
            visibility.clear();
            visibility.begin();
            draw_prop(&shader, prop, &mut visibility);
            visibility.mask()
        };
        let masks = props.iter().map(mask_of).collect();
        Self {
            size,
            fps: f64::from(parameters.fps.max(1)),
            salt,
            appearance,
            camera,
            street,
            traffic,
            props,
            masks,
            backdrop: None,
            scratch: Scratch::default(),
            objects: Vec::new(),
            visibility,
            shake: Shake::new(
                size,
                seed,
                f64::from(parameters.fps.max(1)),
                parameters.shake,
            ),
        }
    }

    /// Its appearance.
    pub fn appearance(&self) -> &Appearance {
        &self.appearance
    }

    /// Size of the source in pixels, to which the boxes refer.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The truth of this frame, as [`truth_into`](Self::truth_into), in a new list.
    #[must_use]
    pub fn truth(&mut self, frame: u64) -> Vec<GroundTruthBox> {
        let mut truth = Vec::new();
        self.truth_into(frame, &mut truth);
        truth
    }

    /// Replaces `truth` by the objects in the image of this frame, farthest first. An object keeps its id from its entry to
    /// its exit.
    ///
    /// Boxes are the drawn extent in source pixels, clipped to the image. Objects outside the image or smaller than a pixel
    /// are left out; fully hidden ones are included. `visible` is the share of the extent's area that is in the image,
    /// times the share of those pixels that no nearer object covers. It is measured on a grid of at most 320 columns: the
    /// error is about 0.02 for an object 100 pixels high and 0.1 for one of 20. Allocates only where lists must grow.
    pub fn truth_into(&mut self, frame: u64, truth: &mut Vec<GroundTruthBox>) {
        truth.clear();
        self.place_objects(frame);
        self.visibility.clear();
        let mut props = self.props.iter().zip(&self.masks).peekable();
        for object in &self.objects {
            while let Some((_, mask)) =
                props.next_if(|(prop, _)| prop.order.compare(&object.order).is_lt())
            {
                self.visibility.cover(mask);
            }
            self.visibility.begin();
            draw_object(
                &mut Projector {
                    canvas: &mut self.visibility,
                    camera: &self.camera,
                    appearance: &self.appearance,
                    pose: object.pose,
                },
                object,
            );
        }
        for (_, mask) in props {
            self.visibility.cover(mask);
        }
        for (object, entries) in self
            .objects
            .iter()
            .zip(self.visibility.finish().chunks_exact(2))
        {
            for (part, entry) in entries.iter().enumerate() {
                truth.extend(truth_box(object, part, entry, &self.camera, self.size));
            }
        }
        if let Some(shake) = &self.shake {
            shake.move_truth(frame, truth);
        }
    }

    /// Draws this frame as `BGRx` into `target.height` rows of `stride` bytes.
    ///
    /// `target` may have any size and aspect ratio: the whole image is scaled to it, and boxes scale with it. The first frame
    /// of a size draws the backdrop, which takes tens of milliseconds at 416×234. Later frames allocate only where the
    /// working memory must grow. Does nothing for an empty target.
    ///
    /// # Panics
    ///
    /// `stride` is below `target.width * 4`, or `pixels` is too short for the rows.
    pub fn draw(&mut self, frame: u64, target: Size, pixels: &mut [u8], stride: usize) {
        let Some(mut shake) = self.shake.take() else {
            return self.draw_still(frame, target, pixels, stride);
        };
        if target.width > 0 && target.height > 0 {
            let (size, canvas) = shake.canvas(target);
            self.draw_still(frame, size, canvas, size.width as usize * PIXEL_BYTES);
            shake.draw(frame, target, pixels, stride);
        }
        self.shake = Some(shake);
    }

    /// Draws this frame as a still camera sees it.
    fn draw_still(&mut self, frame: u64, target: Size, pixels: &mut [u8], stride: usize) {
        if target.width == 0 || target.height == 0 {
            return;
        }
        let row = target.width as usize * PIXEL_BYTES;
        let needed = stride * (target.height as usize - 1) + row;
        assert!(
            stride >= row && pixels.len() >= needed,
            "{} bytes in rows of {stride} cannot hold an image of {target}",
            pixels.len()
        );
        self.place_objects(frame);
        let shader = GroundShader {
            appearance: &self.appearance,
            camera: &self.camera,
            street: &self.street,
            salt: self.salt,
        };
        let scratch = &mut self.scratch;
        if self
            .backdrop
            .as_ref()
            .is_none_or(|backdrop| backdrop.size != target)
        {
            self.backdrop = None;
        }
        let backdrop = self
            .backdrop
            .get_or_insert_with(|| Backdrop::new(&shader, &self.props, target, scratch));
        let pixels = &mut pixels[..needed];
        backdrop.copy_to(pixels, stride);
        let aspect = self.camera.aspect;
        let mut raster = Raster::new(pixels, stride, target, aspect, scratch);
        for object in &self.objects {
            draw_shadow(
                &mut Projector {
                    canvas: &mut raster,
                    camera: &self.camera,
                    appearance: &self.appearance,
                    pose: object.pose,
                },
                object.kind,
            );
        }
        let mut props = self.props.iter().enumerate().peekable();
        for object in &self.objects {
            while let Some((index, _)) =
                props.next_if(|(_, prop)| prop.order.compare(&object.order).is_lt())
            {
                backdrop.blend_prop(index, raster.pixels(), stride);
            }
            draw_object(
                &mut Projector {
                    canvas: &mut raster,
                    camera: &self.camera,
                    appearance: &self.appearance,
                    pose: object.pose,
                },
                object,
            );
        }
        for (index, _) in props {
            backdrop.blend_prop(index, raster.pixels(), stride);
        }
        backdrop.add_noise(frame, pixels, stride);
    }

    fn place_objects(&mut self, frame: u64) {
        self.traffic.at(
            frame as f64 / self.fps,
            &self.street,
            &self.camera,
            &mut self.objects,
        );
    }
}

/// Draws one object; the projector has its pose.
fn draw_object<C: Canvas>(projector: &mut Projector<'_, C>, object: &SceneObject) {
    let mut rng = Rng::new(&[object.seed]);
    match object.kind {
        ObjectKind::Car => Car::new(&mut rng).draw(projector, object.travelled),
        ObjectKind::Pickup => Car::new_pickup(&mut rng).draw(projector, object.travelled),
        ObjectKind::Truck => Truck::new(&mut rng).draw(projector, object.travelled),
        ObjectKind::Bus => Bus::new(&mut rng).draw(projector, object.travelled),
        ObjectKind::Motorcycle => TwoWheeler::new_motorcycle(&mut rng).draw_motorcycle(projector),
        ObjectKind::Bicycle => {
            TwoWheeler::new_bicycle(&mut rng).draw_bicycle(projector, object.travelled)
        }
        ObjectKind::Person => draw_walker(
            projector,
            &Person::new(&mut rng),
            object.travelled,
            object.stride,
        ),
    }
}

fn truth_box(
    object: &SceneObject,
    part: usize,
    entry: &Entry,
    camera: &Camera,
    size: Size,
) -> Option<GroundTruthBox> {
    if entry.is_empty() {
        return None;
    }
    let (width, height) = (size.width as f32, size.height as f32);
    let (kx, ky) = (width / camera.aspect, height);
    let pixels = |[left, top, right, bottom]: Xyxy| [left * kx, top * ky, right * kx, bottom * ky];
    let [left, top, right, bottom] = pixels(entry.inside);
    // Inside already, except for rounding.
    let xyxy = [
        left.clamp(0.0, width),
        top.clamp(0.0, height),
        right.clamp(0.0, width),
        bottom.clamp(0.0, height),
    ];
    if xyxy[2] - xyxy[0] < MIN_SIDE || xyxy[3] - xyxy[1] < MIN_SIDE {
        return None;
    }
    let inside = area(&xyxy) / area(&pixels(entry.whole));
    // An object too small for the grid counts as visible.
    let free = if entry.written == 0 {
        1.0
    } else {
        entry.uncovered as f32 / entry.written as f32
    };
    Some(GroundTruthBox {
        id: object.id.wrapping_add(part as u32),
        label: object.kind.label(part),
        xyxy,
        visible: (inside * free).clamp(0.0, 1.0),
    })
}
