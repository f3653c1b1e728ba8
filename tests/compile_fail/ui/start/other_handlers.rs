orchestra::pipeline! {
    pub mod release = digraph release {
        start -> ship -> exit
        ship [type="ship.run"]
    }, handlers = ship;
}

#[orchestra::handler("ship.run")]
pub async fn ship() {}

#[orchestra::handler("ship.run")]
pub async fn sink() {}

pub async fn run(engine: &orchestra::Engine) {
    let _ = engine.start(&release::PIPELINE, sink {}).await;
}

fn main() {}
