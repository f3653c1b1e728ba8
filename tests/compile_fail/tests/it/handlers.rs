//! Handlers that do not meet the requirements of their pipeline, each violation with its position.

use orchestra_compile_fail_tests::{BuildOutput, Package, expect};

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

fn check(name: &str, pipeline: &str, program: &str) -> BuildOutput {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), name);
    package.write("src/release.dot", pipeline);
    package.write("src/lib.rs", program);
    package.check()
}

#[test]
fn every_lack_is_reported_in_one_message_with_its_position() {
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
