//! Work in git repositories: three parallel features, each in two repositories, are merged, and a conflict is
//! resolved.
//!
//! The program creates two small repositories, a service and its web page, and runs `two_repos.dot` in them. A run
//! has branches and worktrees of its own: the user's checkout is not touched, and the result is on a branch. Each of
//! the three writers has its own branch in both repositories. The fan-in merges them. The routes of the service
//! differ in separate lines, so they merge cleanly. Two menu entries want the same position, which is a conflict. The
//! conflict stays in the file and is also passed on as data. The next stage resolves it, and its commit is the merge.
//!
//! `cargo run -p two_repos` does this in a temporary folder and prints the branches. `cargo run -p two_repos --
//! FOLDER` creates the repositories in a folder and keeps them: inspect them with git, or change the stages and run
//! it again.

#![allow(clippy::print_stdout)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use orchestra::config::Project;
use orchestra::engine::{BuildError, EventKind, RunEvent, Workplace};
use orchestra::prelude::*;
use orchestra::workspace::{Git, GitCommand, GitError, GitWorkspace, GitWorkspaceError, SystemGit};

orchestra::pipeline! {
    /// Implements three features in two repositories.
    pub mod two_repos = "two_repos.dot", handlers = Team, config = "orchestra.yaml";
}

/// The routes of the service, in order.
const ROUTES: &str = "/accounts\n/customers\n/help\n/invoices\n/orders\n/products\n/reports\n/users\n";
/// The menu of the web page, in display order.
const MENU: &str = "Home\nOrders\nProducts\n";
/// The features that the review expects: their routes and their menu entries.
const FEATURES: [(&str, &str); 3] = [("/search", "Search"), ("/export", "Export"), ("/login", "Log in")];

/// The handlers of the pipeline.
struct Team;

/// The attributes of every `feature.write` node.
#[derive(Attributes)]
struct FeatureAttributes {
    /// The route of the service.
    path: String,
    /// The menu entry.
    entry: String,
    /// `true` if the entry is the first of the menu, `false` if it is the last.
    #[attribute(default = false)]
    first: bool,
}

#[handlers]
impl Team {
    /// Writes a feature: a route of the service and a menu entry.
    #[handler("feature.write")]
    async fn write(&self, feature: FeatureAttributes, stage: StageContext) -> Result<Outcome, io::Error> {
        let (routes, menu) = files(&stage)?;
        let mut lines = lines(&routes)?;
        lines.push(feature.path.clone());
        lines.sort();
        fs::write(routes, lines.join("\n") + "\n")?;
        let mut entries = self::lines(&menu)?;
        let at = if feature.first { 0 } else { entries.len() };
        entries.insert(at, feature.entry.clone());
        fs::write(menu, entries.join("\n") + "\n")?;
        Ok(Outcome::success().notes(format!("{} and its entry in the menu", feature.path)))
    }

    /// Resolves the conflicts that a merge has left in the files: keeps what both branches added.
    #[handler("feature.settle")]
    async fn settle(&self, stage: StageContext) -> Result<Outcome, io::Error> {
        let conflicts = stage.context().get("workspace.conflicts");
        let mut settled = Vec::new();
        for conflict in conflicts.and_then(|list| list.as_array()).into_iter().flatten() {
            let (Some(repository), Some(path)) = (conflict["repository"].as_str(), conflict["path"].as_str())
            else {
                continue;
            };
            let file = repository_of(&stage, repository)?.join(path);
            fs::write(&file, both_sides(&fs::read_to_string(&file)?))?;
            settled.push(format!("{repository}: {path}"));
        }
        settled.dedup();
        Ok(Outcome::success().notes(format!("settled {}", settled.join(", "))))
    }

    /// Checks that each feature is present in both repositories.
    #[handler("feature.review")]
    async fn review(&self, stage: StageContext) -> Result<Outcome, io::Error> {
        let (routes, menu) = files(&stage)?;
        let (routes, menu) = (lines(&routes)?, lines(&menu)?);
        for (path, entry) in FEATURES {
            let has =
                |lines: &[String], wanted: &str| lines.iter().filter(|line| *line == wanted).count() == 1;
            if !has(&routes, path) || !has(&menu, entry) {
                return Ok(Outcome::fail(format!(
                    "`{path}` is not there, or not in the menu"
                )));
            }
        }
        Ok(Outcome::success().notes("all features are there"))
    }
}

/// The files of both repositories in which a stage works.
fn files(stage: &StageContext) -> Result<(PathBuf, PathBuf), io::Error> {
    let routes = repository_of(stage, "backend")?.join("routes.txt");
    Ok((routes, repository_of(stage, "frontend")?.join("menu.txt")))
}

/// Returns the worktree of a repository that a stage was given.
fn repository_of(stage: &StageContext, name: &str) -> Result<PathBuf, io::Error> {
    let folder = stage.workplace().and_then(|dir: &Workplace| dir.repository(name));
    let folder = folder.ok_or_else(|| io::Error::other(format!("the run has no repository `{name}`")))?;
    Ok(folder.to_owned())
}

