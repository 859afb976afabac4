//! A frame on its way out, which may take several goes.

use std::io::IoSlice;
use std::sync::Arc;

use super::frame::{self, FrameError, HEADER};

/// A frame, and how much of it is sent. The body is shared with whoever may have to send it once more, not copied.
#[derive(Debug)]
pub struct Outgoing {
    /// The length, and what goes before the body.
    head: Vec<u8>,
    body: Arc<[u8]>,
    sent: usize,
}

impl Outgoing {
    /// A frame of these two parts.
    ///
    /// # Errors
    /// If it is larger than any frame may be.
    pub fn new(head: &[u8], body: Arc<[u8]>) -> Result<Outgoing, FrameError> {
        let header = frame::header(head.len() + body.len())?;
        let mut whole_head = Vec::with_capacity(HEADER + head.len());
        whole_head.extend_from_slice(&header);
        whole_head.extend_from_slice(head);
        Ok(Outgoing { head: whole_head, body, sent: 0 })
    }

    /// Whether nothing of it is sent yet.
    pub fn is_untouched(&self) -> bool {
        self.sent == 0
    }

    /// Whether all of it is sent.
    pub fn is_sent(&self) -> bool {
        self.sent == self.head.len() + self.body.len()
    }

    /// What is still to be sent.
    pub(super) fn rest(&self) -> [IoSlice<'_>; 2] {
        let of_head = self.sent.min(self.head.len());
        [IoSlice::new(&self.head[of_head..]), IoSlice::new(&self.body[self.sent - of_head..])]
    }

    /// So many bytes more are sent.
    pub(super) fn sent(&mut self, count: usize) {
        self.sent += count;
    }
}
