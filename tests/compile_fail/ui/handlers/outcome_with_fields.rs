use orchestra::prelude::*;

#[derive(Outcome)]
enum A {
    B(u8),
}

fn main() {}
