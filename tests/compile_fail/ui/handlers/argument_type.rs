use orchestra::prelude::*;

#[handler("a")]
async fn f(x: Vec<u8>) {}

fn main() {}
