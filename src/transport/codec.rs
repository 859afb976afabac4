//! Values to bytes and back. The only file that knows which codec it is.
//!
//! bincode is not maintained any more, and good: it is pinned, and this seam is small enough for another to take its
//! place in a few lines. The hello carries [`ID`], so that two sides with different codecs part at once.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use bincode::error::{DecodeError, EncodeError};
use serde::{Deserialize, Serialize};

use super::frame;

/// Names the codec and its settings in the hello.
pub const ID: u32 = 0x62_69_02_01;

/// Fixed-width integers, so that encoding is a copy; and a limit, without which a corrupt length would make the
/// allocator end the whole process.
const SETTINGS: Configuration<LittleEndian, Fixint, Limit<{ frame::LARGEST }>> =
    bincode::config::standard().with_fixed_int_encoding().with_limit::<{ frame::LARGEST }>();

/// Why bytes are no value, or a value has no bytes.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The value has no form on the wire.
    #[error("cannot encode a message: {}", encode_words(.0))]
    Encode(#[from] EncodeError),
    /// The bytes mean nothing.
    #[error("cannot decode a message: {}", decode_words(.0))]
    Decode(#[from] DecodeError),
    /// The bytes mean something, and more follows.
    #[error("cannot decode a message: {0} bytes too many")]
    Trailing(usize),
}

/// What the value's own code said, as it said it; else the codec's words.
fn encode_words(cause: &EncodeError) -> String {
    match cause {
        EncodeError::OtherString(words) => words.clone(),
        EncodeError::Other(words) => (*words).to_owned(),
        other => other.to_string(),
    }
}

fn decode_words(cause: &DecodeError) -> String {
    match cause {
        DecodeError::OtherString(words) => words.clone(),
        DecodeError::Other(words) => (*words).to_owned(),
        other => other.to_string(),
    }
}

/// Appends the bytes of `value` to `buffer`.
///
/// # Errors
/// If serde cannot describe the value to a format without names.
pub fn encode<T: Serialize>(value: &T, buffer: &mut Vec<u8>) -> Result<(), CodecError> {
    bincode::serde::encode_into_std_write(value, buffer, SETTINGS)?;
    Ok(())
}

/// The value of which these are the bytes, all of them. It may borrow from them.
///
/// # Errors
/// If the bytes are not exactly one value.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, CodecError> {
    let (value, used) = bincode::serde::borrow_decode_from_slice(bytes, SETTINGS)?;
    match bytes.len() - used {
        0 => Ok(value),
        more => Err(CodecError::Trailing(more)),
    }
}

/// The value at the front of these bytes, and what follows it: a payload that needs no codec stays outside of it.
///
/// # Errors
/// If the bytes do not begin with a value.
pub fn decode_front<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(T, &'a [u8]), CodecError> {
    let (value, used) = bincode::serde::borrow_decode_from_slice(bytes, SETTINGS)?;
    Ok((value, &bytes[used..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_come_back(number: u64, text in ".{0,40}", list in proptest::collection::vec(any::<(u64, Option<u8>)>(), 0..20)) {
            let value = (number, text, list);
            let mut bytes = Vec::new();
            encode(&value, &mut bytes).unwrap();
            prop_assert_eq!(decode::<(u64, String, Vec<(u64, Option<u8>)>)>(&bytes).unwrap(), value);
        }

        #[test]
        fn garbage_is_an_error_and_nothing_worse(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<(u64, String, Vec<Vec<u64>>)>(&bytes);
        }
    }

    #[test]
    fn more_bytes_than_the_value_are_refused() {
        let mut bytes = Vec::new();
        encode(&7u32, &mut bytes).unwrap();
        bytes.push(0);
        assert!(matches!(decode::<u32>(&bytes), Err(CodecError::Trailing(1))));
    }

    #[test]
    fn a_length_without_end_does_not_reserve_it() {
        let mut bytes = Vec::new();
        encode(&u64::MAX, &mut bytes).unwrap();
        assert!(decode::<Vec<u64>>(&bytes).is_err());
    }
}
