pub struct Reader;

impl Reader {
    /// Reads a file.
    #[orchestra::tool]
    pub fn read(&self) {}
}

fn main() {}
