//! Which program our processes are made of, and in which environment.

use std::path::{Path, PathBuf};

use super::process::{ForkError, own_threads};

/// Which program our processes are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    path: PathBuf,
    pub(super) environment: Vec<(String, String)>,
    pub(super) kept: Option<Vec<String>>,
}

impl Program {
    /// The program that runs now, even when its file was replaced or removed meanwhile.
    pub fn own() -> Program {
        Program::at("/proc/self/exe")
    }

    /// The program at `path`, which must call [`Role::of_this_process`](crate::role::Role::of_this_process) first thing.
    pub fn at(path: impl Into<PathBuf>) -> Program {
        Program { path: path.into(), environment: Vec::new(), kept: None }
    }

    /// The same, with a variable in its environment, and in that of all it starts.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Program {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, with none of our environment but these variables, and what [`Program::with`] adds.
    #[must_use]
    pub fn keeping(mut self, names: &[&str]) -> Program {
        self.kept = Some(names.iter().map(|name| (*name).to_owned()).collect());
        self
    }

    /// Makes the environment of this process what it would have been, had it executed the program. For a forked process
    /// before it does anything else.
    ///
    /// # Errors
    /// If this process has threads, which might be reading the environment.
    pub fn adopt_environment(&self) -> Result<(), ForkError> {
        let threads = own_threads()?;
        if threads > 1 {
            return Err(ForkError::Threaded { threads });
        }
        let is_kept = |name: &std::ffi::OsString| {
            self.kept.as_ref().is_none_or(|kept| kept.iter().any(|kept| name == kept.as_str()))
        };
        let leaving: Vec<_> =
            std::env::vars_os().map(|(name, _)| name).filter(|name| !is_kept(name)).collect();
        for name in leaving {
            // SAFETY: no other thread runs, so nobody reads the environment meanwhile.
            unsafe { std::env::remove_var(name) };
        }
        for (name, value) in &self.environment {
            // SAFETY: as above.
            unsafe { std::env::set_var(name, value) };
        }
        Ok(())
    }

    /// Where it stands.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
