//! FLOOR 2: profiles taken: nsys around the daemon, on this machine or on another one over the system's ssh, and their exports.
//! It knows no pipeline and reads no profile; `report` does.
//!
//! The target's side is the shell script `target.sh`, the same here and there; `hand` talks to it, `take` gives the orders,
//! `nsys` decides what to trace from what that machine's nsys says of itself.

mod error;
mod export;
mod hand;
pub mod nsys;
mod place;
mod take;
mod target;

pub use error::ProfileError;
pub use export::Exporter;
pub use hand::Stopper;
pub use place::{Place, User};
pub use take::{Configuration, Order, Subject, Taken, Taker};
pub use target::Target;
