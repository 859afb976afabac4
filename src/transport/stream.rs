//! A link over a Unix stream socket: a private pair, without a name, that ends with either side.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::socket::{MsgFlags, Shutdown, recv, sendmsg, shutdown};

use super::frame::{self, Frames};
use super::{Arrival, Link, LinkError, Outgoing};
use crate::sys::fds;

/// One end of the road.
#[derive(Debug)]
pub struct Stream {
    fd: OwnedFd,
    frames: Frames,
    was_reset: bool,
}

impl Stream {
    /// Two ends: ours, and the one to give to another process.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub fn pair() -> io::Result<(Stream, OwnedFd)> {
        let (here, there) = fds::stream_pair()?;
        Ok((Stream::from(here), there))
    }

    /// Whether the other side ended with something unread that we had sent.
    pub fn was_reset(&self) -> bool {
        self.was_reset
    }

    /// Says that no more frames will come from this side: the other one reads what was sent, and then the end.
    pub fn close_sending(&self) {
        let _ = shutdown(self.fd.as_raw_fd(), Shutdown::Write);
    }

    /// Reads once into the frames; says whether anything came. Nothing read means that the road has ended.
    fn read(&mut self, flags: MsgFlags) -> io::Result<usize> {
        loop {
            match recv(self.fd.as_raw_fd(), self.frames.room(), flags) {
                Ok(count) => {
                    self.frames.filled(count);
                    return Ok(count);
                }
                // A side that was killed while we had more for it to read resets the road instead of ending it.
                Err(nix::Error::ECONNRESET) => {
                    self.was_reset = true;
                    return Ok(0);
                }
                Err(nix::Error::EINTR) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
    }
}

impl From<OwnedFd> for Stream {
    fn from(fd: OwnedFd) -> Stream {
        Stream { fd, frames: Frames::default(), was_reset: false }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Link for Stream {
    fn send(&mut self, payload: &[u8]) -> Result<(), LinkError> {
        let header = frame::header(payload.len())?;
        let total = header.len() + payload.len();
        let mut sent = 0;
        while sent < total {
            let parts = [
                IoSlice::new(&header[sent.min(header.len())..]),
                IoSlice::new(&payload[sent.saturating_sub(header.len())..]),
            ];
            match sendmsg::<()>(self.fd.as_raw_fd(), &parts, &[], MsgFlags::MSG_NOSIGNAL, None) {
                Ok(count) => sent += count,
                Err(nix::Error::EINTR) => {}
                Err(nix::Error::EPIPE | nix::Error::ECONNRESET) => return Err(LinkError::Closed),
                Err(cause) => return Err(io::Error::from(cause).into()),
            }
        }
        Ok(())
    }

    fn try_send(&mut self, outgoing: &mut Outgoing) -> Result<bool, LinkError> {
        while !outgoing.is_sent() {
            let parts = outgoing.rest();
            match sendmsg::<()>(
                self.fd.as_raw_fd(),
                &parts,
                &[],
                MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT,
                None,
            ) {
                Ok(count) => outgoing.sent(count),
                Err(nix::Error::EAGAIN) => return Ok(false),
                Err(nix::Error::EINTR) => {}
                Err(nix::Error::EPIPE | nix::Error::ECONNRESET) => return Err(LinkError::Closed),
                Err(cause) => return Err(io::Error::from(cause).into()),
            }
        }
        Ok(true)
    }

    fn receive(&mut self) -> Result<Option<&[u8]>, LinkError> {
        loop {
            // Asked twice because the borrow checker cannot see that a frame handed out ends the loop.
            if self.frames.has_next()? {
                return Ok(self.frames.next()?);
            }
            if self.read(MsgFlags::empty())? == 0 {
                self.frames.end()?;
                return Ok(None);
            }
        }
    }

    fn try_receive(&mut self) -> Result<Arrival<'_>, LinkError> {
        if !self.frames.has_next()? {
            match self.read(MsgFlags::MSG_DONTWAIT) {
                Ok(0) => {
                    self.frames.end()?;
                    return Ok(Arrival::Closed);
                }
                Ok(_) => {}
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => return Ok(Arrival::Nothing),
                Err(cause) => return Err(cause.into()),
            }
        }
        Ok(self.frames.next()?.map_or(Arrival::Nothing, Arrival::Frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn frames_cross_and_the_end_is_told() {
        let (mut here, there) = Stream::pair().unwrap();
        let mut there = Stream::from(there);
        assert_eq!(there.try_receive().unwrap(), Arrival::Nothing);
        here.send(b"one").unwrap();
        here.send(b"").unwrap();
        assert_eq!(there.receive().unwrap(), Some(&b"one"[..]));
        assert_eq!(there.try_receive().unwrap(), Arrival::Frame(b""));
        drop(here);
        assert_eq!(there.try_receive().unwrap(), Arrival::Closed);
        assert_eq!(there.receive().unwrap(), None);
        assert!(matches!(there.send(b"late"), Err(LinkError::Closed)));
    }

    #[test]
    fn a_frame_that_has_no_room_now_goes_in_pieces_and_nobody_waits() {
        let (mut here, there) = Stream::pair().unwrap();
        let mut there = Stream::from(there);
        let body: Arc<[u8]> = (0..3_000_000u32).map(|byte| byte as u8).collect();
        let mut outgoing = Outgoing::new(b"head", Arc::clone(&body)).unwrap();
        let mut arrived = None;
        let mut pieces = 0;
        while arrived.is_none() {
            pieces += usize::from(!here.try_send(&mut outgoing).unwrap());
            if let Arrival::Frame(frame) = there.try_receive().unwrap() {
                arrived = Some(frame.to_vec());
            }
        }
        assert!(pieces > 1 && outgoing.is_sent());
        let arrived = arrived.unwrap();
        assert!(arrived[..4] == *b"head" && arrived[4..] == *body);
        assert!(!outgoing.is_untouched());
    }

    #[test]
    fn a_side_that_leaves_something_unread_is_told_from_one_that_read_all() {
        for unread in [false, true] {
            let (mut here, there) = Stream::pair().unwrap();
            let mut there = Stream::from(there);
            here.send(b"one").unwrap();
            assert!(there.receive().unwrap().is_some());
            if unread {
                here.send(b"two").unwrap();
            }
            drop(there);
            assert_eq!(here.try_receive().unwrap(), Arrival::Closed);
            assert_eq!(here.was_reset(), unread);
        }
    }

    #[test]
    fn a_side_that_sends_no_more_can_still_receive() {
        let (mut here, there) = Stream::pair().unwrap();
        let mut there = Stream::from(there);
        here.send(b"last").unwrap();
        here.close_sending();
        assert_eq!(there.receive().unwrap(), Some(&b"last"[..]));
        assert_eq!(there.receive().unwrap(), None);
        there.send(b"answer").unwrap();
        assert_eq!(here.receive().unwrap(), Some(&b"answer"[..]));
    }

    #[test]
    fn a_frame_larger_than_the_kernels_buffers_crosses_whole() {
        let (mut here, there) = Stream::pair().unwrap();
        let large: Vec<u8> = (0..3_000_000u32).map(|byte| byte as u8).collect();
        let expected = large.clone();
        let sender = std::thread::spawn(move || here.send(&large));
        let mut there = Stream::from(there);
        assert_eq!(there.receive().unwrap().unwrap(), expected);
        sender.join().unwrap().unwrap();
    }

    #[test]
    fn a_side_that_dies_within_a_frame_leaves_an_error() {
        let (mut here, there) = Stream::pair().unwrap();
        nix::unistd::write(&there, &[10, 0, 0, 0, 1, 2]).unwrap();
        drop(there);
        assert_eq!(
            here.receive().unwrap_err().to_string(),
            "the link ended within a frame, after 6 of 14 bytes"
        );
    }
}
