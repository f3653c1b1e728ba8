/// Reads a file.
#[orchestra::tool(name = "a tool")]
pub fn read() {}

fn main() {}
