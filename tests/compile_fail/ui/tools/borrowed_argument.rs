/// Reads a file.
#[orchestra::tool]
pub fn read(path: &str) {}

fn main() {}
