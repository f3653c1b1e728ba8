#[orchestra::agent(role = "planner")]
pub struct Planner<T> {
    pub topic: T,
}

fn main() {}
