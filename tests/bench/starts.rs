//! How long it takes until a worker process is ready.

use std::path::Path;

use fleet::fleet::{Fleet, FleetSpec, Start};

use crate::passes::{Side, interleaved};
use crate::table::Row;
use crate::{Failure, floors, say};

/// Starts of each kind in a pass: a few hundred in all.
const STARTS: usize = 30;

/// Workers forked by a zygote that is there, by a bare fork of this process, and by the barest zygote.
pub(crate) fn forked(passes: usize) -> Result<Vec<Row>, Failure> {
    say("starting workers by fork and forkserver, and forking barely …");
    let sides: [Side<'_>; 4] = [
        &mut || ready(Start::Fork),
        &mut || ready(Start::Forkserver),
        &mut floors::fork,
        &mut floors::zygote,
    ];
    let [fork, forkserver, bare, zygote] = interleaved(passes, STARTS, sides)?;
    Ok(vec![
        Row::typical("fork: ready", &fork, "bare fork", &bare).at_most(1.5),
        Row::best("fork: ready, best", &fork, "bare fork", &bare),
        Row::typical("fork: ready, by zygote", &fork, "bare zygote", &zygote),
        Row::typical("forkserver: ready", &forkserver, "bare fork", &bare),
    ])
}

/// Workers executed, by executing the smallest program.
pub(crate) fn spawned(passes: usize, tiny: &Path) -> Result<Vec<Row>, Failure> {
    say("starting workers by spawn, and a tiny program …");
    let sides: [Side<'_>; 2] = [&mut || ready(Start::Spawn), &mut || floors::spawn(tiny)];
    let [spawn, bare] = interleaved(passes, STARTS, sides)?;
    Ok(vec![
        Row::typical("spawn: ready", &spawn, "tiny program", &bare).at_most(2.0),
        Row::best("spawn: ready, best", &spawn, "tiny program", &bare),
    ])
}

/// A fleet of one worker.
pub(crate) fn fleet_of_one(start: Start) -> Result<Fleet, Failure> {
    Ok(Fleet::launch(FleetSpec::new(1).start(start))?)
}

/// From asking for a worker to knowing that it is ready. The zygote, where there is one, is there before.
fn ready(start: Start) -> Result<f64, Failure> {
    let fleet = fleet_of_one(start)?;
    let worker = fleet.starts()[0];
    fleet.stop();
    Ok((worker.ready - worker.asked) as f64)
}
