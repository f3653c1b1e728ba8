use orchestra::prelude::*;

struct A;

#[handlers]
impl A {
    #[handler("a")]
    async fn f(&mut self) {}
}

fn main() {}
