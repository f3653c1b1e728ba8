use orchestra::prelude::*;

pipeline! {
    pub mod p = digraph p { start -> exit }, handler = App;
}

fn main() {}
