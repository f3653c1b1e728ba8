#[orchestra::tool]
pub struct Read;

fn main() {}
