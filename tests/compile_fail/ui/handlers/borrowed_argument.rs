use orchestra::prelude::*;

#[handler("a")]
async fn f(x: &StageContext) {}

fn main() {}
