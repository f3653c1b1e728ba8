//! Child pipelines through `pipeline!`: read, checked, compiled in, compared with the handlers, and tracked.

use std::time::{Duration, Instant};

use orchestra_compile_fail_tests::{BuildOutput, Package, expect};

const RELEASE: &str = "digraph release {
    start [shape=Mdiamond]
    exit  [shape=Msquare]
    lint  [shape=folder, label=\"Lint\", subpipeline.file=\"parts/lint.dot\"]
    watch [shape=house, label=\"Watch\", stack.child_dotfile=\"./parts/../build.dot\"]
    again [shape=folder, label=\"Lint again\", subpipeline.file=\"parts/lint.dot\"]
    start -> lint -> watch -> again -> exit
}
";

const LINT: &str = "digraph lint {
    start -> check -> exit
    check [shape=parallelogram, tool_command=\"make lint\"]
}
";

const BUILD: &str = "digraph build {
    start -> lint -> make -> exit
    lint [shape=folder, label=\"Lint\", subpipeline.file=\"parts/lint.dot\"]
    make [shape=parallelogram, tool_command=\"make\"]
}
";

const PROGRAM: &str = "orchestra::pipeline! { pub mod release = \"./release.dot\"; }\n";

fn package(name: &str, lint: &str) -> Package {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), name);
    package.write("src/release.dot", RELEASE);
    package.write("src/build.dot", BUILD);
    package.write("src/parts/lint.dot", lint);
    package.write("src/lib.rs", PROGRAM);
    package
}

fn silent(said: &BuildOutput) {
    assert!(said.built && said.messages.is_empty(), "{}", said.listed());
}

#[test]
fn children_are_compiled_in() {
    let package = package("children", LINT);
    let uses = "
#![deny(warnings, unused, rust_2018_idioms, unreachable_pub, missing_docs)]
//! A package.
/// Pipelines.
pub mod pipelines {
    orchestra::pipeline! { pub mod release = \"./release.dot\", handlers = (); }
    orchestra::pipeline! {
        pub mod inline = digraph inline {
            start -> lint -> exit
            lint [shape=folder, label=\"Lint\", subpipeline.file=\"parts/lint.dot\"]
        }
    }
}
/// The number of children.
pub fn children() -> usize { pipelines::release::PIPELINE.children.len() + pipelines::release::REQUIREMENTS.children.len() }
/// Runs it.
pub async fn run(engine: &orchestra::Engine) {
    let _ = engine.start(&pipelines::release::PIPELINE, ()).await;
    let _ = engine.start(&pipelines::inline::PIPELINE, ()).await;
}
";
    package.write("src/lib.rs", uses);
    silent(&package.check());
}

#[test]
fn editing_a_child_builds_anew() {
    let package = package("children_edited", LINT);
    silent(&package.check());
    // Cargo compares times of change, whose steps may be as long as a second.
    std::thread::sleep(Duration::from_millis(1_100));
    package.write(
        "src/parts/lint.dot",
        LINT.replace("exit\n", "exit [weight=heavy]\n"),
    );
    let said = package.check();
    assert!(!said.built, "an edited child was not read again");
    std::thread::sleep(Duration::from_millis(1_100));
    package.write("src/parts/lint.dot", LINT);
    silent(&package.check());
}

#[test]
fn a_fault_of_a_child_is_reported_with_its_own_position() {
    let package = package(
        "children_unsound",
        &LINT.replace("exit\n", "exit [weight=heavy]\n"),
    );
    let said = package.check();
    assert!(!said.built);
    let own = said.about("`weight` must be a whole number");
    assert!(own.text.contains("--> src/parts/lint.dot:2:36"), "{}", own.text);
    assert!(
        own.text.contains("start -> check -> exit [weight=heavy]"),
        "{}",
        own.text
    );
    // A child has no token in the program; its fault points at the name of the file that leads to it.
    assert_eq!((own.start, own.end), ((1, 42), (1, 57)), "{}", said.listed());
    for location in ["src/release.dot:4:57", "src/build.dot:3:56"] {
        assert!(said.listed().contains(location), "{}", said.listed());
    }
    expect("children.txt", &said.listed());
}

#[test]
fn a_fault_of_an_inline_pipeline_s_child_points_at_its_name() {
    let package = package(
        "children_inline",
        &LINT.replace("exit\n", "exit [weight=heavy]\n"),
    );
    let program = "orchestra::pipeline! {
    pub mod inline = digraph inline {
        start -> lint -> lost -> exit
        lint [shape=folder, label=\"Lint\", subpipeline.file=\"parts/lint.dot\"]
        lost [shape=folder, label=\"Lost\", subpipeline.file=\"parts/lost.dot\"]
    }
}
";
    package.write("src/lib.rs", program);
    let said = package.check();
    for (words, location) in [
        ("`weight` must be a whole number", (4, 60)),
        ("child pipeline `parts/lint.dot` has 1 error", (4, 60)),
        ("no child pipeline `parts/lost.dot`", (5, 60)),
    ] {
        assert_eq!(said.about(words).start, location, "{}", said.listed());
    }
    assert!(
        said.about("no child pipeline")
            .text
            .contains("looked for `src/parts/lost.dot`")
    );
}

#[test]
fn a_child_that_is_missing_or_leads_back_is_refused() {
    let package = package("children_missing", LINT);
    package.write(
        "src/parts/lint.dot",
        BUILD.replace("parts/lint.dot", "../build.dot"),
    );
    package.write(
        "src/lib.rs",
        "orchestra::pipeline! { pub mod lint = \"./parts/lint.dot\"; pub mod lost = \"./lost.dot\"; }\n",
    );
    package.write("src/lost.dot", RELEASE.replace("lint.dot", "lnit.dot"));
    let said = package.check();
    assert!(!said.built);
    let circle = said
        .about("in a cycle: `src/parts/lint.dot` -> `src/build.dot` -> `src/parts/lint.dot` [child_cycle]");
    assert!(circle.text.contains("--> src/build.dot:3:56"), "{}", circle.text);
    let missing = said.about("no child pipeline `parts/lnit.dot` [child_not_found]");
    assert!(missing.text.contains("--> src/lost.dot:4:58"), "{}", missing.text);
    assert_eq!(circle.start, (1, 39), "{}", said.listed());
}

#[test]
fn as_many_children_as_there_may_be_build_and_more_are_refused() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "children_many");
    let stage = |file: &str| {
        format!("digraph a {{ start -> a -> exit; a [shape=folder, label=A, subpipeline.file={file:?}] }}\n")
    };
    // A chain as deep as may be, and one file for each of many nodes.
    for at in 1..=16 {
        let text = if at == 16 {
            LINT.to_owned()
        } else {
            stage(&format!("{}.dot", at + 1))
        };
        package.write(&format!("src/deep/{at}.dot"), text);
    }
    let mut wide = "digraph wide {\n    start -> c0\n".to_owned();
    for at in 0..240 {
        package.write(&format!("src/wide/{at}.dot"), LINT);
        wide.push_str(&format!(
            "    c{at} [shape=folder, label=C, subpipeline.file=\"wide/{at}.dot\"]\n    c{at} -> c{}\n",
            at + 1
        ));
    }
    wide.push_str("    c240 [shape=folder, label=C, subpipeline.file=\"deep/1.dot\"]\n    c240 -> exit\n}\n");
    package.write("src/wide.dot", wide);
    package.write(
        "src/lib.rs",
        "orchestra::pipeline! { pub mod wide = \"./wide.dot\"; }\n",
    );
    let begin = Instant::now();
    silent(&package.check());
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    package.write("src/over.dot", stage("over/deep.dot"));
    package.write("src/over/deep.dot", stage("../deep/1.dot"));
    package.write(
        "src/lib.rs",
        "orchestra::pipeline! { pub mod over = \"./over.dot\"; }\n",
    );
    let said = package.check();
    assert!(!said.built);
    let deep = said.about("child pipelines nest more than 16 deep [child_nesting]");
    assert!(deep.text.contains("--> src/deep/15.dot:1:76"), "{}", deep.text);
}

#[test]
fn the_handlers_are_compared_with_what_children_need() {
    let lint = "digraph lint {
    start  -> check -> review -> exit
    check  [type=\"lint.run\", label=\"Check\"]
    review [type=\"review.run\", label=\"Review\", outcomes=\"approved,signed\"]
    review -> sign [condition=\"outcome=signed\"]
    sign   [type=\"sign.run\", label=\"Sign\"]
    sign   -> exit
}
";
    let package = package("children_lacks", lint);
    let handlers = "
use orchestra::prelude::*;
#[derive(Attributes)]
struct Lint { rules: String }
#[derive(Outcome)]
enum Verdict { Approved, Rejected }
#[derive(Default)]
pub struct App;
#[handlers]
impl App {
    #[handler(\"lint.run\")]
    async fn lint(&self, node: Lint) -> Result<(), std::fmt::Error> { assert!(!node.rules.is_empty()); Ok(()) }
    #[handler(\"review.run\")]
    async fn review(&self) -> Verdict { if false { Verdict::Approved } else { Verdict::Rejected } }
}
";
    let bound = "orchestra::pipeline! {\n    pub mod release = \"./release.dot\", handlers = App;\n}\n";
    package.write("src/lib.rs", format!("{bound}{handlers}"));
    let said = package.check();
    assert!(!said.built);
    let message = said.about("the handlers do not fit `src/release.dot`");
    for (problem, location) in [
        (
            "node `check` lacks the attribute `rules`",
            "src/parts/lint.dot:3:5",
        ),
        (
            "the edge to `sign` waits for the outcome `signed`",
            "src/parts/lint.dot:5:40",
        ),
        ("no handler for kind `sign.run`", "src/parts/lint.dot:6:18"),
    ] {
        assert!(message.text.contains(problem), "{problem} in\n{}", message.text);
        assert!(message.text.contains(location), "{location} in\n{}", message.text);
    }
    // Three ways lead to the child; its lacks are reported once.
    assert_eq!(message.text.matches("no handler for kind").count(), 1);
    // A pipeline whose child needs handlers is not bound to the built-in ones.
    let unbound = "pub async fn run(engine: &orchestra::Engine) { let _ = engine.start(&release::PIPELINE, ()).await; }\n";
    package.write("src/lib.rs", format!("{PROGRAM}{unbound}"));
    package
        .check()
        .about("this pipeline is not bound to these handlers, so they cannot run it");
    let mended = lint.replace("label=\"Check\"", "label=\"Check\", rules=all");
    let mended = mended
        .replace("outcome=signed", "outcome=approved")
        .replace("sign.run", "lint.run");
    package.write(
        "src/parts/lint.dot",
        mended.replace("label=\"Sign\"", "label=\"Sign\", rules=signatures"),
    );
    package.write("src/lib.rs", format!("{bound}{handlers}"));
    silent(&package.check());
    let elsewhere = "
pub mod pipelines { orchestra::pipeline! { pub mod release = \"./release.dot\"; } }
orchestra::bind! { pub Release = pipelines::release, handlers = () }
";
    package.write("src/lib.rs", format!("{elsewhere}{handlers}"));
    let said = package.check();
    assert!(
        said.about("no handler for kind `lint.run`")
            .text
            .contains("src/parts/lint.dot:3:18")
    );
}
