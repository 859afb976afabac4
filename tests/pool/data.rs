//! What goes in and out, how large workers get, and how many there are.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fleet::fleet::{FleetEvent, FleetSpec, LARGEST_INPUT, LARGEST_RESULT, Outcome, Start, SubmitError};
use fleet::probe::memory::{Memory, Resident};
use fleet::sys::limits::Ceilings;
use fleet::sys::process::Pid;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_bytes::ByteBuf;

use super::ground::{Check, Ground, done, eventually};
use super::script::Act;

pub(crate) const CHECKS: &[Check] = &[
    Check::new("c51_workers_are_recycled_after_their_tasks", c51_workers_are_recycled_after_their_tasks),
    Check::new("c52_workers_that_grow_are_replaced", c52_workers_that_grow_are_replaced),
    Check::new("c53_scaling_hurts_no_task", c53_scaling_hurts_no_task),
    Check::new("c54_a_preload_is_shared", c54_a_preload_is_shared),
    Check::once("c55_inputs_are_freed", c55_inputs_are_freed),
    Check::new("c56_every_size_arrives_or_is_refused", c56_every_size_arrives_or_is_refused),
    Check::new("c57_a_babbling_worker_disturbs_nothing", c57_a_babbling_worker_disturbs_nothing),
    Check::new("c58_output_comes_byte_for_byte", c58_output_comes_byte_for_byte),
    Check::new("c59_there_is_nothing_to_read", c59_there_is_nothing_to_read),
    Check::new("c63_too_few_descriptors_are_told_before", c63_too_few_descriptors_are_told_before),
    Check::new("c66_a_panic_is_an_error", c66_a_panic_is_an_error),
    Check::new("c67_a_fleet_in_a_fleet", c67_a_fleet_in_a_fleet),
    Check::new("workers_are_prepared_as_told", workers_are_prepared_as_told),
    Check::new("a_worker_in_service_is_known_by_its_number", a_worker_in_service_is_known_by_its_number),
];

fn c51_workers_are_recycled_after_their_tasks(ground: &Ground) {
    let fleet = ground.launch(ground.spec().recycle_after(10, 3));
    let is_over = AtomicBool::new(false);
    let mut most: HashMap<u32, u64> = HashMap::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let stats = fleet.stats();
                assert!(stats.in_service >= 2, "{stats:?}");
            }
        });
        let inputs = std::iter::repeat_n(Vec::<Act>::new(), 500);
        for (_, ended) in fleet.map_unordered(ground.functions.act, inputs) {
            let said = done(ended.unwrap());
            let known = most.entry(said.pid).or_default();
            *known = said.nth.max(*known);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    let mut counts: Vec<u64> = most.into_values().collect();
    counts.sort_unstable();
    assert!(counts.iter().all(|count| *count <= 13), "{counts:?}");
    // The last ones may not have come to their end.
    assert!(counts.iter().filter(|count| **count < 7).count() <= 4, "{counts:?}");
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.busy_deaths, stats.idle_deaths), (500, 0, 0));
    assert!(stats.recycled >= 500 / 13, "{stats:?}");
}

fn c52_workers_that_grow_are_replaced(ground: &Ground) {
    let fleet = ground.launch(ground.spec().recycle_above(100 << 20));
    let leak = vec![Act::Leak(5 << 20)];
    for ended in fleet.map(ground.functions.act, std::iter::repeat_n(leak, 100)) {
        // One more task than it takes to pass the limit may have been sent before it was seen.
        assert!(done(ended.unwrap()).nth <= 30);
    }
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.busy_deaths), (100, 0));
    assert!(stats.recycled >= 3, "{stats:?}");
}

fn c53_scaling_hurts_no_task(ground: &Ground) {
    let fleet = ground.launch(ground.spec());
    fleet.scale(8);
    eventually("eight are there", || (fleet.stats().in_service == 8).then_some(()));
    let go = ground.file("go");
    let running: Vec<_> =
        (0..8).map(|number| ground.running(&fleet, &number.to_string(), &[Act::Await(go.clone())])).collect();
    fleet.scale(1);
    assert_eq!(fleet.stats().workers, 1);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(fleet.stats().active, 8, "nobody is hurt");
    std::fs::write(&go, "").unwrap();
    for (handle, pid) in running {
        assert_eq!(done(handle.wait()).pid, pid.0);
    }
    eventually("one is left", || (fleet.workers().len() == 1).then_some(()));
    done(ground.submit(&fleet, &[]).wait());
    let stats = ground.end(fleet);
    assert_eq!((stats.done, stats.busy_deaths, stats.idle_deaths), (9, 0, 0));
}

