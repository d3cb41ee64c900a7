//! The `hark` command.
fn main() {}
