//! Signals as something to read, so that one wait covers them and everything else.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Somebody wants us to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Ctrl-C.
    Interrupt,
    /// A polite `kill`.
    Terminate,
}

impl Wish {
    /// The exit code that tells a shell of this end: 128 and the signal's number.
    pub fn exit_code(self) -> u8 {
        match self {
            Wish::Interrupt => 130,
            Wish::Terminate => 143,
        }
    }
}

/// Undoes what was blocked by whoever started this process.
pub fn unblock_all() {
    let _ = SigSet::empty().thread_set_mask();
}

/// Keeps every signal away from this thread: the others of its process have them.
pub fn block_all() {
    let _ = SigSet::all().thread_set_mask();
}

/// Wishes to end, collected instead of obeyed.
#[derive(Debug)]
pub struct Wishes {
    signals: SignalFd,
    before: SigSet,
}

impl Wishes {
    /// From now on, SIGINT and SIGTERM are read here. Processes started meanwhile inherit that these are blocked, and
    /// undo it with [`unblock_all`].
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn collect() -> io::Result<Wishes> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGINT);
        mask.add(Signal::SIGTERM);
        let before = mask.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK)?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Wishes { signals, before })
    }

    /// The next wish, if one has come.
    pub fn next(&self) -> Option<Wish> {
        let info = self.signals.read_signal().ok().flatten()?;
        let terminate = info.ssi_signo == Signal::SIGTERM as u32;
        Some(if terminate { Wish::Terminate } else { Wish::Interrupt })
    }
}

impl AsFd for Wishes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signals.as_fd()
    }
}

impl Drop for Wishes {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}
