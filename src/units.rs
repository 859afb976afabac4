//! Amounts with their unit in the type: what we print we can read back, exactly.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An amount of memory or data, in bytes.
///
/// Prints in the largest unit that divides it, so that printing loses nothing: `64KiB`, `65537B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A length of time, in nanoseconds.
///
/// Prints in the largest unit that divides it: `50ms`, `1500us`, `2s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Span(pub u64);

/// Why a text is not an amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No number at the front.
    #[error("`{text}` does not begin with a number; write one like {example}")]
    NoNumber {
        /// What was given.
        text: String,
        /// A well-formed amount.
        example: &'static str,
    },
    /// A unit we do not know.
    #[error("`{unit}` is not a unit; use one of {allowed}")]
    UnknownUnit {
        /// What was given as the unit.
        unit: String,
        /// The units allowed.
        allowed: &'static str,
    },
    /// A number alone, where the unit is not plain.
    #[error("`{text}` needs a unit: one of {allowed}")]
    NoUnit {
        /// What was given.
        text: String,
        /// The units there are.
        allowed: &'static str,
    },
    /// More than 64 bits can hold.
    #[error("`{text}` is too large: {max} at most")]
    TooLarge {
        /// What was given.
        text: String,
        /// The largest amount, in words.
        max: &'static str,
    },
}

const BYTE_UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const BYTE_NAMES: [(&str, u64); 14] = [
    ("tib", 1 << 40),
    ("t", 1 << 40),
    ("gib", 1 << 30),
    ("g", 1 << 30),
    ("gb", 1_000_000_000),
    ("mib", 1 << 20),
    ("m", 1 << 20),
    ("mb", 1_000_000),
    ("kib", 1 << 10),
    ("k", 1 << 10),
    ("kb", 1_000),
    ("bytes", 1),
    ("b", 1),
    ("", 1),
];

const SPAN_UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];
const SPAN_NAMES: [(&str, u64); 9] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("sec", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

/// Splits `1.5ms` into its number and its unit, and multiplies them without losing a whole unit.
fn parse(
    text: &str,
    names: &[(&str, u64)],
    example: &'static str,
    allowed: &'static str,
    max: &'static str,
) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let (digits, unit) = (trimmed[..end].replace('_', ""), trimmed[end..].trim());
    let no_number = || UnitError::NoNumber { text: text.to_owned(), example };
    let too_large = || UnitError::TooLarge { text: text.to_owned(), max };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(no_number());
    }
    let lower = unit.to_lowercase();
    let scale =
        names.iter().find(|(name, _)| *name == lower).map(|(_, scale)| *scale).ok_or_else(|| match unit {
            "" => UnitError::NoUnit { text: text.to_owned(), allowed },
            unit => UnitError::UnknownUnit { unit: unit.to_owned(), allowed },
        })?;
    match digits.split_once('.') {
        None => {
            let whole: u64 = digits.parse().map_err(|_| too_large())?;
            whole.checked_mul(scale).ok_or_else(too_large)
        }
        Some(_) => {
            let number: f64 = digits.parse().map_err(|_| no_number())?;
            let amount = (number * scale as f64).round();
            // 2^63 is the last power of two that a float holds and a u64 surely does too.
            if amount < 9.2e18 { Ok(amount as u64) } else { Err(too_large()) }
        }
    }
}

fn largest_exact(amount: u64, units: &[(&'static str, u64)]) -> (u64, &'static str) {
    let (name, scale) = units.iter().find(|(_, scale)| amount.is_multiple_of(*scale)).unwrap_or(&("", 1));
    (amount / scale, name)
}

impl Bytes {
    /// The amount in bytes.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &BYTE_NAMES, "64KiB", "B, KiB, MiB, GiB, TiB, kB, MB, GB", "16 EiB").map(Bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return write!(f, "0B");
        }
        let (amount, unit) = largest_exact(self.0, &BYTE_UNITS);
        write!(f, "{amount}{unit}")
    }
}

impl Span {
    /// Nothing.
    pub const ZERO: Span = Span(0);

    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis * 1_000_000)
    }

    /// So many whole seconds.
    pub const fn from_secs(seconds: u64) -> Span {
        Span(seconds * 1_000_000_000)
    }

    /// So many seconds; what a `u64` of nanoseconds cannot hold is held at its largest.
    pub fn from_secs_f64(seconds: f64) -> Span {
        Span((seconds * 1e9) as u64)
    }

    /// Nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Seconds.
    pub fn secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        Duration::from_nanos(span.0)
    }
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &SPAN_NAMES, "50ms", "ns, us, ms, s, min, h", "584 years").map(Span)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return write!(f, "0s");
        }
        let (amount, unit) = largest_exact(self.0, &SPAN_UNITS);
        write!(f, "{amount}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_read_back_what_they_print(amount: u64) {
            prop_assert_eq!(Bytes(amount).to_string().parse(), Ok(Bytes(amount)));
        }

        #[test]
        fn spans_read_back_what_they_print(amount: u64) {
            prop_assert_eq!(Span(amount).to_string().parse(), Ok(Span(amount)));
        }

        #[test]
        fn no_text_makes_parsing_panic(text in ".{0,24}") {
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Span>();
        }
    }

    #[test]
    fn common_spellings_are_understood() {
        for (text, bytes) in
            [("64KiB", 65_536), ("64k", 65_536), ("1.5MiB", 1_572_864), ("1 GB", 1_000_000_000), ("7", 7)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for (text, nanos) in
            [("50ms", 50_000_000), ("1.5s", 1_500_000_000), ("2 min", 120_000_000_000), ("3µs", 3_000)]
        {
            assert_eq!(text.parse(), Ok(Span(nanos)), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_reason() {
        let told = |text: &str| text.parse::<Bytes>().unwrap_err().to_string();
        assert_eq!(told("lots"), "`lots` does not begin with a number; write one like 64KiB");
        assert_eq!(
            told("3 parsecs"),
            "`parsecs` is not a unit; use one of B, KiB, MiB, GiB, TiB, kB, MB, GB"
        );
        assert_eq!(told("99999999TiB"), "`99999999TiB` is too large: 16 EiB at most");
        assert_eq!(told("99999999.5TiB"), "`99999999.5TiB` is too large: 16 EiB at most");
        let told = |text: &str| text.parse::<Span>().unwrap_err().to_string();
        assert_eq!(told("5"), "`5` needs a unit: one of ns, us, ms, s, min, h");
    }
}
