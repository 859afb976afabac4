//! Whom a descriptor belongs to that the supervisor waits for.

/// What kind of descriptor it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fleet) enum Kind {
    /// Somebody wants the supervisor's attention.
    Bell,
    /// A worker's link.
    Link,
    /// What a worker writes to standard output.
    Output,
    /// What a worker writes to standard error.
    Errors,
    /// A worker's process.
    Process,
    /// Anything of a zygote.
    Zygote,
}

const KINDS: [Kind; 6] = [Kind::Bell, Kind::Link, Kind::Output, Kind::Errors, Kind::Process, Kind::Zygote];

/// Kind and serial number of its owner, in one number.
pub(in crate::fleet) fn token(kind: Kind, owner: u64) -> u64 {
    owner << 3 | kind as u64
}

/// What [`token`] put together.
pub(in crate::fleet) fn read(token: u64) -> Option<(Kind, u64)> {
    Some((*KINDS.get((token & 7) as usize)?, token >> 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_owner_come_back() {
        for kind in KINDS {
            assert_eq!(read(token(kind, 4711)), Some((kind, 4711)));
        }
        assert_eq!(read(7), None);
    }
}
