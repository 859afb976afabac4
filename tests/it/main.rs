//! The whole of `fleet`, on real processes.

#![expect(unreachable_pub, reason = "the rig is public to its tests and to nobody else")]

mod cli;
mod compare;
mod crashes;
mod layers;
mod limits;
mod models;
mod readme;
mod rig;
mod signals;
