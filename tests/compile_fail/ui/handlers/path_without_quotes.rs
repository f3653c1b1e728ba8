use orchestra::prelude::*;

pipeline! {
    pub mod p = release;
}

fn main() {}
