//! A program that serves its own pipeline: its handlers, a parallel block and a human gate, in a browser and by HTTP.
//!
//! `cargo run -p serve` prints a link. The page lists the pipeline under "Definitions"; start it there, watch the graph,
//! and answer the gate. `cargo run -p serve -- 127.0.0.1:4700` listens on another address. Ctrl-C pauses the runs.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use orchestra::Engine;
use orchestra::prelude::*;
use orchestra::server::Server;

orchestra::pipeline! {
    /// Writes a release note and asks a person what becomes of it.
    pub mod release_note = "serve.dot", handlers = Notes;
}

/// The handlers of the pipeline.
#[derive(Default)]
struct Notes;

/// The attributes of a stage that looks at the change.
#[derive(Attributes)]
struct Look {
    /// What it looks at.
    at: String,
}

#[handlers]
impl Notes {
    #[handler("note.look")]
    async fn look(&self, look: Look) -> Outcome {
        let found = match look.at.as_str() {
            "risks" => "The old file format is no longer written.",
            _ => "It starts twice as fast.",
        };
        Outcome::success().set("found", found).notes(found)
    }

    #[handler("note.write")]
    async fn write(&self, stage: StageContext) -> Outcome {
        let draft = release_note::keys::DRAFTS.get(stage.context()).unwrap_or(0) + 1;
        let note = format!("Draft {draft}: faster, and with a new file format.");
        Outcome::success()
            .set("drafts", draft)
            .set("note", note.clone())
            .notes(note)
    }

    #[handler("note.publish")]
    async fn publish(&self, stage: StageContext) -> Outcome {
        let note = release_note::keys::NOTE.get(stage.context()).unwrap_or_default();
        Outcome::success().notes(format!("published: {note}"))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:4680".to_owned());
    match serve(&address).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(address: &str) -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().runs_dir(".orchestra/runs").build()?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    let server = Server::new(engine)
        .pipeline("release_note", &release_note::PIPELINE, Notes::default)
        .listen(listener)?;
    println!("open {}", server.link());
    let interrupted = async {
        // Without signals, the server runs until it is killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    };
    for run in server.serve(interrupted).await {
        println!("paused {run}; start the program again and resume it in the page");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
