//! Every fence of the book works, and a broken one fails.

#![allow(clippy::unwrap_used)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use orchestra_book_tests::{Fence, Page, Programs, book, pages, root, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_orchestra-book-program");

/// The page to run alone, such as `tutorial/agent.md`.
const ONE_PAGE: &str = "ORCHESTRA_BOOK_PAGE";

fn problems(text: &str) -> String {
    let programs = Programs::with(PROGRAM).unwrap();
    run(&Page::new("page.md", text), &programs).join("\n")
}

#[test]
fn every_fence_of_the_book_works() {
    let programs = Programs::with(PROGRAM).unwrap();
    let mut names = pages(&book()).unwrap();
    if let Ok(one) = std::env::var(ONE_PAGE) {
        names.retain(|name| *name == one);
        assert!(!names.is_empty(), "{ONE_PAGE}={one} is no page");
    }
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let problems = match Page::read(&book(), name) {
                        Ok(page) => run(&page, &programs),
                        Err(problem) => vec![problem],
                    };
                    found.lock().unwrap().extend(problems);
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

#[test]
fn every_fence_of_the_readme_works() {
    let page = Page::read(&root(), "README.md").unwrap();
    let problems = run(&page, &Programs::with(PROGRAM).unwrap());
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

#[test]
fn the_examples_in_rust_are_compiled() {
    let listed = std::fs::read_to_string(root().join("tests/book/src/doctests.rs")).unwrap();
    let mut seen = 0;
    for name in pages(&book()).unwrap() {
        let page = Page::read(&book(), &name).unwrap();
        for fence in Fence::all(&page).unwrap() {
            if fence.language != "rust" || fence.has("ignore") {
                continue;
            }
            seen += 1;
            // A page may include the example from another file.
            let position = page.position(fence.line);
            let (file, _) = position.rsplit_once(':').unwrap();
            let line = format!("include_str!(\"../../../{file}\")");
            assert!(
                listed.contains(&line),
                "{position}: tests/book/src/doctests.rs does not have {line}"
            );
        }
    }
    assert!(seen > 3, "only {seen} examples in Rust were found");
}

#[test]
fn a_broken_pipeline_fails() {
    let good = "```dot\ndigraph { start -> exit }\n```\n";
    assert_eq!(problems(good), "");
    let bad = "\n```dot\ndigraph { start -> exit; lost [prompt=\"Go.\"] }\n```\n";
    let found = problems(bad);
    assert!(
        found.contains("page.md:2: ") && found.contains("[reachability]"),
        "{found}"
    );
    assert_eq!(problems(&bad.replace("```dot", "```dot,bad=reachability")), "");
    let found = problems(&good.replace("```dot", "```dot,bad=reachability"));
    assert!(found.contains("does not report `reachability`"), "{found}");
    let warned = "```dot\ndigraph { start -> a -> exit; a [prompt=\"Go.\", lable=\"A\"] }\n```\n";
    assert!(problems(warned).contains("warning["), "a warning passes");
}

#[test]
fn a_broken_command_fails() {
    let page = "`words.txt`:\n\n```text,file=words.txt\nfirst\nsecond\n```\n\nThen:\n\n```console\n$ cat words.txt\nfirst\n..\n$ exit_with() { return $1; }\n```\n";
    assert_eq!(problems(page), "");
    let found = problems(&page.replace("first\n..", "second\n.."));
    assert!(
        found.contains("page.md:11: `cat words.txt` writes something else"),
        "{found}"
    );
    assert!(problems(&page.replace("cat words", "cat word")).contains("exits with 1 instead of 0"));
    let failing = "```console\n$ false\n```\n";
    assert!(problems(failing).contains("page.md:2: `false` exits with 1 instead of 0"));
    assert_eq!(problems(&failing.replace("console", "console,exit=1")), "");
    assert!(problems("```console\nfalse\n```\n").contains("begins with a command"));
    assert!(problems("```console\n$ exit 0\n```\n").contains("ended the shell"));
}

#[test]
fn commands_of_a_page_share_a_shell() {
    let page = "```console\n$ mkdir a && cd a\n$ cat <<END > b\n> one\n> END\n```\n\n```console\n$ cat b && basename $PWD\none\na\n```\n";
    assert_eq!(problems(page), "");
}

#[test]
fn a_broken_configuration_fails() {
    let page = "```yaml\nbackend: direct\n```\n";
    assert_eq!(problems(page), "");
    let found = problems(&page.replace("backend:", "backnd:"));
    assert!(found.contains("config_unknown_key"), "{found}");
    assert_eq!(problems("```yaml,script\ntest: [fail, success]\n```\n"), "");
    assert!(problems("```yaml,script\ntest: {outcom: fail}\n```\n").contains("outcom"));
    let layer =
        "# reader.yaml\n\n```yaml,layer,file=prompts/roles/reader.yaml\nrole: {system: You read.}\n```\n";
    assert_eq!(problems(layer), "");
    let found = problems(&layer.replace("system", "systm"));
    assert!(found.contains("systm"), "{found}");
    assert!(problems("```json\n{\"a\": }\n```\n").contains("not JSON"));
}

#[test]
fn what_nothing_tests_needs_a_reason() {
    for (info, problem) in [
        ("", "no language"),
        ("lua", "nothing tests `lua`"),
        ("sh", "commands are `console`"),
        ("console,ignore", "`ignore` needs a reason"),
        ("rust,ignore", "`ignore` needs a reason"),
        ("lua,ignore ()", "`ignore` needs a reason"),
        ("text (why)", "a reason without `ignore`"),
        ("dot,bda=cycle", "unknown word `bda`"),
        ("text,bad=cycle", "`bad` has no meaning for `text`"),
        ("dot,bad", "`bad` needs a value"),
        ("text,file=a.txt", "name `a.txt` in the text"),
        ("lua,ignore (see `x`)", "no backticks"),
    ] {
        let found = problems(&format!("```{info}\nx\n```\n"));
        assert!(
            found.starts_with("page.md:1: ") && found.contains(problem),
            "{info}: {found}"
        );
    }
    assert_eq!(problems("```lua,ignore (tests/editors runs it)\nx\n```\n"), "");
    assert!(problems("```text\nx\n").contains("does not end"));
}
