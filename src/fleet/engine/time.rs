//! The fleet's time, and until when its supervisor sleeps. Pure.

use crate::probe::clock::Nanos;

const MILLISECOND: Nanos = 1_000_000;

/// The supervisor wakes this often while anything is due some time, so that a stop of the whole process shows.
const LONGEST_SLEEP: Nanos = 250 * MILLISECOND;

/// Whoever wakes this much later than planned was stopped.
const STOPPED: Nanos = 1_000 * MILLISECOND;

/// The fleet's time. It stands still while the process is stopped (Ctrl-Z, a suspended machine), so that nobody's time is
/// up because of that.
#[derive(Debug, Default)]
pub(super) struct Time {
    skipped: Nanos,
    /// By when, on the machine's clock, somebody is to look at it again; `None` while nothing is due.
    due_by: Option<Nanos>,
    /// Until when the supervisor sleeps, on the fleet's clock; 0 while it is awake or was woken.
    sleeps_until: Nanos,
}

impl Time {
    /// The fleet's time, from the machine's.
    pub(super) fn now(&mut self, raw: Nanos) -> Nanos {
        if let Some(due_by) = self.due_by
            && raw > due_by.saturating_add(STOPPED)
        {
            self.skipped += raw - due_by;
            self.due_by = Some(raw);
        }
        raw.saturating_sub(self.skipped)
    }

    /// The supervisor goes to sleep; for how long at most, in milliseconds.
    pub(super) fn sleep(&mut self, raw: Nanos, deadline: Option<Nanos>) -> Option<u64> {
        let now = self.now(raw);
        self.sleeps_until = deadline.map_or(Nanos::MAX, |deadline| deadline.min(now + LONGEST_SLEEP));
        let sleep = deadline.map(|_| self.sleeps_until.saturating_sub(now));
        self.due_by = sleep.map(|sleep| raw + sleep);
        sleep.map(|sleep| sleep.div_ceil(MILLISECOND))
    }

    /// The supervisor is awake, and looks again soon.
    pub(super) fn wake(&mut self, raw: Nanos) {
        let _ = self.now(raw);
        self.sleeps_until = 0;
        self.due_by = self.due_by.map(|_| raw);
    }

    /// Whether the supervisor must be woken for this deadline; says so once.
    pub(super) fn must_wake(&mut self, deadline: Option<Nanos>) -> bool {
        let must = deadline.is_some_and(|deadline| deadline < self.sleeps_until);
        if must {
            self.sleeps_until = 0;
        }
        must
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000 * MILLISECOND;

    #[test]
    fn time_stands_still_while_the_process_is_stopped() {
        let mut time = Time::default();
        assert_eq!(time.sleep(SECOND, Some(3 * SECOND)), Some(250));
        time.wake(SECOND + SECOND / 4);
        assert_eq!(time.sleep(SECOND + SECOND / 4, Some(3 * SECOND)), Some(250));
        // Five seconds pass in which nobody ran.
        time.wake(6 * SECOND + SECOND / 2);
        assert_eq!(time.now(6 * SECOND + SECOND / 2), SECOND + SECOND / 2);
    }

    #[test]
    fn a_long_sleep_with_nothing_due_is_no_stop() {
        let mut time = Time::default();
        assert_eq!(time.sleep(SECOND, None), None);
        time.wake(100 * SECOND);
        assert_eq!(time.now(100 * SECOND), 100 * SECOND);
    }

    #[test]
    fn a_sleeper_is_woken_once_and_only_for_what_is_sooner() {
        let mut time = Time::default();
        assert!(!time.must_wake(Some(5)), "it is awake");
        time.sleep(SECOND, None);
        assert!(!time.must_wake(None));
        assert!(time.must_wake(Some(9 * SECOND)) && !time.must_wake(Some(8 * SECOND)));
        time.sleep(SECOND, Some(SECOND + 100));
        assert!(!time.must_wake(Some(SECOND + 100)) && time.must_wake(Some(SECOND + 99)));
    }
}
