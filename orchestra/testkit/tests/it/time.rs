//! Simulated time: delays, timeouts and branches take exactly the configured time, and no real time.
use std::time::{Duration, Instant};

use orchestra_engine::{Clock, Engine, EventKind, Outcome, RunEvent, RunStatus, Script, Timestamp};
use orchestra_testkit::{FakeClock, Simulation, SimulationRun};

fn simulation(graph: &str) -> Simulation {
    Simulation::load(&format!("digraph t {{\n{graph}\n}}")).unwrap_or_else(|error| panic!("{error}"))
}

fn flaky(attributes: &str) -> Simulation {
    simulation(&format!(
        "start -> upload -> exit; upload [prompt=\"Upload\", {attributes}]"
    ))
}

fn millis<const N: usize>(millis: [u64; N]) -> [Duration; N] {
    millis.map(Duration::from_millis)
}

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3_600)
}

/// Returns the times at which the attempts of a node began, from the timestamps of the events alone.
fn begun(run: &SimulationRun, node: &str) -> Vec<u64> {
    let began = run.events()[0].time.as_millis();
    let events = run.events().iter();
    events
        .filter(|event| matches!(&event.kind, EventKind::StageStarted { stage, .. } if stage.node == node))
        .map(|event| event.time.as_millis() - began)
        .collect()
}

#[test]
fn each_policy_waits_its_figures_to_the_millisecond() {
    let figures: [(&str, &[u64]); 5] = [
        ("standard", &[200, 400, 800, 1_600]),
        ("aggressive", &[500, 1_000, 2_000, 4_000]),
        ("linear", &[500, 500]),
        ("patient", &[2_000, 6_000]),
        ("none", &[]),
    ];
    for (policy, delays) in figures {
        let run = flaky(&format!("retry_policy={policy}, retry_jitter=false"))
            .outcome("upload", ["fail"])
            .run();
        let delays: Vec<Duration> = delays.iter().copied().map(Duration::from_millis).collect();
        assert_eq!(run.delays("upload"), delays, "{policy}");
        assert_eq!(run.duration(), delays.iter().sum(), "{policy}");
        let mut due = vec![0];
        for delay in &delays {
            due.push(due[due.len() - 1] + delay.as_millis() as u64);
        }
        assert_eq!(begun(&run, "upload"), due, "{policy}");
        // The announced delays equal the actual ones.
        let announced = run.events().iter().filter_map(|event| match &event.kind {
            EventKind::StageRetrying { delay, .. } => Some(*delay),
            _ => None,
        });
        assert_eq!(announced.collect::<Vec<_>>(), delays, "{policy}");
    }
}

#[test]
fn jitter_stays_within_half_and_is_that_of_the_seed() {
    let delays = |seed: u64| {
        let run = flaky("retry_policy=standard")
            .outcome("upload", ["fail"])
            .seed(seed)
            .run();
        let delays = run.delays("upload");
        assert_eq!(run.duration(), delays.iter().sum());
        delays
    };
    let exact = millis([200, 400, 800, 1_600]);
    let mut seen = Vec::new();
    for seed in 0..20 {
        let found = delays(seed);
        assert_eq!(found.len(), exact.len());
        for (found, exact) in found.iter().zip(exact) {
            assert!(
                *found >= exact / 2 && *found <= exact * 3 / 2,
                "{found:?} for {exact:?}"
            );
        }
        assert_eq!(found, delays(seed), "the same seed");
        assert!(!seen.contains(&found), "another seed");
        seen.push(found);
    }
    assert!(seen.iter().any(|delays| delays[0] < exact[0]) && seen.iter().any(|delays| delays[0] > exact[0]));
}

#[test]
fn minutes_of_back_off_take_no_time() {
    let begin = Instant::now();
    let run = flaky("retry_policy=patient, max_retries=20, retry_jitter=false")
        .outcome("upload", ["fail"])
        .run();
    assert_eq!(run.error_history().len(), 21);
    // 2, 6, 18 and 54 s, and then one minute each.
    assert_eq!(run.duration(), Duration::from_secs(80 + 16 * 60));
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
}

