//! The functions that a program's workers know, by number; registered before anything else happens.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::sync::OnceLock;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::{self, TaskError};
use super::protocol::Errand;
use super::{worker, zygote};
use crate::probe::clock::{self, Nanos};
use crate::role::Role;
use crate::seed::mix;
use crate::transport::{CodecError, codec};

static REGISTRY: OnceLock<Registry> = OnceLock::new();

/// The functions that workers of this program can be told to run.
#[derive(Default)]
pub struct Registry {
    entries: Vec<Entry>,
    fingerprint: u64,
}

struct Entry {
    name: String,
    run: Box<Run>,
}

type Run = dyn Fn(&[u8], &mut Call) -> Result<(), TaskError> + Send + Sync;

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|entry| &entry.name)).finish()
    }
}

/// A registered function: what to call, and with which types.
pub struct Function<In, Out> {
    index: u32,
    types: PhantomData<fn(In) -> Out>,
}

impl<In, Out> Clone for Function<In, Out> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<In, Out> Copy for Function<In, Out> {}

impl<In, Out> fmt::Debug for Function<In, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = REGISTRY.get().and_then(|registry| registry.entries.get(self.index as usize));
        f.write_str(entry.map_or("a function", |entry| &entry.name))
    }
}

impl<In, Out> Function<In, Out> {
    pub(super) fn index(self) -> u32 {
        self.index
    }
}

impl<In: Serialize, Out> Function<In, Out> {
    /// A call of this function with `input`, for a worker to make before it takes its first task.
    pub(super) fn errand(self, input: &In) -> Result<Errand, CodecError> {
        let mut bytes = Vec::new();
        codec::encode(input, &mut bytes)?;
        Ok(Errand { function: self.index, input: bytes })
    }
}

/// One run of a function: where its result goes, and when its work began and ended.
#[derive(Debug, Default)]
pub(super) struct Call {
    pub(super) started: Nanos,
    pub(super) finished: Nanos,
    pub(super) output: Vec<u8>,
}

impl Registry {
    /// Registers a function under a name of its own.
    ///
    /// Where it fails, the task fails with the error's words (in their alternate form, which tells whole chains where
    /// there are such); where it panics, with message, place and backtrace. The worker lives on in both cases.
    ///
    /// # Panics
    /// If the name is taken.
    pub fn function<In, Out, Error>(
        &mut self,
        name: &str,
        function: impl Fn(In) -> Result<Out, Error> + Send + Sync + 'static,
    ) -> Function<In, Out>
    where
        In: DeserializeOwned,
        Out: Serialize,
        Error: fmt::Display,
    {
        assert!(self.entries.iter().all(|entry| entry.name != name), "two functions are called `{name}`");
        let index = u32::try_from(self.entries.len()).expect("fewer functions than that");
        let run = move |input: &[u8], call: &mut Call| {
            let input: In =
                codec::decode(input).map_err(|cause| TaskError::said(format!("its input: {cause}")))?;
            call.started = clock::now();
            let result = function(input);
            call.finished = clock::now();
            let output = result.map_err(|error| TaskError::said(format!("{error:#}")))?;
            codec::encode(&output, &mut call.output)
                .map_err(|cause| TaskError::said(format!("its result: {cause}")))
        };
        self.entries.push(Entry { name: name.to_owned(), run: Box::new(run) });
        for part in [name, &shape::<In>(), &shape::<Out>()] {
            self.fingerprint = part.bytes().fold(mix(self.fingerprint, 0), |sum, byte| mix(sum, byte.into()));
        }
        Function { index, types: PhantomData }
    }

    /// Runs the function with this number, and turns its panic into an error.
    pub(super) fn run(&self, function: u32, input: &[u8], call: &mut Call) -> Result<(), TaskError> {
        let Some(entry) = self.entries.get(function as usize) else {
            return Err(TaskError::said(format!("there is no function {function}")));
        };
        call.output.clear();
        call::caught(|| (entry.run)(input, call))
    }

