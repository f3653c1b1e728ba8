use orchestra::prelude::*;

#[derive(Attributes)]
struct A {
    #[attribute(renamed = "b")]
    a: u8,
}

fn main() {}
