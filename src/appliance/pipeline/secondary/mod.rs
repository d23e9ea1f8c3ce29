//! The cascade: secondary networks look at what the first one found.
//!
//! ```text
//!   track ── crops of tracked objects ──► sgie-NAME-0 … ── findings ──► track ──► votes, attributes, events
//!              bounded queue a network      batches of crops     │
//!                                           ◄── crops of the boxes that a secondary detector found
//! ```
//!
//! The follower cuts objects out of the picture when it knows the tracks, and goes on: a crop that finds its queue full is
//! dropped and counted, and a finding counts for its track whenever it comes. So nothing here holds up the primary detector.
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

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use jetwatch_record::OverflowPolicy;
use jetwatch_source::PixelPool;
use jetwatch_types::{
    Attribute, Attributes, FrameMeta, Image, SourceId, Track, TrackId, TrackState, area,
};

use self::crop::Crop;
use self::network::{InFlightToken, Network};
use self::votes::{Vote, Votes};

pub(super) use self::counters::NamedCounters;
pub use self::prepare::{PreparedSecondary, all_networks, prepare_secondary};
pub(super) use self::worker::{SecondaryWorker, WorkerContext};

/// Batches of crops that may wait for a network.
const QUEUED_BATCHES: usize = 4;

/// Crops that may wait for a network at least.
const LEAST_QUEUE: usize = 16;

/// A box that has grown to so many times its area since the last look is looked at again: there is more to see.
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

/// What a network says of one crop.
pub(super) struct SecondaryResult {
    network: usize,
    source: SourceId,
    track: TrackId,
    votes: Vec<Vote>,
    /// Given back once it was heard.
    _token: InFlightToken,
}

impl SecondaryResult {
    /// The source of the crop.
    pub(super) fn source(&self) -> SourceId {
        self.source
    }
}

/// The follower's side of all secondary networks.
pub(super) struct SecondaryInference {
    networks: Vec<Arc<Network>>,
    queues: Vec<Sender<CropJob>>,
    tracks: HashMap<(SourceId, TrackId), TrackEntry>,
    pool: PixelPool,
    /// Crops of each source that are with networks.
    in_flight: Vec<InFlightToken>,
}

/// What is known of one track.
struct TrackEntry {
    /// One for each network.
    histories: Vec<NetworkHistory>,
    attributes: Attributes,
}

/// What one network has seen of one track.
#[derive(Default)]
struct NetworkHistory {
    votes: Votes,
    /// A crop is on its way.
    pending: bool,
    results: usize,
    /// The track's age and area at the newest look.
    age_frames: u32,
    area: f32,
}

impl SecondaryInference {
    /// The follower's side of `prepared`, and what the workers of each network need.
    /// `overflow` says what becomes of crops that a network cannot keep up with.
    pub(super) fn new(
        prepared: &[PreparedSecondary],
        overflow: OverflowPolicy,
    ) -> (Self, Vec<WorkerContext>) {
        let networks: Vec<Arc<Network>> = prepared
            .iter()
            .map(|prepared| Arc::new(Network::new(prepared)))
            .collect();
        let (queues, jobs): (Vec<Sender<CropJob>>, Vec<Receiver<CropJob>>) = networks
            .iter()
            .map(|network| match overflow {
                OverflowPolicy::Drop => {
                    bounded((QUEUED_BATCHES * network.batch_size).max(LEAST_QUEUE))
                }
                OverflowPolicy::Block => unbounded(),
            })
            .unzip();
        let pool = PixelPool::default();
        let station = |(index, jobs): (usize, Receiver<CropJob>)| {
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
        let stations = jobs.into_iter().enumerate().map(station).collect();
        let cascade = Self {
            networks,
            queues,
            tracks: HashMap::new(),
            pool,
            in_flight: Vec::new(),
        };
        (cascade, stations)
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
            // Its crops come from the workers of the detector that it stands on.
            if network
                .parent
                .is_some_and(|parent| self.networks[parent].is_detector)
            {
                continue;
            }
            let mut objects = 0;
            let mut is_blind = false;
            for track in tracks {
                if track.state != TrackState::Active
                    || !network.is_large_enough(&track.xyxy)
                    || !self.accepts(&network, meta.source, track)
                {
                    continue;
                }
                objects += 1;
                let looks = self.history(meta.source, track.id, index);
                if !looks.is_due(&network, track) {
                    continue;
                }
                let Some(image) = image else {
                    is_blind = true;
                    continue;
                };
                self.send(index, meta, track, image);
            }
            network.counters.eligible(objects);
            if is_blind {
                network.counters.without_pixels();
            }
        }
    }

