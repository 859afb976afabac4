//! The smallest program that says it is there: the floor of whatever is executed. `scripts/bench` builds it.

use std::io::Write;

fn main() {
    // A whole line, which is not held back.
    let _ = std::io::stdout().write_all(b"\n");
}
