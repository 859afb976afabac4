//! The fleet as its users hold it.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::engine::{Shared, Supervisor, WorkerStart};
use super::feed::Events;
use super::handle::Handle;
use super::launch::Launcher;
use super::nesting::{Nesting, TooDeep};
use super::policy::Event;
use super::postmortem::PostMortem;
use super::registry::{Function, Registry};
use super::spec::{FleetSpec, Start};
use super::stats::Stats;
use super::submit::{Call, SubmitError};
use crate::probe::usage::Usage;
use crate::sys::fds;
use crate::sys::limits::{self, LimitError};
use crate::sys::process::{self, ForkError, Pid};
use crate::sys::signals;

/// Why a fleet was not launched.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// What it shall be cannot be.
    #[error("{0}")]
    Flaw(String),
    /// It would need more than may be had.
    #[error("{workers} workers: {cause}")]
    Limit {
        /// How many were asked for.
        workers: usize,
        /// Which limit is in the way.
        cause: LimitError,
    },
    /// The caller cannot be forked.
    #[error(transparent)]
    Fork(#[from] ForkError),
    /// It is a fleet in a worker of a fleet, once too often.
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
    /// Its workers do not start.
    #[error("{0}")]
    Failed(Arc<str>),
    /// What the kernel says.
    #[error("cannot launch a fleet: {0}")]
    Io(#[from] io::Error),
}

/// Why workers were not replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the workers were not replaced: {0}")]
pub struct ReloadError(Arc<str>);

/// Worker processes, and a supervisor that keeps them alive.
///
/// It is a handle: clones are of the same fleet, and may be used from any thread, and within any async runtime. When
/// the last one is dropped, the fleet takes no more tasks, and those that are there have
/// [`FleetSpec::drain_within`] to end; dropped while its thread panics, it ends them at once.
#[derive(Clone)]
pub struct Fleet {
    owner: Arc<Owner>,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fleet").field(&self.owner.label).finish()
    }
}

struct Owner {
    shared: Arc<Shared>,
    label: String,
    drain_within: Duration,
    nesting: Nesting,
    supervisor: ThreadId,
    thread: Mutex<Option<JoinHandle<u32>>>,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Fleet {
    /// Launches the workers, and returns when all are ready; with fewer, where the kernel allows no more for now.
    ///
    /// # Errors
    /// If none can be had, with the reason, and what they wrote to standard error.
    pub fn launch(mut spec: FleetSpec) -> Result<Fleet, LaunchError> {
        if let Some(flaw) = spec.flaw {
            return Err(LaunchError::Flaw(flaw));
        }
        let workers = spec.rules.workers;
        // A worker takes its link, two outputs and its process; one that starts takes the other ends as well, and a zygote
        // some more.
        let descriptors = fds::open_count()? + 4 * workers + 12;
        limits::check(descriptors as u64, workers as u64 + 2)
            .map_err(|cause| LaunchError::Limit { workers, cause })?;
        let nesting = Nesting::of_this_process();
        spec.program = nesting.enter(spec.program, workers)?;
        if spec.start == Start::Fork {
            prepare_caller(&spec)?;
        }
        let shared = Arc::new(Shared::new(&spec)?);
        let mut supervisor = Supervisor::new(Arc::clone(&shared), Launcher::new(&spec));
        if spec.start == Start::Fork {
            supervisor.begin();
        }
        let life = || {
            signals::block_all();
            supervisor.run();
            process::own_thread()
        };
        let thread = std::thread::Builder::new().name(format!("{}-supervisor", spec.label)).spawn(life)?;
        let (supervisor, thread) = (thread.thread().id(), Mutex::new(Some(thread)));
        let (label, drain_within) = (spec.label, spec.drain_within);
        let owner = Owner { shared, label, drain_within, nesting, supervisor, thread };
        let fleet = Fleet { owner: Arc::new(owner) };
        fleet.wait_until_launched(workers)?;
        Ok(fleet)
    }

    fn wait_until_launched(&self, workers: usize) -> Result<(), LaunchError> {
        let launched = self.owner.shared.wait_for(|engine| {
            if let Some(why) = engine.failure() {
                return Some(Err(why));
            }
            let (in_service, counters) = (engine.core().in_service(), engine.core().counters());
            let is_launched = in_service > 0 && in_service as u64 + counters.failed_starts >= workers as u64;
            (is_launched || engine.is_over()).then_some(Ok(()))
        });
        launched.map_err(|why| {
            self.owner.end(Duration::ZERO);
            LaunchError::Failed(why)
        })
    }

    /// A task: `function` on `input`. Say what else is wanted of it, then submit it.
    pub fn call<In: Serialize, Out>(&self, function: Function<In, Out>, input: &In) -> Call<'_, Out> {
        Call::new(&self.owner.shared, function, input)
    }

    /// Submits a task, waiting for room in the queue.
    ///
    /// # Errors
    /// If the fleet is closed or has failed, or the input cannot be encoded.
    pub fn submit<In: Serialize, Out: DeserializeOwned>(
        &self,
        function: Function<In, Out>,
        input: &In,
    ) -> Result<Handle<Out>, SubmitError> {
        self.call(function, input).submit()
    }

    /// Submits a task if there is room.
    ///
    /// # Errors
    /// [`SubmitError::Full`] if there is none; else as for [`Fleet::submit`].
    pub fn try_submit<In: Serialize, Out: DeserializeOwned>(
        &self,
        function: Function<In, Out>,
        input: &In,
    ) -> Result<Handle<Out>, SubmitError> {
        self.call(function, input).try_submit()
    }

