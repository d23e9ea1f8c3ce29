// SPDX-License-Identifier: Apache-2.0
//! Profiles of Nsight Systems: recorded by [`profile`], read and evaluated by [`report`]. Called by `jetwatch profile` and
//! `jetwatch report`.

mod local_nsys;
pub mod profile;
pub mod report;
