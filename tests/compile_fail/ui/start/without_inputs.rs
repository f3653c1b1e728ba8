use orchestra::engine::Engine;

orchestra::pipeline! {
    mod release = digraph release {
        inputs = "pr: int, dry_run: bool?"
        start -> exit
    }
}

async fn start(engine: Engine) {
    let _ = engine.start(&release::PIPELINE, ()).await;
}

async fn without_one(engine: Engine) {
    let inputs = release::Inputs { dry_run: None };
    let _ = engine.start(release::PIPELINE.with(inputs), ()).await;
}

fn main() {}
