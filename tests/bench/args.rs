//! What may be typed, and what `scripts/bench` hands over.

use std::path::PathBuf;

use crate::Failure;

/// What is asked for.
pub(crate) struct Args {
    /// How many passes.
    pub(crate) passes: usize,
    /// Where the ratios go as JSON.
    pub(crate) json: Option<PathBuf>,
    /// The smallest program, which `scripts/bench` has built from `tiny.rs`.
    pub(crate) tiny: PathBuf,
}

/// Below seven passes even the widest interval of a median holds it less than 98 times in a hundred.
const FEWEST: usize = 7;
const USUAL: usize = 9;

const TINY: &str = "FLEET_BENCH_TINY";

impl Args {
    /// Reads the words; `None` where `--bench`, by which cargo says that it wants a measurement, is not among them.
    pub(crate) fn read(words: impl Iterator<Item = String>) -> Result<Option<Args>, Failure> {
        let (mut passes, mut json, mut is_bench) = (USUAL, None, false);
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word}: a value is missing"));
            match word.as_str() {
                "--bench" => is_bench = true,
                "--json" => json = Some(PathBuf::from(value()?)),
                "--passes" => {
                    let text = value()?;
                    let number = text.parse().ok().filter(|number| *number >= FEWEST);
                    passes = number
                        .ok_or_else(|| format!("--passes: `{text}` is not a number from {FEWEST} up"))?;
                }
                _ => return Err(format!("`{word}` is not an option: --json FILE or --passes N").into()),
            }
        }
        if !is_bench {
            return Ok(None);
        }
        let tiny = std::env::var_os(TINY).ok_or_else(|| format!("{TINY} is not set: run scripts/bench"))?;
        Ok(Some(Args { passes, json, tiny: tiny.into() }))
    }
}
