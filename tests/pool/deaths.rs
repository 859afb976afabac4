//! Workers die, in every way and at every moment: one task fails, with a reason, and everything else goes on.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use fleet::fleet::postmortem::{Cause, OutOfMemory};
use fleet::fleet::{Ended, FleetEvent, FleetSpec, Outcome, PostMortem};
use fleet::sys::process::{self, Exit, Pid};
use nix::sys::signal::Signal;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_bytes::ByteBuf;

use super::ground::{Check, Ground, done, eventually, signal};
use super::script::{Act, Said};

pub(crate) const CHECKS: &[Check] = &[
    Check::new("c01_one_death_fails_one_task", c01_one_death_fails_one_task),
    Check::new("c02_a_failure_names_everything_that_is_known", c02_a_failure_names_everything_that_is_known),
    Check::new("c03_an_exit_without_an_answer_is_a_death", c03_an_exit_without_an_answer_is_a_death),
    Check::new("c04_every_death_at_every_stage", c04_every_death_at_every_stage),
    Check::new("c05_a_death_under_a_half_written_order", c05_a_death_under_a_half_written_order),
    Check::new("c06_a_result_that_was_sent_counts", c06_a_result_that_was_sent_counts),
    Check::new("c07_half_a_result_is_thrown_away", c07_half_a_result_is_thrown_away),
    Check::new("c08_all_workers_killed_at_once", c08_all_workers_killed_at_once),
    Check::new("c09_an_idle_death_costs_nothing", c09_an_idle_death_costs_nothing),
    Check::new("c10_a_stopped_worker_is_hung", c10_a_stopped_worker_is_hung),
    Check::new("c11_a_worker_that_closes_its_link_is_ended", c11_a_worker_that_closes_its_link_is_ended),
    Check::new("c12_no_sibling_hides_a_death", c12_no_sibling_hides_a_death),
    Check::new("c13_a_kill_from_outside_is_no_want_of_memory", c13_a_kill_from_outside_is_no_want_of_memory),
    Check::new("a_killed_zygote_is_replaced", a_killed_zygote_is_replaced),
];

/// The death that a task ended with.
#[track_caller]
fn crash(ended: &Ended<Said>) -> &PostMortem {
    match &ended.outcome {
        Outcome::Crashed(death) => death,
        other => panic!("{other}"),
    }
}

fn c01_one_death_fails_one_task(ground: &Ground) {
    let fleet = ground.fleet();
    let go = ground.file("go");
    let (victim, pid) = ground.running(&fleet, "victim", &[Act::Sleep(60_000)]);
    let (other, _) = ground.running(&fleet, "other", &[Act::Await(go.clone())]);
    let queued: Vec<_> = (0..20).map(|_| ground.submit(&fleet, &[])).collect();
    signal(pid, Signal::SIGKILL);
    let ended = victim.wait();
    assert_eq!(crash(&ended).exit, Some(Exit::Signal { number: 9, core: false }));
    std::fs::write(go, "").unwrap();
    done(other.wait());
    queued.into_iter().for_each(|handle| drop(done(handle.wait())));
    done(ground.submit(&fleet, &[]).wait());
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.ended_as("crashed"), stats.busy_deaths), (22, 1, 1));
}

fn c02_a_failure_names_everything_that_is_known(ground: &Ground) {
    let fleet = ground.fleet();
    let acts = [Act::PrintError(b"the last words\n".to_vec()), Act::Spin(30), Act::Segv];
    let (handle, pid) = ground.running(&fleet, "victim", &acts);
    let task = handle.task();
    let ended = handle.wait();
    let death = crash(&ended);
    assert_eq!((death.task(), death.lease.unwrap().attempt), (Some(task), 1));
    assert_eq!((death.pid, Some(death.slot)), (pid, ended.slot));
    assert!(matches!(death.exit, Some(Exit::Signal { number: 11, .. })), "{death}");
    assert!(death.ran_ns.unwrap() >= 10_000_000 && death.cpu_ns.unwrap() >= 10_000_000, "{death}");
    assert!(death.peak.is_some(), "{death}");
    assert_eq!(death.stderr, "the last words\n");
    let line = death.to_string();
    for words in [&format!("{task} (attempt 1): worker"), "was killed by SIGSEGV", "peak", "the last words"] {
        assert!(line.contains(words), "{line}");
    }
    let json = serde_json::to_value(death).unwrap();
    assert_eq!((&json["pid"], &json["signal"]), (&pid.0.into(), &11.into()));
    ground.end(fleet);
}

