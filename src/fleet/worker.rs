//! A worker's life: say ready, run one order after the other, leave when the link ends.

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::protocol::{self, Answer, Hello, Marks, Order};
use crate::probe::clock::{self, Nanos};
use crate::probe::usage::Usage;
use crate::sys::process::{Pid, die_with, set_name};
use crate::sys::{fds, signals};
use crate::transport::{Link, LinkError, Stream};

/// What a worker does with an order's payload.
pub trait Handler: std::fmt::Debug {
    /// Runs one task: reads `input`, and writes the result into `call`.
    ///
    /// # Errors
    /// The task's own failure, in words. The worker lives on.
    fn handle(&mut self, input: &[u8], call: &mut Call) -> Result<(), String>;
}

/// Makes a handler from its configuration. A plain function, so that a fork needs nothing and an exec finds it again.
pub type MakeHandler = fn(config: &[u8]) -> Result<Box<dyn Handler>, String>;

/// One call of a handler: where its result goes, and when its work began and ended.
#[derive(Debug, Default)]
pub struct Call {
    started: Nanos,
    finished: Nanos,
    output: Vec<u8>,
}

impl Call {
    /// Runs `work`, which is the task itself; what comes before and after it in a handler is decoding and encoding.
    pub fn work<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.started = clock::now();
        let result = work();
        self.finished = clock::now();
        result
    }

    /// Where the result goes.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    fn marks(&self, arrived: Nanos) -> Marks {
        let started = self.started.max(arrived);
        Marks { arrived, started, finished: self.finished.max(started) }
    }
}

/// The life of a worker that was executed; returns its exit code.
pub fn main(parent: u32, make: MakeHandler) -> i32 {
    let born = clock::now();
    set_name(c"fleet-worker");
    signals::unblock_all();
    if !die_with(Pid(parent)) {
        return 0;
    }
    let Ok(fd) = fds::take_link() else { return 1 };
    let mut link = Stream::from(fd);
    let handler = match link.receive() {
        Ok(Some(frame)) => match protocol::read::<Order>(frame) {
            Ok((Order::Configure, config)) => make(config),
            _ => return 1,
        },
        _ => return 0,
    };
    match handler {
        Ok(mut handler) => serve(&mut link, handler.as_mut(), born),
        Err(reason) => i32::from(tell(&mut link, &Answer::Unfit { reason }, &[], &mut Vec::new()).is_err()),
    }
}

/// The life of a worker that was forked with its handler made; returns its exit code.
pub(super) fn forked(fd: OwnedFd, parent: Pid, handler: &mut dyn Handler) -> i32 {
    let born = clock::now();
    fds::close_all_except(&[fd.as_fd()]);
    set_name(c"fleet-worker");
    if !die_with(parent) {
        return 0;
    }
    serve(&mut Stream::from(fd), handler, born)
}

fn serve(link: &mut Stream, handler: &mut dyn Handler, born: Nanos) -> i32 {
    match try_serve(link, handler, born) {
        // A supervisor that left is no failure of ours.
        Ok(()) | Err(LinkError::Closed) => 0,
        Err(_) => 1,
    }
}

fn try_serve(link: &mut Stream, handler: &mut dyn Handler, born: Nanos) -> Result<(), LinkError> {
    let mut buffer = Vec::new();
    tell(link, &Answer::Ready { hello: Hello::own(), born }, &[], &mut buffer)?;
    let mut call = Call::default();
    while let Some(frame) = link.receive()? {
        let arrived = clock::now();
        let (order, input) = protocol::read::<Order>(frame)?;
        match order {
            // It has its handler already; a supervisor of ours does not send this.
            Order::Configure => return Ok(()),
            Order::Report => {
                let usage = Usage::of_this_process()?;
                tell(link, &Answer::Report(usage), &[], &mut buffer)?;
            }
            Order::Run(lease) => {
                call.output.clear();
                // A panic is the task's failure, and the next task meets the handler as the panic left it.
                let result = catch_unwind(AssertUnwindSafe(|| handler.handle(input, &mut call)))
                    .unwrap_or_else(|panic| Err(panic_message(&*panic)));
                let marks = call.marks(arrived);
                match result {
                    Ok(()) => tell(link, &Answer::Done(lease, marks), &call.output, &mut buffer)?,
                    Err(message) => {
                        tell(link, &Answer::Failed(lease, marks), message.as_bytes(), &mut buffer)?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn tell(link: &mut Stream, answer: &Answer, payload: &[u8], buffer: &mut Vec<u8>) -> Result<(), LinkError> {
    buffer.clear();
    protocol::write(answer, payload, buffer)?;
    link.send(buffer)
}

/// What a panic said.
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.as_deref().unwrap_or("no message"))
}
