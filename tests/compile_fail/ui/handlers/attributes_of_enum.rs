use orchestra::prelude::*;

#[derive(Attributes)]
enum A {
    B,
}

fn main() {}
