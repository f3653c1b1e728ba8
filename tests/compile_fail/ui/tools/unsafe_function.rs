/// Reads a file.
#[orchestra::tool]
pub unsafe fn read() {}

fn main() {}
