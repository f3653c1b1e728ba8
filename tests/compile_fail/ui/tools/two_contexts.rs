use orchestra::agents::ToolContext;

/// Reads a file.
#[orchestra::tool]
pub fn read(a: ToolContext, b: ToolContext) {}

fn main() {}