#[test]
fn a_server_decides_how_long_is_waited() {
    let busy = |seconds| Outcome::fail("too many requests").retry_after(Duration::from_secs(seconds));
    let run = flaky("retry_policy=standard, retry_jitter=false")
        .outcome(
            "upload",
            [
                busy(7),
                busy(3_600),
                Outcome::fail("no network"),
                Outcome::success(),
            ],
        )
        .run();
    run.assert_success();
    assert_eq!(run.delays("upload"), millis([7_000, 60_000, 800]));
}

#[test]
fn an_attempt_that_takes_too_long_is_cut_short_on_time() {
    let run = flaky("timeout=30m, max_retries=1, retry_jitter=false")
        .takes("upload", [hours(2), Duration::from_secs(600)])
        .run();
    run.assert_success();
    assert_eq!(run.error_history()[0].reason, "timed out after 30m");
    assert_eq!(run.duration(), millis([1_800_000, 200, 600_000]).iter().sum());
}

const GATE: &str = r#"
    start -> ship
    ship [shape=hexagon, label="Ship it?", timeout=36h ATTRIBUTES]
    ship -> exit [label="[Y] Yes"]
    ship -> stop [label="[N] No"]
    stop [prompt="Stop", end=fail]"#;

#[test]
fn a_gate_that_nobody_answers_in_time_takes_its_default() {
    let run = simulation(&GATE.replace("ATTRIBUTES", ", \"human.default_choice\"=N"))
        .unanswered("ship")
        .run();
    run.assert_path(["start", "ship", "stop"])
        .assert_failure("failure_end");
    assert_eq!(run.duration(), hours(36));
    assert_eq!(run.context().text("human.gate.answered_by"), "default");
    let late = run.events().iter().find_map(|event| match &event.kind {
        EventKind::InterviewTimeout { duration, .. } => Some((run.elapsed(event), *duration)),
        _ => None,
    });
    assert_eq!(late, Some((hours(36), hours(36))));
}

#[test]
fn a_gate_without_a_default_asks_again_and_silence_never_approves() {
    let gate = simulation(&GATE.replace("ATTRIBUTES", ", max_retries=1, retry_jitter=false"));
    let silent = gate.clone().unanswered("ship").run();
    silent
        .assert_failure("stage_failed")
        .assert_path(["start", "ship"]);
    assert_eq!(silent.duration(), hours(72) + Duration::from_millis(200));
    let late = gate.unanswered("ship").answer("ship", "yes").run();
    late.assert_success();
    assert_eq!(late.duration(), hours(36) + Duration::from_millis(200));
}

const FAN: &str = r#"
    start -> fan
    fan  [shape=component, ATTRIBUTES]
    fan -> a -> join
    fan -> b -> join
    fan -> c -> join
    a [prompt=A]
    b [prompt=B]
    c [prompt=C]
    join [shape=tripleoctagon]
    join -> exit"#;

#[test]
fn branches_take_their_time_together() {
    let fan = |attributes: &str| {
        let fan = simulation(&FAN.replace("ATTRIBUTES", attributes));
        ["a", "b", "c"]
            .iter()
            .fold(fan, |fan, node| fan.takes(node, [hours(1)]))
    };
    let run = fan("max_parallel=3").run();
    run.assert_path(["start", "a", "b", "c", "fan", "join", "exit"]);
    assert_eq!(run.duration(), hours(1));
    assert_eq!(fan("max_parallel=2").run().duration(), hours(2));
    assert_eq!(fan("max_parallel=1").run().duration(), hours(3));
}

#[test]
fn the_first_branch_that_succeeds_ends_the_others() {
    let run = simulation(&FAN.replace("ATTRIBUTES", "join_policy=first_success"))
        .takes("a", [hours(3)])
        .takes("b", [Duration::from_secs(60)])
        .takes("c", [hours(2)])
        .run();
    run.assert_success();
    assert_eq!(run.duration(), Duration::from_secs(60));
    let cancelled = run.events().iter().filter_map(|event| match &event.kind {
        EventKind::StageCancelled { stage, duration } => Some((stage.node.to_string(), *duration)),
        _ => None,
    });
    let minute = Duration::from_secs(60);
    assert_eq!(
        cancelled.collect::<Vec<_>>(),
        [("a".to_owned(), minute), ("c".to_owned(), minute)]
    );
}

