// SPDX-License-Identifier: Apache-2.0
//! Messages of nvmsgconv's full schema as structs. Field names and types are DeepStream's.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::wire::Utc;
use jetwatch_config::{Coordinate, Location};

/// One object and one event.
#[derive(Debug, Serialize)]
pub(super) struct FullBody<'a> {
    pub messageid: String,
    pub mdsversion: &'static str,
    #[serde(rename = "@timestamp")]
    pub timestamp: Utc,
    pub place: PlaceBody<'a>,
    pub sensor: SensorBody<'a>,
    #[serde(rename = "analyticsModule")]
    pub analytics_module: AnalyticsModuleBody<'a>,
    pub object: ObjectBody<'a>,
    pub event: EventBody,
    #[serde(rename = "videoPath")]
    pub video_path: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct PlaceBody<'a> {
    pub id: &'a str,
    pub name: &'a str,
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub location: LocationBody,
    #[serde(flatten)]
    pub part: PartBody<'a>,
}

/// The part of a place that is seen; its name depends on the object and the event.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PartBody<'a> {
    Aisle {
        id: &'a str,
        name: &'a str,
        level: &'a str,
        coordinate: CoordinateBody,
    },
    Entrance {
        name: &'a str,
        lane: &'a str,
        level: &'a str,
        coordinate: CoordinateBody,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct SensorBody<'a> {
    pub id: &'a str,
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub description: &'a str,
    pub location: LocationBody,
    pub coordinate: CoordinateBody,
}

#[derive(Debug, Serialize)]
pub(super) struct AnalyticsModuleBody<'a> {
    pub id: &'a str,
    pub description: &'static str,
    pub source: &'static str,
    pub version: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct ObjectBody<'a> {
    /// Number of the track.
    pub id: String,
    /// Not estimated, as the next two.
    pub speed: f64,
    pub direction: f64,
    pub orientation: f64,
    /// Under the name of its kind, or its label.
    #[serde(flatten)]
    pub attributes: BTreeMap<&'a str, KindBody<'a>>,
    pub bbox: BoxBody,
    /// Not known, as the next one.
    pub location: LocationBody,
    pub coordinate: CoordinateBody,
    /// Not estimated.
    pub pose: BTreeMap<&'static str, ()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedding: Option<EmbeddingBody<'a>>,
}

/// What is known of an object of a kind.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum KindBody<'a> {
    Vehicle {
        #[serde(rename = "type")]
        kind: &'a str,
        make: &'a str,
        model: &'a str,
        color: &'a str,
        #[serde(rename = "licenseState")]
        license_state: &'a str,
        license: &'a str,
        confidence: f32,
    },
    Person {
        age: u32,
        gender: &'a str,
        hair: &'a str,
        cap: &'a str,
        apparel: &'a str,
        confidence: f32,
    },
    Face {
        age: u32,
        gender: &'a str,
        hair: &'a str,
        cap: &'a str,
        glasses: &'a str,
        facialhair: &'a str,
        name: &'a str,
        eyecolor: &'a str,
        confidence: f32,
    },
    Product {
        brand: &'a str,
        #[serde(rename = "type")]
        kind: &'a str,
        shape: &'a str,
    },
    Other {},
}

#[derive(Debug, Serialize)]
pub(super) struct BoxBody {
    pub topleftx: u32,
    pub toplefty: u32,
    pub bottomrightx: u32,
    pub bottomrighty: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct EmbeddingBody<'a> {
    embedding_length: usize,
    embedding_vector: &'a [f32],
}

impl<'a> EmbeddingBody<'a> {
    pub fn new(vector: &'a [f32]) -> Self {
        Self {
            embedding_length: vector.len(),
            embedding_vector: vector,
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct EventBody {
    pub id: String,
    #[serde(rename = "type")]
    pub step: &'static str,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct LocationBody {
    lat: f32,
    lon: f32,
    alt: f32,
}

impl From<Location> for LocationBody {
    fn from(location: Location) -> Self {
        let Location { lat, lon, alt } = location;
        Self { lat, lon, alt }
    }
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct CoordinateBody {
    x: f32,
    y: f32,
    z: f32,
}

impl From<Coordinate> for CoordinateBody {
    fn from(coordinate: Coordinate) -> Self {
        let Coordinate { x, y, z } = coordinate;
        Self { x, y, z }
    }
}
