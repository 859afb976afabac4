//! How long an empty task takes to a worker process and back.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use fleet::fleet::{Fleet, Function, Start};
use fleet::probe::clock;
use fleet::sys::fds;
use fleet::sys::process::{self, Child};

use crate::passes::{Side, interleaved};
use crate::starts::fleet_of_one;
use crate::table::Row;
use crate::{Failure, say};

/// Samples of each kind in a pass.
const SAMPLES: usize = 10;

/// Trips in a sample, one after the other: the first ones find the other process asleep for longer than the rest.
const TRIPS: u32 = 50;

/// A task through a worker, by a byte through a pair of sockets.
pub(crate) fn rows(passes: usize, function: Function<u64, u64>) -> Result<Vec<Row>, Failure> {
    say("sending tasks to a worker, and bytes to a child …");
    let (mut echo, mut road) = echo()?;
    let fleet = fleet_of_one(Start::Spawn)?;
    let sides: [Side<'_>; 2] = [&mut || timed(|| task(&fleet, function)), &mut || timed(|| byte(&mut road))];
    let [ours, bare] = interleaved(passes, SAMPLES, sides)?;
    fleet.stop();
    drop(road);
    echo.wait()?;
    Ok(vec![Row::typical("empty task: round trip", &ours, "ping-pong", &bare)])
}

fn timed(mut trip: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    let begun = clock::now();
    for _ in 0..TRIPS {
        trip()?;
    }
    Ok((clock::now() - begun) as f64 / f64::from(TRIPS))
}

fn task(fleet: &Fleet, function: Function<u64, u64>) -> Result<(), Failure> {
    fleet.submit(function, &7)?.wait().into_result()?;
    Ok(())
}

fn byte(road: &mut UnixStream) -> Result<(), Failure> {
    road.write_all(b"!")?;
    Ok(road.read_exact(&mut [0])?)
}

/// A child that gives every byte back, until the road to it ends.
fn echo() -> Result<(Child, UnixStream), Failure> {
    let (here, mut there) = UnixStream::pair()?;
    let child = process::fork(false, || {
        // The copy of our caller's end would keep the road from ending.
        fds::close_all_except(&[there.as_fd()]);
        let mut byte = [0];
        while there.read_exact(&mut byte).and_then(|()| there.write_all(&byte)).is_ok() {}
        0
    })?;
    Ok((child, here))
}
