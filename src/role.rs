//! Who is this process? One hidden word on the command line decides it, before any thread exists.

use std::ffi::OsStr;

/// What a process of ours was started to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A command somebody typed.
    Command,
    /// Runs one trial for the laboratory, and ends.
    LabChild {
        /// The process that started this one.
        parent: u32,
    },
    /// Forks workers on request.
    Zygote {
        /// The process that started this one.
        parent: u32,
    },
    /// Runs tasks.
    Worker {
        /// The process that started this one.
        parent: u32,
    },
}

const LAB_CHILD: &str = "fleet:lab-child";
const ZYGOTE: &str = "fleet:zygote";
const WORKER: &str = "fleet:worker";

impl Role {
    /// Reads the role from the first argument. What is no hidden word is a command.
    pub fn of_this_process() -> Role {
        let mut words = std::env::args_os().skip(1);
        Role::from_words(words.next().as_deref(), words.next().as_deref())
    }

    fn from_words(word: Option<&OsStr>, parent: Option<&OsStr>) -> Role {
        let parent = || parent.and_then(|parent| parent.to_str()?.parse().ok());
        let role = match word.and_then(OsStr::to_str) {
            Some(LAB_CHILD) => parent().map(|parent| Role::LabChild { parent }),
            Some(ZYGOTE) => parent().map(|parent| Role::Zygote { parent }),
            Some(WORKER) => parent().map(|parent| Role::Worker { parent }),
            _ => None,
        };
        role.unwrap_or(Role::Command)
    }

    /// The arguments that give a process of our program this role.
    pub fn arguments(self) -> Vec<String> {
        match self {
            Role::Command => Vec::new(),
            Role::LabChild { parent } => vec![LAB_CHILD.to_owned(), parent.to_string()],
            Role::Zygote { parent } => vec![ZYGOTE.to_owned(), parent.to_string()],
            Role::Worker { parent } => vec![WORKER.to_owned(), parent.to_string()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_read_back_from_their_arguments() {
        for role in [Role::LabChild { parent: 7 }, Role::Zygote { parent: 8 }, Role::Worker { parent: 9 }] {
            let words = role.arguments();
            assert_eq!(Role::from_words(Some(words[0].as_ref()), Some(words[1].as_ref())), role);
        }
        assert_eq!(Role::from_words(Some("compare".as_ref()), None), Role::Command);
        assert_eq!(Role::from_words(Some("fleet:worker".as_ref()), None), Role::Command);
    }
}
