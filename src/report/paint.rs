//! Colour and characters, where the reader has them.

use anstyle::{AnsiColor, Style};

use super::human::NO_BREAK;

/// Which characters may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// All.
    Unicode,
    /// Only those of ASCII.
    Ascii,
}

impl Charset {
    /// The text in these characters: every sign of ours has an equivalent in ASCII.
    pub fn spell(self, text: &str) -> String {
        if self == Charset::Unicode {
            return text.to_owned();
        }
        let mut spelt = String::with_capacity(text.len());
        for sign in text.chars() {
            match sign {
                '×' => spelt.push('x'),
                '★' => spelt.push('*'),
                '≈' | '═' => spelt.push('='),
                '±' => spelt.push_str("+/-"),
                'µ' => spelt.push('u'),
                '–' | '—' | '─' | '−' => spelt.push('-'),
                '≤' => spelt.push_str("<="),
                '≥' => spelt.push_str(">="),
                '✗' => spelt.push('!'),
                '·' => spelt.push('|'),
                '→' => spelt.push_str("->"),
                '…' => spelt.push_str("..."),
                sign if sign.is_ascii() || sign == NO_BREAK => spelt.push(sign),
                _ => spelt.push('?'),
            }
        }
        spelt
    }
}

/// How text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paint {
    /// The characters.
    pub charset: Charset,
    /// Whether colour is wanted.
    pub colour: bool,
}

impl Paint {
    /// What the eye should find first.
    pub(super) fn strong(self, text: &str) -> String {
        self.dress(Style::new().bold(), text)
    }

    /// The recommended row.
    pub(super) fn chosen(self, text: &str) -> String {
        self.dress(Style::new().bold().fg_color(Some(AnsiColor::Green.into())), text)
    }

    /// What is there to be looked up.
    pub(super) fn faint(self, text: &str) -> String {
        self.dress(Style::new().dimmed(), text)
    }

    fn dress(self, style: Style, text: &str) -> String {
        if self.colour {
            format!("{}{text}{}", style.render(), style.render_reset())
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sign_of_ours_has_a_plain_spelling() {
        let plain = Charset::Ascii.spell("1.93× ★ ≈ ±5 % 3 µs – — ≤ ≥ · → … ✗");
        assert!(plain.is_ascii() && !plain.contains('?'), "{plain}");
    }
}
