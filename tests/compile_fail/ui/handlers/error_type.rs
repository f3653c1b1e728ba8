use orchestra::prelude::*;

#[handler("a")]
async fn f() -> Result<(), u8> {
    Ok(())
}

fn main() {}
