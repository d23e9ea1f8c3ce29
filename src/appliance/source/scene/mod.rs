//! The built-in traffic scene: a street with moving vehicles and people, drawn from a seed, with the truth about them.
//!
//! It stands in for a camera in the demonstration, in tests, benchmarks and self-tests, and gives labeled pictures to
//! train on. Frame `n` of a seed is the same whenever and however it is asked for: nothing is carried from frame to
//! frame but memory, so loops, restarts and parallel sources agree. It is not a film: things go straight, do not react
//! to each other, and someone on a crossing may walk through a car. The synthetic source calls it.
//!
//! ```text
//!   seed ─► Look ─► Camera, Street ─► Surface ─► Backdrop (once per target size)
//!              └──► Traffic ─► actors of frame n, farthest first ─► Pen ─┬─► Raster   pixels
//!                                                                        └─► Census   boxes, free shares
//! ```
//!
//! Pixels and boxes come from the same shapes: a box is the extent of everything that is drawn of a thing, shadows
//! excepted. As in COCO a rider and what is ridden are two objects: a `person` and a `bicycle` or `motorcycle`. Labels:
//! `person`, `bicycle`, `car`, `motorcycle`, `bus`, `truck`.

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
mod street;
#[cfg(test)]
mod tests;
mod traffic;
mod truck;
mod two_wheeler;
mod visibility;
mod wheel;

use jetwatch_config::SyntheticScene;
use jetwatch_types::{GroundTruthBox, PIXEL_BYTES, Size, Xyxy, area};

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
use rng::{Rng, spread};
use shadow::draw_shadow;
use street::Street;
use traffic::Traffic;
use truck::Truck;
use two_wheeler::Cycle;
use visibility::{Entry, Mask, VisibilityBuffer};

/// Boxes with a side below this, in source pixels, are left out of the truth.
const MIN_SIDE: f32 = 1.0;

/// A street before a camera. Make one per source: it keeps the backdrop of the last target size and its working memory.
#[derive(Debug)]
pub struct Scene {
    size: Size,
    fps: f64,
    salt: u32,
    look: Appearance,
    camera: Camera,
    street: Street,
    traffic: Traffic,
    props: Vec<Prop>,
    /// What each prop hides on the census's grid.
    masks: Vec<Mask>,
    backdrop: Option<Backdrop>,
    scratch: Scratch,
    objects: Vec<SceneObject>,
    census: VisibilityBuffer,
}

impl Scene {
    /// The scene of these parameters, with the [`Appearance`] of its seed. `frames` and `pacing` are the source's business.
    #[must_use]
    pub fn new(parameters: &SyntheticScene) -> Self {
        Self::with_appearance(parameters, Appearance::from_seed(parameters.seed))
    }

