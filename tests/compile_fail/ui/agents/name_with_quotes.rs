#[orchestra::agent(role = "plan\"ner")]
pub struct Planner;

fn main() {}
