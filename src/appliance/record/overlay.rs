// SPDX-License-Identifier: Apache-2.0
//! Overlay of one source's frames: zones and lines, trajectories of tracks, and boxes with class, track id and score.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Write;

use jetwatch_config::SceneRules;
use jetwatch_pixels::{Canvas, Color, Colors, Painter, whole_pixels};
use jetwatch_types::{Region, Size, Track, TrackId, TrackState, Xyxy};

/// Length of a trajectory, in frames.
const TRAIL_FRAMES: usize = 32;

/// Opacity of a label's background.
const LABEL_ALPHA: u8 = 200;

/// Opacity of a lost track's box.
const LOST_ALPHA: u8 = 110;

/// The color of zones and lines.
const RULES: Color = Color::new(0xff, 0xff, 0x5a);

/// Position of an image on a canvas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Viewport {
    /// Size of the source image, to which boxes refer.
    pub source: Size,
    /// Size of the image on the canvas.
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

/// Trajectory of a track.
#[derive(Clone)]
struct Trail {
    id: TrackId,
    /// Bottom centers of its boxes, in source pixels, the oldest first.
    positions: VecDeque<[f32; 2]>,
    is_current: bool,
}

/// The overlay of one source, with the trajectories of earlier frames.
#[derive(Clone)]
pub struct Overlay {
    labels: Vec<String>,
    rules: SceneRules,
    roi: Option<Region>,
    trails: Vec<Trail>,
    text: String,
}

impl Overlay {
    /// An overlay for a source; `labels` are the network's, indexed by class.
    pub fn new(labels: &[String]) -> Self {
        Self {
            labels: labels.to_vec(),
            rules: SceneRules::default(),
            roi: None,
            trails: Vec::new(),
            text: String::new(),
        }
    }

    /// Also draws zones and lines.
    #[must_use]
    pub fn with_rules(mut self, rules: &SceneRules) -> Self {
        self.rules = rules.clone();
        self
    }

    /// Also draws the border of the network's region of interest.
    #[must_use]
    pub fn with_roi(mut self, roi: Option<Region>) -> Self {
        self.roi = roi;
        self
    }

    /// The label of a class; its number as text, where it has none.
    pub fn label(&self, class: u16) -> Cow<'_, str> {
        match self.labels.get(usize::from(class)) {
            Some(label) => label.into(),
            None => format!("class {class}").into(),
        }
    }

    /// Draws `tracks` over a frame: lost tracks are more transparent than active ones and have no label, others are not drawn. The
    /// canvas covers exactly the image.
    pub fn draw(&mut self, canvas: &mut Canvas<'_>, viewport: Viewport, tracks: &[Track]) {
        let painter = Painter::for_size(canvas.size());
        let factors = viewport.factors();
        self.draw_rules(canvas, painter);
        self.update_trails(tracks);
        for trail in &self.trails {
            let class = tracks.iter().find(|track| track.id == trail.id);
            let color = Color::for_class(class.map_or(0, |track| track.class));
            let fill = canvas.color_fill(color, 255);
            let steps = trail.positions.iter().zip(trail.positions.iter().skip(1));
            for (from, to) in steps {
                let scaled = |point: &[f32; 2]| [point[0] * factors[0], point[1] * factors[1]];
                painter.draw_line(canvas, scaled(from), scaled(to), &fill);
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
                let fill = canvas.color_fill(Color::for_class(track.class), alpha_of(track)?);
                Some((to_canvas(track), fill))
            })
            .collect();
        painter.draw_boxes(canvas, &boxes);
        for track in tracks {
            self.draw_label(canvas, painter, &to_canvas(track), track);
        }
    }

    /// Draws the label of an active track above its box. A lost one has none: it may not be there.
    fn draw_label(
        &mut self,
        canvas: &mut Canvas<'_>,
        painter: Painter,
        xyxy: &Xyxy,
        track: &Track,
    ) {
        let Some(outer) = whole_pixels(xyxy).filter(|_| track.state == TrackState::Active) else {
            return;
        };
        self.text.clear();
        let score = (track.score.clamp(0.0, 1.0) * 100.0).round();
        // Writing to a string cannot fail.
        let _ = match self.labels.get(usize::from(track.class)) {
            Some(label) => write!(self.text, "{label} {} {score}%", track.id),
            None => write!(self.text, "class {} {} {score}%", track.class, track.id),
        };
        let colors = Colors {
            background: canvas.color_fill(Color::for_class(track.class), LABEL_ALPHA),
            text: canvas.color_fill(Color::BLACK, 255),
        };
        painter.draw_label(canvas, outer.left, outer.top, &self.text, &colors);
    }

    /// Draws zones (borders only), lines, and their names at the first point.
    fn draw_rules(&self, canvas: &mut Canvas<'_>, painter: Painter) {
        let size = canvas.size();
        let in_pixels =
            |point: &[f32; 2]| [point[0] * size.width as f32, point[1] * size.height as f32];
        let fill = canvas.color_fill(RULES, 255);
        let colors = Colors {
            background: canvas.color_fill(Color::BLACK, LABEL_ALPHA),
            text: fill,
        };
        if let Some(roi) = &self.roi {
            let [left, top] = [roi.left, roi.top];
            let [right, bottom] = [left + roi.width, top + roi.height];
            let corners = [[left, top], [right, top], [right, bottom], [left, bottom]];
            for (from, to) in corners.iter().zip(corners.iter().cycle().skip(1)) {
                painter.draw_line(canvas, in_pixels(from), in_pixels(to), &fill);
            }
        }
        for zone in &self.rules.zones {
            let points = zone.area.points();
            let ends = points.iter().skip(1).chain(points.first());
            for (from, to) in points.iter().zip(ends) {
                painter.draw_line(canvas, in_pixels(from), in_pixels(to), &fill);
            }
            if let Some([x, y]) = points.first().map(in_pixels) {
                painter.draw_label(canvas, x as i32, y as i32, &zone.name, &colors);
            }
        }
        for rule in &self.rules.lines {
            let [from, to] = [rule.line.from, rule.line.to].map(|point| in_pixels(&point));
            painter.draw_line(canvas, from, to, &fill);
            painter.draw_label(canvas, from[0] as i32, from[1] as i32, &rule.name, &colors);
        }
    }

    /// Records the positions of tracks, and removes tracks that ended.
    fn update_trails(&mut self, tracks: &[Track]) {
        for trail in &mut self.trails {
            trail.is_current = false;
        }
        for track in tracks {
            if !matches!(track.state, TrackState::Active | TrackState::Lost) {
                continue;
            }
            let [left, _, right, bottom] = track.xyxy;
            let bottom_center = [(left + right) / 2.0, bottom];
            let existing = self.trails.iter_mut().find(|trail| trail.id == track.id);
            if let Some(trail) = existing {
                if trail.positions.len() == TRAIL_FRAMES {
                    trail.positions.pop_front();
                }
                trail.positions.push_back(bottom_center);
                trail.is_current = true;
            } else {
                let mut positions = VecDeque::with_capacity(TRAIL_FRAMES);
                positions.push_back(bottom_center);
                self.trails.push(Trail {
                    id: track.id,
                    positions,
                    is_current: true,
                });
            }
        }
        self.trails.retain(|trail| trail.is_current);
    }
}

/// Opacity of a track's box; `None` for tracks that are not shown.
fn alpha_of(track: &Track) -> Option<u8> {
    match track.state {
        TrackState::Active => Some(255),
        TrackState::Lost => Some(LOST_ALPHA),
        TrackState::Tentative | TrackState::Ended => None,
    }
}

#[cfg(test)]
mod tests;