fn c03_an_exit_without_an_answer_is_a_death(ground: &Ground) {
    let fleet = ground.fleet();
    for code in [7, 0] {
        let ended = ground.submit(&fleet, &[Act::Exit(code)]).wait();
        let death = crash(&ended);
        assert_eq!(death.exit, Some(Exit::Code(code)));
        let words = format!("exited with code {code} without an answer");
        assert!(death.to_string().contains(&words), "{death}");
    }
    done(ground.submit(&fleet, &[]).wait());
    ground.end(fleet);
}

/// Where a value springs its trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    EncodeTask,
    DecodeTask,
    Run,
    EncodeResult,
    DecodeResult,
}

/// What happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fault {
    Error,
    Exit,
    Segv,
    Kill,
}

const STAGES: [Stage; 5] =
    [Stage::EncodeTask, Stage::DecodeTask, Stage::Run, Stage::EncodeResult, Stage::DecodeResult];

/// A task that goes wrong at a given stage.
#[derive(Clone, Debug)]
pub(crate) struct Trap {
    stage: Stage,
    fault: Fault,
}

/// Its result, which may go wrong on its way.
#[derive(Debug)]
pub(crate) struct Fragile(Trap);

/// The worker that the stages in our own process are to hit.
static VICTIM: Mutex<Option<Pid>> = Mutex::new(None);

impl Trap {
    /// In the worker, it hits the worker itself. In our process, it hits the worker too: what encodes and decodes here is
    /// the caller's own code, and the pool must stand what happens to a worker meanwhile.
    fn spring(&self, at: Stage) -> Result<(), &'static str> {
        if self.stage != at {
            return Ok(());
        }
        let victim = *VICTIM.lock().unwrap();
        match (self.fault, victim) {
            (Fault::Error, _) => Err("it went wrong on purpose"),
            (Fault::Exit, None) => std::process::exit(3),
            (Fault::Segv, None) => {
                process::crash_by_segv();
                Ok(())
            }
            (Fault::Kill, None) => {
                process::crash_by_kill();
                Ok(())
            }
            (Fault::Exit, Some(pid)) => {
                signal(pid, Signal::SIGTERM);
                Ok(())
            }
            (Fault::Segv, Some(pid)) => {
                signal(pid, Signal::SIGSEGV);
                Ok(())
            }
            (Fault::Kill, Some(pid)) => {
                signal(pid, Signal::SIGKILL);
                Ok(())
            }
        }
    }
}

