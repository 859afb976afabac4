//! The least that must happen for a process to come into being and be heard of. Each takes the time from the wish to
//! the first byte.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use fleet::probe::clock;
use fleet::sys::fds;
use fleet::sys::process;

use crate::Failure;

/// A child of this process.
pub(crate) fn fork() -> Result<f64, Failure> {
    let asked = clock::now();
    let (mut reader, mut writer) = std::io::pipe()?;
    let mut child = process::fork(false, || i32::from(writer.write_all(b"!").is_err()))?;
    reader.read_exact(&mut [0])?;
    let ready = clock::now();
    child.wait()?;
    Ok((ready - asked) as f64)
}

/// A child of a process that is there and takes the order through a socket. Nothing that has a zygote can be faster.
pub(crate) fn zygote() -> Result<f64, Failure> {
    let (here, there) = fds::message_pair()?;
    let mut zygote = process::fork(false, || {
        fds::close_all_except(&[there.as_fd()]);
        i32::from(obey(&there).is_err())
    })?;
    drop(there);
    fds::receive_with(here.as_fd(), &mut [0], true)?;
    let asked = clock::now();
    let (mut reader, writer) = std::io::pipe()?;
    fds::send_with(here.as_fd(), b"!", &[writer.as_fd()])?;
    drop(writer);
    reader.read_exact(&mut [0])?;
    let ready = clock::now();
    drop(here);
    zygote.wait()?;
    Ok((ready - asked) as f64)
}

/// Says that it is there, forks one child, and stays until the road ends.
fn obey(road: &OwnedFd) -> Result<(), Failure> {
    fds::send_with(road.as_fd(), b"!", &[])?;
    let (_, mut gift) = fds::receive_with(road.as_fd(), &mut [0], true)?;
    let mut writer = std::fs::File::from(gift.pop().ok_or("no descriptor came along")?);
    let mut child = process::fork(false, || i32::from(writer.write_all(b"!").is_err()))?;
    fds::receive_with(road.as_fd(), &mut [0], true)?;
    child.wait()?;
    Ok(())
}

/// A program that was built to be small.
pub(crate) fn spawn(tiny: &Path) -> Result<f64, Failure> {
    let asked = clock::now();
    let mut child = Command::new(tiny).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    child.stdout.as_mut().ok_or("the tiny program has no output")?.read_exact(&mut [0])?;
    let ready = clock::now();
    child.wait()?;
    Ok((ready - asked) as f64)
}
