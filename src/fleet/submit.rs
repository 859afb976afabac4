//! Tasks on their way in.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::engine::{Shared, Submission};
use super::handle::{Cell, Handle};
use super::policy::Refusal;
use super::registry::Function;
use crate::transport::{codec, frame};

/// The largest input of a task, in bytes once it is encoded; an order has some bytes more.
pub const LARGEST_INPUT: usize = frame::LARGEST - 1024;

/// Why a task was not taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// There is no room in the queue.
    #[error("the queue is full")]
    Full,
    /// The fleet takes no more tasks.
    #[error("the fleet is closed")]
    Closed,
    /// The fleet gave up, for this reason.
    #[error("the fleet has failed: {0}")]
    Failed(Arc<str>),
    /// The input cannot be encoded.
    #[error("its input: {0}")]
    Input(String),
    /// The input is larger than one may be.
    #[error("its input is {bytes} bytes, and {LARGEST_INPUT} is the most; hand large things over in a file")]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
}

/// A task that is to be submitted.
#[derive(Clone, Debug)]
#[must_use = "it is not submitted yet"]
pub struct Call<'a, Out> {
    shared: &'a Arc<Shared>,
    function: u32,
    input: Result<Arc<[u8]>, SubmitError>,
    priority: i16,
    expires_within: Option<Duration>,
    limit: Option<Duration>,
    result: PhantomData<fn() -> Out>,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn encoded<In: Serialize>(input: &In) -> Result<Arc<[u8]>, SubmitError> {
    let mut bytes = Vec::new();
    codec::encode(input, &mut bytes).map_err(|cause| SubmitError::Input(cause.to_string()))?;
    if bytes.len() > LARGEST_INPUT {
        return Err(SubmitError::TooLarge { bytes: bytes.len() });
    }
    Ok(bytes.into())
}

impl<'a, Out> Call<'a, Out> {
    pub(super) fn new<In: Serialize>(
        shared: &'a Arc<Shared>,
        function: Function<In, Out>,
        input: &In,
    ) -> Call<'a, Out> {
        Call {
            shared,
            function: function.index(),
            input: encoded(input),
            priority: 0,
            expires_within: None,
            limit: None,
            result: PhantomData,
        }
    }

    /// Higher starts first. 0 unless told otherwise.
    pub fn priority(mut self, priority: i16) -> Self {
        self.priority = priority;
        self
    }

    /// If no worker has begun it within this time from its submission, it is never sent, and ends as expired.
    pub fn expires_within(mut self, time: Duration) -> Self {
        self.expires_within = Some(time);
        self
    }

    /// How long it may run, whatever the fleet's tasks may.
    pub fn limit(mut self, time: Duration) -> Self {
        self.limit = Some(time);
        self
    }

    fn submission(&self, cell: &Arc<Cell>) -> Result<Submission, SubmitError> {
        Ok(Submission {
            function: self.function,
            input: self.input.clone()?,
            priority: self.priority,
            expires_within: self.expires_within.map(nanos),
            limit: self.limit.map(nanos),
            sink: Arc::<Cell>::clone(cell),
            key: 0,
        })
    }
}

impl<Out: DeserializeOwned> Call<'_, Out> {
    /// Submits it, waiting for room in the queue.
    ///
    /// # Errors
    /// If the fleet is closed or has failed, or the input cannot be encoded.
    pub fn submit(self) -> Result<Handle<Out>, SubmitError> {
        self.submit_waiting(Wait::ForEver)
    }

    /// Submits it if there is room.
    ///
    /// # Errors
    /// [`SubmitError::Full`] if there is none; else as for [`Call::submit`].
    pub fn try_submit(self) -> Result<Handle<Out>, SubmitError> {
        self.submit_waiting(Wait::Not)
    }

    /// Submits it, waiting for room until then.
    ///
    /// # Errors
    /// [`SubmitError::Full`] if there is none then; else as for [`Call::submit`].
    pub fn submit_until(self, deadline: Instant) -> Result<Handle<Out>, SubmitError> {
        self.submit_waiting(Wait::Until(deadline))
    }

    fn submit_waiting(self, wait: Wait) -> Result<Handle<Out>, SubmitError> {
        let cell = Arc::<Cell>::default();
        let task = self.shared.submit(self.submission(&cell)?, wait)?;
        Ok(Handle::new(task, cell, Arc::clone(self.shared)))
    }

    /// Submits it, and lets other async tasks run while there is no room.
    ///
    /// # Errors
    /// As for [`Call::submit`].
    pub async fn submit_async(self) -> Result<Handle<Out>, SubmitError> {
        let cell = Arc::<Cell>::default();
        loop {
            RoomFor { shared: self.shared, number: None }.await;
            // Between the two, somebody else may have come.
            if let Some(submitted) = self.shared.submit_if_room(self.submission(&cell)?) {
                return Ok(Handle::new(submitted?, cell, Arc::clone(self.shared)));
            }
        }
    }
}

/// How long a submitter waits for room.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    Not,
    Until(Instant),
    ForEver,
}

/// Ready when there may be room.
struct RoomFor<'a> {
    shared: &'a Arc<Shared>,
    number: Option<u64>,
}

impl Future for RoomFor<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let number = self.number;
        let shared = self.shared;
        let still_waits =
            shared.act(|engine| engine.core().is_full().then(|| engine.task_waits(number, context.waker())));
        self.number = still_waits.or(number);
        if still_waits.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for RoomFor<'_> {
    fn drop(&mut self) {
        // Whoever was let in and leaves lets the next one in.
        if let Some(number) = self.number {
            self.shared.act(|engine| engine.task_leaves(number));
        }
    }
}

impl Shared {
    /// Takes a task in as soon as there is room, or says why not.
    pub(super) fn submit(
        &self,
        submission: Submission,
        wait: Wait,
    ) -> Result<crate::ids::TaskId, SubmitError> {
        let mut engine = self.lock();
        if engine.core().is_full() && !matches!(wait, Wait::Not) {
            engine.thread_waits(1);
            while engine.core().is_full() {
                let left = match wait {
                    Wait::Until(deadline) => deadline.saturating_duration_since(Instant::now()),
                    // The condition's own clock cannot hold every duration.
                    Wait::Not | Wait::ForEver => Duration::from_secs(3600),
                };
                if left.is_zero() {
                    break;
                }
                engine = self.wait_for_room(engine, left);
            }
            engine.thread_waits(-1);
        }
        let submitted = engine.submit(submission);
        let submitted = submitted.map_err(|refusal| engine.submit_error(refusal));
        self.release(engine);
        submitted
    }

    /// Takes a task in, or says why not; `None` if there is no room, which is not counted as a refusal.
    pub(super) fn submit_if_room(
        &self,
        submission: Submission,
    ) -> Option<Result<crate::ids::TaskId, SubmitError>> {
        self.act(|engine| {
            if engine.core().is_full() {
                return None;
            }
            let submitted = engine.submit(submission);
            Some(submitted.map_err(|refusal| engine.submit_error(refusal)))
        })
    }
}

impl super::engine::Engine {
    fn submit_error(&self, refusal: Refusal) -> SubmitError {
        match refusal {
            Refusal::Full => SubmitError::Full,
            Refusal::Closed => SubmitError::Closed,
            Refusal::Failed => {
                SubmitError::Failed(self.failure().unwrap_or_else(|| "nobody knows why".into()))
            }
        }
    }
}