impl Serialize for Trap {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.spring(Stage::EncodeTask).map_err(S::Error::custom)?;
        (self.stage, self.fault).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Trap {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Trap, D::Error> {
        let (stage, fault) = Deserialize::deserialize(from)?;
        let trap = Trap { stage, fault };
        trap.spring(Stage::DecodeTask).map_err(D::Error::custom)?;
        Ok(trap)
    }
}

impl Serialize for Fragile {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.spring(Stage::EncodeResult).map_err(S::Error::custom)?;
        (self.0.stage, self.0.fault).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Fragile {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Fragile, D::Error> {
        let (stage, fault) = Deserialize::deserialize(from)?;
        let trap = Trap { stage, fault };
        trap.spring(Stage::DecodeResult).map_err(D::Error::custom)?;
        Ok(Fragile(trap))
    }
}

pub(crate) fn spring(trap: Trap) -> Result<Fragile, String> {
    trap.spring(Stage::Run).map_err(str::to_owned)?;
    Ok(Fragile(trap))
}

fn c04_every_death_at_every_stage(ground: &Ground) {
    for stage in STAGES {
        for fault in [Fault::Error, Fault::Exit, Fault::Segv, Fault::Kill] {
            c04_at(ground, stage, fault);
        }
    }
}

fn c04_at(ground: &Ground, stage: Stage, fault: Fault) {
    let fleet = ground.launch(FleetSpec::new(1));
    let what = format!("{fault:?} at {stage:?}");
    let is_ours = matches!(stage, Stage::EncodeTask | Stage::DecodeResult);
    *VICTIM.lock().unwrap() = is_ours.then(|| fleet.workers()[0].1);
    let submitted = fleet.submit(ground.functions.trap, &Trap { stage, fault });
    if (stage, fault) == (Stage::EncodeTask, Fault::Error) {
        assert_eq!(
            submitted.unwrap_err().to_string(),
            "its input: cannot encode a message: it went wrong on purpose"
        );
    } else {
        let ended = submitted.unwrap().wait();
        let words = ended.outcome.to_string();
        match fault {
            // The worker that died at an idle moment, or while the order was on its way, costs nothing.
            Fault::Exit | Fault::Segv | Fault::Kill if is_ours => {
                assert!(matches!(ended.outcome, Outcome::Done(_) | Outcome::Crashed(_)), "{what}: {words}");
            }
            Fault::Error if stage == Stage::Run => assert_eq!(words, "failed: it went wrong on purpose"),
            Fault::Error => assert!(words.contains("it went wrong on purpose"), "{what}: {words}"),
            Fault::Exit => assert!(words.contains("exited with code 3 without an answer"), "{what}: {words}"),
            Fault::Segv => assert!(words.contains("was killed by SIGSEGV"), "{what}: {words}"),
            Fault::Kill => assert!(words.contains("was killed by SIGKILL"), "{what}: {words}"),
        }
    }
    *VICTIM.lock().unwrap() = None;
    done(ground.submit(&fleet, &[]).wait());
    ground.end(fleet);
}

fn c05_a_death_under_a_half_written_order(ground: &Ground) {
    let fleet = ground.launch(ground.spec().queue(10));
    let (held, pid) = ground.running(&fleet, "held", &[Act::Await(ground.file("go"))]);
    let (busy, _) = ground.running(&fleet, "busy", &[Act::Await(ground.file("on"))]);
    std::fs::write(ground.file("go"), "").unwrap();
    done(held.wait());
    // The only one that is free is stopped, and cannot take in what is sent to it.
    signal(pid, Signal::SIGSTOP);
    let large = ByteBuf::from(vec![7_u8; 200 << 20]);
    let half_sent = fleet.submit(ground.functions.echo, &large).unwrap();
    drop(large);
    let begun = Instant::now();
    fleet.stats();
    assert!(begun.elapsed() < Duration::from_millis(50), "the supervisor is not held up");
    std::fs::write(ground.file("on"), "").unwrap();
    done(busy.wait());
    for _ in 0..10 {
        done(ground.submit(&fleet, &[]).wait());
    }
    assert!(!half_sent.has_ended());
    signal(pid, Signal::SIGKILL);
    // It was not begun, so it is sent to another worker, and nothing is charged.
    let ended = half_sent.wait();
    assert_eq!((ended.attempts, ended.deaths.len()), (1, 0));
    assert_eq!(done(ended).len(), 200 << 20);
    let stats = ground.end(fleet);
    assert_eq!((stats.busy_deaths, stats.retried), (1, 0));
}

fn c06_a_result_that_was_sent_counts(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(1));
    for round in 0..20 {
        let said = done(ground.submit(&fleet, &[]).wait());
        signal(Pid(said.pid), Signal::SIGKILL);
        eventually("the idle death is counted", || (fleet.stats().idle_deaths == round + 1).then_some(()));
        eventually("the slot is refilled", || (fleet.stats().in_service == 1).then_some(()));
    }
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.busy_deaths), (20, 0));
}

fn c07_half_a_result_is_thrown_away(ground: &Ground) {
    let fleet = ground.fleet();
    let half = ground.submit(&fleet, &[Act::HalfAnswer]);
    let others: Vec<_> = (0..50_u8)
        .map(|number| fleet.submit(ground.functions.echo, &ByteBuf::from(vec![number; 3])).unwrap())
        .collect();
    let ended = half.wait();
    assert!(crash(&ended).to_string().contains("was killed by SIGKILL"));
    for (number, other) in (0_u8..).zip(others) {
        assert_eq!(done(other.wait()), vec![number; 3]);
    }
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.ended_as("crashed")), (50, 1));
}

fn c08_all_workers_killed_at_once(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(4).queue(100));
    let handles: Vec<_> = (0..104).map(|_| ground.submit(&fleet, &[Act::Sleep(5)])).collect();
    for (_, pid) in fleet.workers() {
        signal(pid, Signal::SIGKILL);
    }
    let ends: Vec<_> = handles.into_iter().map(fleet::fleet::Handle::wait).collect();
    let crashed = ends.iter().filter(|ended| matches!(ended.outcome, Outcome::Crashed(_))).count();
    let done = ends.iter().filter(|ended| matches!(ended.outcome, Outcome::Done(_))).count();
    assert!(crashed <= 4 && crashed + done == 104, "{crashed} crashed, {done} done");
    let stats = ground.end(fleet);
    assert_eq!(stats.busy_deaths + stats.idle_deaths, 4);
}

fn c09_an_idle_death_costs_nothing(ground: &Ground) {
    let fleet = ground.fleet();
    let events = fleet.events(10);
    let (_, pid) = fleet.workers()[0];
    signal(pid, Signal::SIGKILL);
    eventually("the slot is refilled", || {
        let stats = fleet.stats();
        (stats.idle_deaths == 1 && stats.in_service == 2).then_some(())
    });
    let told = events.next_within(Duration::from_secs(5)).unwrap();
    let FleetEvent::WorkerDied(death) = told else { panic!("{told:?}") };
    assert_eq!((death.pid, death.task(), &death.cause), (pid, None, &Cause::Itself));
    assert!(!fleet.workers().iter().any(|(_, other)| *other == pid));
    done(ground.submit(&fleet, &[]).wait());
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.idle_deaths, stats.busy_deaths), (1, 1, 0));
}

