//! Handlers that do not fit their pipeline, and handlers that are none: each fault at its place.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use orchestra_compile_fail_tests::{Package, Said, expect};

const PIPELINE: &str = "digraph release {
    start  -> review
    review [type=\"review.run\", strictness=soft, outcomes=\"approved,aproved\"]
    review -> ask
    ask    [shape=diamond]
    ask    -> ship [condition=\"outcome=aproved\"]
    ask    -> exit [condition=\"outcome=approved || outcome=fail\"]
    ship   [type=\"ship.run\", timeout=15m]
    ship   -> sign -> exit
    sign   [type=\"sign.run\"]
}
";

const HANDLERS: &str = "
use orchestra::prelude::*;

#[derive(Attributes)]
struct Review { strictness: u8, depth: Option<u8> }

#[derive(Outcome)]
enum Verdict { Approved, Rejected }

#[derive(Attributes)]
struct Ship { target: String, timeout: std::time::Duration }

#[derive(Default)]
struct App;

#[handlers]
impl App {
    #[handler(\"review.run\")]
    async fn review(&self, node: Review) -> Verdict {
        if node.strictness > node.depth.unwrap_or(1) { Verdict::Rejected } else { Verdict::Approved }
    }

    #[handler(\"ship.run\")]
    fn ship(&self, node: Ship, stage: StageContext) -> Result<(), std::fmt::Error> {
        assert!(node.timeout.as_secs() > 0 && stage.node().text(\"target\") == Some(&*node.target));
        Ok(())
    }
}
";

fn check(name: &str, pipeline: &str, program: &str) -> Said {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), name);
    package.write("src/release.dot", pipeline);
    package.write("src/lib.rs", program);
    package.check()
}

#[test]
fn every_lack_is_told_in_one_message_with_its_place() {
    let bound = "orchestra::pipeline! {\n    pub mod release = \"./release.dot\", handlers = ((), App);\n}\n";
    let said = check("lacks", PIPELINE, &format!("{bound}{HANDLERS}"));
    assert!(!said.built);
    let message = said.about("evaluation panicked");
    for (code, location) in [
        (
            "error[attribute_value]: attribute `strictness` of node `review` is `soft`",
            "src/release.dot:3:43",
        ),
        (
            "error[missing_attribute]: node `ship` lacks the attribute `target`",
            "src/release.dot:8:5",
        ),
        (
            "error[missing_handler]: no handler for kind `sign.run`",
            "src/release.dot:10:18",
        ),
        (
            "error[outcome_never_returned]: the edge to `ship` waits",
            "src/release.dot:6:40",
        ),
    ] {
        assert!(message.text.contains(code), "{code} in\n{}", message.text);
        assert!(message.text.contains(location), "{location} in\n{}", message.text);
    }
    // The error points at the handlers, which are what must change.
    assert_eq!((message.start, message.end), ((2, 51), (2, 60)));
    expect("lacks.txt", &said.listed());
}

#[test]
fn a_pair_that_fits_builds() {
    let sound = PIPELINE
        .replace("strictness=soft", "strictness=3")
        .replace("outcome=aproved", "outcome=rejected")
        .replace(",aproved", ",rejected")
        .replace("timeout=15m", "timeout=15m, target=production")
        .replace("-> sign -> exit\n    sign   [type=\"sign.run\"]", "-> exit");
    let bound = "orchestra::pipeline! { pub mod release = \"./release.dot\", handlers = App; }\n";
    let used = "
pub async fn run(engine: &Engine) {
    let _ = engine.start(&release::PIPELINE, App).await;
}
";
    let said = check("fits", &sound, &format!("{bound}{HANDLERS}{used}"));
    assert!(said.built && said.messages.is_empty(), "{}", said.listed());
    let elsewhere = "
pub mod pipelines { orchestra::pipeline! { pub mod release = \"./release.dot\"; } }
orchestra::bind! { pub Release = pipelines::release, handlers = App }
pub async fn run(engine: &Engine) { let _ = engine.start(Release, App).await; }
";
    let said = check("witness", &sound, &format!("{elsewhere}{HANDLERS}"));
    assert!(said.built && said.messages.is_empty(), "{}", said.listed());
    let unsound = "
pub mod pipelines { orchestra::pipeline! { pub mod release = \"./release.dot\"; } }
orchestra::bind! { pub Release = pipelines::release, handlers = () }
";
    let said = check("witness_lacks", &sound, &format!("{unsound}{HANDLERS}"));
    assert!(
        said.about("no handler for kind `review.run`")
            .text
            .contains("no handler for kind `ship.run`")
    );
}

#[test]
fn a_pipeline_without_handlers_cannot_be_started() {
    let program = "
orchestra::pipeline! { pub mod release = \"./release.dot\"; }
pub async fn run(engine: &orchestra::Engine) { let _ = engine.start(&release::PIPELINE, ()).await; }
";
    let pipeline = "digraph release { start -> ship -> exit; ship [type=\"ship.run\"] }\n";
    let said = check("unbound", pipeline, program);
    let message = said.about("this pipeline is not bound to these handlers, so they cannot run it");
    assert_eq!(message.start.0, 3, "{}", said.listed());
    assert!(!said.built);
}

#[test]
fn a_pipeline_cannot_be_started_with_other_handlers() {
    let program = "
orchestra::pipeline! { pub mod release = \"./release.dot\", handlers = ship; }
#[orchestra::handler(\"ship.run\")] pub async fn ship() {}
#[orchestra::handler(\"ship.run\")] pub async fn sink() {}
pub async fn run(engine: &orchestra::Engine) { let _ = engine.start(&release::PIPELINE, sink).await; }
";
    let pipeline = "digraph release { start -> ship -> exit; ship [type=\"ship.run\"] }\n";
    let said = check("other_handlers", pipeline, program);
    // The pipeline determines the type of its handlers, so the error points at the wrong ones.
    let message = said.about("mismatched types");
    assert_eq!(
        (message.start, message.end),
        ((5, 89), (5, 93)),
        "{}",
        said.listed()
    );
    assert!(!said.built);
}

/// A wrong program, the words that the error must hold, and the text that it must point at.
const WRONG: &[(&str, &str, &str, &str)] = &[
    (
        "argument",
        "#[handler(\"a\")] async fn f(x: Vec<u8>) {}",
        "`Vec<u8>` cannot be an argument of a handler",
        "Vec<u8>",
    ),
    (
        "borrowed",
        "#[handler(\"a\")] async fn f(x: &StageContext) {}",
        "arguments of a handler are owned; remove the `&`",
        "&StageContext",
    ),
    (
        "returned",
        "#[handler(\"a\")] async fn f() -> u8 { 1 }",
        "a handler cannot return `u8`",
        "u8",
    ),
    (
        "failure",
        "#[handler(\"a\")] async fn f() -> Result<(), u8> { Ok(()) }",
        "the trait bound `u8: std::error::Error` is not satisfied",
        "Result<(), u8>",
    ),
    (
        "kind",
        "#[handler(deploy)] async fn f() {}",
        "expected the handler kind in double quotes",
        "deploy",
    ),
    (
        "blank",
        "#[handler(\"a b\")] async fn f() {}",
        "a handler kind is made of letters",
        "\"a b\"",
    ),
    (
        "generic",
        "#[handler(\"a\")] async fn f<T>() {}",
        "a handler cannot be generic",
        "<T>",
    ),
    (
        "place",
        "#[handler(\"a\")] struct S;",
        "`#[handler]` stands on a function",
        "#[handler(\"a\")]",
    ),
    (
        "method",
        "struct A; impl A { #[handler(\"a\")] async fn f(&self) {} }",
        "a method becomes a handler when its `impl` block is marked",
        "&self",
    ),
    (
        "exclusive",
        "struct A; #[handlers] impl A { #[handler(\"a\")] async fn f(&mut self) {} }",
        "a handler takes `&self`, because stages run at the same time",
        "&mut self",
    ),
    (
        "unmarked",
        "struct A; #[handlers] impl A { async fn f(&self) {} }",
        "no method of this block is marked",
        "A",
    ),
    (
        "twice",
        "struct A; #[handlers] impl A { #[handler(\"a\")] fn f(&self) {} #[handler(\"a\")] fn g(&self) {} }",
        "two methods handle `a`",
        "\"a\"",
    ),
    (
        "attribute_type",
        "#[derive(Attributes)] struct A { list: Vec<u8> }",
        "`Vec<u8>` cannot hold an attribute",
        "Vec<u8>",
    ),
    (
        "attribute_option",
        "#[derive(Attributes)] struct A { #[attribute(renamed = \"b\")] a: u8 }",
        "expected `rename = \"..\"`, `default` or `default = EXPRESSION`",
        "renamed",
    ),
    (
        "attribute_enum",
        "#[derive(Attributes)] enum A { B }",
        "`derive(Attributes)` wants a struct with named fields",
        "A",
    ),
    (
        "outcome_fields",
        "#[derive(Outcome)] enum A { B(u8) }",
        "an outcome word carries no fields",
        "(u8)",
    ),
    (
        "outcome_twice",
        "#[derive(Outcome)] enum A { Ab, #[outcome(\"ab\")] C }",
        "two variants stand for the outcome `ab`",
        "C",
    ),
    (
        "option",
        "pipeline! { pub mod p = digraph p { start -> exit }, handler = App; }",
        "expected an option: `handlers = TYPE`",
        "handler",
    ),
    (
        "form",
        "pipeline! { pub mod p = release; }",
        "expected the path of a file",
        "release",
    ),
    (
        "set",
        "pipeline! { mod p = digraph p { start -> exit }, handlers = u8; }",
        "`u8` is not a set of handlers",
        "u8",
    ),
];

#[test]
fn a_malformed_use_is_explained_in_one_sentence_at_its_token() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "wrong");
    let mut program = String::new();
    for (name, text, ..) in WRONG {
        program.push_str(&format!(
            "pub mod {name} {{ #![allow(unused)] use orchestra::prelude::*;\n{text}\n}}\n"
        ));
    }
    package.write("src/lib.rs", program);
    let said = package.check();
    let mut problems = Vec::new();
    for (at, (name, text, words, token)) in WRONG.iter().enumerate() {
        let line = at as u64 * 3 + 2;
        let found = said.messages.iter().find(|message| {
            message.text.contains(words) && message.start.0 == line && message.level == "error"
        });
        let Some(message) = found else {
            problems.push(format!("{name}: nothing says {words:?}"));
            continue;
        };
        let (start, end) = (message.start.1 as usize, message.end.1 as usize);
        let pointed = text.get(start - 1..end - 1).unwrap_or_default();
        if pointed != *token {
            problems.push(format!("{name}: points at `{pointed}`, not at `{token}`"));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}\n{}", said.listed());
    expect("wrong.txt", &said.listed());
}
