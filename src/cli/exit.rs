//! How a command ends.

use crate::sys::signals::Wish;

/// The exit codes of `fleet`, in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It ran; whatever the verdict.
    Ran,
    /// Something failed: an arm, or our own input or output.
    Failed,
    /// It was asked in a way that cannot be understood or done.
    Usage,
    /// `--require-verdict`, and there is none.
    NoVerdict,
    /// Arms disagreed on the checksum.
    Disagreed,
    /// Somebody ended it; a result of whole rounds was written.
    Interrupted(Wish),
    /// The reader of our output went away.
    BrokenPipe,
}

impl Exit {
    /// The number that the shell gets.
    pub fn code(self) -> u8 {
        match self {
            Exit::Ran => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::NoVerdict => 4,
            Exit::Disagreed => 5,
            Exit::Interrupted(wish) => wish.exit_code(),
            Exit::BrokenPipe => 141,
        }
    }
}

/// The table in `--help`.
pub(super) const TABLE: &str = "\
Exit codes:
    0    ran, with any verdict
    1    something failed: an arm, or reading or writing
    2    usage: an argument, or a request this machine has no room for
    4    no verdict (only with --require-verdict)
    5    models disagreed on the checksum
  130    interrupted (Ctrl-C); the result of whole rounds was written, or nothing if there was none
  143    terminated; likewise
  141    the reader of the output went away";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_every_code() {
        let all = [
            Exit::Ran,
            Exit::Failed,
            Exit::Usage,
            Exit::NoVerdict,
            Exit::Disagreed,
            Exit::Interrupted(Wish::Interrupt),
            Exit::Interrupted(Wish::Terminate),
            Exit::BrokenPipe,
        ];
        for exit in all {
            let code = format!("{:>5}    ", exit.code());
            assert!(TABLE.lines().any(|line| line.starts_with(&code)), "{exit:?}");
        }
        assert_eq!(TABLE.lines().count(), all.len() + 1);
    }
}
