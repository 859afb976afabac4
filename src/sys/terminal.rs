//! What stands at the other end of our output.

use std::io::IsTerminal;

/// The width of the terminal on standard output, in columns; `None` if that is no terminal.
pub fn width() -> Option<usize> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// Whether standard error is a terminal.
pub fn errors_are_seen() -> bool {
    std::io::stderr().is_terminal()
}
