//! Linux, a call at a time. This layer knows the kernel and not why it is asked.
//!
//! `unsafe` lives here (and, with shared memory, in `shm`), each use with its note.

#![expect(unsafe_code, reason = "this layer and `shm` are where it may be")]

pub mod cgroup;
pub mod cpu;
mod exit;
pub mod fds;
pub mod limits;
pub mod pidfd;
pub mod poll;
pub mod process;
mod program;
pub mod signals;
pub mod terminal;