    /// Runs what is to be run before the first task, and stops at the first failure.
    pub(super) fn run_errands(&self, errands: &[Errand]) -> Result<(), String> {
        let mut call = Call::default();
        for errand in errands {
            let name = self.entries.get(errand.function as usize).map_or("?", |entry| &entry.name);
            self.run(errand.function, &errand.input, &mut call)
                .map_err(|error| format!("`{name}` failed: {error}"))?;
        }
        Ok(())
    }

    /// Names and types: two programs whose fingerprints differ must not understand each other.
    pub(super) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The one of this process; an empty one if the program never called [`init`].
    pub(super) fn own() -> &'static Registry {
        REGISTRY.get_or_init(Registry::default)
    }
}

/// A type's name and size: a change of its fields that shows in neither goes unnoticed.
fn shape<T>() -> String {
    format!("{} {}", type_name::<T>(), size_of::<T>())
}

/// Registers this program's functions, and hands on what `register` returns, which is mostly their handles.
///
/// Call it first thing in `main`: a process that was started to be a worker becomes one here, and never returns.
///
/// # Panics
/// If it is called twice, or after the first fleet was launched.
pub fn init<T>(register: impl FnOnce(&mut Registry) -> T) -> T {
    let mut registry = Registry::default();
    let handles = register(&mut registry);
    assert!(REGISTRY.set(registry).is_ok(), "fleet::init is called once, before any fleet is launched");
    match Role::of_this_process() {
        Role::Worker { parent } => std::process::exit(worker::main(parent)),
        Role::Zygote { parent } => std::process::exit(zygote::main(parent)),
        Role::Command | Role::LabChild { .. } => handles,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(number: u64) -> Result<u64, String> {
        number.checked_mul(2).ok_or_else(|| "too large".into())
    }

    fn of(names: &[&str]) -> Registry {
        let mut registry = Registry::default();
        for name in names {
            registry.function(name, double);
        }
        registry
    }

    #[test]
    fn a_function_is_found_by_its_number_and_its_error_is_the_tasks() {
        let mut registry = Registry::default();
        let _ = registry.function("echo", Ok::<String, String>);
        let twice = registry.function("double", double);
        let mut call = Call::default();
        let mut input = Vec::new();
        codec::encode(&21_u64, &mut input).unwrap();
        registry.run(twice.index(), &input, &mut call).unwrap();
        assert_eq!(codec::decode::<u64>(&call.output).unwrap(), 42);
        assert!(call.started > 0 && call.finished >= call.started);
        let mut input = Vec::new();
        codec::encode(&u64::MAX, &mut input).unwrap();
        assert_eq!(registry.run(twice.index(), &input, &mut call).unwrap_err().message, "too large");
        let error = registry.run(twice.index(), b"no number at all", &mut call).unwrap_err();
        assert!(error.message.starts_with("its input: cannot decode"), "{error}");
        assert_eq!(registry.run(7, &input, &mut call).unwrap_err().message, "there is no function 7");
    }

    #[test]
    fn names_order_and_types_make_the_fingerprint() {
        assert_eq!(of(&["a", "b"]).fingerprint(), of(&["a", "b"]).fingerprint());
        assert_ne!(of(&["a", "b"]).fingerprint(), of(&["b", "a"]).fingerprint());
        let mut other = Registry::default();
        other.function("a", |number: u32| Ok::<u32, String>(number));
        assert_ne!(of(&["a"]).fingerprint(), other.fingerprint());
    }

    #[test]
    #[should_panic(expected = "two functions are called `a`")]
    fn a_name_is_given_once() {
        of(&["a", "a"]);
    }

    #[test]
    fn errands_stop_at_the_first_failure_and_say_whose() {
        let mut registry = Registry::default();
        let twice = registry.function("double", double);
        let [good, bad] = [2, u64::MAX].map(|number| twice.errand(&number).unwrap());
        assert_eq!(registry.run_errands(&[good.clone(), good.clone()]), Ok(()));
        assert_eq!(registry.run_errands(&[good, bad]), Err("`double` failed: too large".into()));
    }
}
