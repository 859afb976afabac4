//! **fleet** answers a question and then does the work: threads, async tasks or worker processes, and how many?
//!
//! The library has layers; a module imports downwards only, and a test holds it:
//!
//! | layer | modules | knows | does not know |
//! |---|---|---|---|
//! | face | [`cli`] | words, plans, output, exit codes | how anything is done |
//! | questions | [`lab`] | models, probes, reports | clap, terminals |
//! | engines | [`model`] | one face for serial, threads, tasks, processes | experiments |
//! | fleet | [`fleet`] | supervisor, workers, start methods | models, experiments |
//! | roads | [`transport`], [`report`] | bytes between processes; answers to people | tasks; each other |
//! | materials | [`workload`], [`probe`] | what is run; what is measured | who asks |
//! | kernel | [`sys`] | Linux, a call at a time | why it is called |
//! | words | [`units`], [`ids`], [`seed`], [`role`] | amounts, names, chance, roles | anything above |
//!
//! Running the three models of this crate on the same work, and seeing that they agree:
//!
//! ```
//! use fleet::ids::{Digest, Lanes, TaskId};
//! use fleet::model::{self, Job, Model};
//! use fleet::seed::Seed;
//!
//! let job = Job { workload: "cpu:1000".parse()?, seed: Seed(7), lanes: Lanes::new(2).expect("2 is possible") };
//! let tasks: Vec<TaskId> = (0..10).map(TaskId).collect();
//! let mut digests = Vec::new();
//! for model in [Model::Serial, Model::Threads, Model::Tasks] {
//!     let mut executor = model::build(model, job);
//!     executor.start()?;
//!     let mut digest = Digest::default();
//!     executor.run(&tasks, &mut |done| digest = digest.with(done.task, done.answer.expect("cpu tasks do not fail")))?;
//!     executor.stop()?;
//!     digests.push(digest);
//! }
//! assert!(digests.windows(2).all(|pair| pair[0] == pair[1]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod ids;
pub mod role;
pub mod seed;
pub mod units;

pub mod sys;

pub mod probe;
pub mod workload;

pub mod report;
pub mod transport;

pub mod fleet;

pub mod model;

pub mod lab;

pub mod cli;
