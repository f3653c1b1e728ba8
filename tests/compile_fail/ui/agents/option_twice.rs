#[orchestra::agent(role = "planner", role = "architect")]
pub struct Planner;

fn main() {}