fn lines(file: &Path) -> Result<Vec<String>, io::Error> {
    Ok(fs::read_to_string(file)?.lines().map(str::to_owned).collect())
}

/// Removes the conflict markers from a text: keeps both sides of each conflict, first ours, then theirs, without the
/// base.
fn both_sides(text: &str) -> String {
    let mut kept = String::new();
    let mut base = false;
    for line in text.lines() {
        match line.get(..7) {
            Some("<<<<<<<" | ">>>>>>>") => {}
            Some("|||||||") => base = true,
            Some("=======") => base = false,
            _ if base => {}
            _ => kept.push_str(&format!("{line}\n")),
        }
    }
    kept
}

/// The reason why the example fails.
#[derive(Debug, thiserror::Error)]
enum ExampleError {
    #[error("`{}`: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("`git {command}`: {message}")]
    Command { command: String, message: String },
    #[error(transparent)]
    Workspace(#[from] GitWorkspaceError),
    #[error(transparent)]
    Engine(#[from] BuildError),
    #[error(transparent)]
    Start(#[from] orchestra::StartError),
    #[error(transparent)]
    Run(#[from] orchestra::RunError),
}

/// The folder with the repositories and the runs.
struct DemoFolder {
    folder: PathBuf,
    git: SystemGit,
}

impl DemoFolder {
    /// Creates both repositories, each with one commit of the user.
    fn make(folder: &Path) -> Result<DemoFolder, ExampleError> {
        let dir = DemoFolder {
            folder: folder.to_owned(),
            git: SystemGit::find()?,
        };
        for (name, file, text) in [("backend", "routes.txt", ROUTES), ("frontend", "menu.txt", MENU)] {
            let repository = folder.join(name);
            let file = repository.join(file);
            let fault = |source| ExampleError::File {
                path: file.clone(),
                source,
            };
            fs::create_dir_all(&repository).map_err(fault)?;
            fs::write(&file, text).map_err(fault)?;
            dir.git(name, &["init", "-q", "-b", "main"])?;
            dir.git(name, &["add", "-A"])?;
            let (user, mail) = ("user.name=Someone", "user.email=someone@localhost");
            dir.git(
                name,
                &[
                    "-c",
                    user,
                    "-c",
                    mail,
                    "commit",
                    "-q",
                    "--no-gpg-sign",
                    "--no-verify",
                    "-m",
                    "First version",
                ],
            )?;
        }
        Ok(dir)
    }

    /// Returns the repositories of the configuration, in this folder.
    fn workspace(&self) -> Result<GitWorkspace, GitWorkspaceError> {
        let project = Project::load(two_repos::CONFIG.configuration(), &two_repos::CONFIG);
        let mut builder = GitWorkspace::builder(self.folder.join(".orchestra/worktrees"));
        for (name, repository) in &project.configuration.workspace.repos {
            if let Some(path) = &repository.path {
                builder = builder
                    .repository(name, self.folder.join(path.as_str()))
                    .branch_prefix(name, repository.prefix());
            }
        }
        builder.build()
    }

    /// Returns the runs folder.
    fn runs(&self) -> PathBuf {
        self.folder.join(".orchestra/runs")
    }

    /// Runs git in a repository of the user and returns its output.
    fn git(&self, name: &str, words: &[&str]) -> Result<String, ExampleError> {
        let said = self
            .git
            .run(&GitCommand::new(self.folder.join(name)).args(words))?;
        match said.status {
            0 => Ok(String::from_utf8_lossy(&said.stdout).trim_end().to_owned()),
            _ => Err(ExampleError::Command {
                command: words.join(" "),
                message: said.stderr,
            }),
        }
    }

    /// Prints the branches and commits of both repositories.
    fn show(&self) -> Result<(), ExampleError> {
        for name in ["backend", "frontend"] {
            let words = ["log", "--graph", "--oneline", "--decorate=short", "--branches"];
            println!("\n{name}\n{}", self.git(name, &words)?);
        }
        Ok(())
    }
}

/// Prints the progress of the run.
fn show(event: &RunEvent) {
    match &event.kind {
        EventKind::StageCompleted { stage, notes, .. } => {
            println!("{}: {}", stage.node, notes.as_deref().unwrap_or("ok"));
        }
        EventKind::StageFailed { stage, error, .. } => println!("{}: {error}", stage.node),
        _ => {}
    }
}

/// Runs the pipeline in the repositories of a folder.
async fn run(dir: &DemoFolder) -> Result<RunResult, ExampleError> {
    let engine = Engine::builder()
        .workspace(dir.workspace()?)
        .runs_dir(dir.runs())
        .on_event(show)
        .build()?;
    Ok(engine.start(&two_repos::PIPELINE, Team).await?.wait().await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, ExampleError> {
    let fault = |source| ExampleError::File {
        path: PathBuf::from("two_repos"),
        source,
    };
    let temporary = tempfile::tempdir().map_err(fault)?;
    let asked = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = asked.as_deref().unwrap_or(temporary.path());
    let dir = DemoFolder::make(folder)?;
    let result = run(&dir).await?;
    dir.show()?;
    if let Some(failure) = &result.failure {
        println!("failed: {failure}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
