use orchestra::prelude::*;

struct A;

#[handlers]
impl A {
    async fn f(&self) {}
}

fn main() {}
