//! What workers write to their standard output and error: cut into lines, and the end of it kept. Pure.

use std::collections::VecDeque;

/// The longest line, in bytes; a longer one is handed on in pieces of this size.
pub const LONGEST_LINE: usize = 16 << 10;

/// Bytes as they come, cut into lines. Nothing is added, changed or lost: the pieces joined are the bytes.
///
/// A line keeps its newline. One that has none is the last of its stream, or a piece of a line over [`LONGEST_LINE`].
#[derive(Debug, Default)]
pub struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Takes in what came, and hands each line on that is whole.
    pub fn take_in(&mut self, mut bytes: &[u8], line: &mut dyn FnMut(&[u8])) {
        while !bytes.is_empty() {
            let room = LONGEST_LINE - self.partial.len();
            let newline = bytes.iter().take(room).position(|byte| *byte == b'\n');
            let end = newline.map_or(bytes.len().min(room), |at| at + 1);
            let is_whole = newline.is_some() || end == room;
            let (piece, rest) = bytes.split_at(end);
            bytes = rest;
            if is_whole && self.partial.is_empty() {
                line(piece);
                continue;
            }
            self.partial.extend_from_slice(piece);
            if is_whole {
                line(&self.partial);
                self.partial.clear();
            }
        }
    }

    /// The stream has ended: hands the rest on, if there is one.
    pub fn end(&mut self, line: &mut dyn FnMut(&[u8])) {
        if !self.partial.is_empty() {
            line(&self.partial);
            self.partial = Vec::new();
        }
    }
}

/// The last bytes of a stream. It has no room before the first byte comes, and never more than its cap.
#[derive(Debug)]
pub struct Tail {
    kept: VecDeque<u8>,
    cap: usize,
    lost: u64,
}

impl Tail {
    /// Keeps the last `cap` bytes.
    pub fn new(cap: usize) -> Tail {
        Tail { kept: VecDeque::new(), cap, lost: 0 }
    }

    /// Takes in what came.
    pub fn take_in(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(self.cap)..];
        let too_many = (self.kept.len() + kept.len()).saturating_sub(self.cap);
        self.kept.drain(..too_many);
        self.kept.extend(kept);
        self.lost += (too_many + bytes.len() - kept.len()) as u64;
    }

    /// How many bytes came before those which are kept.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// What is kept, as text; what is no UTF-8 shows as `�`. Where bytes are lost, it begins with the first whole line,
    /// if there is one.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.kept.iter().copied().collect();
        let first_line = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let from = if self.lost > 0 && first_line < bytes.len() { first_line } else { 0 };
        String::from_utf8_lossy(&bytes[from..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn cut(chunks: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (mut lines, mut cut) = (Lines::default(), Vec::new());
        for chunk in chunks {
            lines.take_in(chunk, &mut |line| cut.push(line.to_vec()));
        }
        lines.end(&mut |line| cut.push(line.to_vec()));
        cut
    }

    /// Mostly letters, some newlines, and whatever is no UTF-8; now and then more than a line may have.
    fn chunk() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![4 => Just(b'x'), 2 => Just(b'\n'), 1 => any::<u8>()];
        prop_oneof![8 => vec(byte, 0..60), 1 => (1usize..40_000).prop_map(|length| vec![b'y'; length])]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn lines_are_the_bytes_however_they_came(chunks in vec(chunk(), 0..12)) {
            let all = chunks.concat();
            let lines = cut(&chunks);
            prop_assert_eq!(&lines.concat(), &all);
            prop_assert_eq!(&lines, &cut(&[all]), "how they came makes no difference");
            for (index, line) in lines.iter().enumerate() {
                let newlines = line.iter().filter(|byte| **byte == b'\n').count();
                let is_last = index + 1 == lines.len();
                prop_assert!(!line.is_empty() && line.len() <= LONGEST_LINE);
                prop_assert!(newlines == usize::from(line.ends_with(b"\n")), "one newline, at the end");
                prop_assert!(newlines == 1 || is_last || line.len() == LONGEST_LINE);
            }
        }

        #[test]
        fn a_tail_is_the_end_of_everything_that_came(chunks in vec(chunk(), 0..12), cap in 0usize..200) {
            let mut tail = Tail::new(cap);
            for chunk in &chunks {
                tail.take_in(chunk);
            }
            let all = chunks.concat();
            let kept: Vec<u8> = tail.kept.iter().copied().collect();
            prop_assert_eq!(kept, &all[all.len().saturating_sub(cap)..]);
            prop_assert_eq!(tail.lost(), all.len().saturating_sub(cap) as u64);
        }
    }

    #[test]
    fn a_tail_that_lost_its_beginning_starts_with_a_whole_line() {
        let mut tail = Tail::new(12);
        tail.take_in(b"first line\nsecond\n");
        assert_eq!((tail.text().as_str(), tail.lost()), ("second\n", 6));
        let mut tail = Tail::new(5);
        tail.take_in(b"a line without end");
        assert_eq!(tail.text(), "t end");
        let mut tail = Tail::new(50);
        tail.take_in(b"whole\n\xff\xfe");
        assert_eq!((tail.text().as_str(), tail.lost()), ("whole\n\u{fffd}\u{fffd}", 0));
    }
}
