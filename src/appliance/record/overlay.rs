//! What is drawn over the frames of one source: its zones and lines, the ways of its tracks, and their boxes with class, identity
//! and score.

use std::collections::VecDeque;
use std::fmt::Write;

use jetwatch_config::SceneRules;
use jetwatch_types::{Region, Size, Track, TrackId, TrackState, Xyxy};

use super::canvas::Canvas;
use super::color::Color;
use super::draw::{Colors, Painter};

/// Frames that the way of a track goes back.
const TRAIL_FRAMES: usize = 32;

/// How much of what lies behind a label is covered.
const LABEL_ALPHA: u8 = 200;

/// How much of what lies behind the box of a lost track is covered.
const LOST_ALPHA: u8 = 110;

/// The color of zones and lines.
const RULES: Color = Color::new(0xff, 0xff, 0x5a);

/// Where a picture lies on a canvas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Viewport {
    /// Size of the picture to which boxes refer.
    pub source: Size,
    /// Size in which it lies on the canvas.
    pub drawn_size: Size,
}

impl Viewport {
    fn factors(&self) -> [f32; 2] {
        let factor = |drawn: u32, source: u32| drawn as f32 / source.max(1) as f32;
        [
            factor(self.drawn_size.width, self.source.width),
            factor(self.drawn_size.height, self.source.height),
        ]
    }
}

/// Where a track has been.
struct Trail {
    id: TrackId,
    /// Middles of the lower edges of its boxes, in source pixels, the oldest first.
    positions: VecDeque<[f32; 2]>,
    is_current: bool,
}

/// What is drawn over one source's frames, with what it remembers of the frames before.
pub struct Overlay {
    labels: Vec<String>,
    rules: SceneRules,
    roi: Option<Region>,
    trails: Vec<Trail>,
    text: String,
}

impl Overlay {
    /// For a source whose tracks have classes with these labels.
    #[must_use]
    pub fn new(labels: &[String]) -> Self {
        Self {
            labels: labels.to_vec(),
            rules: SceneRules::default(),
            roi: None,
            trails: Vec::new(),
            text: String::new(),
        }
    }

    /// Draws zones and lines, too.
    #[must_use]
    pub fn with_rules(mut self, rules: &SceneRules) -> Self {
        self.rules = rules.clone();
        self
    }

    /// Draws the border of the part that the network looks at, too.
    #[must_use]
    pub fn with_roi(mut self, roi: Option<Region>) -> Self {
        self.roi = roi;
        self
    }

    /// Draws over a frame whose tracks are `tracks`: those that are lost fainter than those that are seen, others not at all. The
    /// canvas is the picture alone, from its first pixel on.
    pub fn draw(&mut self, canvas: &mut Canvas<'_>, viewport: Viewport, tracks: &[Track]) {
        let pen = Painter::for_size(canvas.size());
        let factors = viewport.factors();
        self.draw_rules(canvas, pen);
        self.update_trails(tracks);
        for trail in &self.trails {
            let class = tracks.iter().find(|track| track.id == trail.id);
            let color = Color::for_class(class.map_or(0, |track| track.class));
            let ink = canvas.color_fill(color, 255);
            let feet = trail.positions.iter().zip(trail.positions.iter().skip(1));
            for (from, to) in feet {
                let place = |foot: &[f32; 2]| [foot[0] * factors[0], foot[1] * factors[1]];
                pen.draw_line(canvas, place(from), place(to), &ink);
            }
        }
        let [fx, fy] = factors;
        let to_canvas = |track: &Track| {
            let [left, top, right, bottom] = track.xyxy;
            [left * fx, top * fy, right * fx, bottom * fy]
        };
        let boxes: Vec<_> = tracks
            .iter()
            .filter_map(|track| {
                let ink = canvas.color_fill(Color::for_class(track.class), alpha_of(track)?);
                Some((to_canvas(track), ink))
            })
            .collect();
        pen.draw_boxes(canvas, boxes.into_iter());
        for track in tracks {
            self.draw_label(canvas, pen, &to_canvas(track), track);
        }
    }

