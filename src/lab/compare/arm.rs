//! An arm: a model on so many lanes.

use std::fmt;
use std::str::FromStr;

use crate::ids::{Lanes, LanesError};
use crate::model::{Model, UnknownModel};

/// What is compared with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arm {
    /// The model.
    pub model: Model,
    /// Side by side.
    pub lanes: Lanes,
    /// The baseline's second run: its difference from the first is the machine's noise.
    pub control: bool,
}

/// Why a text is no arm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArmError {
    /// No such model.
    #[error(transparent)]
    Model(#[from] UnknownModel),
    /// No such number of lanes.
    #[error(transparent)]
    Lanes(#[from] LanesError),
    /// A model that needs a number of workers has none, or one that has no workers has a number.
    #[error("`{0}` is not an arm: write serial, or a model and its workers like threads@4")]
    Shape(String),
}

impl Arm {
    /// The baseline.
    pub const SERIAL: Arm = Arm { model: Model::Serial, lanes: Lanes::ONE, control: false };
    /// The baseline again.
    pub const CONTROL: Arm = Arm { model: Model::Serial, lanes: Lanes::ONE, control: true };
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.model, self.control) {
            (Model::Serial, false) => f.pad("serial"),
            (Model::Serial, true) => f.pad("serial#2"),
            (model, _) => f.pad(&format!("{model}@{}", self.lanes)),
        }
    }
}

impl FromStr for Arm {
    type Err = ArmError;

    fn from_str(text: &str) -> Result<Self, ArmError> {
        match text.split_once('@') {
            None if text == "serial" => Ok(Arm::SERIAL),
            None if text == "serial#2" => Ok(Arm::CONTROL),
            Some((model, lanes)) => match model.parse()? {
                Model::Serial => Err(ArmError::Shape(text.to_owned())),
                model => Ok(Arm { model, lanes: lanes.parse()?, control: false }),
            },
            None => Err(ArmError::Shape(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arms_read_back_what_they_print(model in 1usize..6, lanes in 1usize..=1024) {
            let arm = Arm { model: Model::ALL[model], lanes: Lanes::new(lanes).unwrap(), control: false };
            prop_assert_eq!(arm.to_string().parse(), Ok(arm));
        }
    }

    #[test]
    fn the_baseline_and_its_control_have_names_without_a_number() {
        for arm in [Arm::SERIAL, Arm::CONTROL] {
            assert_eq!(arm.to_string().parse(), Ok(arm));
        }
        assert!(
            "threads".parse::<Arm>().is_err()
                && "serial@2".parse::<Arm>().is_err()
                && "x@2".parse::<Arm>().is_err()
        );
    }
}
