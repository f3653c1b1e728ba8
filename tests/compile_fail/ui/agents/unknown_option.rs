#[orchestra::agent(rule = "planner")]
pub struct Planner;

fn main() {}
