// SPDX-License-Identifier: Apache-2.0
//! Secondary inference in the tracking stage: which tracks are inferred, when, and with which attributes.

use std::time::Duration;

use super::counters::Counters;
use super::votes::VoteRule;
use super::*;
use jetwatch_types::{Image, Placement, Size};

const SIZE: Size = Size::new(64, 48);

/// A classifier with labels `a` and `b`.
fn network(name: &str, parent: Option<usize>, classes: &[bool]) -> Network {
    Network {
        name: name.into(),
        labels: vec!["a".into(), "b".into()],
        parent,
        classes: classes.into(),
        min_object: Size::new(8, 8),
        margin: 0.0,
        batch_size: 1,
        batch_timeout: Duration::ZERO,
        reinfer_interval: 10,
        rule: VoteRule {
            window: 1,
            threshold: 0.5,
            allow_several: false,
        },
        is_detector: false,
        input: Size::new(16, 16),
        placement: Placement::Stretch,
        counters: Arc::new(Counters::new(64, 4)),
    }
}

/// Secondary inference with `networks` for one source, and the receivers of their queues.
fn secondary(networks: Vec<Network>, depth: usize) -> (SecondaryInference, Vec<Receiver<CropJob>>) {
    let (queues, jobs) = networks.iter().map(|_| bounded(depth)).unzip();
    let secondary = SecondaryInference {
        networks: networks.into_iter().map(Arc::new).collect(),
        queues,
        tracks: HashMap::new(),
        pool: PixelPool::default(),
        in_flight: vec![InFlightToken::default()],
    };
    (secondary, jobs)
}

fn meta(seq: u64) -> FrameMeta {
    FrameMeta::for_test(0, seq, SIZE)
}

fn pixels() -> Image {
    let bytes = vec![0; (SIZE.width * SIZE.height * 4) as usize];
    let image = Image::new(SIZE, SIZE.width as usize * 4, Box::new(bytes));
    image.expect("the memory is large enough")
}

/// A track of this class, as old as `age`, whose box has this side.
fn track(id: u64, class: u16, age: u32, side: f32) -> Track {
    Track {
        id: TrackId(id),
        state: TrackState::Active,
        class,
        score: 0.9,
        top_score: 0.9,
        xyxy: [4.0, 4.0, 4.0 + side, 4.0 + side],
        age_frames: age,
        hits: age,
        lost_frames: 0,
        attributes: Attributes::default(),
    }
}

/// The result of network number `network` for the crop in `job`.
fn result(network: usize, job: CropJob, class: u16) -> SecondaryResult {
    SecondaryResult {
        network,
        source: job.source,
        track: job.track,
        votes: vec![Vote {
            class,
            score: 0.9,
            xyxy: None,
        }],
        _token: job.token,
    }
}

fn ids(jobs: &Receiver<CropJob>) -> Vec<u64> {
    jobs.try_iter().map(|job| job.track.0).collect()
}

#[test]
fn visible_objects_of_chosen_classes_and_sufficient_size_are_enqueued() {
    let (mut secondary, jobs) = secondary(vec![network("n", None, &[false, true])], 16);
    let lost = Track {
        state: TrackState::Lost,
        ..track(4, 1, 3, 20.0)
    };
    let tracks = [
        track(1, 1, 3, 20.0),
        track(2, 0, 3, 20.0),
        track(3, 1, 3, 7.0),
        lost,
    ];
    secondary.enqueue(&meta(0), &tracks, Some(&pixels()));
    assert_eq!(ids(&jobs[0]), [1]);
    let stats = secondary.networks[0].counters.stats("n");
    assert_eq!(stats.objects_per_frame, 1.0);
    secondary.enqueue(&meta(1), &[track(5, 1, 3, 20.0)], None);
    let stats = secondary.networks[0].counters.stats("n");
    assert_eq!((stats.frames_without_pixels, ids(&jobs[0]).len()), (1, 0));
}

