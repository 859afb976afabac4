//! One message with its length before it: four bytes, little-endian, then so many bytes.

/// The largest frame, in bytes. What is larger belongs into shared memory; and a length that a peer made up must not
/// make us reserve more than this.
pub const LARGEST: usize = 256 << 20;

/// Bytes of the length before each frame.
pub const HEADER: usize = 4;

/// Why what came is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than any frame may be.
    #[error("a frame of {length} bytes is over the limit of {limit}", limit = LARGEST)]
    TooLarge {
        /// The length announced.
        length: usize,
    },
    /// The road ended within a frame.
    #[error("the link ended within a frame, after {got} of {announced} bytes")]
    Torn {
        /// How much had come, the length included.
        got: usize,
        /// How much should have.
        announced: usize,
    },
}

/// The length that goes before a frame of `length` bytes.
///
/// # Errors
/// If that is more than [`LARGEST`].
pub fn header(length: usize) -> Result<[u8; HEADER], FrameError> {
    if length > LARGEST {
        return Err(FrameError::TooLarge { length });
    }
    Ok((length as u32).to_le_bytes())
}

/// Bytes as they come, cut into frames.
///
/// It has no room before the first byte comes: a worker that was just forked would pay for each page of it.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    /// What was handed out already.
    read: usize,
    /// What has come.
    filled: usize,
}

/// Room to read into; one read then mostly takes a whole frame.
const ROOM: usize = 16 << 10;

impl Frames {
    /// Where the next bytes go; say with [`Frames::filled`] how many came.
    ///
    /// A frame that was announced gets all the room it needs at once, and a large frame's room is given back after it.
    pub fn room(&mut self) -> &mut [u8] {
        if self.read == self.filled {
            (self.read, self.filled) = (0, 0);
            if self.buffer.len() > ROOM {
                self.buffer.truncate(ROOM);
                self.buffer.shrink_to_fit();
            }
        }
        // What is over the limit is refused by `next`, and is given no room here.
        let needed =
            self.announced().filter(|length| *length <= LARGEST).map_or(HEADER, |length| HEADER + length);
        if self.read + needed > self.buffer.len() || self.filled == self.buffer.len() {
            self.buffer.copy_within(self.read..self.filled, 0);
            (self.read, self.filled) = (0, self.filled - self.read);
            if self.buffer.len() < needed.max(self.filled + 1) {
                self.buffer.resize(needed.max(ROOM), 0);
            }
        }
        &mut self.buffer[self.filled..]
    }

    /// So many bytes have come into the room.
    pub fn filled(&mut self, count: usize) {
        self.filled = (self.filled + count).min(self.buffer.len());
    }

    /// The next whole frame, if it is here.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] as soon as the length is known.
    #[expect(clippy::should_implement_trait, reason = "lends from the buffer, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let Some(length) = self.whole()? else { return Ok(None) };
        let start = self.read + HEADER;
        self.read = start + length;
        Ok(Some(&self.buffer[start..start + length]))
    }

    /// Whether [`Frames::next`] would yield a frame.
    ///
    /// # Errors
    /// As for [`Frames::next`].
    pub fn has_next(&self) -> Result<bool, FrameError> {
        Ok(self.whole()?.is_some())
    }

    /// The length of the next frame, if all of it is here.
    fn whole(&self) -> Result<Option<usize>, FrameError> {
        match self.announced() {
            Some(length) if length > LARGEST => Err(FrameError::TooLarge { length }),
            Some(length) if self.filled >= self.read + HEADER + length => Ok(Some(length)),
            _ => Ok(None),
        }
    }

    /// The road has ended: fine between frames.
    ///
    /// # Errors
    /// [`FrameError::Torn`] within one.
    pub fn end(&self) -> Result<(), FrameError> {
        match self.filled - self.read {
            0 => Ok(()),
            got => Err(FrameError::Torn {
                got,
                announced: self.announced().map_or(HEADER, |length| HEADER + length),
            }),
        }
    }

    fn announced(&self) -> Option<usize> {
        let header = self.buffer[self.read..self.filled].first_chunk::<HEADER>()?;
        Some(u32::from_le_bytes(*header) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn wire(messages: &[Vec<u8>]) -> Vec<u8> {
        messages.iter().flat_map(|message| [&header(message.len()).unwrap()[..], message].concat()).collect()
    }

    /// Feeds `bytes` in pieces of the given sizes, over and over, and collects the frames.
    fn feed(frames: &mut Frames, mut bytes: &[u8], pieces: &[usize]) -> Result<Vec<Vec<u8>>, FrameError> {
        let mut got = Vec::new();
        let mut sizes = pieces.iter().cycle();
        while !bytes.is_empty() {
            while let Some(frame) = frames.next()? {
                got.push(frame.to_vec());
            }
            let room = frames.room();
            assert!(!room.is_empty());
            let count = bytes.len().min(room.len()).min(*sizes.next().unwrap());
            room[..count].copy_from_slice(&bytes[..count]);
            frames.filled(count);
            bytes = &bytes[count..];
        }
        while let Some(frame) = frames.next()? {
            got.push(frame.to_vec());
        }
        Ok(got)
    }

    proptest! {
        #[test]
        fn frames_arrive_whole_however_they_are_split(
            messages in vec(vec(any::<u8>(), 0..3000), 0..20),
            pieces in vec(1usize..5000, 1..8),
        ) {
            let mut frames = Frames::default();
            prop_assert_eq!(feed(&mut frames, &wire(&messages), &pieces).unwrap(), messages);
            prop_assert_eq!(frames.end(), Ok(()));
        }

        #[test]
        fn a_cut_road_yields_the_whole_frames_and_then_says_torn(
            messages in vec(vec(any::<u8>(), 0..300), 1..8),
            cut: prop::sample::Index,
        ) {
            let bytes = wire(&messages);
            let kept = cut.index(bytes.len());
            let mut frames = Frames::default();
            let got = feed(&mut frames, &bytes[..kept], &[4096]).unwrap();
            prop_assert_eq!(&got[..], &messages[..got.len()]);
            let whole: usize = got.iter().map(|frame| HEADER + frame.len()).sum();
            prop_assert_eq!(frames.end().is_ok(), whole == kept);
        }

        #[test]
        fn garbage_is_frames_or_an_error_and_nothing_worse(bytes in vec(any::<u8>(), 0..5000), pieces in vec(1usize..700, 1..5)) {
            let _ = feed(&mut Frames::default(), &bytes, &pieces);
        }

        #[test]
        fn an_oversized_frame_is_refused_before_it_is_given_room(length in (LARGEST as u32 + 1)..) {
            let mut frames = Frames::default();
            let refused = feed(&mut frames, &length.to_le_bytes(), &[4]);
            prop_assert_eq!(refused, Err(FrameError::TooLarge { length: length as usize }));
            prop_assert!(frames.buffer.len() <= ROOM);
        }
    }

    #[test]
    fn room_for_a_large_frame_is_given_back_after_it() {
        let mut frames = Frames::default();
        let large = vec![vec![7; 1 << 20], vec![1]];
        assert_eq!(feed(&mut frames, &wire(&large), &[9000]).unwrap(), large);
        let _ = frames.room();
        assert_eq!(frames.buffer.capacity(), ROOM);
    }

    #[test]
    fn too_much_to_send_is_refused() {
        assert_eq!(header(LARGEST + 1), Err(FrameError::TooLarge { length: LARGEST + 1 }));
        assert_eq!(header(3), Ok([3, 0, 0, 0]));
    }
}
