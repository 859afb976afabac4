//! Descriptors: private roads between processes, handing one over, and leaving none open by accident.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, sendmsg,
    socketpair,
};

/// Two ends of a private byte road. Both close on exec: a copy that leaks would hide the end of the other side.
///
/// # Errors
/// If no descriptor is left.
pub fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Two ends of a private road that keeps messages whole.
///
/// # Errors
/// If no descriptor is left.
pub fn message_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?)
}

/// Sends one message, and with it a few descriptors.
///
/// # Errors
/// If the other side is gone.
pub fn send_with(road: BorrowedFd<'_>, bytes: &[u8], gifts: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<RawFd> = gifts.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control: &[ControlMessage<'_>] = if raw.is_empty() { &[] } else { &rights };
    loop {
        match sendmsg::<()>(road.as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None) {
            Ok(_) => return Ok(()),
            Err(nix::Error::EINTR) => {}
            Err(cause) => return Err(cause.into()),
        }
    }
}

/// The most descriptors that come with one message.
const MOST_GIFTS: usize = 4;

/// Receives one message into `buffer` and the descriptors that came with it. No bytes: the other side is gone.
///
/// # Errors
/// What the kernel says; [`io::ErrorKind::WouldBlock`] if `wait` is false and nothing has come.
pub fn receive_with(
    road: BorrowedFd<'_>,
    buffer: &mut [u8],
    wait: bool,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | if wait { MsgFlags::empty() } else { MsgFlags::MSG_DONTWAIT };
    let mut space = cmsg_space!([RawFd; MOST_GIFTS]);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = loop {
        match recvmsg::<()>(road.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Err(nix::Error::EINTR) => {}
            other => break other?,
        }
    };
    let mut gifts = Vec::new();
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = control {
            for fd in fds {
                // SAFETY: the kernel made this descriptor for us just now, and nobody else knows its number.
                gifts.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
    Ok((message.bytes, gifts))
}

/// Takes the link that arrived as standard input, and leaves `/dev/null` in its place.
///
/// # Errors
/// If standard input is closed, or no descriptor is left.
pub fn take_link() -> io::Result<OwnedFd> {
    let link = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    Ok(link)
}

/// Makes these two the standard output and the standard error of this process, and `/dev/null` its standard input.
///
/// # Errors
/// If a descriptor cannot be had.
pub fn become_stdio(output: &OwnedFd, errors: &OwnedFd) -> io::Result<()> {
    let nothing = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(output)?;
    Ok(rustix::stdio::dup2_stderr(errors)?)
}

/// A pipe: where to read, and where to write. Reading from it never waits.
///
/// # Errors
/// If no descriptor is left.
pub fn pipe_to_watch() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let flags = rustix::fs::fcntl_getfl(&reader)?;
    rustix::fs::fcntl_setfl(&reader, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok((reader, writer))
}

/// Reads what is there; `None` where that is nothing yet, and no bytes at the end.
///
/// # Errors
/// What the kernel says.
pub fn read_now(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut *buffer)) {
        Ok(count) => Ok(Some(count)),
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(cause) => Err(cause.into()),
    }
}

/// Closes every descriptor above standard error, except those to `keep`.
///
/// For a process that was forked and goes its own way: it must not hold the roads of others open. Objects that own
/// a descriptor closed here must never be used or dropped afterwards, so the caller must not return to their frames.
pub fn close_all_except(keep: &[BorrowedFd<'_>]) {
    let mut kept: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    kept.sort_unstable();
    let mut from = 3;
    for fd in kept {
        close_range(from, fd.saturating_sub(1));
        from = fd + 1;
    }
    close_range(from, u32::MAX);
}

fn close_range(first: u32, last: u32) {
    if first > last {
        return;
    }
    // SAFETY: takes numbers only. That the descriptors are not used afterwards is the promise of our only caller's
    // callers, processes that never return to the frames of those who own them.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// A file without a name, gone with its last descriptor. All who inherit it write one after the other.
///
/// # Errors
/// If no descriptor is left.
pub fn unnamed_file(name: &str) -> io::Result<std::fs::File> {
    Ok(memfd_create(name, MFdFlags::MFD_CLOEXEC)?.into())
}

/// How many descriptors this process holds.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn open_count() -> io::Result<usize> {
    // One of those listed is the folder we list.
    Ok(std::fs::read_dir("/proc/self/fd")?.count().saturating_sub(1))
}

/// Waits until one of `fds` can be read or has ended, or `millis` have passed (`None`: for ever); says which.
///
/// # Errors
/// What `poll` says; a signal is no error and reads as nothing ready.
pub fn wait_readable(fds: &[BorrowedFd<'_>], millis: Option<u32>) -> io::Result<Vec<bool>> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
    let timeout =
        millis.map_or(PollTimeout::NONE, |ms| PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX));
    match poll(&mut polled, timeout) {
        Ok(_) | Err(nix::Error::EINTR) => {}
        Err(cause) => return Err(cause.into()),
    }
    Ok(polled.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_descriptor_travels_with_its_message() {
        let (here, there) = message_pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send_with(here.as_fd(), b"take this", &[writer.as_fd()]).unwrap();
        drop(writer);
        let mut buffer = [0; 64];
        let (length, mut gifts) = receive_with(there.as_fd(), &mut buffer, true).unwrap();
        assert_eq!(&buffer[..length], b"take this");
        std::fs::File::from(gifts.pop().expect("a descriptor came along")).write_all(b"through").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn nothing_to_receive_is_no_end() {
        let (here, there) = message_pair().unwrap();
        let nothing = receive_with(there.as_fd(), &mut [0; 8], false).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        drop(here);
        let (length, gifts) = receive_with(there.as_fd(), &mut [0; 8], false).unwrap();
        assert!(length == 0 && gifts.is_empty());
    }
}
