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

use jetwatch_record::Lag;
use jetwatch_source::PixelPool;
use jetwatch_types::{
    Attribute, Attributes, FrameMeta, Picture, SourceId, Track, TrackId, TrackState, area,
};

use self::crop::Crop;
use self::network::{Claim, Network};
use self::votes::{Vote, Votes};

pub(super) use self::counters::Named;
pub use self::prepare::{PreparedSecondary, all_networks, prepare_secondary};
pub(super) use self::worker::{Station, work};

/// Batches of crops that may wait for a network.
const QUEUED_BATCHES: usize = 4;

/// Crops that may wait for a network at least.
const LEAST_QUEUE: usize = 16;

/// A box that has grown to so many times its area since the last look is looked at again: there is more to see.
const GROWN: f32 = 1.5;

/// A crop on its way to a network.
pub(super) struct Job {
    source: SourceId,
    track: TrackId,
    seq: u64,
    crop: Crop,
    since: Instant,
    claim: Claim,
}

/// What a network says of one crop.
pub(super) struct Finding {
    network: usize,
    source: SourceId,
    track: TrackId,
    votes: Vec<Vote>,
    /// Given back once it was heard.
    _claim: Claim,
}

impl Finding {
    /// The source of the crop.
    pub(super) fn source(&self) -> SourceId {
        self.source
    }
}

/// The follower's side of all secondary networks.
pub(super) struct Cascade {
    networks: Vec<Arc<Network>>,
    queues: Vec<Sender<Job>>,
    known: HashMap<(SourceId, TrackId), Known>,
    pool: PixelPool,
    /// Crops of each source that are with networks.
    claims: Vec<Claim>,
}

/// What is known of one track.
struct Known {
    /// One for each network.
    looks: Vec<Looks>,
    attributes: Attributes,
}

/// What one network has seen of one track.
#[derive(Default)]
struct Looks {
    votes: Votes,
    /// A crop is on its way.
    pending: bool,
    done: usize,
    /// The track's age and area at the newest look.
    age_frames: u32,
    area: f32,
}

impl Cascade {
    /// The follower's side of `prepared`, and what the workers of each network need.
    /// `lag` says what becomes of crops that a network cannot keep up with.
    pub(super) fn new(prepared: &[PreparedSecondary], lag: Lag) -> (Self, Vec<Station>) {
        let networks: Vec<Arc<Network>> = prepared
            .iter()
            .map(|prepared| Arc::new(Network::new(prepared)))
            .collect();
        let (queues, jobs): (Vec<Sender<Job>>, Vec<Receiver<Job>>) = networks
            .iter()
            .map(|network| match lag {
                Lag::Drops => bounded((QUEUED_BATCHES * network.batch_size).max(LEAST_QUEUE)),
                Lag::Waits => unbounded(),
            })
            .unzip();
        let pool = PixelPool::default();
        let station = |(index, jobs): (usize, Receiver<Job>)| {
            let children = networks.iter().zip(&queues);
            let boxes_of = |(child, _): &(&Arc<Network>, &Sender<Job>)| {
                child.parent == Some(index) && networks[index].gives_boxes
            };
            let children = children.filter(boxes_of);
            Station {
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
            known: HashMap::new(),
            pool,
            claims: Vec::new(),
        };
        (cascade, stations)
    }

    /// Names and counters of the networks.
    pub(super) fn counters(&self) -> Vec<Named> {
        self.networks
            .iter()
            .map(|network| (Arc::clone(&network.name), Arc::clone(&network.counters)))
            .collect()
    }

    /// Sends crops of those tracks of a frame that are due to their networks. Does not wait.
    pub(super) fn look(&mut self, meta: &FrameMeta, tracks: &[Track], picture: Option<&Picture>) {
        for index in 0..self.networks.len() {
            let network = Arc::clone(&self.networks[index]);
            // Its crops come from the workers of the detector that it stands on.
            if network
                .parent
                .is_some_and(|parent| self.networks[parent].gives_boxes)
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
                let looks = self.looks(meta.source, track.id, index);
                if !looks.is_due(&network, track) {
                    continue;
                }
                let Some(picture) = picture else {
                    is_blind = true;
                    continue;
                };
                self.send(index, meta, track, picture);
            }
            network.counters.eligible(objects);
            if is_blind {
                network.counters.without_pixels();
            }
        }
    }

