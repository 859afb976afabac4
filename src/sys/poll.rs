//! Waiting for many descriptors at once, and a bell to end the wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Descriptors to wait for, each under a number of its watcher's.
#[derive(Debug)]
pub struct Poll(Epoll);

/// Something has happened to a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The number that it is watched under.
    pub token: u64,
    /// It can be read, or has ended.
    pub reads: bool,
    /// It can be written.
    pub writes: bool,
}

/// The most that one wait tells; what is more is told by the next one.
const MOST: usize = 256;

impl Poll {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn new() -> io::Result<Poll> {
        Ok(Poll(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?))
    }

    /// Watches for something to read, for as long as the descriptor is open somewhere, or until it is forgotten.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn watch(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        Ok(self.0.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, token))?)
    }

    /// Watches a descriptor that is watched already for room to write too, or no longer.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn watch_room(&self, fd: BorrowedFd<'_>, token: u64, is_wanted: bool) -> io::Result<()> {
        let room = if is_wanted { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
        Ok(self.0.modify(fd, &mut EpollEvent::new(EpollFlags::EPOLLIN | room, token))?)
    }

    /// Watches it no longer. One that was not watched is no error.
    pub fn forget(&self, fd: BorrowedFd<'_>) {
        let _ = self.0.delete(fd);
    }

    /// Waits until something has happened, or `millis` have passed (`None`: for ever), and says what.
    ///
    /// # Errors
    /// What the kernel says; a signal is no error and reads as nothing.
    pub fn wait(&self, millis: Option<u64>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let mut events = [EpollEvent::empty(); MOST];
        let timeout = millis
            .map_or(EpollTimeout::NONE, |millis| EpollTimeout::try_from(millis).unwrap_or(EpollTimeout::MAX));
        let count = match self.0.wait(&mut events, timeout) {
            Err(nix::Error::EINTR) => 0,
            other => other?,
        };
        ready.extend(events[..count].iter().map(|event| Ready {
            token: event.data(),
            reads: event.events().intersects(!EpollFlags::EPOLLOUT),
            writes: event.events().contains(EpollFlags::EPOLLOUT),
        }));
        Ok(())
    }
}

/// Ends a wait from another thread.
#[derive(Debug)]
pub struct Bell(EventFd);

impl Bell {
    /// A silent one.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?))
    }

    /// Makes it readable.
    pub fn ring(&self) {
        // It can only fail where it rings already.
        let _ = self.0.write(1);
    }

    /// Makes it silent.
    pub fn hush(&self) {
        let _ = self.0.read();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fds;

    #[test]
    fn what_happens_is_told_under_its_number_until_it_is_forgotten() {
        let (poll, bell) = (Poll::new().unwrap(), Bell::new().unwrap());
        let (here, there) = fds::stream_pair().unwrap();
        poll.watch(bell.as_fd(), 7).unwrap();
        poll.watch(here.as_fd(), 8).unwrap();
        let mut ready = Vec::new();
        poll.wait(Some(0), &mut ready).unwrap();
        assert_eq!(ready, []);
        bell.ring();
        poll.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 7, reads: true, writes: false }]);
        bell.hush();
        poll.watch_room(here.as_fd(), 8, true).unwrap();
        poll.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 8, reads: false, writes: true }]);
        poll.watch_room(here.as_fd(), 8, false).unwrap();
        drop(there);
        poll.wait(None, &mut ready).unwrap();
        assert!(ready[0].reads && ready[0].token == 8);
        poll.forget(here.as_fd());
        poll.wait(Some(0), &mut ready).unwrap();
        assert_eq!(ready, []);
    }
}
