//! Tests with pipes, links, sockets, folders and devices at the paths of stage files: no stage hangs, nothing outside
//! of the run folder is written, and the run continues.

#![cfg(unix)]

use crate::support;

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use orchestra_engine::{Durability, Engine, Outcome, RunFolder, RunResult, StartError};
use orchestra_graph::Pipeline;
use support::{Acts, acts, pipeline};

type Plant = fn(&Path, &Path);

fn pipe(path: &Path, _: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

fn link_to_file(path: &Path, outside: &Path) {
    symlink(outside.join("file"), path).unwrap();
}

fn link_to_folder(path: &Path, outside: &Path) {
    symlink(outside, path).unwrap();
}

fn link_to_nothing(path: &Path, outside: &Path) {
    symlink(outside.join("new"), path).unwrap();
}

fn device(path: &Path, _: &Path) {
    symlink("/dev/zero", path).unwrap();
}

fn socket(path: &Path, _: &Path) {
    drop(UnixListener::bind(path).unwrap());
}

fn folder(path: &Path, _: &Path) {
    fs::create_dir(path).unwrap();
    fs::write(path.join("kept"), "").unwrap();
}

fn file(path: &Path, _: &Path) {
    fs::write(path, "planted").unwrap();
}

const PLANTS: [(&str, Plant); 8] = [
    ("pipe", pipe),
    ("link to a file", link_to_file),
    ("link to a folder", link_to_folder),
    ("link to nothing", link_to_nothing),
    ("device", device),
    ("socket", socket),
    ("folder", folder),
    ("file", file),
];

/// The names of the stage files of the engine, below the run folder.
const NAMES: [&str; 10] = [
    "next",
    "next/status.json",
    "next/.status.json.tmp",
    "next/prompt.md",
    "next/.prompt.md.tmp",
    "next/tool_output.txt",
    "next/tool_stderr.txt",
    "next/visits",
    "next/visits/1",
    "next/visits/.1.tmp",
];

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// A temporary folder with a folder outside of the run folder, which nothing may change.
struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Scratch {
        let folder = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        fs::create_dir(folder.path().join("outside")).unwrap();
        fs::write(folder.path().join("outside/file"), "precious").unwrap();
        Scratch { folder }
    }

    fn run(&self, pipeline: Pipeline, stages: Acts) -> RunResult {
        let engine = Engine::builder().durability(Durability::Process).build().unwrap();
        let start = engine
            .start(pipeline, stages)
            .run_dir(self.folder.path().join("run"));
        runtime().block_on(async {
            let run = start.await.unwrap();
            let ended = tokio::time::timeout(Duration::from_secs(60), run.wait()).await;
            ended
                .expect("no stage hangs")
                .unwrap_or_else(|error| panic!("{error}"))
        })
    }

    /// Returns a function that plants an obstacle below the run folder and replaces anything at that path.
    fn plant(&self, name: &'static str, plant: Plant) -> impl Fn(&Path) + Clone + Send + Sync + 'static {
        let outside = self.folder.path().join("outside");
        move |run: &Path| {
            let path = run.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            plant(&path, &outside);
        }
    }

    #[track_caller]
    fn assert_untouched(&self, what: &str) {
        let outside = self.folder.path().join("outside");
        assert_eq!(
            fs::read_to_string(outside.join("file")).unwrap(),
            "precious",
            "{what}"
        );
        assert_eq!(
            fs::read_dir(&outside).unwrap().count(),
            1,
            "{what}: something new is outside"
        );
    }

    #[track_caller]
    fn assert_kept(&self, what: &str) {
        self.assert_untouched(what);
        let folder = self.folder.path().join("run/next");
        for (name, text) in [("tool_output.txt", "out\n"), ("tool_stderr.txt", "err\n")] {
            let path = folder.join(name);
            assert!(fs::symlink_metadata(&path).unwrap().is_file(), "{what}: {name}");
            assert_eq!(fs::read_to_string(path).unwrap(), text, "{what}: {name}");
        }
        let events = RunFolder::open(self.folder.path().join("run"))
            .unwrap()
            .events(1)
            .unwrap();
        assert_eq!(events.last().unwrap()["event"], "PipelineCompleted", "{what}");
    }
}

#[test]
fn what_is_planted_before_a_stage_does_not_keep_it_from_its_files() {
    for (kind, plant) in PLANTS {
        for name in NAMES {
            let dir = Scratch::new();
            let planted = dir.plant(name, plant);
            let stages = Acts::new().on("plant", move |stage| {
                planted(stage.run_dir().unwrap());
                std::future::ready(Outcome::success())
            });
            let graph = pipeline(
                r#"digraph t { start -> plant -> next -> exit; plant [type=act]
                next [shape=parallelogram, timeout=20s, tool_command="echo out; echo err >&2"] }"#,
            );
            let what = format!("{kind} at {name}");
            let result = dir.run(graph, stages);
            assert_eq!(result.path, ["start", "plant", "next", "exit"], "{what}");
            dir.assert_kept(&what);
        }
    }
}

