//! The environment of a tool stage in a compiled pipeline.

#![cfg(all(feature = "macros", unix))]
#![allow(clippy::unwrap_used)]

use orchestra::prelude::*;

orchestra::pipeline! {
    mod dump = digraph dump {
        tool_env.LEVEL=graph
        tool_env_inherit=false
        tool_env="CARGO_PKG_NAME"
        start -> show -> exit
        show [
            shape=parallelogram, tool_env.LEVEL=4.10, tool_env.WORDS="two words",
            tool_command="echo \"$LEVEL, $WORDS, $CARGO_PKG_NAME, ${CARGO_MANIFEST_DIR-none}\""
        ]
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_compiled_pipeline_sets_variables_for_its_tools() {
    let engine = Engine::builder().build().unwrap();
    let result = engine
        .start(&dump::PIPELINE, ())
        .await
        .unwrap()
        .wait()
        .await
        .unwrap();
    assert!(result.is_success(), "{:?}", result.failure);
    assert_eq!(
        result.context.text("tool.last_line"),
        "4.10, two words, orchestra-workflow, none"
    );
}