    /// The same traffic under another look. Width, height and fps of 0 are taken as 1.
    #[must_use]
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
        // Any 24 bits will do; the textures add small numbers to it.
        let salt = (spread(seed) >> 40) as u32;
        let mut visibility = VisibilityBuffer::new(size.width, size.height);
        let surface = GroundShader {
            appearance: &appearance,
            camera: &camera,
            street: &street,
            salt,
        };
        let mask_of = |prop: &Prop| {
            visibility.clear();
            visibility.begin();
            draw_prop(&surface, prop, &mut visibility);
            visibility.mask()
        };
        let masks = props.iter().map(mask_of).collect();
        Self {
            size,
            fps: f64::from(parameters.fps.max(1)),
            salt,
            look: appearance,
            camera,
            street,
            traffic,
            props,
            masks,
            backdrop: None,
            scratch: Scratch::default(),
            objects: Vec::new(),
            census: visibility,
        }
    }

    /// How it looks.
    #[must_use]
    pub fn appearance(&self) -> &Appearance {
        &self.look
    }

    /// The size that boxes refer to.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// As [`truth_into`](Self::truth_into), in a list of its own.
    #[must_use]
    pub fn truth(&mut self, frame: u64) -> Vec<GroundTruthBox> {
        let mut truth = Vec::new();
        self.truth_into(frame, &mut truth);
        truth
    }

    /// Replaces `truth` by the objects in the picture at this frame, farthest first; an identity is that of one passage.
    ///
    /// Boxes are the drawn extent in source pixels, clipped to the picture; what is outside is left out, as is what is
    /// smaller than a pixel, but not what is wholly hidden. `visible` multiplies the share of the whole
    /// extent's area that its box in the picture has with the share of pixels in the picture that nothing nearer covers, counted on a grid of at most 320
    /// columns: good to about 0.02 for an object 100 pixels high, to 0.1 for one of 20. Allocates only while lists still grow to the
    /// most objects met.
    pub fn truth_into(&mut self, frame: u64, truth: &mut Vec<GroundTruthBox>) {
        truth.clear();
        self.place_objects(frame);
        self.census.clear();
        let mut props = self.props.iter().zip(&self.masks).peekable();
        for actor in &self.objects {
            while let Some((_, mask)) =
                props.next_if(|(prop, _)| prop.order.compare(&actor.order).is_lt())
            {
                self.census.cover(mask);
            }
            self.census.begin();
            draw_object(
                &mut Projector {
                    canvas: &mut self.census,
                    camera: &self.camera,
                    appearance: &self.look,
                    pose: actor.pose,
                },
                actor,
            );
        }
        for (_, mask) in props {
            self.census.cover(mask);
        }
        for (actor, entries) in self
            .objects
            .iter()
            .zip(self.census.finish().chunks_exact(2))
        {
            for (part, entry) in entries.iter().enumerate() {
                truth.extend(truth_box(actor, part, entry, &self.camera, self.size));
            }
        }
    }

    /// Draws this frame as `BGRx` into `target.height` rows of `stride` bytes.
    ///
    /// `target` may have any size and shape: the whole picture is scaled to it, and a true box times target over source
    /// size is where the object is. The first frame of a size draws the backdrop and takes long (tens of milliseconds
    /// at 416×234); later ones allocate only while the working memory still
    /// grows to the largest shape met. Does nothing for an empty target.
    ///
    /// # Panics
    ///
    /// When `stride` is below `target.width * 4` or `pixels` has no room for the rows.
    pub fn draw(&mut self, frame: u64, target: Size, pixels: &mut [u8], stride: usize) {
        if target.width == 0 || target.height == 0 {
            return;
        }
        let row = target.width as usize * PIXEL_BYTES;
        let needed = stride * (target.height as usize - 1) + row;
        assert!(
            stride >= row && pixels.len() >= needed,
            "{} bytes in rows of {stride} cannot hold a picture of {target}",
            pixels.len()
        );
        self.place_objects(frame);
        let surface = GroundShader {
            appearance: &self.look,
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
            .get_or_insert_with(|| Backdrop::new(&surface, &self.props, target, scratch));
        let pixels = &mut pixels[..needed];
        backdrop.copy_to(pixels, stride);
        let aspect = self.camera.aspect;
        let mut raster = Raster::new(pixels, stride, target, aspect, scratch);
        for actor in &self.objects {
            draw_shadow(
                &mut Projector {
                    canvas: &mut raster,
                    camera: &self.camera,
                    appearance: &self.look,
                    pose: actor.pose,
                },
                actor.kind,
            );
        }
        let mut props = self.props.iter().enumerate().peekable();
        for actor in &self.objects {
            while let Some((index, _)) =
                props.next_if(|(_, prop)| prop.order.compare(&actor.order).is_lt())
            {
                backdrop.blend_prop(index, raster.pixels(), stride);
            }
            draw_object(
                &mut Projector {
                    canvas: &mut raster,
                    camera: &self.camera,
                    appearance: &self.look,
                    pose: actor.pose,
                },
                actor,
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

/// Draws one actor on any canvas; the pen stands at its pose.
fn draw_object<C: Canvas>(pen: &mut Projector<'_, C>, object: &SceneObject) {
    let mut dice = Rng::new(&[object.seed]);
    match object.kind {
        ObjectKind::Car => Car::new(&mut dice).draw(pen, object.travelled),
        ObjectKind::Pickup => Car::new_pickup(&mut dice).draw(pen, object.travelled),
        ObjectKind::Truck => Truck::new(&mut dice).draw(pen, object.travelled),
        ObjectKind::Bus => Bus::new(&mut dice).draw(pen, object.travelled),
        ObjectKind::Motorcycle => Cycle::new_motorcycle(&mut dice).draw_motorcycle(pen),
        ObjectKind::Bicycle => Cycle::new_bicycle(&mut dice).draw_bicycle(pen, object.travelled),
        ObjectKind::Person => draw_walker(
            pen,
            &Person::new(&mut dice),
            object.travelled,
            object.stride,
        ),
    }
}

fn truth_box(
    actor: &SceneObject,
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
    // Already inside but for the last bit of a product.
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
    // What is too small for the grid is taken as free.
    let free = if entry.written == 0 {
        1.0
    } else {
        entry.left_over as f32 / entry.written as f32
    };
    Some(GroundTruthBox {
        id: actor.id.wrapping_add(part as u32),
        label: actor.kind.label(part),
        xyxy,
        visible: (inside * free).clamp(0.0, 1.0),
    })
}
