use orchestra::prelude::*;

#[derive(Outcome)]
enum A {
    Ab,
    #[outcome("ab")]
    C,
}

fn main() {}
