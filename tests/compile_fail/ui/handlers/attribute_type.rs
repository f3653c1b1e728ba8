use orchestra::prelude::*;

#[derive(Attributes)]
struct A {
    list: Vec<u8>,
}

fn main() {}