    /// The label of one track above its box.
    fn draw_label(&mut self, canvas: &mut Canvas<'_>, pen: Painter, xyxy: &Xyxy, track: &Track) {
        let (Some(outer), Some(alpha)) = (super::draw::pixels(xyxy), alpha_of(track)) else {
            return;
        };
        self.text.clear();
        let score = (track.score.clamp(0.0, 1.0) * 100.0).round();
        // Writing to a string cannot fail.
        let _ = match self.labels.get(usize::from(track.class)) {
            Some(label) => write!(self.text, "{label} {} {score}%", track.id),
            None => write!(self.text, "class {} {} {score}%", track.class, track.id),
        };
        let inks = Colors {
            background: canvas.color_fill(Color::for_class(track.class), alpha.min(LABEL_ALPHA)),
            text: canvas.color_fill(Color::BLACK, 255),
        };
        pen.draw_label(canvas, outer.left, outer.top, &self.text, &inks);
    }

    /// Zones as their borders, and lines, each with its name where it begins.
    fn draw_rules(&self, canvas: &mut Canvas<'_>, pen: Painter) {
        let size = canvas.size();
        let place =
            |point: &[f32; 2]| [point[0] * size.width as f32, point[1] * size.height as f32];
        let ink = canvas.color_fill(RULES, 255);
        let inks = Colors {
            background: canvas.color_fill(Color::BLACK, LABEL_ALPHA),
            text: ink,
        };
        if let Some(roi) = &self.roi {
            let [left, top] = [roi.left, roi.top];
            let [right, bottom] = [left + roi.width, top + roi.height];
            let corners = [[left, top], [right, top], [right, bottom], [left, bottom]];
            for (from, to) in corners.iter().zip(corners.iter().cycle().skip(1)) {
                pen.draw_line(canvas, place(from), place(to), &ink);
            }
        }
        for zone in &self.rules.zones {
            let points = zone.area.points();
            let ends = points.iter().skip(1).chain(points.first());
            for (from, to) in points.iter().zip(ends) {
                pen.draw_line(canvas, place(from), place(to), &ink);
            }
            if let Some([x, y]) = points.first().map(place) {
                pen.draw_label(canvas, x as i32, y as i32, &zone.name, &inks);
            }
        }
        for rule in &self.rules.lines {
            let [from, to] = [rule.line.from, rule.line.to].map(|point| place(&point));
            pen.draw_line(canvas, from, to, &ink);
            pen.draw_label(canvas, from[0] as i32, from[1] as i32, &rule.name, &inks);
        }
    }

    /// Remembers where the tracks are, and forgets those that are not there any more.
    fn update_trails(&mut self, tracks: &[Track]) {
        for trail in &mut self.trails {
            trail.is_current = false;
        }
        for track in tracks {
            if !matches!(track.state, TrackState::Active | TrackState::Lost) {
                continue;
            }
            let [left, _, right, bottom] = track.xyxy;
            let foot = [(left + right) / 2.0, bottom];
            let known = self.trails.iter_mut().find(|trail| trail.id == track.id);
            if let Some(trail) = known {
                if trail.positions.len() == TRAIL_FRAMES {
                    trail.positions.pop_front();
                }
                trail.positions.push_back(foot);
                trail.is_current = true;
            } else {
                let mut feet = VecDeque::with_capacity(TRAIL_FRAMES);
                feet.push_back(foot);
                self.trails.push(Trail {
                    id: track.id,
                    positions: feet,
                    is_current: true,
                });
            }
        }
        self.trails.retain(|trail| trail.is_current);
    }
}

/// How much of what lies behind the box of a track is covered; `None` for tracks that are not shown.
fn alpha_of(track: &Track) -> Option<u8> {
    match track.state {
        TrackState::Active => Some(255),
        TrackState::Lost => Some(LOST_ALPHA),
        TrackState::Tentative | TrackState::Ended => None,
    }
}

#[cfg(test)]
mod tests;
