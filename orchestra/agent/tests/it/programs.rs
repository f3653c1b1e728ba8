//! Stages that a configured program runs.

#![cfg(unix)]

use crate::support;

use orchestra_engine::Usage;
use serde_json::json;
use support::{Scripted, agents, pipeline, run};

#[tokio::test]
async fn a_backend_of_the_configuration_is_a_program() {
    let yaml = r#"
backends:
  player:
    kind: cli
    command: |
      task="$(tail -n 1)"
      echo "thinking about $ORCHESTRA_MODEL" >&2
      printf '{"result": "%s", "cost": 0.5, "in": 7}' "$task"
    output: json
    input_tokens_pointer: /in
    cost_pointer: /cost
"#;
    let model = Scripted::list([]);
    let text = "digraph { goal=tea; start -> play -> exit; play [prompt=\"Make $goal.\", backend=player, llm_model=smart] }";
    let (result, position) = run(&agents(yaml, &[], model.clone()), text).await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.context.text("last_response"), "Make tea.");
    let used = Usage {
        input_tokens: 7,
        output_tokens: 0,
        cost_micros: 500_000,
    };
    assert_eq!(result.usage, used);
    assert!(model.asked().is_empty());
    let runs = std::fs::read_dir(position.path().join("runs")).unwrap();
    let folder = runs
        .flatten()
        .find(|entry| entry.path().join("play").is_dir())
        .unwrap()
        .path();
    let prompt = std::fs::read_to_string(folder.join("play/prompt.md")).unwrap();
    assert!(
        prompt.contains("Goal: tea") && prompt.ends_with("Make tea."),
        "{prompt}"
    );
}

#[tokio::test]
async fn a_program_says_in_a_file_how_its_stage_ended() {
    let yaml = r#"
backends:
  player:
    kind: cli
    command: |
      cat > /dev/null
      echo '{"outcome": "success", "preferred_label": "Again", "context_updates": {"n": 3}}' > "$ORCHESTRA_STATUS_FILE"
      echo done
backend: player
"#;
    let text =
        "digraph { start -> play; play [prompt=x]; play -> exit [label=Done]; play -> again [label=Again]
        again [shape=parallelogram, tool_command=true]; again -> exit }";
    let (result, _place) = run(&agents(yaml, &[], Scripted::list([])), text).await;
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(result.path, ["start", "play", "again", "exit"]);
    assert_eq!(result.context.get("n"), Some(&json!(3)));
    assert_eq!(pipeline(text).nodes.len(), 4);
}
