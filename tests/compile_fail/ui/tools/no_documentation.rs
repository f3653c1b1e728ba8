#[orchestra::tool]
pub fn read() {}

fn main() {}
