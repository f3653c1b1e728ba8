use orchestra::prelude::*;

#[handler("a")]
async fn f() -> u8 {
    1
}

fn main() {}