fn c54_a_preload_is_shared(ground: &Ground) {
    const HELD: u64 = 64 << 20;
    if ground.start == Start::Spawn {
        return;
    }
    let fleet = ground.launch(FleetSpec::new(4).queue(10).preload(ground.functions.hold, &(HELD as usize)));
    let touch = |writes: bool| done(fleet.submit(ground.functions.touch, &writes).unwrap().wait());
    for ended in fleet.map(ground.functions.touch, std::iter::repeat_n(false, 40)) {
        assert_eq!(done(ended.unwrap()), HELD / 4096);
    }
    let pss = || -> u64 {
        let mut pids = fleet.pids();
        pids.push(Pid::own());
        pids.into_iter().map(|pid| Memory::of(pid).unwrap().pss).sum()
    };
    let shared = pss();
    assert!(shared < HELD * 13 / 10, "{shared}");
    touch(true);
    let private: Vec<u64> = fleet
        .workers()
        .into_iter()
        .map(|(_, pid)| Memory::of(pid).unwrap().uss)
        .filter(|uss| *uss > HELD * 9 / 10)
        .collect();
    assert_eq!(private.len(), 1, "{private:?}");
    ground.end(fleet);
}

fn c55_inputs_are_freed(ground: &Ground) {
    let fleet = ground.fleet();
    let mut own = Resident::open().unwrap();
    let mut run = |tasks: usize| -> Vec<u64> {
        for ended in
            fleet.map(ground.functions.echo, std::iter::repeat_n(ByteBuf::from(vec![1; 1 << 20]), tasks))
        {
            assert_eq!(done(ended.unwrap()).len(), 1 << 20);
        }
        let workers = fleet.workers().into_iter().map(|(_, pid)| Memory::of(pid).unwrap().rss);
        workers.chain([own.read().unwrap()]).collect()
    };
    let (few, many) = (run(100), run(900));
    for (few, many) in few.into_iter().zip(many) {
        // Eight hundred more went through; what an allocator keeps for later is a few dozen.
        assert!(many < few + (100 << 20), "{few} {many}");
    }
    ground.end(fleet);
}

fn c56_every_size_arrives_or_is_refused(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(1));
    let echo = ground.functions.echo;
    for size in [0, 1, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, 1 << 20, LARGEST_INPUT - 8] {
        let input: Vec<u8> = (0..size).map(|byte| byte as u8).collect();
        let output = done(fleet.submit(echo, &ByteBuf::from(input.clone())).unwrap().wait());
        assert!(*output == input, "{size}");
    }
    let over = fleet.submit(echo, &ByteBuf::from(vec![0; LARGEST_INPUT - 7])).unwrap_err();
    assert!(matches!(over, SubmitError::TooLarge { .. } | SubmitError::Input(_)), "{over}");
    let ended = ground.submit(&fleet, &[Act::Say(LARGEST_RESULT)]).wait();
    assert!(matches!(ended.outcome, Outcome::Failed(_)), "{}", ended.outcome);
    assert!(ended.outcome.to_string().contains("its result"), "{}", ended.outcome);
    let stats = fleet.stats();
    done(ground.submit(&fleet, &[]).wait());
    assert_eq!((stats.busy_deaths, stats.idle_deaths), (0, 0));
    ground.end(fleet);
}

fn c57_a_babbling_worker_disturbs_nothing(ground: &Ground) {
    let fleet = ground.launch(ground.spec().stderr_kept(1000));
    let events = fleet.events(1000);
    let handle = ground.submit(&fleet, &[Act::Babble(10 << 20), Act::Say(5)]);
    let task = handle.task();
    assert_eq!(done(handle.wait()).text.len(), 5);
    let first = events.next_within(Duration::from_secs(10)).unwrap();
    let FleetEvent::Output(line) = first else { panic!("{first:?}") };
    assert_eq!((line.task, &line.bytes[..]), (Some(task), &b"a line of text\n"[..]));
    assert!(events.missed() > 100_000, "what nobody takes is counted: {}", events.missed());
    drop(events);
    // Nobody listens: it is read all the same, so that nobody waits for room.
    done(ground.submit(&fleet, &[Act::Babble(10 << 20)]).wait());
    let ended = ground.submit(&fleet, &[Act::Babble(1 << 20), Act::Kill]).wait();
    let Outcome::Crashed(death) = &ended.outcome else { panic!("{}", ended.outcome) };
    assert!(death.stderr.len() <= 1000 && death.stderr.ends_with("{\"task\":1}\n"), "{}", death.stderr);
    ground.end(fleet);
}

