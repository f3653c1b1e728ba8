use orchestra::prelude::*;

struct A;

impl A {
    #[handler("a")]
    async fn f(&self) {}
}

fn main() {}
