//! Profiles of Nsight Systems: taken by [`profile`], read and judged by [`report`].

pub mod profile;
pub mod report;
