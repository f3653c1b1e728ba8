/// Reads a file.
#[orchestra::tool]
pub fn read<T>(path: T) {}

fn main() {}
