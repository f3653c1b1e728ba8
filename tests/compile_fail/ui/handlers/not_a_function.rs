use orchestra::prelude::*;

#[handler("a")]
struct S;

fn main() {}
