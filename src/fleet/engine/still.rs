//! Workers that stand still in the middle of a task: stopped, or waiting for a device that does not answer.
//!
//! Whoever computes uses CPU, and whoever sleeps sleeps in state S: neither stands still. A worker counts as hung when
//! every look at it, for as long as the fleet's limit, has shown state T or D and not a tick of CPU time between.

use super::Engine;
use crate::fleet::policy::{Event, WorkerId};
use crate::probe::clock::Nanos;
use crate::sys::process::Pid;

const MILLISECOND: Nanos = 1_000_000;

impl Engine {
    /// How often workers are looked at: four times in the limit, within reason.
    fn interval(&self) -> Option<Nanos> {
        Some((self.hung_after? / 4).clamp(50 * MILLISECOND, 2_000 * MILLISECOND))
    }

    /// When [`Engine::check_stillness`] has something to do.
    pub(super) fn next_look(&self) -> Option<Nanos> {
        let is_anybody_busy = self.core.load().1 > 0;
        self.interval().filter(|_| is_anybody_busy).map(|interval| self.looked_for_stillness + interval)
    }

    /// Looks at every worker that has a task.
    pub(super) fn check_stillness(&mut self) {
        let Some(limit) = self.hung_after else { return };
        let now = self.now();
        if self.next_look().is_none_or(|at| now < at) {
            return;
        }
        self.looked_for_stillness = now;
        let mut hung: Vec<WorkerId> = Vec::new();
        for member in self.members.values_mut().filter(|member| !member.is_doomed) {
            let is_busy = self.core.farewell(member.id).is_some_and(|known| known.first.is_some());
            let Some((pid, look)) = member.process.pid().and_then(|pid| Some((pid, look(pid)?))) else {
                continue;
            };
            let stillness = &mut member.stillness;
            let is_still = is_busy && matches!(look.state, 'T' | 't' | 'D') && look.ticks == stillness.ticks;
            stillness.ticks = look.ticks;
            stillness.since = stillness.since.filter(|_| is_still).or(is_still.then_some(now));
            if stillness.since.is_some_and(|since| now >= since.saturating_add(limit)) {
                stillness.state = Some(look.state);
                stillness.channel = wait_channel(pid);
                hung.push(member.id);
            }
        }
        for worker in hung {
            self.step(Event::Stalled(worker));
        }
    }
}

/// What the kernel shows of a process.
struct Look {
    state: char,
    ticks: u64,
}

fn look(pid: Pid) -> Option<Look> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold blanks and parentheses; the state comes after the last of these.
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let ticks = fields.skip(10).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Look { state, ticks })
}

/// Where in the kernel a process waits; `None` where the kernel does not tell.
fn wait_channel(pid: Pid) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/wchan")).ok()?;
    Some(name).filter(|name| !name.is_empty() && name != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_shows_state_and_time() {
        let own = look(Pid::own()).unwrap();
        assert!("RSD".contains(own.state), "{}", own.state);
        assert!(look(Pid(u32::MAX / 2)).is_none());
    }
}
