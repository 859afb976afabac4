//! A request this machine has no room for is refused before anything starts.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::rig::{Ended, FLEET, Rig, skipped};

/// Runs a line of shell in which `$FLEET` is the program.
fn shell(rig: &Rig, line: &str, adjust: impl FnOnce(&mut Command)) -> Ended {
    let mut command = rig.other("bash");
    command.args(["-c", line]).env("FLEET", FLEET);
    adjust(&mut command);
    rig.run(command)
}

#[test]
fn too_few_descriptors_are_told_with_the_number_needed() {
    let rig = Rig::new();
    let ended =
        shell(&rig, "ulimit -n 40; exec $FLEET compare --workload cpu --workers 64", |_| {}).expect(2);
    assert_eq!(
        ended.stderr,
        "error: --workers: 64 workers: 280 descriptors are needed, 40 allowed; raise the limit with `ulimit -n 280`\n"
    );
}

#[test]
fn too_few_processes_are_told_with_whose_limit_it_is() {
    let rig = Rig::new();
    let nobody = 65534;
    let ended = shell(&rig, "ulimit -u 3; exec $FLEET compare --workload cpu --workers 8", |command| {
        // The kernel does not count root's processes.
        if nix::unistd::geteuid().is_root() {
            command.uid(nobody).current_dir("/");
        }
    });
    if ended.code == Some(126) || ended.code == Some(127) {
        skipped(&format!("another user cannot execute {FLEET}: {}", ended.stderr));
        return;
    }
    let ended = ended.expect(2);
    assert!(
        ended.stderr.starts_with("error: --workers: 8 workers: 12 more processes or threads are needed, "),
        "{ended:?}"
    );
    assert!(
        ended.stderr.contains("allowed by the limit of this user; raise it with `ulimit -u`"),
        "{ended:?}"
    );
}

#[test]
fn what_just_fits_runs() {
    let rig = Rig::new();
    let line = "ulimit -n 56; exec $FLEET compare -w cpu -n 8 --rounds 1 --tasks 16 --task-size 100us -q --format csv";
    let ended = shell(&rig, line, |_| {}).expect(0);
    assert!(ended.stdout.contains("forkserver@8,forkserver,8,measured"), "{ended:?}");
}

#[test]
fn without_proc_it_says_so() {
    let rig = Rig::new();
    let tried = shell(&rig, "unshare --mount true", |_| {});
    if tried.code != Some(0) {
        skipped(&format!("no mount namespace to be had here: {}", tried.stderr));
        return;
    }
    let line = "exec unshare --mount sh -c 'mount -t tmpfs none /proc && exec $FLEET compare'";
    let ended = shell(&rig, line, |_| {}).expect(2);
    assert_eq!(
        ended.stderr,
        "error: /proc cannot be read (No such file or directory (os error 2)): fleet measures through it; mount it first\n"
    );
}
