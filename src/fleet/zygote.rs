//! A zygote: a small process that was executed, has one thread, makes the handler once, and forks workers that
//! inherit it. It reaps its workers and tells the supervisor how each one ended. When its control road ends, it kills what is
//! left and leaves.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::protocol::{self, ZygoteAnswer, ZygoteOrder};
use super::worker::{self, Handler, MakeHandler};
use crate::sys::process::{self, Child, Pid, die_with, set_name};
use crate::sys::{fds, signals};

/// The largest message on a control road, in bytes: a configuration goes through it, payloads do not.
pub(super) const LARGEST_MESSAGE: usize = 64 << 10;

/// The life of a zygote that was executed; returns its exit code.
pub fn main(parent: u32, make: MakeHandler) -> i32 {
    if !die_with(Pid(parent)) {
        return 0;
    }
    fds::take_link().map_or(1, |control| live(&control, make))
}

fn live(control: &OwnedFd, make: MakeHandler) -> i32 {
    set_name(c"fleet-zygote");
    signals::unblock_all();
    let mut zygote =
        Zygote { control, make, handler: None, workers: Vec::new(), buffer: vec![0; LARGEST_MESSAGE] };
    while let Ok(true) = zygote.turn() {}
    0
}

struct Zygote<'a> {
    control: &'a OwnedFd,
    make: MakeHandler,
    handler: Option<Box<dyn Handler>>,
    workers: Vec<Child>,
    buffer: Vec<u8>,
}

impl Zygote<'_> {
    /// Waits for an order or a death, and deals with it; false once the supervisor is gone.
    fn turn(&mut self) -> io::Result<bool> {
        let mut watched: Vec<BorrowedFd<'_>> = vec![self.control.as_fd()];
        watched.extend(self.workers.iter().map(|worker| worker.pidfd().as_fd()));
        let ready = fds::wait_readable(&watched, None)?;
        for index in (0..self.workers.len()).rev().filter(|index| ready[index + 1]) {
            let mut ended = self.workers.swap_remove(index);
            let exit = ended.wait()?;
            self.tell(&ZygoteAnswer::Ended(ended.pid(), exit), None)?;
        }
        if ready[0] { self.obey() } else { Ok(true) }
    }

    fn obey(&mut self) -> io::Result<bool> {
        let (length, gift) = fds::receive_with(self.control.as_fd(), &mut self.buffer, true)?;
        if length == 0 {
            return Ok(false);
        }
        let (order, config) =
            protocol::read::<ZygoteOrder>(&self.buffer[..length]).map_err(io::Error::other)?;
        match (order, gift) {
            (ZygoteOrder::Configure, _) => {
                let made = (self.make)(config).map(|handler| self.handler = Some(handler));
                self.tell(&ZygoteAnswer::Configured(made), None)?;
            }
            (ZygoteOrder::Fork, Some(link)) => self.fork(link)?,
            (ZygoteOrder::Fork, None) => {
                self.tell(&ZygoteAnswer::Forked(Err("no link came along".into())), None)?;
            }
        }
        Ok(true)
    }

    fn fork(&mut self, link: OwnedFd) -> io::Result<()> {
        let Some(handler) = self.handler.as_mut() else {
            return self.tell(&ZygoteAnswer::Forked(Err("the zygote is not configured".into())), None);
        };
        let parent = Pid::own();
        match process::fork(false, || worker::forked(link, parent, handler.as_mut())) {
            Ok(child) => {
                self.tell(&ZygoteAnswer::Forked(Ok(child.pid())), Some(child.pidfd().as_fd()))?;
                self.workers.push(child);
                Ok(())
            }
            Err(cause) => self.tell(&ZygoteAnswer::Forked(Err(cause.to_string())), None),
        }
    }

    fn tell(&self, answer: &ZygoteAnswer, gift: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut message = Vec::new();
        protocol::write(answer, &[], &mut message).map_err(io::Error::other)?;
        fds::send_with(self.control.as_fd(), &message, gift)
    }
}
