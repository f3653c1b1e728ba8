orchestra::pipeline! {
    pub mod release = digraph release {
        start -> ship -> exit
        ship [type="ship.run"]
    };
}

pub async fn run(engine: &orchestra::Engine) {
    let _ = engine.start(&release::PIPELINE, ()).await;
}

fn main() {}
