/// Moves the cursor.
#[orchestra::tool]
pub fn goto((x, y): (u8, u8)) {}

fn main() {}
