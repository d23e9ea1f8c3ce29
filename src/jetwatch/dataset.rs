//! `jetwatch dataset`: labeled images of the built-in street, in formats for training tools and `jetwatch eval`.
//!
//! Writes `DIR/images/*.jpg` (or `.png`) and `DIR/annotations.json` in COCO's format. The same arguments give the same
//! files, whatever the number of threads.

use std::collections::BTreeMap;
use std::fs;
use std::io::{IsTerminal, Write, stderr};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use jetwatch_source::dataset::{DatasetGenerator, LabeledImage};
use jetwatch_source::image_codec;
use jetwatch_types::{GroundTruthBox, Size};

use super::Exit;

/// What the scene calls its objects, in COCO's order.
const LABELS: [&str; 6] = ["person", "bicycle", "car", "motorcycle", "bus", "truck"];

/// Write labeled images of built-in street scenes, for training and for `jetwatch eval`
#[derive(Debug, Args)]
pub(super) struct DatasetArgs {
    /// Folder for the images and annotations.json; created when missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of scenes; each with its own appearance
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    scenes: u64,
    /// Number of images per scene, at well separated times
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pictures: u32,
    /// Seed of the first scene; scene n has seed + n
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Width and height in pixels
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "640x384", value_parser = parse_size)]
    size: Size,
    /// Minimum and maximum number of objects in a scene, on average over time
    #[arg(long, value_name = "LEAST-MOST", default_value = "3-14", value_parser = parse_range)]
    objects: (u32, u32),
    /// Merge several labels into one, such as vehicle=car,bus,truck; may be given several times
    #[arg(long, value_name = "NAME=LABEL,…", value_parser = parse_merge)]
    merge: Vec<Merge>,
    /// Write objects with a smaller visible share, from 0 to 1, as `iscrowd`: ignored by the evaluation
    #[arg(long, value_name = "SHARE", default_value_t = 0.25, value_parser = parse_share)]
    least_visible: f32,
    /// Write objects with a shorter side, in pixels, as `iscrowd` too
    #[arg(long, value_name = "PIXELS", default_value_t = 6.0)]
    least_side: f32,
    /// Format of the images
    #[arg(long, value_enum, default_value_t = ImageFormat::Jpeg)]
    format: ImageFormat,
    /// Number of drawing threads; by default one for each core
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: Option<u64>,
}

/// Values of `--format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ImageFormat {
    /// Quality 92, as cameras write
    Jpeg,
    /// Lossless
    Png,
}

/// One `--merge`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Merge {
    name: String,
    labels: Vec<&'static str>,
}

/// Draws and writes everything, then the annotations, atomically.
pub(super) fn run(args: &DatasetArgs) -> Result<Exit> {
    let categories = Categories::new(&args.merge)?;
    let annotations = args.out.join("annotations.json");
    if annotations.exists() {
        bail!(
            "{} exists; expected a folder without it: name another one with --out, or remove it",
            annotations.display()
        );
    }
    let images = args.out.join("images");
    fs::create_dir_all(&images).with_context(|| format!("cannot make {}", images.display()))?;
    let set = DatasetGenerator {
        first_seed: args.seed,
        images_per_scene: args.pictures,
        size: args.size,
        objects: args.objects,
    };
    let next = AtomicU64::new(0);
    let done = Mutex::new(BTreeMap::new());
    let draw = || -> Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= args.scenes {
                return Ok(());
            }
            let mut pictures = Vec::new();
            set.draw(index, |image| -> Result<()> {
                let name = write_image(&images, args.format, set.size, &image)?;
                pictures.push((name, image.truth));
                Ok(())
            })?;
            let mut done = done.lock().expect("no thread panicked with it");
            done.insert(index, pictures);
            show_progress(done.len() as u64, args.scenes);
        }
    };
    let threads = args.threads.map_or_else(
        || thread::available_parallelism().map_or(1, NonZero::get),
        |threads| threads as usize,
    );
    thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(draw)).collect();
        let results: Vec<Result<()>> = workers
            .into_iter()
            .map(|worker| worker.join().expect("a panic aborts the program"))
            .collect();
        // Return the first error; the others are most likely the same.
        results.into_iter().collect()
    })?;
    let pictures: Vec<_> = done
        .into_inner()
        .expect("no thread panicked with it")
        .into_values()
        .flatten()
        .collect();
    let count = pictures.len();
    let (document, boxes) = describe(args, &categories, pictures);
    jetwatch_files::write(&annotations, document.to_string().as_bytes())
        .with_context(|| format!("cannot write {}", annotations.display()))?;
    println!(
        "{count} pictures of {} scenes with {boxes} objects in {}",
        args.scenes,
        args.out.display()
    );
    Ok(Exit::Success)
}

fn write_image(
    folder: &Path,
    format: ImageFormat,
    size: Size,
    image: &LabeledImage,
) -> Result<String> {
    let (ending, format) = match format {
        ImageFormat::Jpeg => ("jpg", image_codec::ImageFormat::Jpeg),
        ImageFormat::Png => ("png", image_codec::ImageFormat::Png),
    };
    let name = format!("{:08}_{:06}.{ending}", image.seed, image.frame);
    let path = folder.join(&name);
    image_codec::write_rgb(&path, format, size, &image.rgb)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(name)
}

fn show_progress(done: u64, scenes: u64) {
    let mut stderr = stderr();
    if !stderr.is_terminal() || (!done.is_multiple_of(16) && done != scenes) {
        return;
    }
    let end = if done == scenes { "\n" } else { "" };
    // An error of the progress line is ignored.
    let _ = write!(stderr, "\rscene {done} of {scenes}{end}");
}

