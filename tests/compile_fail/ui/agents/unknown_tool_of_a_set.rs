#[orchestra::agent(role = "planner", tools = ["wave"], tool_set = ())]
pub struct Planner;

fn main() {}