    /// Takes what a network says; returns the attributes of the track now, unless it is over.
    pub(super) fn on_result(&mut self, result: SecondaryResult) -> Option<(TrackId, Attributes)> {
        let network = &self.networks[result.network];
        let Some(known) = self.tracks.get_mut(&(result.source, result.track)) else {
            network.counters.late();
            return None;
        };
        let looks = &mut known.histories[result.network];
        looks.pending = false;
        looks.results += 1;
        looks.votes.add(&network.rule, result.votes);
        known.attributes = known.current_attributes(&self.networks);
        Some((result.track, known.attributes.clone()))
    }

    /// Adds what is known to the tracks of a source.
    pub(super) fn attach_attributes(&self, source: SourceId, tracks: &mut [Track]) {
        for track in tracks {
            if let Some(known) = self.tracks.get(&(source, track.id)) {
                track.attributes.clone_from(&known.attributes);
            }
        }
    }

    /// A track is over.
    pub(super) fn remove_track(&mut self, source: SourceId, track: TrackId) {
        self.tracks.remove(&(source, track));
    }

    /// Whether crops of this source are still with networks.
    pub(super) fn is_busy_with(&self, source: SourceId) -> bool {
        let claim = self.in_flight.get(source.index());
        claim.is_some_and(InFlightToken::is_shared)
    }

    /// Whether any crops are still with networks.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight.iter().any(InFlightToken::is_shared)
    }

    /// How many crops are with networks.
    pub(super) fn pending(&self) -> usize {
        self.in_flight.iter().map(InFlightToken::count).sum()
    }

    /// Whether a network looks at objects such as this track.
    fn accepts(&self, network: &Network, source: SourceId, track: &Track) -> bool {
        match network.parent {
            None => network.accepts(track.class),
            Some(parent) => self
                .tracks
                .get(&(source, track.id))
                .is_some_and(|known| known.parent_accepts(&self.networks, parent, network)),
        }
    }

    fn history(&mut self, source: SourceId, track: TrackId, network: usize) -> &mut NetworkHistory {
        let known = match self.tracks.entry((source, track)) {
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
        &mut known.histories[network]
    }

    fn send(&mut self, index: usize, meta: &FrameMeta, track: &Track, image: &Image) {
        let network = Arc::clone(&self.networks[index]);
        let size = meta.source_size;
        let Some(crop) = Crop::from_image(image, size, &track.xyxy, network.margin, &self.pool)
        else {
            return;
        };
        // Sources come while others run.
        let place = meta.source.index();
        if self.in_flight.len() <= place {
            self.in_flight
                .resize_with(place + 1, InFlightToken::default);
        }
        let claim = self.in_flight[place].clone();
        let job = CropJob {
            source: meta.source,
            track: track.id,
            seq: meta.seq,
            crop,
            queued_at: Instant::now(),
            token: claim,
        };
        if self.queues[index].try_send(job).is_err() {
            network.counters.dropped();
            return;
        }
        let looks = self.history(meta.source, track.id, index);
        looks.pending = true;
        looks.age_frames = track.age_frames;
        looks.area = area(&track.xyxy);
    }
}

impl TrackEntry {
    /// All that holds, by the order of the networks.
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

    /// Whether what a network says still counts: what it stands on must hold.
    fn is_valid(&self, networks: &[Arc<Network>], index: usize) -> bool {
        let network = &networks[index];
        network.parent.is_none_or(|parent| {
            self.parent_accepts(networks, parent, network) && self.is_valid(networks, parent)
        })
    }

    /// Whether `parent` has decided on something that `network` looks at.
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
