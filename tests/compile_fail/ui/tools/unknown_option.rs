/// Reads a file.
#[orchestra::tool(repository = "backend")]
pub fn read() {}

fn main() {}
