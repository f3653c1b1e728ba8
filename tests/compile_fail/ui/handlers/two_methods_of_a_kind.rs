use orchestra::prelude::*;

struct A;

#[handlers]
impl A {
    #[handler("a")]
    fn f(&self) {}

    #[handler("a")]
    fn g(&self) {}
}

fn main() {}
