#[orchestra::agent(role = "planner")]
pub fn planner() {}

fn main() {}
