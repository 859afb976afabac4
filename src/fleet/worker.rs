//! A worker's life: prepare, say ready, run one order after the other, leave when the link ends.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use super::call::{self, TaskError};
use super::protocol::{self, Answer, Hello, Marks, Order, Place, Setup};
use super::registry::{Call, Registry};
use crate::probe::clock::{self, Nanos};
use crate::probe::memory::Resident;
use crate::probe::usage::Usage;
use crate::sys::process::{Pid, die_with, set_name};
use crate::sys::{fds, signals};
use crate::transport::{Link, LinkError, Stream, codec, frame};

/// The descriptors that a forked worker is given.
#[derive(Debug)]
pub(super) struct Roads {
    /// To its supervisor.
    pub(super) link: OwnedFd,
    /// What becomes its standard output.
    pub(super) output: OwnedFd,
    /// What becomes its standard error.
    pub(super) errors: OwnedFd,
}

/// The life of a worker that was executed; returns its exit code.
pub(super) fn main(parent: u32) -> i32 {
    let born = clock::now();
    set_name(c"fleet-worker");
    signals::unblock_all();
    if !die_with(Pid(parent)) {
        return 0;
    }
    let Ok(fd) = fds::take_link() else { return 1 };
    let mut link = Stream::from(fd);
    let Ok(Some(frame)) = link.receive() else { return 0 };
    let Ok((Order::Prepare(place), setup)) = protocol::read::<Order>(frame) else { return 1 };
    let Ok(setup) = codec::decode::<Setup>(setup) else { return 1 };
    let preloaded = Registry::own().run_errands(&setup.preload);
    Worker::new(link, place, born).live(preloaded, &setup)
}

/// The life of a worker that was forked with its preload done; returns its exit code.
pub(super) fn forked(roads: Roads, parent: Pid, setup: &Setup, place: Place) -> i32 {
    let born = clock::now();
    let Roads { link, output, errors } = roads;
    if fds::become_stdio(&output, &errors).is_err() {
        return 1;
    }
    fds::close_all_except(&[link.as_fd()]);
    set_name(c"fleet-worker");
    // The copies of these are closed already, by number.
    std::mem::forget((output, errors));
    if !die_with(parent) {
        return 0;
    }
    Worker::new(Stream::from(link), place, born).live(Ok(()), setup)
}

/// The largest result of a task, in bytes once it is encoded; an answer has some bytes more.
pub const LARGEST_RESULT: usize = frame::LARGEST - 1024;

struct Worker {
    link: Stream,
    place: Place,
    born: Nanos,
    buffer: Vec<u8>,
}

impl Worker {
    fn new(link: Stream, place: Place, born: Nanos) -> Worker {
        Worker { link, place, born, buffer: Vec::new() }
    }

    fn live(mut self, preloaded: Result<(), String>, setup: &Setup) -> i32 {
        call::keep_panics();
        let prepared = preloaded.and_then(|()| prepare(setup));
        let lived = match prepared {
            Ok(()) => self.serve(setup.reports_resident),
            Err(reason) => self.tell(&Answer::Unfit { reason }, &[]),
        };
        let _ = std::io::stdout().flush();
        match lived {
            // A supervisor that left is no failure of ours.
            Ok(()) | Err(LinkError::Closed) => 0,
            Err(_) => 1,
        }
    }

    fn serve(&mut self, reports_resident: bool) -> Result<(), LinkError> {
        let mut resident = if reports_resident { Resident::open().ok() } else { None };
        self.tell(&Answer::Ready { hello: Hello::own(), born: self.born }, &[])?;
        let mut call = Call::default();
        while let Some(frame) = self.link.receive()? {
            let arrived = clock::now();
            let (order, input) = protocol::read::<Order>(frame)?;
            match order {
                // It is prepared already; a supervisor of ours does not send this.
                Order::Prepare(_) => return Ok(()),
                Order::Report => {
                    let usage = Usage::of_this_process()?;
                    self.tell(&Answer::Report(usage), &[])?;
                }
                Order::Run { lease, function } => {
                    let run = || Registry::own().run(function, input, &mut call);
                    let result = call::during(lease, self.place.slot, run);
                    // What the task has printed belongs to it, not to the next one.
                    let _ = std::io::stdout().flush();
                    let started = call.started.max(arrived);
                    let marks = Marks { arrived, started, finished: call.finished.max(started) };
                    let resident = resident.as_mut().and_then(|resident| resident.read().ok());
                    let ended = |is_good| Answer::Ended { lease, is_good, marks, resident };
                    match result {
                        Ok(()) if call.output.len() > LARGEST_RESULT => {
                            let bytes = call.output.len();
                            let error =
                                format!("its result is {bytes} bytes, and {LARGEST_RESULT} is the most");
                            self.tell(&ended(false), &encoded(&TaskError::said(error))?)?;
                        }
                        Ok(()) => self.tell(&ended(true), &call.output)?,
                        Err(error) => self.tell(&ended(false), &encoded(&error)?)?,
                    }
                    call.forget_much();
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self, answer: &Answer, payload: &[u8]) -> Result<(), LinkError> {
        self.buffer.clear();
        protocol::write(answer, payload, &mut self.buffer)?;
        let told = self.link.send(&self.buffer);
        forget_much(&mut self.buffer);
        told
    }
}

fn encoded(error: &TaskError) -> Result<Vec<u8>, LinkError> {
    let mut bytes = Vec::new();
    codec::encode(error, &mut bytes)?;
    Ok(bytes)
}

impl Call {
    /// After a task: what a large result took is given back.
    fn forget_much(&mut self) {
        self.output.clear();
        forget_much(&mut self.output);
        (self.started, self.finished) = (0, 0);
    }
}

/// More room than this, in bytes, is not kept from one task to the next.
const KEPT: usize = 64 << 10;

fn forget_much(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT {
        *buffer = Vec::new();
    }
}

/// What a worker does for itself before its first task.
fn prepare(setup: &Setup) -> Result<(), String> {
    if let Some(directory) = &setup.directory {
        std::env::set_current_dir(directory)
            .map_err(|cause| format!("cannot work in {}: {cause}", directory.display()))?;
    }
    setup.ceilings.apply().map_err(|cause| format!("cannot limit itself: {cause}"))?;
    Registry::own().run_errands(&setup.init)
}
