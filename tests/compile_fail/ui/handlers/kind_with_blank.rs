use orchestra::prelude::*;

#[handler("a b")]
async fn f() {}

fn main() {}
