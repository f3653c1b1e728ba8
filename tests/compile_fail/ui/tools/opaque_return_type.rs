/// Reads a file.
#[orchestra::tool]
pub fn read() -> impl Sized {}

fn main() {}
