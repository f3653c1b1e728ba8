#[orchestra::agent(role = "planner")]
pub struct Planner(u8);

fn main() {}