fn c10_a_stopped_worker_is_hung(ground: &Ground) {
    let limit = Duration::from_millis(400);
    let fleet = ground.launch(ground.spec().hung_after(Some(limit)));
    let begun = Instant::now();
    let (handle, _) = ground.running(&fleet, "stopped", &[Act::Stop, Act::Sleep(60_000)]);
    // Whoever computes, or sleeps, does not stand still.
    let busy = ground.submit(&fleet, &[Act::Spin(600), Act::Sleep(600)]);
    let ended = handle.wait();
    let Outcome::Hung(death) = &ended.outcome else { panic!("{}", ended.outcome) };
    assert!(begun.elapsed() >= limit, "{:?}", begun.elapsed());
    assert_eq!((death.state, &death.cause), (Some('T'), &Cause::Hang));
    assert_eq!(death.exit, Some(Exit::Signal { number: 9, core: false }), "{death}");
    assert!(death.to_string().contains("stood still"), "{death}");
    if std::fs::read_to_string("/proc/self/wchan").is_ok() {
        assert!(death.wait_channel.is_some(), "{death}");
    }
    done(busy.wait());
    ground.end(fleet);
}

fn c11_a_worker_that_closes_its_link_is_ended(ground: &Ground) {
    let fleet = ground.fleet();
    let begun = Instant::now();
    let ended = ground.submit(&fleet, &[Act::CloseLink, Act::Sleep(60_000)]).wait();
    assert!(begun.elapsed() < Duration::from_secs(10));
    let death = crash(&ended);
    assert_eq!(death.cause, Cause::ClosedLink, "{death}");
    assert!(death.to_string().contains("closed its link"), "{death}");
    done(ground.submit(&fleet, &[]).wait());
    ground.end(fleet);
}

fn c12_no_sibling_hides_a_death(ground: &Ground) {
    // Many starts side by side: each new worker is there while the roads to others are made.
    let fleet = ground.launch(FleetSpec::new(6));
    for _ in 0..4 {
        let (handle, pid) =
            ground.running(&fleet, &format!("victim{}", fleet.stats().accepted), &[Act::Sleep(60_000)]);
        signal(pid, Signal::SIGKILL);
        let ended = handle.wait();
        // A link that a sibling held open would have ended later than the process, and be reported as such.
        assert_eq!(crash(&ended).cause, Cause::Itself);
    }
    for (_, pid) in fleet.workers() {
        let sockets = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten().filter(|entry| {
            std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
        });
        assert_eq!(sockets.count(), 1, "a worker has its own link and no other");
    }
    ground.end(fleet);
}

fn c13_a_kill_from_outside_is_no_want_of_memory(ground: &Ground) {
    let fleet = ground.fleet();
    let (handle, pid) = ground.running(&fleet, "victim", &[Act::Sleep(60_000)]);
    signal(pid, Signal::SIGKILL);
    let ended = handle.wait();
    let death = crash(&ended);
    assert_eq!(death.out_of_memory, OutOfMemory::NotRecorded);
    assert!(death.to_string().contains("no OOM recorded"), "{death}");
    ground.end(fleet);
}

fn a_killed_zygote_is_replaced(ground: &Ground) {
    let fleet = ground.fleet();
    let workers: Vec<Pid> = fleet.workers().into_iter().map(|(_, pid)| pid).collect();
    let zygotes: Vec<Pid> = fleet.pids().into_iter().filter(|pid| !workers.contains(pid)).collect();
    let has_zygote = ground.start != fleet::fleet::Start::Spawn;
    assert_eq!(zygotes.len(), usize::from(has_zygote));
    let (handle, _) = ground.running(&fleet, "busy", &[Act::Sleep(200)]);
    for zygote in &zygotes {
        signal(*zygote, Signal::SIGKILL);
    }
    let ended = handle.wait();
    if ground.start == fleet::fleet::Start::Forkserver {
        // Its workers end with it, and nobody is there who could tell how.
        assert_eq!(crash(&ended).exit, None);
        for _ in 0..10 {
            done(ground.submit(&fleet, &[]).wait());
        }
        eventually("both are back", || (fleet.stats().in_service == 2).then_some(()));
    } else {
        done(ended);
        done(ground.submit(&fleet, &[]).wait());
    }
    ground.end(fleet);
}
