//! Who is this process? Calls that role, and returns its exit code.

use fleet::role::Role;
use fleet::{cli, lab, model};

fn main() {
    // Workers and zygotes live and end in here.
    fleet::fleet::init(model::register);
    let code = match Role::of_this_process() {
        Role::LabChild { parent } => lab::child::main(parent),
        _ => i32::from(cli::main()),
    };
    std::process::exit(code)
}
