// SPDX-License-Identifier: Apache-2.0
//! Secondary inference: secondary networks run on crops of tracked objects.
//!
//! ```text
//!   track ── crops of tracked objects ──► sgie-NAME-0 … ── results ───► track ──► votes, attributes, events
//!              bounded queue a network      batches of crops     │
//!                                           ◄── crops of the boxes of a secondary detector
//! ```
//!
//! The tracking stage cuts crops out of the full image once it knows the tracks, and does not wait: a crop that finds its queue
//! full is dropped and counted, and a result counts for its track whenever it arrives. So the primary detector is never delayed.
//! Each network has threads of its own.

mod counters;
mod crop;
mod network;
mod prepare;
mod votes;
mod worker;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded};

use jetwatch_types::{
    Attribute, Attributes, FrameMeta, Image, PixelPool, SourceId, Track, TrackId, TrackState, area,
};

use self::network::InFlightToken;
use self::votes::{Vote, Votes};

pub(super) use self::counters::NamedCounters;
pub(super) use self::crop::Crop;
pub(super) use self::network::Network;
pub(super) use self::prepare::take_appearance;
pub use self::prepare::{PreparedSecondary, all_networks, check_boxes, prepare_secondary};
pub(super) use self::worker::{SecondaryWorkers, WorkerContext, scaled_frame};

/// Batches of crops that may wait for a network.
const QUEUED_BATCHES: usize = 4;

/// Smallest capacity of the queue of a network, in crops.
const MIN_QUEUE_CAPACITY: usize = 16;

/// A box whose area has grown by this factor since its last crop is inferred again: it shows more detail.
const REINFER_AREA_RATIO: f32 = 1.5;

/// A crop on its way to a network.
pub(super) struct CropJob {
    source: SourceId,
    track: TrackId,
    seq: u64,
    crop: Crop,
    queued_at: Instant,
    token: InFlightToken,
}

/// The result of a network for one crop.
pub(super) struct SecondaryResult {
    network: usize,
    source: SourceId,
    track: TrackId,
    votes: Vec<Vote>,
    /// Released once the result is processed.
    _token: InFlightToken,
}

impl SecondaryResult {
    /// The source of the crop.
    pub(super) fn source(&self) -> SourceId {
        self.source
    }
}

/// The state of secondary inference in the tracking stage.
pub(super) struct SecondaryInference {
    networks: Vec<Arc<Network>>,
    queues: Vec<Sender<CropJob>>,
    tracks: HashMap<(SourceId, TrackId), TrackEntry>,
    pool: PixelPool,
    /// Tokens of the crops of each source that are with networks.
    in_flight: Vec<InFlightToken>,
}

/// The state of one track.
struct TrackEntry {
    /// One for each network.
    histories: Vec<NetworkHistory>,
    attributes: Attributes,
}

/// The results of one network for one track.
#[derive(Default)]
struct NetworkHistory {
    votes: Votes,
    /// A crop is with the network.
    pending: bool,
    results: usize,
    /// Age of the track, in frames, and area of its box at the newest crop.
    age_frames: u32,
    area: f32,
}

impl SecondaryInference {
    /// The state for the networks `prepared`, and the context of the workers of each.
    pub(super) fn new(prepared: &[PreparedSecondary]) -> (Self, Vec<WorkerContext>) {
        let networks: Vec<Arc<Network>> = prepared
            .iter()
            .map(|prepared| Arc::new(Network::new(prepared)))
            .collect();
        let (queues, jobs): (Vec<Sender<CropJob>>, Vec<Receiver<CropJob>>) = networks
            .iter()
            .map(|network| bounded((QUEUED_BATCHES * network.batch_size).max(MIN_QUEUE_CAPACITY)))
            .unzip();
        let pool = PixelPool::default();
        let context = |(index, jobs): (usize, Receiver<CropJob>)| {
            let children = networks.iter().zip(&queues);
            let boxes_of = |(child, _): &(&Arc<Network>, &Sender<CropJob>)| {
                child.parent == Some(index) && networks[index].is_detector
            };
            let children = children.filter(boxes_of);
            WorkerContext {
                index,
                network: Arc::clone(&networks[index]),
                jobs,
                children: children
                    .map(|(child, queue)| (Arc::clone(child), queue.clone()))
                    .collect(),
                pool: pool.clone(),
            }
        };
        let contexts = jobs.into_iter().enumerate().map(context).collect();
        let secondary = Self {
            networks,
            queues,
            tracks: HashMap::new(),
            pool,
            in_flight: Vec::new(),
        };
        (secondary, contexts)
    }

    /// Names and counters of the networks.
    pub(super) fn counters(&self) -> Vec<NamedCounters> {
        self.networks
            .iter()
            .map(|network| (Arc::clone(&network.name), Arc::clone(&network.counters)))
            .collect()
    }

    /// Sends crops of those tracks of a frame that are due to their networks. Does not wait.
    pub(super) fn enqueue(&mut self, meta: &FrameMeta, tracks: &[Track], image: Option<&Image>) {
        for index in 0..self.networks.len() {
            let network = Arc::clone(&self.networks[index]);
            // Its crops come from the workers of its parent, a detector.
            if network
                .parent
                .is_some_and(|parent| self.networks[parent].is_detector)
            {
                continue;
            }
            let (mut objects, mut small) = (0, 0);
            let mut lacks_image = false;
            for track in tracks {
                if track.state != TrackState::Active || !self.accepts(&network, meta.source, track)
                {
                    continue;
                }
                if !network.is_large_enough(&track.xyxy) {
                    small += 1;
                    continue;
                }
                objects += 1;
                let history = self.history(meta.source, track.id, index);
                if !history.is_due(&network, track) {
                    continue;
                }
                let Some(image) = image else {
                    lacks_image = true;
                    continue;
                };
                self.send(index, meta, track, image);
            }
            network.counters.eligible(objects, small);
            if lacks_image {
                network.counters.without_pixels();
            }
        }
    }

