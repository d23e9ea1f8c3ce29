// SPDX-License-Identifier: Apache-2.0
//! Numbers of active tracks of one source as they are published: of each label, and of each group of labels.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jetwatch_track::ClassCount;
use jetwatch_types::{Classes, FrameClock, FrameMeta};

use super::count_hold::CountHold;

/// The counts of one source.
#[derive(Debug)]
pub(crate) struct ActiveCounts {
    classes: Arc<Classes>,
    hold: Duration,
    clock: FrameClock,
    /// By class: the tracks of the newest frame, and what is published. A class is here from its first object on.
    labels: BTreeMap<u16, (u32, CountHold)>,
    groups: Vec<CountHold>,
    /// Later frames may change what is published although no count changes.
    is_held: bool,
}

/// A count that is to be published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountChange<'c> {
    /// Of a label.
    Label(&'c str, usize),
    /// Of a group.
    Group(&'c str, usize),
}

impl ActiveCounts {
    /// No tracks yet. A count that falls is published once it has been lower for `hold` by `clock`.
    pub(crate) fn new(classes: Arc<Classes>, hold: Duration, clock: FrameClock) -> Self {
        Self {
            classes,
            hold,
            clock,
            labels: BTreeMap::new(),
            groups: Vec::new(),
            is_held: false,
        }
    }

    /// Takes the classes whose number a frame has changed; passes what is to be published to `changed`. For every frame.
    pub(crate) fn step(
        &mut self,
        meta: &FrameMeta,
        changes: &[ClassCount],
        changed: impl FnMut(CountChange<'_>),
    ) {
        let (at, hold) = (self.clock.step(meta), self.hold);
        let step = |held: &mut CountHold, count| held.step(count, at, hold);
        self.update(changes, step, changed);
    }

    /// As [`step`](Self::step) for the end of all tracks: nothing is held any more.
    pub(crate) fn settle(&mut self, changes: &[ClassCount], changed: impl FnMut(CountChange<'_>)) {
        self.update(changes, CountHold::settle, changed);
    }

    fn update(
        &mut self,
        changes: &[ClassCount],
        mut step: impl FnMut(&mut CountHold, u32) -> Option<u32>,
        mut changed: impl FnMut(CountChange<'_>),
    ) {
        if changes.is_empty() && !self.is_held {
            return;
        }
        for change in changes {
            // There are far fewer tracks than that.
            let count = u32::try_from(change.count).unwrap_or(u32::MAX);
            self.labels.entry(change.class).or_default().0 = count;
        }
        self.is_held = false;
        for (class, (count, held)) in &mut self.labels {
            let published = step(held, *count);
            self.is_held |= held.is_held();
            // A class without a label cannot come out of a checked model.
            if let (Some(published), Some(label)) = (published, self.classes.label(*class)) {
                changed(CountChange::Label(label, published as usize));
            }
        }
        let groups = self.classes.groups();
        self.groups.resize_with(groups.len(), CountHold::default);
        for (index, (held, group)) in self.groups.iter_mut().zip(groups).enumerate() {
            let labels = self.labels.iter();
            let labels =
                labels.filter(|(class, _)| self.classes.group_index(**class) == Some(index));
            let published = step(held, labels.map(|(_, (count, _))| *count).sum());
            self.is_held |= held.is_held();
            if let Some(published) = published {
                changed(CountChange::Group(group, published as usize));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_types::{LabelGroup, Size};

    struct Fixture {
        counts: ActiveCounts,
        first: FrameMeta,
    }

    impl Fixture {
        fn new(hold_ms: u64) -> Self {
            let labels = ["person", "car", "truck"].map(str::to_owned);
            let group = LabelGroup {
                name: "vehicle".to_owned(),
                labels: labels[1..].to_vec(),
            };
            let classes = Arc::new(Classes::new(&labels, &[group]));
            let hold = Duration::from_millis(hold_ms);
            Self {
                counts: ActiveCounts::new(classes, hold, FrameClock::default()),
                first: FrameMeta::for_test(0, 0, Size::new(1, 1)),
            }
        }

        /// What a frame with these changes publishes; without a time, the end of all tracks.
        fn update(&mut self, at_ms: Option<u64>, changes: &[(u16, usize)]) -> Vec<String> {
            let changes: Vec<ClassCount> = changes
                .iter()
                .map(|&(class, count)| ClassCount { class, count })
                .collect();
            let mut published = Vec::new();
            let changed = |change: CountChange<'_>| {
                let (CountChange::Label(name, count) | CountChange::Group(name, count)) = change;
                published.push(format!("{name} {count}"));
            };
            match at_ms {
                Some(at) => {
                    let meta = FrameMeta {
                        received_at: self.first.received_at + Duration::from_millis(at),
                        ..self.first
                    };
                    self.counts.step(&meta, &changes, changed);
                }
                None => self.counts.settle(&changes, changed),
            }
            published
        }
    }

    #[test]
    fn group_count_changes_only_with_the_sum_of_its_classes() {
        let mut fixture = Fixture::new(0);
        let mut update = |changes: &[(u16, usize)]| fixture.update(Some(0), changes);
        assert_eq!(update(&[(0, 3)]), ["person 3"]);
        assert_eq!(update(&[(1, 2), (2, 1)]), ["car 2", "truck 1", "vehicle 3"]);
        // A truck is taken for a car.
        assert_eq!(update(&[(1, 3), (2, 0)]), ["car 3", "truck 0"]);
        assert_eq!(update(&[(1, 0)]), ["car 0", "vehicle 0"]);
    }

    #[test]
    fn counts_that_fall_are_published_by_a_later_frame_or_at_the_end() {
        let mut fixture = Fixture::new(500);
        assert_eq!(
            fixture.update(Some(0), &[(0, 2), (1, 1)]),
            ["person 2", "car 1", "vehicle 1"]
        );
        // A car is taken for a truck: the group does not notice.
        assert_eq!(fixture.update(Some(100), &[(1, 0), (2, 1)]), ["truck 1"]);
        assert_eq!(fixture.update(Some(599), &[]), [""; 0]);
        assert_eq!(fixture.update(Some(600), &[]), ["car 0"]);
        assert_eq!(fixture.update(Some(700), &[(0, 1)]), [""; 0]);
        assert_eq!(
            fixture.update(None, &[(2, 0)]),
            ["person 1", "truck 0", "vehicle 0"]
        );
        assert_eq!(fixture.update(None, &[]), [""; 0]);
    }
}