#[test]
fn a_run_may_take_no_longer_than_its_limit() {
    let run = flaky("retry_policy=patient, max_retries=100")
        .outcome("upload", ["fail"])
        .max_time(hours(1))
        .run();
    run.assert_failure("max_time");
    assert_eq!(run.duration(), hours(1));
}

/// A simulation with many attempts that take time, in parallel and in sequence.
fn busy() -> Simulation {
    let graph = FAN.replace("ATTRIBUTES", "max_parallel=2, error_policy=continue")
        + "\n a [max_retries=3]; b [max_retries=2, retry_policy=aggressive]; c [timeout=5m, max_retries=1]";
    simulation(&graph)
        .outcome("a", ["fail", "fail", "success"])
        .outcome("b", ["fail", "success"])
        .takes(
            "a",
            [Duration::from_secs(3), Duration::ZERO, Duration::from_secs(1)],
        )
        .takes("c", [hours(1), Duration::from_secs(2)])
}

#[test]
fn two_runs_are_equal_to_the_letter() {
    let of = |run: &SimulationRun| run.events().to_vec();
    let json = |events: &[RunEvent]| serde_json::to_string(events).unwrap();
    let (first, second) = (of(&busy().seed(7).run()), of(&busy().seed(7).run()));
    assert!(first.len() > 30);
    assert_eq!(first, second);
    assert_eq!(json(&first), json(&second));
    assert_ne!(
        json(&first),
        json(&of(&busy().seed(8).run())),
        "jitter is that of the seed"
    );
    assert_eq!(first[0].time, FakeClock::BEGINNING);
    assert!(json(&first).contains(r#""time":"2026-01-01T00:00:00.000Z","run":"simulation""#));
}

#[test]
fn threads_may_simulate_at_the_same_time() {
    let alone = busy().run().events().to_vec();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(busy().run().events(), alone));
        }
    });
}

#[tokio::test]
async fn a_simulation_runs_inside_a_runtime() {
    let run = busy().run();
    assert_eq!(run.status(), RunStatus::Success);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_simulation_runs_inside_a_runtime_of_several_threads() {
    assert_eq!(busy().run().status(), RunStatus::Success);
}

#[tokio::test(start_paused = true)]
async fn a_fake_clock_drives_an_engine_that_the_test_makes_itself() {
    tokio::time::advance(Duration::from_secs(5)).await;
    let clock = FakeClock::beginning_at(Timestamp::from_millis(1_000));
    assert_eq!(
        (clock.now().as_millis(), clock.elapsed()),
        (1_000, Duration::ZERO)
    );
    tokio::time::advance(Duration::from_millis(1_500)).await;
    assert_eq!(
        (clock.now().as_millis(), clock.elapsed()),
        (2_500, Duration::from_millis(1_500))
    );

    let text = "digraph { start -> ask -> exit; ask [prompt=Ask, retry_policy=patient, retry_jitter=false] }";
    let source = orchestra_graph::Source::new("a.dot", text);
    let pipeline = orchestra_graph::load(source, &Default::default())
        .pipeline()
        .unwrap();
    let script = Script::new().outcomes("ask", ["fail", "fail", "success"]);
    let engine = Engine::builder().simulate(script).clock(clock).build().unwrap();
    let result = engine.start(pipeline, ()).await.unwrap().wait().await.unwrap();
    assert!(result.is_success());
    assert_eq!(result.duration, Duration::from_secs(8));
    assert_eq!(clock.now().as_millis(), 10_500);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_says_when_by_the_fake_clock() {
    let text = "digraph { start -> ask -> exit; ask [prompt=Ask, retry_policy=linear, retry_jitter=false] }";
    let source = orchestra_graph::Source::new("a.dot", text);
    let pipeline = orchestra_graph::load(source, &Default::default())
        .pipeline()
        .unwrap();
    let script = Script::new().outcomes("ask", ["fail"]);
    let engine = Engine::builder()
        .simulate(script)
        .clock(FakeClock::new())
        .build()
        .unwrap();
    let result = engine.start(pipeline, ()).await.unwrap().wait().await.unwrap();
    let failed = result.failed_at.unwrap();
    assert_eq!(failed.to_string(), "2026-01-01T00:00:01.000Z");
}
