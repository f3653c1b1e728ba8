/// Reads a file.
#[orchestra::tool]
pub async fn read(file: std::fs::File) {}

fn main() {}