    /// Takes what a network says; returns the attributes of the track now, unless it is over.
    pub(super) fn hear(&mut self, finding: Finding) -> Option<(TrackId, Attributes)> {
        let network = &self.networks[finding.network];
        let Some(known) = self.known.get_mut(&(finding.source, finding.track)) else {
            network.counters.late();
            return None;
        };
        let looks = &mut known.looks[finding.network];
        looks.pending = false;
        looks.done += 1;
        looks.votes.add(&network.rule, finding.votes);
        known.attributes = known.say(&self.networks);
        Some((finding.track, known.attributes.clone()))
    }

    /// Adds what is known to the tracks of a source.
    pub(super) fn describe(&self, source: SourceId, tracks: &mut [Track]) {
        for track in tracks {
            if let Some(known) = self.known.get(&(source, track.id)) {
                track.attributes.clone_from(&known.attributes);
            }
        }
    }

    /// A track is over.
    pub(super) fn forget(&mut self, source: SourceId, track: TrackId) {
        self.known.remove(&(source, track));
    }

    /// Whether crops of this source are still with networks.
    pub(super) fn is_busy_with(&self, source: SourceId) -> bool {
        let claim = self.claims.get(source.index());
        claim.is_some_and(Claim::is_shared)
    }

    /// Whether any crops are still with networks.
    pub(super) fn is_busy(&self) -> bool {
        self.claims.iter().any(Claim::is_shared)
    }

    /// How many crops are with networks.
    pub(super) fn pending(&self) -> usize {
        self.claims.iter().map(Claim::others).sum()
    }

    /// Whether a network looks at objects such as this track.
    fn accepts(&self, network: &Network, source: SourceId, track: &Track) -> bool {
        match network.parent {
            None => network.accepts(track.class),
            Some(parent) => self
                .known
                .get(&(source, track.id))
                .is_some_and(|known| known.grants(&self.networks, parent, network)),
        }
    }

    fn looks(&mut self, source: SourceId, track: TrackId, network: usize) -> &mut Looks {
        let known = match self.known.entry((source, track)) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Known {
                looks: self.networks.iter().map(|_| Looks::default()).collect(),
                attributes: Attributes::default(),
            }),
        };
        &mut known.looks[network]
    }

    fn send(&mut self, index: usize, meta: &FrameMeta, track: &Track, picture: &Picture) {
        let network = Arc::clone(&self.networks[index]);
        let size = meta.source_size;
        let Some(crop) = Crop::of_picture(picture, size, &track.xyxy, network.margin, &self.pool)
        else {
            return;
        };
        // Sources come while others run.
        let place = meta.source.index();
        if self.claims.len() <= place {
            self.claims.resize_with(place + 1, Claim::default);
        }
        let claim = self.claims[place].clone();
        let job = Job {
            source: meta.source,
            track: track.id,
            seq: meta.seq,
            crop,
            since: Instant::now(),
            claim,
        };
        if self.queues[index].try_send(job).is_err() {
            network.counters.dropped();
            return;
        }
        let looks = self.looks(meta.source, track.id, index);
        looks.pending = true;
        looks.age_frames = track.age_frames;
        looks.area = area(&track.xyxy);
    }
}

impl Known {
    /// All that holds, by the order of the networks.
    fn say(&self, networks: &[Arc<Network>]) -> Attributes {
        let mut said = Vec::new();
        for (index, network) in networks.iter().enumerate() {
            if !self.stands(networks, index) {
                continue;
            }
            said.extend(
                self.looks[index]
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
        said.into()
    }

    /// Whether what a network says still counts: what it stands on must hold.
    fn stands(&self, networks: &[Arc<Network>], index: usize) -> bool {
        let network = &networks[index];
        network.parent.is_none_or(|parent| {
            self.grants(networks, parent, network) && self.stands(networks, parent)
        })
    }

    /// Whether `parent` has decided on something that `network` looks at.
    fn grants(&self, networks: &[Arc<Network>], parent: usize, network: &Network) -> bool {
        let decided = self.looks[parent].votes.decided();
        decided.iter().any(|vote| network.accepts(vote.class)) && self.stands(networks, parent)
    }
}

impl Looks {
    fn is_due(&self, network: &Network, track: &Track) -> bool {
        !self.pending
            && (self.done < network.rule.looks
                || track.age_frames.saturating_sub(self.age_frames) >= network.reinfer_interval
                || area(&track.xyxy) >= GROWN * self.area)
    }
}

#[cfg(test)]
mod tests;
