/// Opens a file.
#[orchestra::tool]
pub async fn open() -> std::fs::File {
    panic!()
}

fn main() {}