    /// Submits a task, waiting for room until then.
    ///
    /// # Errors
    /// [`SubmitError::Full`] if there is none then; else as for [`Fleet::submit`].
    pub fn submit_until<In: Serialize, Out: DeserializeOwned>(
        &self,
        function: Function<In, Out>,
        input: &In,
        deadline: Instant,
    ) -> Result<Handle<Out>, SubmitError> {
        self.call(function, input).submit_until(deadline)
    }

    /// Submits a task, and lets other async tasks run while there is no room.
    ///
    /// # Errors
    /// As for [`Fleet::submit`].
    pub async fn submit_async<In: Serialize, Out: DeserializeOwned>(
        &self,
        function: Function<In, Out>,
        input: &In,
    ) -> Result<Handle<Out>, SubmitError> {
        self.call(function, input).submit_async().await
    }

    /// Wants so many workers from now on, one at least. More start at once; fewer leave as they become idle.
    pub fn scale(&self, workers: usize) {
        self.owner.shared.act(|engine| engine.step(Event::Scaled(workers.max(1))));
    }

    /// Replaces every worker, and waits until that is done: a few at a time, each only when its successor is ready, and
    /// each after the task that it is at.
    ///
    /// # Errors
    /// If the new ones do not start: the old ones stay.
    pub fn reload(&self) -> Result<(), ReloadError> {
        self.owner.shared.act(super::engine::Engine::begin_reload);
        self.owner.shared.wait_for(super::engine::Engine::end_reload).map_err(ReloadError)
    }

    /// Sends no more tasks to workers until [`Fleet::resume`]. Tasks are taken in all the same, while there is room.
    pub fn pause(&self) {
        self.owner.shared.act(|engine| engine.step(Event::Paused(true)));
    }

    /// Sends tasks to workers again.
    pub fn resume(&self) {
        self.owner.shared.act(|engine| engine.step(Event::Paused(false)));
    }

    /// Takes no more tasks, and waits for those that are there; what is not done by then is interrupted. Nothing is left
    /// of the fleet afterwards.
    pub fn drain(&self, within: Duration) -> Stats {
        self.owner.end(within);
        self.stats()
    }

    /// [`Fleet::drain`], with the time that its [`FleetSpec::drain_within`] gives.
    pub fn shut_down(&self) -> Stats {
        self.drain(self.owner.drain_within)
    }

    /// Takes no more tasks, and interrupts those that are there.
    pub fn stop(&self) -> Stats {
        self.drain(Duration::ZERO)
    }

    /// The fleet in numbers.
    pub fn stats(&self) -> Stats {
        self.owner.shared.act(|engine| Stats::of(engine, &self.owner.nesting))
    }

    /// What happens from now on. It keeps up to `capacity` events.
    pub fn events(&self, capacity: usize) -> Events {
        self.owner.shared.act(|engine| engine.feed().subscribe(capacity))
    }

    /// The places and numbers of the workers that there are now.
    pub fn workers(&self) -> Vec<(usize, Pid)> {
        self.owner.shared.act(|engine| engine.workers())
    }

    /// The processes of this fleet besides our own: its workers, and the zygotes where there are some.
    pub fn pids(&self) -> Vec<Pid> {
        self.owner.shared.act(|engine| {
            let workers = engine.workers().into_iter().map(|(_, pid)| pid);
            workers.chain(engine.zygotes().iter().copied()).collect()
        })
    }

    /// Why the last start of a worker failed that did.
    pub fn last_failed_start(&self) -> Option<Arc<str>> {
        self.owner.shared.act(|engine| engine.last_failure())
    }

    /// The last death that nobody here brought about.
    pub fn last_death(&self) -> Option<Arc<PostMortem>> {
        self.owner.shared.act(|engine| engine.last_death())
    }

    /// When each worker came into the world, by place.
    pub fn starts(&self) -> Vec<WorkerStart> {
        self.owner.shared.act(|engine| engine.starts())
    }

    /// What the workers that there are now have used so far, together. Those that are busy answer when they are not.
    pub fn usage(&self) -> Usage {
        self.owner.shared.act(super::engine::Engine::begin_survey);
        self.owner.shared.wait_for(super::engine::Engine::end_survey)
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.owner.shared
    }
}

/// What has to be done in a caller that is to be forked.
fn prepare_caller(spec: &FleetSpec) -> Result<(), LaunchError> {
    let threads = process::own_threads()?;
    if threads > 1 {
        return Err(ForkError::Threaded { threads }.into());
    }
    Registry::own()
        .run_errands(&spec.setup.preload)
        .map_err(|why| LaunchError::Failed(format!("its preload: {why}").into()))?;
    // What waits here to be written would be written by every copy.
    io::stdout().flush()?;
    Ok(())
}

impl Owner {
    /// Ends the fleet, and waits until nothing is left of it.
    fn end(&self, within: Duration) {
        self.shared.act(|engine| engine.drain(nanos(within)));
        if std::thread::current().id() == self.supervisor {
            // A waker of somebody's has dropped the last handle: the supervisor cannot wait for itself.
            return;
        }
        self.shared.wait_for(|engine| engine.is_over().then_some(()));
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It has said that it is over; a panic of its after that would concern nobody.
            let _ = thread.join().map(process::wait_for_thread_to_vanish);
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let within = if std::thread::panicking() { Duration::ZERO } else { self.drain_within };
        self.end(within);
    }
}