    /// Processes a result; returns the new attributes of the track, unless it has ended.
    pub(super) fn on_result(&mut self, result: SecondaryResult) -> Option<(TrackId, Attributes)> {
        let network = &self.networks[result.network];
        let Some(entry) = self.tracks.get_mut(&(result.source, result.track)) else {
            network.counters.late();
            return None;
        };
        let history = &mut entry.histories[result.network];
        history.pending = false;
        history.results += 1;
        history.votes.add(&network.rule, result.votes);
        entry.attributes = entry.current_attributes(&self.networks);
        Some((result.track, entry.attributes.clone()))
    }

    /// Adds the attributes to the tracks of a source.
    pub(super) fn attach_attributes(&self, source: SourceId, tracks: &mut [Track]) {
        for track in tracks {
            if let Some(entry) = self.tracks.get(&(source, track.id)) {
                track.attributes.clone_from(&entry.attributes);
            }
        }
    }

    /// A track has ended.
    pub(super) fn remove_track(&mut self, source: SourceId, track: TrackId) {
        self.tracks.remove(&(source, track));
    }

    /// Whether crops of this source are still with networks.
    pub(super) fn is_busy_with(&self, source: SourceId) -> bool {
        let token = self.in_flight.get(source.index());
        token.is_some_and(InFlightToken::is_shared)
    }

    /// Whether any crops are still with networks.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight.iter().any(InFlightToken::is_shared)
    }

    /// Whether a network accepts this track.
    fn accepts(&self, network: &Network, source: SourceId, track: &Track) -> bool {
        match network.parent {
            None => network.accepts(track.class),
            Some(parent) => self
                .tracks
                .get(&(source, track.id))
                .is_some_and(|entry| entry.parent_accepts(&self.networks, parent, network)),
        }
    }

    fn history(&mut self, source: SourceId, track: TrackId, network: usize) -> &mut NetworkHistory {
        let entry = match self.tracks.entry((source, track)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(TrackEntry {
                histories: self
                    .networks
                    .iter()
                    .map(|_| NetworkHistory::default())
                    .collect(),
                attributes: Attributes::default(),
            }),
        };
        &mut entry.histories[network]
    }

    fn send(&mut self, index: usize, meta: &FrameMeta, track: &Track, image: &Image) {
        let network = Arc::clone(&self.networks[index]);
        let size = meta.source_size;
        let Some(crop) = Crop::from_image(image, size, &track.xyxy, network.margin, &self.pool)
        else {
            return;
        };
        // Sources are added while others run.
        let place = meta.source.index();
        if self.in_flight.len() <= place {
            self.in_flight
                .resize_with(place + 1, InFlightToken::default);
        }
        let token = self.in_flight[place].clone();
        let job = CropJob {
            source: meta.source,
            track: track.id,
            seq: meta.seq,
            crop,
            queued_at: Instant::now(),
            token,
        };
        if self.queues[index].try_send(job).is_err() {
            network.counters.dropped();
            return;
        }
        let history = self.history(meta.source, track.id, index);
        history.pending = true;
        history.age_frames = track.age_frames;
        history.area = area(&track.xyxy);
    }
}

impl TrackEntry {
    /// All valid attributes, in the order of the networks.
    fn current_attributes(&self, networks: &[Arc<Network>]) -> Attributes {
        let mut attributes = Vec::new();
        for (index, network) in networks.iter().enumerate() {
            if !self.is_valid(networks, index) {
                continue;
            }
            attributes.extend(
                self.histories[index]
                    .votes
                    .decided()
                    .iter()
                    .map(|vote| Attribute {
                        name: Arc::clone(&network.name),
                        label: network.label(vote.class),
                        score: vote.score.min(1.0),
                        xyxy: vote.xyxy,
                    }),
            );
        }
        attributes.into()
    }

    /// Whether the results of a network are valid: those of its parent must be, too.
    fn is_valid(&self, networks: &[Arc<Network>], index: usize) -> bool {
        let network = &networks[index];
        network.parent.is_none_or(|parent| {
            self.parent_accepts(networks, parent, network) && self.is_valid(networks, parent)
        })
    }

    /// Whether `parent` has decided on a class that `network` accepts.
    fn parent_accepts(&self, networks: &[Arc<Network>], parent: usize, network: &Network) -> bool {
        let decided = self.histories[parent].votes.decided();
        decided.iter().any(|vote| network.accepts(vote.class)) && self.is_valid(networks, parent)
    }
}

impl NetworkHistory {
    fn is_due(&self, network: &Network, track: &Track) -> bool {
        !self.pending
            && (self.results < network.rule.window
                || track.age_frames.saturating_sub(self.age_frames) >= network.reinfer_interval
                || area(&track.xyxy) >= REINFER_AREA_RATIO * self.area)
    }
}

#[cfg(test)]
mod tests;