fn c58_output_comes_byte_for_byte(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(1));
    let events = fleet.events(1000);
    let pieces: [&[u8]; 4] = [b"whole\n", b"half", b" and half\n", b"\xff\xfe no text\n\n"];
    for piece in pieces {
        done(ground.submit(&fleet, &[Act::Print(piece.to_vec())]).wait());
    }
    let ended =
        ground.submit(&fleet, &[Act::PrintError(b"the end without a newline".to_vec()), Act::Exit(0)]).wait();
    assert!(matches!(ended.outcome, Outcome::Crashed(_)));
    ground.end(fleet);
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    for event in events {
        if let FleetEvent::Output(line) = event {
            if line.is_error { &mut errors } else { &mut output }.extend_from_slice(&line.bytes);
        }
    }
    assert_eq!(output, pieces.concat());
    assert_eq!(errors, b"the end without a newline");
}

fn c59_there_is_nothing_to_read(ground: &Ground) {
    let fleet = ground.fleet();
    for _ in 0..3 {
        assert_eq!(done(ground.submit(&fleet, &[Act::ReadInput]).wait()).text, "");
    }
    ground.end(fleet);
}

fn c63_too_few_descriptors_are_told_before(ground: &Ground) {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 100, hard).unwrap();
    let error = ground.try_launch(FleetSpec::new(64)).unwrap_err().to_string();
    assert!(
        error.starts_with("64 workers: ") && error.contains("descriptors are needed, 100 allowed; raise"),
        "{error}"
    );
    let fleet = ground.launch(FleetSpec::new(8));
    assert_eq!(fleet.stats().in_service, 8);
    ground.end(fleet);
}

fn c66_a_panic_is_an_error(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(1));
    let before = done(ground.submit(&fleet, &[]).wait());
    let ended = ground.submit(&fleet, &[Act::Panic("out of cheese".into())]).wait();
    let Outcome::Failed(error) = &ended.outcome else { panic!("{}", ended.outcome) };
    let panic = error.panic.as_ref().unwrap();
    assert_eq!(error.message, "out of cheese");
    assert!(panic.place.contains("script.rs:"), "{}", panic.place);
    assert!(panic.backtrace.contains("act"), "{}", panic.backtrace);
    assert!(ended.deaths.is_empty());
    let after = done(ground.submit(&fleet, &[]).wait());
    assert_eq!((after.pid, after.nth), (before.pid, 3), "the worker lives on");
    ground.end(fleet);
}

fn c67_a_fleet_in_a_fleet(ground: &Ground) {
    let fleet = ground.launch(FleetSpec::new(3));
    assert!(!fleet.stats().is_oversubscribed());
    let said = done(ground.submit(&fleet, &[Act::Nest]).wait());
    let cpus = fleet::sys::cpu::Cpus::read().usable();
    let word = if cpus < 3 { "crowded " } else { "deeper " };
    let end = "this would be a fleet within 4 others: does a worker launch the fleet that it is of?";
    assert_eq!(said.text, format!("{word}{word}{word}{end}"));
    ground.end(fleet);
}

fn workers_are_prepared_as_told(ground: &Ground) {
    let folder = ground.file("folder");
    std::fs::create_dir(&folder).unwrap();
    let preload = ground.functions.preload;
    let spec = ground
        .spec()
        .limits(Ceilings { open_files: Some(77), core: Some(0), ..Ceilings::default() })
        .environment(&["PATH", "FLEET_POOL_CHECK"])
        .working_directory(&folder)
        .preload(preload, &40)
        .init(preload, &2);
    let fleet = ground.launch(spec);
    let ask = |act: Act| done(ground.submit(&fleet, &[act]).wait()).text;
    assert_eq!(ask(Act::OpenFiles), "77");
    assert_eq!(ask(Act::Variable("TMPDIR".into())), "none");
    assert_ne!(ask(Act::Variable("PATH".into())), "none");
    assert_eq!(ask(Act::Directory), folder.canonicalize().unwrap().display().to_string());
    assert_eq!(ask(Act::Preloaded), "42");
    ground.end(fleet);
}

/// What a worker says may arrive before its zygote's word of which process it is.
fn a_worker_in_service_is_known_by_its_number(ground: &Ground) {
    for _ in 0..5 {
        let fleet = ground.launch(FleetSpec::new(4));
        assert_eq!(fleet.workers().len(), 4);
        let events = fleet.events(100);
        fleet.scale(12);
        eventually("twelve are there", || (fleet.stats().in_service == 12).then_some(()));
        assert_eq!(fleet.workers().len(), 12);
        ground.end(fleet);
        let ready = events.filter(|event| matches!(event, FleetEvent::WorkerReady { .. })).count();
        assert_eq!(ready, 8);
    }
}
