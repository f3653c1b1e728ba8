#[orchestra::agent(role = "planner")]
pub struct Planner {
    pub file: std::fs::File,
}

fn main() {}
