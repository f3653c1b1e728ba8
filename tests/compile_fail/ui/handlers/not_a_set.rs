use orchestra::prelude::*;

pipeline! {
    mod p = digraph p { start -> exit }, handlers = u8;
}

fn main() {}