#[test]
fn a_status_file_that_is_planted_before_anything_asked_for_a_folder_does_not_count() {
    let dir = Scratch::new();
    let folder = dir.folder.path().join("run/next");
    let stages = Acts::new()
        .on("plant", move |_| {
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("status.json"), r#"{"outcome":"fail"}"#).unwrap();
            std::future::ready(Outcome::success())
        })
        .on("next", |stage| {
            stage.stage_dir().unwrap();
            std::future::ready(Outcome::success())
        });
    let result = dir.run(acts("start -> plant -> next -> exit"), stages);
    assert_eq!(result.path, ["start", "plant", "next", "exit"]);
    assert!(result.is_success());
}

#[test]
fn what_is_planted_between_visits_does_not_keep_a_stage_from_its_files() {
    for (kind, plant) in PLANTS {
        for name in NAMES {
            let dir = Scratch::new();
            let planted = dir.plant(name, plant);
            let stages = Acts::new().on("plant", move |stage| {
                planted(stage.run_dir().unwrap());
                std::future::ready(match stage.visit() {
                    1 => Outcome::success(),
                    _ => Outcome::fail("enough"),
                })
            });
            let graph = pipeline(
                r#"digraph t { start -> next -> plant; plant [type=act]
                plant -> next [condition="outcome=success"]; plant -> exit [condition="outcome=fail"]
                next [shape=parallelogram, timeout=20s, tool_command="echo out; echo err >&2"] }"#,
            );
            let what = format!("{kind} at {name}");
            let result = dir.run(graph, stages);
            assert_eq!(
                result.path,
                ["start", "next", "plant", "next", "plant", "exit"],
                "{what}"
            );
            dir.assert_untouched(&what);
        }
    }
}

#[test]
fn what_a_stage_plants_for_its_own_next_attempt_does_not_keep_it_from_its_files() {
    let plants = [
        ("pipe", "mkfifo"),
        ("link", "ln -s ../../../outside/file"),
        ("folder", "mkdir"),
        ("device", "ln -s /dev/zero"),
    ];
    for (kind, plant) in plants {
        for name in [
            "status.json",
            "prompt.md",
            "tool_output.txt",
            "tool_stderr.txt",
            "visits",
        ] {
            let dir = Scratch::new();
            let graph = pipeline(&format!(
                r#"digraph t {{ start -> next -> exit
                next [shape=parallelogram, timeout=20s, max_retries=1, "retry.base_delay_ms"=1, tool_command="
                echo out; echo err >&2; cd $ORCHESTRA_STAGE_DIR; [ -e ../done ] && exit 0
                touch ../done; rm -rf {name}; {plant} {name}; exit 1"] }}"#
            ));
            let what = format!("{kind} at {name}");
            let result = dir.run(graph, Acts::new());
            assert_eq!(result.path, ["start", "next", "exit"], "{what}");
            dir.assert_kept(&what);
        }
    }
}

#[test]
fn what_was_moved_aside_is_kept_and_reported() {
    let dir = Scratch::new();
    let planted = dir.plant("next/status.json", folder);
    let stages = Acts::new().on("plant", move |stage| {
        planted(stage.run_dir().unwrap());
        std::future::ready(Outcome::success())
    });
    dir.run(acts("start -> plant -> next -> exit"), stages);
    let run = dir.folder.path().join("run");
    assert!(run.join("next/.planted-1-status.json.aside/kept").is_file());
    let events = RunFolder::open(&run).unwrap().events(1).unwrap();
    let warning = events
        .iter()
        .find(|event| event["event"] == "StageWarning")
        .unwrap();
    assert_eq!(
        (&warning["node"], &warning["code"]),
        (&"next".into(), &"planted_file".into())
    );
}

#[test]
fn what_is_planted_in_the_place_of_the_files_of_a_run_does_not_keep_it_from_going_on() {
    for (kind, plant) in PLANTS {
        for name in [
            "checkpoint.json",
            ".checkpoint.json.2.tmp",
            "events.jsonl",
            "owner.lock",
            ".owner.lock.2.tmp",
        ] {
            let dir = Scratch::new();
            let run = dir.folder.path().join("run");
            let engine = Engine::builder().durability(Durability::Process).build().unwrap();
            let what = format!("{kind} at {name}");
            runtime().block_on(async {
                let stuck = Acts::new().on("b", |stage| {
                    stage.stage_dir().unwrap();
                    std::future::pending()
                });
                let start = engine.start(acts("start -> a -> b -> exit"), stuck).run_dir(&run);
                let paused = start.await.unwrap();
                while !paused.run_dir().is_some_and(|run| run.join("b").exists()) {
                    tokio::task::yield_now().await;
                }
                paused.pause("a test");
                paused.wait().await.unwrap();
            });
            dir.plant(name, plant)(&run);
            let result = runtime().block_on(async {
                let resumed = engine
                    .resume(&run, acts("start -> a -> b -> exit"), Acts::new())
                    .await?;
                Ok::<_, StartError>(
                    resumed
                        .wait()
                        .await
                        .unwrap_or_else(|error| panic!("{what}: {error}")),
                )
            });
            // A text file is not a valid checkpoint and contains no event. It is ignored and blocks nothing.
            match result {
                Ok(result) => assert_eq!(result.path, ["start", "a", "b", "exit"], "{what}"),
                Err(error) => panic!("{what}: {error}"),
            }
            dir.assert_untouched(&what);
        }
    }
}