/// Names of the categories and which labels of the scene are in them.
struct Categories {
    names: Vec<String>,
    /// Category number, from 1 as in COCO, by label.
    by_label: BTreeMap<&'static str, usize>,
}

impl Categories {
    fn new(merges: &[Merge]) -> Result<Self> {
        let mut names: Vec<String> = Vec::new();
        let mut by_label = BTreeMap::new();
        for label in LABELS {
            let mut into = merges.iter().filter(|merge| merge.labels.contains(&label));
            let name = into
                .next()
                .map_or_else(|| label.to_owned(), |merge| merge.name.clone());
            if let Some(second) = into.next() {
                bail!(
                    "--merge: `{label}` is given to `{name}` and to `{}`; expected one of them",
                    second.name
                );
            }
            let place = names
                .iter()
                .position(|known| *known == name)
                .unwrap_or_else(|| {
                    names.push(name);
                    names.len() - 1
                });
            by_label.insert(label, place + 1);
        }
        Ok(Self { names, by_label })
    }
}

/// The document in COCO's format, and the number of its boxes that count.
fn describe(
    args: &DatasetArgs,
    categories: &Categories,
    pictures: Vec<(String, Vec<GroundTruthBox>)>,
) -> (Value, usize) {
    let mut images = Vec::with_capacity(pictures.len());
    let mut annotations = Vec::new();
    let mut counted = 0;
    for (index, (name, truth)) in pictures.into_iter().enumerate() {
        let image_id = index + 1;
        images.push(json!({
            "id": image_id, "file_name": name, "width": args.size.width, "height": args.size.height
        }));
        for object in &truth {
            let [left, top, right, bottom] = object.xyxy;
            let (width, height) = (right - left, bottom - top);
            let ignored =
                object.visible < args.least_visible || width.min(height) < args.least_side;
            counted += usize::from(!ignored);
            annotations.push(json!({
                "id": annotations.len() + 1,
                "image_id": image_id,
                "category_id": categories.by_label[object.label],
                "bbox": [left, top, width, height],
                "area": width * height,
                "iscrowd": u8::from(ignored),
                "visible": object.visible,
            }));
        }
    }
    let names: Vec<Value> = categories
        .names
        .iter()
        .enumerate()
        .map(|(index, name)| json!({"id": index + 1, "name": name}))
        .collect();
    let description = format!(
        "jetwatch street scenes, seeds {} to {}",
        args.seed,
        args.seed + args.scenes - 1
    );
    let document = json!({
        "info": {"description": description},
        "images": images,
        "annotations": annotations,
        "categories": names,
    });
    (document, counted)
}

fn parse_size(text: &str) -> Result<Size, String> {
    let side = |text: &str| {
        text.parse::<u32>()
            .ok()
            .filter(|side| (16..=4096).contains(side))
    };
    text.split_once(['x', '×'])
        .and_then(|(width, height)| Some(Size::new(side(width)?, side(height)?)))
        .ok_or_else(|| {
            format!("found {text:?}, expected width and height from 16 to 4096, such as 640x384")
        })
}

fn parse_range(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number <= 64);
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    number(least)
        .zip(number(most))
        .filter(|(least, most)| least <= most)
        .ok_or_else(|| {
            format!("found {text:?}, expected two whole numbers from 0 to 64, such as 3-14")
        })
}

fn parse_share(text: &str) -> Result<f32, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("found {text:?}, expected a number from 0 to 1"))
}

fn parse_merge(text: &str) -> Result<Merge, String> {
    let expected = || {
        format!(
            "found {text:?}, expected NAME=LABEL,… with labels out of {}",
            LABELS.join(", ")
        )
    };
    let (name, labels) = text.split_once('=').ok_or_else(expected)?;
    let labels: Option<Vec<&'static str>> = labels
        .split(',')
        .map(|label| LABELS.into_iter().find(|known| *known == label.trim()))
        .collect();
    match labels {
        Some(labels) if !name.trim().is_empty() => Ok(Merge {
            name: name.trim().to_owned(),
            labels,
        }),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_arguments_are_rejected_with_expected_format() {
        assert_eq!(parse_size("640x384"), Ok(Size::new(640, 384)));
        for text in ["640", "8x8", "640x", "9000x9000", "-1x5"] {
            let error = parse_size(text).expect_err(text);
            assert!(error.contains("640x384"), "{error}");
        }
        assert_eq!(parse_range("3-14"), Ok((3, 14)));
        assert_eq!(parse_range("5"), Ok((5, 5)));
        for text in ["9-3", "a-b", "1-900", ""] {
            assert!(parse_range(text).is_err(), "{text}");
        }
        let merge = parse_merge("vehicle=car, bus,truck").expect("it is right");
        assert_eq!(merge.labels, ["car", "bus", "truck"]);
        for text in ["vehicle", "=car", "x=plane", "x="] {
            let error = parse_merge(text).expect_err(text);
            assert!(error.contains("motorcycle"), "{error}");
        }
    }

    #[test]
    fn merged_labels_share_one_category() {
        let merges = [
            parse_merge("vehicle=car,bus,truck").expect("it is right"),
            parse_merge("two-wheeler=bicycle,motorcycle").expect("it is right"),
        ];
        let categories = Categories::new(&merges).expect("they differ");
        assert_eq!(categories.names, ["person", "two-wheeler", "vehicle"]);
        assert_eq!(categories.by_label["bus"], 3);
        assert_eq!(
            categories.by_label["bicycle"],
            categories.by_label["motorcycle"]
        );
        let both = [merges[0].clone(), parse_merge("big=truck").expect("right")];
        let error = Categories::new(&both)
            .err()
            .expect("truck is in two")
            .to_string();
        assert!(error.contains("`truck`"), "{error}");
    }
}
