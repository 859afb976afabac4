//! A descriptor for a process: it cannot come to mean another one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{self as rx, PidfdFlags, Signal};

use super::process::Pid;

/// A descriptor for a process, readable once the process has ended.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// The descriptor of a process whose number is still its own: a child that nobody has reaped.
    ///
    /// # Errors
    /// If there is no such process, or no descriptor is left.
    pub fn open(pid: Pid) -> io::Result<PidFd> {
        let raw = rx::Pid::from_raw(pid.0 as i32).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(PidFd(rx::pidfd_open(raw, PidfdFlags::empty())?))
    }

    /// Ends the process at once.
    ///
    /// # Errors
    /// If it has ended already.
    pub fn kill(&self) -> io::Result<()> {
        Ok(rx::pidfd_send_signal(&self.0, Signal::KILL)?)
    }

    /// Asks the process to end, and wakes it if it was stopped, so that it can.
    ///
    /// # Errors
    /// If it has ended already.
    pub fn terminate(&self) -> io::Result<()> {
        rx::pidfd_send_signal(&self.0, Signal::TERM)?;
        Ok(rx::pidfd_send_signal(&self.0, Signal::CONT)?)
    }
}

impl From<OwnedFd> for PidFd {
    fn from(fd: OwnedFd) -> PidFd {
        PidFd(fd)
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
