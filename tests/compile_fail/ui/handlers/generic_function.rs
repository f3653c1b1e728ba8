use orchestra::prelude::*;

#[handler("a")]
async fn f<T>() {}

fn main() {}
