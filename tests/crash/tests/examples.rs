//! Every example stops behind each of its stages and goes on in a new process: the end is that of a run that never
//! stopped.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use orchestra_crash_tests::compare::{differences, remains};
use orchestra_crash_tests::harness::{dir, in_parallel};
use orchestra_engine::{
    Canceller, Disk, Durability, Engine, EventKind, RunFolder, RunResult, SharedPipeline, Timestamp,
};
use orchestra_example_tests::pipelines;
use orchestra_graph::{LoadOptions, load_bytes};
use orchestra_testkit::{FakeClock, read_script_file};
use serde::{Deserialize, Serialize};

/// Where a process of this test finds what it is to do.
const JOB: &str = "ORCHESTRA_EXAMPLE_JOB";

/// What a process is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    pipeline: PathBuf,
    script: PathBuf,
    folder: PathBuf,
    durability: Durability,
    goes_on: bool,
    /// Behind how many checkpoints it pauses, those of runs within the run included.
    pause_after: Option<u64>,
    /// When its clock begins: where that of the process before it stopped.
    time: Timestamp,
}

impl Job {
    /// Does it in this process.
    fn run(&self) -> RunResult {
        let bytes = std::fs::read(&self.pipeline).unwrap();
        let options = LoadOptions {
            children: Some(&Disk),
            ..LoadOptions::default()
        };
        let loaded = load_bytes(&self.pipeline.to_string_lossy(), &bytes, &options);
        let pipeline = SharedPipeline::from(loaded.pipeline().unwrap());
        let script = read_script_file(&self.script).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let pausing: Arc<OnceLock<Canceller>> = Arc::default();
        let (pauses, checkpoints, after) = (pausing.clone(), AtomicU64::new(0), self.pause_after);
        runtime.block_on(async {
            let engine = Engine::builder()
                .simulate(script)
                .clock(FakeClock::beginning_at(self.time))
                .durability(self.durability)
                .on_event(move |event| {
                    let stage_ended = match after {
                        // Without a journal there are no checkpoints before the pause.
                        Some(_) => matches!(
                            event.kind,
                            EventKind::StageCompleted { .. } | EventKind::StageFailed { .. }
                        ),
                        None => false,
                    };
                    if stage_ended
                        && Some(checkpoints.fetch_add(1, Ordering::SeqCst) + 1) == after
                        && let Some(canceller) = pauses.get()
                    {
                        canceller.pause("so far");
                    }
                })
                .build()
                .unwrap();
            let run = if self.goes_on {
                engine.resume(&self.folder, pipeline, ()).await
            } else {
                let start = engine.start(pipeline, ()).run_dir(&self.folder);
                start.run_id("example").seed(7).await
            };
            let run = run.unwrap();
            let _ = pausing.set(run.canceller());
            run.wait().await.unwrap()
        })
    }

    /// Does it in a new process; gives the status of the run.
    fn elsewhere(&self) -> String {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_of_this_test", "--nocapture"])
            .env(JOB, serde_json::to_string(self).unwrap())
            .output()
            .unwrap();
        let reported = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{self:?}\n{reported}");
        let checkpoint = RunFolder::open(&self.folder).unwrap().checkpoint().unwrap();
        checkpoint.unwrap().status
    }
}

#[test]
fn a_process_of_this_test() {
    if let Ok(job) = std::env::var(JOB) {
        let job: Job = serde_json::from_str(&job).unwrap();
        job.run();
    }
}

/// Stops a run behind each of its stages; gives how often.
fn stopped_behind_each_stage(dir: &Path, whole: &Job, name: &str) -> u64 {
    whole.elsewhere();
    let expected = remains(&whole.folder, false).unwrap();
    in_parallel(dir, name, |stages, folder| {
        let first = Job {
            folder: folder.join("run"),
            pause_after: Some(stages),
            ..whole.clone()
        };
        let status = first.elsewhere();
        if status != "paused" {
            return if expected["checkpoint"]["status"] == status {
                Ok(false)
            } else {
                Err(format!("it ends as {status}"))
            };
        }
        let paused = RunFolder::open(&first.folder)
            .unwrap()
            .checkpoint()
            .unwrap()
            .unwrap();
        let second = Job {
            goes_on: true,
            pause_after: None,
            time: paused.timestamp,
            ..first.clone()
        };
        second.elsewhere();
        let left = remains(&first.folder, false)?;
        if left == expected {
            Ok(true)
        } else {
            Err(differences(&left, &expected).join("\n  "))
        }
    })
}

#[test]
fn every_example_goes_on_in_a_new_process_behind_each_of_its_stages() {
    let dir = dir();
    let mut stops = 0;
    for pipeline in pipelines() {
        for script in &pipeline.scripts {
            let name = format!(
                "{}-{}",
                pipeline.name,
                script.file_stem().unwrap().to_string_lossy()
            );
            let whole = Job {
                pipeline: pipeline.file.clone(),
                script: script.clone(),
                folder: dir.path().join(&name),
                // Runs that share their syncs wait for a thread, of which the clock that skips the waiting knows nothing.
                durability: match pipeline.name.as_str() {
                    "supervisor" => Durability::Process,
                    _ => Durability::Full,
                },
                goes_on: false,
                pause_after: None,
                time: FakeClock::BEGINNING,
            };
            let stopped = stopped_behind_each_stage(dir.path(), &whole, &name);
            assert!(stopped > 0, "{name}");
            stops += stopped;
        }
    }
    println!("{stops} stops");
    assert!(stops > 100, "{stops}");
}

#[test]
fn at_every_level_of_durability_a_run_goes_on_from_a_pause() {
    let dir = dir();
    for pipeline in pipelines()
        .iter()
        .filter(|pipeline| pipeline.name == "parallel_review")
    {
        for durability in [Durability::Process, Durability::None] {
            let name = format!("{durability:?}");
            let whole = Job {
                pipeline: pipeline.file.clone(),
                script: pipeline.scripts[0].clone(),
                folder: dir.path().join(&name),
                durability,
                goes_on: false,
                pause_after: None,
                time: FakeClock::BEGINNING,
            };
            assert!(stopped_behind_each_stage(dir.path(), &whole, &name) > 5);
        }
    }
}
