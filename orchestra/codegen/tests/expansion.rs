//! Expansions of files in memory: the generated code and the errors.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orchestra_codegen::{
    ReadError, Reader, expand_attributes, expand_bind, expand_handler, expand_outcome, expand_pipeline,
};
use proc_macro2::{Span, TokenStream};

/// A package in memory, with the invocation in `src/flows/mod.rs`.
struct Memory {
    files: BTreeMap<&'static str, &'static str>,
}

impl Reader for Memory {
    fn manifest(&self) -> PathBuf {
        PathBuf::from("/work/package")
    }

    fn source_file(&self, _: Span) -> Option<PathBuf> {
        Some(PathBuf::from("/work/package/src/flows/mod.rs"))
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
        let text = self
            .files
            .get(path.to_str().unwrap_or_default())
            .ok_or(ReadError::Missing)?;
        match text.len() as u64 {
            length if length > limit || text.contains("HUGE") => Err(ReadError::TooLong(length)),
            _ => Ok(text.as_bytes().to_vec()),
        }
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        self.files
            .keys()
            .filter_map(|file| Path::new(file).strip_prefix(folder).ok())
            .map(|file| file.display().to_string())
            .collect()
    }
}

const RELEASE: &str = "digraph ReleaseCheck {
    goal=\"Ship it\"
    start -> build -> ask
    build [shape=parallelogram, tool_command=\"make\", timeout=15m]
    ask   [shape=hexagon, label=\"Ship?\"]
    ask   -> exit  [label=\"[Y] Yes\"]
    ask   -> build [label=\"[N] No\", condition=\"context.tries<3\"]
}";

fn memory() -> Memory {
    Memory {
        files: BTreeMap::from([
            ("/work/package/flows/release.dot", RELEASE),
            ("/work/package/src/flows/beside.dot", "digraph { start -> exit }"),
            (
                "/work/package/src/wrong.dot",
                "digraph wrong { start -> Buidl; start -> Build; Build [prompt=b]; Build -> exit }",
            ),
            ("/work/package/huge.dot", "HUGE"),
            (
                "/work/package/flows/all.dot",
                "digraph all { start -> a -> b -> exit; a [shape=folder, label=A, subpipeline.file=\"one.dot\"]
                 b [shape=house, label=B, stack.child_dotfile=\"./sub/two.dot\"] }",
            ),
            (
                "/work/package/flows/sub/two.dot",
                "digraph two { start -> a -> exit; a [shape=folder, label=A, subpipeline.file=\"../one.dot\"] }",
            ),
            ("/work/package/flows/one.dot", "digraph one { start -> exit }"),
            (
                "/work/package/long.dot",
                "digraph long { start -> a -> exit; a [shape=folder, label=A, subpipeline.file=\"huge.dot\"] }",
            ),
            (
                "/work/package/unsound.dot",
                "digraph unsound { start -> a -> exit; a [shape=folder, label=A, subpipeline.file=\"src/wrong.dot\"] }",
            ),
        ]),
    }
}

fn tokens(text: &str) -> TokenStream {
    text.parse().expect("the text lexes")
}

fn expand(text: &str) -> String {
    expand_pipeline(tokens(text), &memory()).to_string()
}

/// Returns the items of an expansion, which must be valid Rust.
fn items(text: &str) -> Vec<syn::Item> {
    let file: syn::File =
        syn::parse2(expand_pipeline(tokens(text), &memory())).expect("the expansion is Rust");
    file.items
}

fn module(items: &[syn::Item]) -> &syn::ItemMod {
    let found = items.iter().find_map(|item| match item {
        syn::Item::Mod(module) => Some(module),
        _ => None,
    });
    found.expect("a module")
}

#[test]
fn a_module_is_named_by_the_caller_or_after_the_graph_or_after_the_file() {
    assert_eq!(module(&items("\"flows/release.dot\"")).ident, "release_check");
    assert_eq!(module(&items("\"src/flows/beside.dot\"")).ident, "beside");
    assert_eq!(module(&items("mod own = \"./beside.dot\";")).ident, "own");
}

#[test]
fn the_file_is_included_without_the_machine_s_path() {
    let text = expand("\"flows/release.dot\"");
    assert!(text.contains(r#""/" , "flows/release.dot""#), "{text}");
    assert!(!text.contains("/work/package"), "{text}");
}

#[test]
fn a_path_with_a_dot_is_looked_up_beside_the_source() {
    assert!(expand("mod a = \"./beside.dot\";").contains("\"src/flows/beside.dot\""));
    assert!(expand("mod a = \"../wrong.dot\";").contains("src/wrong.dot:1:26"));
}

#[test]
fn what_was_understood_is_generated_beside_the_error() {
    let items = items("mod a = \"../wrong.dot\";");
    assert!(matches!(items.first(), Some(syn::Item::Macro(error)) if error.mac.path.segments.len() == 2));
    let text = expand("mod a = \"../wrong.dot\";");
    assert!(text.contains("did you mean `Build`?"), "{text}");
    assert!(
        text.contains("enum Node { Start , Buidl , Build , Exit"),
        "{text}"
    );
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let text = expand("\"flows/relaese.dot\"");
    assert!(
        text.contains("no file `flows/relaese.dot`") && text.contains("did you mean `release.dot`?"),
        "{text}"
    );
    assert!(expand("\"huge.dot\"").contains("[size_limit]"));
}

#[test]
fn a_child_is_compiled_once_whoever_runs_it() {
    let text = expand("\"flows/all.dot\"");
    assert!(!text.contains("compile_error"), "{text}");
    let count = |words: &str| text.matches(words).count();
    assert_eq!(
        (count("pub mod child"), count("\"flows/one.dot\"))")),
        (2, 1),
        "{text}"
    );
    assert_eq!(count("super :: __children :: child0 :: __table :: TABLE"), 1);
    // The second child runs the first.
    assert_eq!(count("super :: super :: child0 :: __table :: TABLE"), 1);
}

#[test]
fn a_child_that_is_no_use_is_tracked_all_the_same() {
    let text = expand("\"unsound.dot\"");
    assert!(
        text.contains("src/wrong.dot:1:26") && text.contains("[child_invalid]"),
        "{text}"
    );
    assert!(text.contains("include_str ! (:: core :: concat ! (:: core :: env ! (\"CARGO_MANIFEST_DIR\") , \"/\" , \"src/wrong.dot\"))"));
    assert!(expand("\"long.dot\"").contains("child pipeline `huge.dot` has 4 bytes; the limit is"));
}

#[test]
fn the_crate_is_named_as_the_caller_says() {
    let plain = expand("\"flows/release.dot\"");
    assert!(plain.contains("use :: orchestra as __orchestra"), "{plain}");
    let renamed = expand("\"flows/release.dot\", crate = flow");
    assert!(
        renamed.contains("use flow as __orchestra") && !renamed.contains(":: orchestra"),
        "{renamed}"
    );
    let parent = expand("crate = super::flow; mod a = \"./beside.dot\";");
    assert!(
        parent.contains("use super :: super :: flow as __orchestra"),
        "{parent}"
    );
    let own = expand("crate = self::flow; mod a = \"./beside.dot\";");
    assert!(own.contains("use super :: flow as __orchestra"), "{own}");
}

#[test]
fn only_a_sound_pipeline_is_compared_with_its_handlers() {
    let sound = expand("\"flows/release.dot\", handlers = (Lint, App)");
    assert!(
        sound.contains("verify (& release_check :: REQUIREMENTS") && sound.contains("Bound < (Lint , App) >")
    );
    let wrong = expand("mod a = \"../wrong.dot\", handlers = App;");
    assert!(!wrong.contains("verify") && wrong.contains("Bound < App >"));
}

#[test]
fn the_documentation_shows_goal_picture_nodes_and_handlers() {
    let text = expand("\"flows/release.dot\", handlers = (super::Lint, App)");
    let picture = match cfg!(feature = "doc-picture") {
        true => r#"<a href=\"nodes/enum.Build.html\"><g class=\"node\""#,
        false => "```mermaid",
    };
    for part in [
        "**Goal:** Ship it",
        picture,
        "| [`build`](nodes/enum.Build.html) | tool | build | `ask` |",
        "Its handlers: [`super::Lint`](super::Lint), [`App`](App).",
        "A run has at most 2002 visits and 2002 attempts.",
        "| `ask` | 1000 | 1000 | `max_node_visits=1000` (the default) at `build` |",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn declared_values_are_types_and_required_inputs_are_needed_to_start() {
    let review = "digraph r { inputs=INPUTS; start -> review -> exit;
        review [type=review, outputs=\"score: int, verdict: approve|revise?\"] }";
    let module = |inputs: &str| expand(&format!("mod r = {}", review.replace("INPUTS", inputs)));
    let text = module("\"pr: text, dry_run: bool?\"");
    for part in [
        "A run starts with the inputs `pr: text`, `dry_run: bool?`.",
        "| `review` | `score: int`, `verdict: approve\\\\|revise?` |",
        "pub struct Inputs",
        "pub score : i64",
        "pub verdict : :: core :: option :: Option < values :: Verdict >",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("StartsWithoutInputs"));
    assert!(module("\"pr: text?\"").contains("StartsWithoutInputs"));
    let plain = expand("\"flows/release.dot\"");
    assert!(plain.contains("StartsWithoutInputs") && !plain.contains("struct Results"));
}

#[test]
fn a_module_has_the_limits_of_a_sound_pipeline() {
    let text = expand("\"flows/release.dot\"");
    assert!(
        text.contains("limits ! { Node , b\"1 1 0 0 1000 1000 1 1 "),
        "{text}"
    );
    // Otherwise an assertion of the program about them would be one more error.
    let wrong = expand("mod a = \"../wrong.dot\";");
    assert!(
        wrong.contains("limits ! { Node , b\"\" ,& [] , 0 , 0 }"),
        "{wrong}"
    );
}

#[test]
fn every_malformed_invocation_is_an_error_and_not_a_panic() {
    for text in [
        "",
        "mod",
        "mod a",
        "mod a =",
        "mod a = 3;",
        "\"a.dot\" x",
        "mod a = digraph;",
        "crate = ;",
        "allow",
        "deny(1)",
    ] {
        let expanded = expand(text);
        assert!(expanded.contains("compile_error"), "{text}: {expanded}");
        assert!(!expanded.contains("is a bug"), "{text}: {expanded}");
    }
    for expanded in [
        expand_bind(tokens("pub A = b")),
        expand_handler(tokens(""), tokens("fn f() {}")),
        expand_handler(tokens("\"a\""), tokens("mod m {}")),
        expand_attributes(tokens("struct A(u8);")),
        expand_outcome(tokens("struct A;")),
    ] {
        assert!(expanded.to_string().contains("compile_error"), "{expanded}");
    }
}

#[test]
fn a_function_is_given_back_untouched() {
    let function = "pub async fn ship (node : Ship , cx : StageContext) -> Result < () , Error > { let x = 1 ; Ok (()) }";
    let expanded = expand_handler(tokens("\"ship.run\""), tokens(function)).to_string();
    assert!(expanded.starts_with(&tokens(function).to_string()), "{expanded}");
}

#[test]
fn a_panic_becomes_an_error_that_names_it_a_bug() {
    struct Broken;
    impl Reader for Broken {
        fn manifest(&self) -> PathBuf {
            panic!("no disk")
        }
        fn source_file(&self, _: Span) -> Option<PathBuf> {
            None
        }
        fn read(&self, _: &Path, _: u64) -> Result<Vec<u8>, ReadError> {
            Err(ReadError::Missing)
        }
        fn list(&self, _: &Path) -> Vec<String> {
            Vec::new()
        }
    }
    let text = expand_pipeline(tokens("\"a.dot\""), &Broken).to_string();
    assert!(
        text.contains("no disk") && text.contains("this is a bug of orchestra"),
        "{text}"
    );
}

#[test]
fn paths_names_a_test_for_each_edge_and_jump() {
    let text = expand("\"flows/release.dot\", paths");
    for part in [
        r#"edge_start_to_build = "edge_start_to_build""#,
        "edge_ask_to_exit_when_yes =",
        "edge_ask_to_build_when_no =",
        r#"env ! ("CARGO_MANIFEST_DIR") , []"#,
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(!expand("\"flows/release.dot\"").contains("edge_start_to_build"));
    // An option of the whole invocation, and a file with errors.
    let text = expand("paths; mod a = \"./beside.dot\"; mod b = \"../wrong.dot\";");
    assert_eq!(text.matches("edge_start_to_exit =").count(), 1, "{text}");
}

#[test]
fn gaps_are_allowed_by_the_names_of_their_tests() {
    let text = expand("\"flows/release.dot\", paths(allow = [edge_ask_to_build_when_no])");
    assert!(text.contains(r#", ["edge_ask_to_build_when_no" ,]"#), "{text}");
    let text = expand("\"flows/release.dot\", paths(allow = [edge_ask_to_build_when_now])");
    assert!(
        text.contains(
            "no target has the name `edge_ask_to_build_when_now`; did you mean `edge_ask_to_build_when_no`?"
        ),
        "{text}"
    );
    let text = expand("\"flows/release.dot\", paths(deny = [a])");
    assert!(text.contains("expected `allow = [NAME, ..]`"), "{text}");
}

#[test]
fn a_pipeline_with_many_paths_has_one_test() {
    let nodes: String = (0..200)
        .map(|at| format!("n{at} -> n{}; n{at} [prompt=N] ", at + 1))
        .collect();
    let text = expand(&format!(
        "mod a = digraph a {{ start -> n0; {nodes} n200 [prompt=N]; n200 -> exit }}, paths;"
    ));
    assert!(text.contains("[] , every_path }"), "{}", &text[..2_000]);
}
