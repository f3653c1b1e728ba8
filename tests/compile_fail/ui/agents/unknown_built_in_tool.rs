#[orchestra::agent(role = "planner", tools = ["read-fil"])]
pub struct Planner;

fn main() {}
