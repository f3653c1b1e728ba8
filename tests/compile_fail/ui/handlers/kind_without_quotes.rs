use orchestra::prelude::*;

#[handler(deploy)]
async fn f() {}

fn main() {}
