//! A zygote: a small process with one thread that is prepared once, and forks workers which inherit that. It reaps its
//! workers and tells the supervisor how each one ended. When its control road ends, it kills what is left and leaves.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::protocol::{self, Hello, Place, Setup, ZygoteAnswer, ZygoteOrder};
use super::registry::Registry;
use super::worker::{self, Roads};
use crate::sys::process::{self, Child, Pid, die_with, set_name};
use crate::sys::{fds, signals};
use crate::transport::codec;

/// The largest message on a control road, in bytes. A setup, which may be of any size, comes as a file.
pub(super) const LARGEST_MESSAGE: usize = 4 << 10;

/// The life of a zygote that was executed; returns its exit code.
pub(super) fn main(parent: u32) -> i32 {
    if !die_with(Pid(parent)) {
        return 0;
    }
    let Ok(control) = fds::take_link() else { return 1 };
    set_name(c"fleet-zygote");
    signals::unblock_all();
    live(&control, None)
}

/// The life of a zygote that was forked from a caller that is prepared already; returns its exit code.
pub(super) fn forked(control: &OwnedFd, parent: Pid, setup: Setup) -> i32 {
    fds::close_all_except(&[control.as_fd()]);
    set_name(c"fleet-zygote");
    if !die_with(parent) {
        return 0;
    }
    live(control, Some(setup))
}

fn live(control: &OwnedFd, setup: Option<Setup>) -> i32 {
    let mut zygote = Zygote { control, setup, workers: BTreeMap::new(), buffer: vec![0; LARGEST_MESSAGE] };
    while let Ok(true) = zygote.turn() {}
    0
}

struct Zygote<'a> {
    control: &'a OwnedFd,
    setup: Option<Setup>,
    workers: BTreeMap<u64, Child>,
    buffer: Vec<u8>,
}

impl Zygote<'_> {
    /// Waits for an order or a death, and deals with it; false once the supervisor is gone.
    fn turn(&mut self) -> io::Result<bool> {
        let mut watched: Vec<BorrowedFd<'_>> = vec![self.control.as_fd()];
        watched.extend(self.workers.values().map(|worker| worker.pidfd().as_fd()));
        let ready = fds::wait_readable(&watched, None)?;
        let ended = self.workers.keys().zip(&ready[1..]).filter(|(_, ended)| **ended);
        for worker in ended.map(|(worker, _)| *worker).collect::<Vec<_>>() {
            if let Some(mut ended) = self.workers.remove(&worker) {
                let death = ended.reap()?;
                self.tell(&ZygoteAnswer::Ended { worker, death }, None)?;
            }
        }
        if ready[0] { self.obey() } else { Ok(true) }
    }

    fn obey(&mut self) -> io::Result<bool> {
        let (length, gifts) = fds::receive_with(self.control.as_fd(), &mut self.buffer, true)?;
        if length == 0 {
            return Ok(false);
        }
        let (order, _) = protocol::read::<ZygoteOrder>(&self.buffer[..length]).map_err(io::Error::other)?;
        match order {
            ZygoteOrder::Prepare => {
                let mut bytes = Vec::new();
                let file = gifts.into_iter().next().ok_or_else(|| io::Error::other("no setup came along"))?;
                std::fs::File::from(file).read_to_end(&mut bytes)?;
                let setup: Setup = codec::decode(&bytes).map_err(io::Error::other)?;
                let prepared = Registry::own().run_errands(&setup.preload).map(|()| Hello::own());
                self.setup = Some(setup);
                self.tell(&ZygoteAnswer::Prepared(prepared), None)?;
            }
            ZygoteOrder::Fork(place) => self.fork(place, gifts)?,
        }
        Ok(true)
    }

    fn fork(&mut self, place: Place, gifts: Vec<OwnedFd>) -> io::Result<()> {
        let worker = place.worker;
        let refuse = |why: &str| ZygoteAnswer::Forked { worker, pid: Err(why.to_owned()) };
        let Ok([link, output, errors]) = <[OwnedFd; 3]>::try_from(gifts) else {
            return self.tell(&refuse("three descriptors did not come along"), None);
        };
        let Some(setup) = &self.setup else {
            return self.tell(&refuse("the zygote is not prepared"), None);
        };
        let (roads, parent) = (Roads { link, output, errors }, Pid::own());
        match process::fork(true, || worker::forked(roads, parent, setup, place)) {
            Ok(child) => {
                let forked = ZygoteAnswer::Forked { worker, pid: Ok(child.pid()) };
                self.tell(&forked, Some(child.pidfd().as_fd()))?;
                self.workers.insert(worker, child);
                Ok(())
            }
            Err(cause) => self.tell(&refuse(&cause.to_string()), None),
        }
    }

    fn tell(&self, answer: &ZygoteAnswer, gift: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut message = Vec::new();
        protocol::write(answer, &[], &mut message).map_err(io::Error::other)?;
        fds::send_with(self.control.as_fd(), &message, gift.as_slice())
    }
}
