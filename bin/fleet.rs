//! Who is this process? Calls that role, and returns its exit code.

use fleet::fleet::{worker, zygote};
use fleet::model::make_handler;
use fleet::role::Role;
use fleet::{cli, lab};

fn main() {
    let code = match Role::of_this_process() {
        Role::Command => i32::from(cli::main()),
        Role::LabChild { parent } => lab::child::main(parent),
        Role::Zygote { parent } => zygote::main(parent, make_handler),
        Role::Worker { parent } => worker::main(parent, make_handler),
    };
    std::process::exit(code)
}
