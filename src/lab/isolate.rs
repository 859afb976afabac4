//! Has a lab child do something, and waits for it without being held up by anything else.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use super::child::{ChildOrder, ChildReport};
use crate::probe::clock;
use crate::role::Role;
use crate::sys::fds;
use crate::sys::process::{Birth, Child, Exit, Pid, Program};
use crate::sys::signals::{Wish, Wishes};
use crate::transport::{Arrival, FrameError, Link, LinkError, Stream, codec};

/// Why a lab child has no report for us.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// It could not be started.
    #[error("cannot start a lab process: {0}")]
    Start(io::Error),
    /// It died.
    #[error("its process {exit}{}", said(.last_words))]
    Died {
        /// How.
        exit: Exit,
        /// The end of what it wrote to standard error.
        last_words: String,
    },
    /// It took too long, and was killed.
    #[error("it did not end within {}s and was killed{}", .after.as_secs(), said(.last_words))]
    TimedOut {
        /// The time it had.
        after: Duration,
        /// The end of what it wrote to standard error.
        last_words: String,
    },
    /// Somebody asked twice for us to end.
    #[error("interrupted")]
    Interrupted,
    /// It said what no lab child says.
    #[error("the lab process cannot be understood: {0}")]
    Link(#[from] LinkError),
    /// What the kernel says.
    #[error("cannot wait for a lab process: {0}")]
    Wait(io::Error),
}

fn said(last_words: &str) -> String {
    if last_words.is_empty() { String::new() } else { format!("; it said: {last_words}") }
}

/// How much of a child's standard error is told, in bytes.
const LAST_WORDS: u64 = 400;

/// Starts lab children, and hears wishes to end meanwhile.
#[derive(Debug)]
pub struct Isolation {
    program: Program,
    wishes: Option<Wishes>,
    wish: Option<Wish>,
}

impl Isolation {
    /// Children of `program`; wishes to end are the caller's business.
    pub fn new(program: Program) -> Isolation {
        Isolation { program, wishes: None, wish: None }
    }

    /// The same, and SIGINT and SIGTERM are heard: the first is kept for [`Isolation::wish`] while the current child
    /// goes on, the second ends it.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn heeding_wishes(program: Program) -> io::Result<Isolation> {
        Ok(Isolation { program, wishes: Some(Wishes::collect()?), wish: None })
    }

    /// The first wish to end that has come.
    pub fn wish(&mut self) -> Option<Wish> {
        if self.wish.is_none() {
            self.wish = self.wishes.as_ref().and_then(Wishes::next);
        }
        self.wish
    }

    /// Has a fresh process do `order`, within `within`.
    ///
    /// The child leads a process group of its own, so that Ctrl-C reaches us alone; and it dies with us.
    ///
    /// # Errors
    /// If the child dies or takes too long, or a second wish to end comes. Nothing of it is left then.
    pub fn run(&mut self, order: &ChildOrder, within: Duration) -> Result<ChildReport, ChildError> {
        let (mut link, theirs) = Stream::pair().map_err(ChildError::Start)?;
        let errors = fds::unnamed_file("fleet-errors").map_err(ChildError::Start)?;
        let birth = Birth {
            program: &self.program,
            role: Role::LabChild { parent: Pid::own().0 },
            link: theirs,
            output: None,
            errors: Some(errors.try_clone().map_err(ChildError::Start)?.into()),
            own_group: true,
        };
        let mut child = Child::spawn(birth).map_err(ChildError::Start)?;
        let mut bytes = Vec::new();
        codec::encode(order, &mut bytes).map_err(LinkError::from)?;
        match link.send(&bytes) {
            Ok(()) | Err(LinkError::Closed) => {}
            Err(cause) => return Err(cause.into()),
        }
        let last_words = || last_words(&errors);
        let give_up = clock::now() + within.as_nanos() as u64;
        loop {
            match link.try_receive() {
                Ok(Arrival::Frame(frame)) => {
                    let report = codec::decode(frame).map_err(LinkError::from)?;
                    child.wait().map_err(ChildError::Wait)?;
                    return Ok(report);
                }
                Ok(Arrival::Nothing) => {}
                Ok(Arrival::Closed) | Err(LinkError::Closed | LinkError::Frame(FrameError::Torn { .. })) => {
                    let exit = child.wait().map_err(ChildError::Wait)?;
                    return Err(ChildError::Died { exit, last_words: last_words() });
                }
                Err(cause) => return Err(cause.into()),
            }
            let left = give_up.saturating_sub(clock::now()).div_ceil(1_000_000);
            if left == 0 {
                child.kill();
                return Err(ChildError::TimedOut { after: within, last_words: last_words() });
            }
            self.wait(&link, u32::try_from(left).unwrap_or(u32::MAX))?;
        }
    }

    /// Waits for the child, for a wish, or for `millis`.
    fn wait(&mut self, link: &Stream, millis: u32) -> Result<(), ChildError> {
        let mut watched = vec![link.as_fd()];
        watched.extend(self.wishes.as_ref().map(AsFd::as_fd));
        let ready = fds::wait_readable(&watched, Some(millis)).map_err(ChildError::Wait)?;
        if ready.get(1) == Some(&true) {
            let heard_before = self.wish.is_some();
            let wish = self.wishes.as_ref().and_then(Wishes::next);
            if heard_before && wish.is_some() {
                return Err(ChildError::Interrupted);
            }
            self.wish = self.wish.or(wish);
        }
        Ok(())
    }
}

/// The end of what was written, on one line.
fn last_words(errors: &std::fs::File) -> String {
    let length = errors.metadata().map_or(0, |meta| meta.len());
    let from = length.saturating_sub(LAST_WORDS);
    let mut bytes = vec![0; (length - from) as usize];
    let read = errors.read_at(&mut bytes, from).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..read]);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" | ")
}