#[test]
fn a_track_is_inferred_again_after_the_interval_or_when_it_has_grown() {
    let (mut secondary, jobs) = secondary(vec![network("n", None, &[])], 16);
    let pixels = pixels();
    let mut infer = |age: u32, side: f32, is_answered: bool| {
        secondary.enqueue(&meta(age.into()), &[track(1, 0, age, side)], Some(&pixels));
        let job = jobs[0].try_recv().ok();
        let came = job.is_some();
        if let (Some(job), true) = (job, is_answered) {
            secondary.on_result(result(0, job, 0));
        }
        came
    };
    assert!(infer(3, 20.0, true), "the first");
    // Within the interval.
    assert!(!infer(4, 20.0, true) && !infer(12, 20.0, true));
    assert!(infer(13, 20.0, true), "after it");
    assert!(infer(14, 25.0, true), "it has grown by half");
    // After the interval; the answer is awaited.
    assert!(infer(24, 25.0, false));
    assert!(!infer(99, 40.0, true), "one at a time");
}

#[test]
fn a_full_queue_drops_and_counts_and_the_track_is_inferred_later() {
    let (mut secondary, jobs) = secondary(vec![network("n", None, &[])], 1);
    let pixels = pixels();
    let tracks = [track(1, 0, 3, 20.0), track(2, 0, 3, 20.0)];
    secondary.enqueue(&meta(0), &tracks, Some(&pixels));
    assert_eq!(secondary.networks[0].counters.stats("n").dropped_crops, 1);
    assert_eq!(ids(&jobs[0]), [1]);
    secondary.enqueue(&meta(1), &tracks, Some(&pixels));
    assert_eq!(ids(&jobs[0]), [2], "track 1 awaits its answer");
}

#[test]
fn tokens_keep_a_source_busy() {
    let (mut secondary, jobs) = secondary(vec![network("n", None, &[])], 16);
    assert!(!secondary.is_busy());
    secondary.enqueue(&meta(0), &[track(1, 0, 3, 20.0)], Some(&pixels()));
    assert!(secondary.is_busy_with(SourceId(0)));
    let job = jobs[0].try_recv().expect("it was sent");
    secondary.on_result(result(0, job, 1));
    assert!(!secondary.is_busy());
}

#[test]
fn a_result_for_an_ended_track_is_late() {
    let (mut secondary, jobs) = secondary(vec![network("n", None, &[])], 16);
    secondary.enqueue(&meta(0), &[track(1, 0, 3, 20.0)], Some(&pixels()));
    let job = jobs[0].try_recv().expect("it was sent");
    secondary.remove_track(SourceId(0), TrackId(1));
    assert!(secondary.on_result(result(0, job, 1)).is_none());
    assert_eq!(secondary.networks[0].counters.stats("n").late_results, 1);
}

#[test]
fn a_child_network_runs_after_its_parent_decided_and_is_withdrawn_with_it() {
    let networks = vec![
        // The child is first in the list: the user chooses the order.
        network("child", Some(1), &[false, true]),
        network("parent", None, &[]),
    ];
    let (mut secondary, jobs) = secondary(networks, 16);
    let pixels = pixels();
    let tracks = [track(1, 0, 3, 20.0)];
    secondary.enqueue(&meta(0), &tracks, Some(&pixels));
    assert_eq!(ids(&jobs[0]), [0_u64; 0], "nothing is decided");
    let job = jobs[1].try_recv().expect("a crop for the parent");
    let (_, attributes) = secondary
        .on_result(result(1, job, 1))
        .expect("a known track");
    let names = |attributes: &Attributes| -> Vec<String> {
        attributes
            .iter()
            .map(|one| format!("{} {}", one.name, one.label))
            .collect()
    };
    assert_eq!(names(&attributes), ["parent b"]);
    secondary.enqueue(&meta(1), &tracks, Some(&pixels));
    let job = jobs[0].try_recv().expect("a crop for the child");
    let (_, attributes) = secondary
        .on_result(result(0, job, 0))
        .expect("a known track");
    assert_eq!(names(&attributes), ["child a", "parent b"]);
    let mut described = tracks.to_vec();
    secondary.attach_attributes(SourceId(0), &mut described);
    assert_eq!(described[0].attributes, attributes);
    // The parent changes its decision to a class that the child does not accept.
    secondary.enqueue(&meta(20), &[track(1, 0, 23, 20.0)], Some(&pixels));
    let job = jobs[1].try_recv().expect("a second crop for the parent");
    let (_, attributes) = secondary
        .on_result(result(1, job, 0))
        .expect("a known track");
    assert_eq!(names(&attributes), ["parent a"]);
}
