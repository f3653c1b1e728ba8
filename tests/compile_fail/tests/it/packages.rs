//! Programs that are unusual and right: another name for the crate, a shadowed prelude, macros around the macros.

use orchestra_compile_fail_tests::Package;

const EVERYTHING: &str = r#"
pub mod pipelines {
    FLOW::pipeline! {
        CRATE
        /// Asks, then ships.
        pub mod release = digraph release {
            goal = "Ship it [now] <b> https://example.org `x`"
            start -> ask
            ask [shape=hexagon, label="Ship it?"]
            ask -> ship [label="[Y] Yes"]
            ask -> exit [label="[N] No", weight=2]
            ship [type="ship.run", target=production, timeout=15m, tries=3, portion=0.5, dry=false]
            ship -> exit [condition="outcome=shipped && context.version matches \"^v[0-9]+$\""]
            ship -> ask [condition="outcome!=shipped"]
        }, handlers = (super::handlers::App, super::handlers::ship), allow(unknown_outcome);
    }
}

FLOW::bind! { pub Release = pipelines::release, handlers = ((), handlers::ship)BIND }

pub mod handlers {
    #[derive(FLOW::Attributes)]
    ATTRIBUTE
    pub struct Ship {
        pub target: ::std::string::String,
        pub timeout: ::core::time::Duration,
        #[attribute(rename = "tries", default = 2)]
        pub attempts: u8,
        #[attribute(default)]
        pub missing: ::core::option::Option<::std::string::String>,
        pub portion: f64,
    }

    #[derive(FLOW::Outcome)]
    OUTCOME
    pub enum Shipped {
        Shipped,
        #[outcome("fail")]
        Refused,
    }

    #[FLOW::handler("ship.run"HANDLER)]
    pub async fn ship(node: Ship, stage: FLOW::StageContext) -> ::core::result::Result<Shipped, ::std::fmt::Error> {
        let _ = (stage, node.attempts, node.portion, node.timeout, node.missing);
        ::core::result::Result::Ok(if node.target.is_empty() { Shipped::Refused } else { Shipped::Shipped })
    }

    pub struct App;

    #[FLOW::handlersSET]
    impl App {
        #[handler("lint.run"HANDLER)]
        fn lint(&self) -> FLOW::Outcome { FLOW::Outcome::success() }
    }
}

pub fn use_everything() -> (u32, &'static str) {
    let _: &[pipelines::release::Node] = pipelines::release::Node::ALL;
    match pipelines::release::choices::Ask::Yes {
        pipelines::release::choices::Ask::Yes => {}
        pipelines::release::choices::Ask::No => {}
    }
    let _: (i64, f64, bool) = (
        pipelines::release::nodes::Ship::TRIES,
        pipelines::release::nodes::Ship::PORTION,
        pipelines::release::nodes::Ship::DRY,
    );
    let _: ::core::time::Duration = pipelines::release::nodes::Ship::TIMEOUT;
    (pipelines::release::REQUIREMENTS.nodes.len() as u32, pipelines::release::SOURCE)
}
"#;

fn program(flow: &str, given: Option<&str>) -> String {
    let part = |form: &str| given.map_or_else(String::new, |path| form.replace("PATH", path));
    EVERYTHING
        .replace("FLOW", flow)
        .replace("HANDLER", &part(", crate = PATH"))
        .replace("BIND", &part(", crate = PATH"))
        .replace("SET", &part("(crate = PATH)"))
        .replace("ATTRIBUTE", &part("#[attribute(crate = PATH)]"))
        .replace("OUTCOME", &part("#[outcome(crate = PATH)]"))
        .replace("CRATE", &part("crate = PATH;"))
}

/// Checks a program that must build without a word.
fn builds(package: &Package, program: &str) {
    package.write(
        "src/lib.rs",
        format!("#![deny(warnings)]\n#![forbid(unsafe_code)]\n{program}"),
    );
    let said = package.check();
    assert!(said.built && said.messages.is_empty(), "{}", said.listed());
}

#[test]
fn the_plain_name_needs_no_words() {
    let package = Package::with_default_features(env!("CARGO_TARGET_TMPDIR"), "plain");
    builds(&package, &program("::orchestra", None));
}

#[test]
fn lints_that_are_off_by_default_may_be_denied() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "denied");
    let denied = "#![deny(future_incompatible, nonstandard_style, rust_2018_idioms, unused, \
                  missing_debug_implementations, single_use_lifetimes, trivial_casts, unreachable_pub, \
                  unnameable_types, unused_lifetimes, unused_qualifications, variant_size_differences)]\n";
    let program = program("::orchestra", None).replace("pub struct", "#[derive(Debug)]\n    pub struct");
    let program = program.replace("pub enum", "#[derive(Debug)]\n    pub enum");
    builds(&package, &format!("{denied}{program}"));
}

#[test]
fn the_crate_may_have_another_name() {
    let package = Package::known_as(env!("CARGO_TARGET_TMPDIR"), "renamed", "flow");
    builds(&package, &program("::flow", Some("flow")));
    builds(
        &package,
        &format!(
            "pub mod vendor {{ pub use flow; }}{}",
            program("::flow", Some("crate::vendor::flow"))
        ),
    );
}

#[test]
fn the_prelude_may_be_shadowed() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "shadowed");
    let shadows = "
#![allow(non_camel_case_types, non_snake_case, dead_code, unused_macros)]
pub struct Option; pub struct Result; pub struct String; pub struct Vec; pub struct Box; pub struct str_; pub struct Arc;
pub fn Some() {} pub fn None() {} pub fn Ok() {} pub fn Err() {}
pub mod core {} pub mod std {} pub mod alloc {} pub mod orchestra {}
pub trait Clone {} pub trait Copy {} pub trait Debug {} pub trait Default {} pub trait From {} pub trait Into {}
pub trait Send {} pub trait Sync {} pub trait Iterator {} pub trait FromStr {} pub trait Display {}
macro_rules! panic { () => { compile_error!(\"shadowed\") } }
macro_rules! vec { () => { compile_error!(\"shadowed\") } }
macro_rules! concat { () => { compile_error!(\"shadowed\") } }
";
    builds(&package, &format!("{shadows}{}", program("::orchestra", None)));
    let bare = "#![no_implicit_prelude]\n";
    builds(&package, &format!("{bare}{}", program("::orchestra", None)));
}

/// What a program may do with simulations beside everything else.
const SIMULATES: &str = r#"
mod private {
    FLOW::pipeline! { CRATE mod tiny = digraph tiny { start -> simulate -> exit; simulate [prompt=Simulate] }; }
    pub(crate) fn simulation() -> FLOW::testkit::Simulation<tiny::Node> {
        tiny::simulate().outcome(tiny::Node::Simulate, ["fail"])
    }
}

pub fn simulation() -> FLOW::testkit::Simulation<pipelines::release::Node> {
    let _ = private::simulation();
    pipelines::release::simulate()
        .outcome(pipelines::release::Node::Ship, ["shipped"])
        .answer(pipelines::release::Node::Ask, pipelines::release::choices::Ask::Yes)
}
"#;

fn simulating(flow: &str, given: Option<&str>) -> String {
    let given_here = given.map_or_else(String::new, |path| format!("crate = {path};"));
    let simulates = SIMULATES.replace("FLOW", flow).replace("CRATE", &given_here);
    format!("{}{simulates}", program(flow, given))
}

#[test]
fn every_form_of_the_crate_offers_simulations_where_the_feature_is_on() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "simulated");
    let bare = "#![no_implicit_prelude]\npub struct Simulation; pub mod testkit {}\n";
    builds(&package, &format!("{bare}{}", simulating("::orchestra", None)));
    let package = Package::known_as(env!("CARGO_TARGET_TMPDIR"), "simulated_renamed", "flow");
    builds(&package, &simulating("::flow", Some("flow")));
    builds(
        &package,
        &format!(
            "pub mod vendor {{ pub use flow; }}{}",
            simulating("::flow", Some("crate::vendor::flow"))
        ),
    );
}

#[test]
fn a_simulation_takes_no_node_of_another_pipeline() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "simulated_wrong");
    package.write(
        "src/lib.rs",
        "orchestra::pipeline! { pub mod a = digraph a { start -> exit }; }
orchestra::pipeline! { pub mod b = digraph b { start -> exit }; }
pub fn wrong() { let _ = a::simulate().outcome(b::Node::Start, [\"fail\"]); }
pub fn text() { let _ = a::simulate().outcome(\"start\", [\"fail\"]); }
pub fn number() { let _ = a::simulate().outcome(a::Node::Start, [1]); }
",
    );
    let said = package.check();
    assert!(!said.built);
    said.about("`b::Node` is not a node of this pipeline");
    said.about("`&str` is not a node of this pipeline");
    said.about("is not an outcome of a script");
}

#[test]
fn without_the_feature_there_are_no_simulations() {
    let package = Package::with_default_features(env!("CARGO_TARGET_TMPDIR"), "not_simulated");
    package.write(
        "src/lib.rs",
        "orchestra::pipeline! { pub mod a = digraph a { start -> exit }; }
pub fn wrong() { a::simulate(); }
",
    );
    let said = package.check();
    assert!(!said.built);
    said.about("cannot find function `simulate` in module `a`");
}

#[test]
fn macros_may_stand_around_the_macros() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "wrapped");
    package.write(
        "pipelines/a.dot",
        "digraph a { start -> work -> exit\n work [prompt=\"Work\"] }\n",
    );
    builds(
        &package,
        "
macro_rules! from_file { ($name:ident, $path:literal) => { ::orchestra::pipeline! { pub mod $name = $path; } } }
macro_rules! inline {
    ($name:ident, $work:ident, $model:expr, $($rest:tt)*) => {
        ::orchestra::pipeline! {
            pub mod $name = digraph $name {
                start -> $work -> exit
                $work [llm_model=gpt-5.2, prompt=$model, timeout=15m]
                $($rest)*
            }
        }
    };
}
macro_rules! handle { ($kind:literal, $name:ident, $ty:ty) => {
    #[::orchestra::handler($kind)] pub async fn $name(stage: $ty) { let _ = stage; }
} }
from_file!(a, \"pipelines/a.dot\");
inline!(b, work, \"Do it\", work -> exit [condition=\"outcome=success\"]);
handle!(\"lint.run\", lint, ::orchestra::StageContext);
pub const MODEL: &str = b::nodes::Work::LLM_MODEL;
pub fn run() { orchestra::pipeline! { mod local = digraph local { start -> exit } } let _ = local::Node::Start; }
",
    );
}

#[test]
fn a_module_is_named_after_its_graph() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "short");
    package.write(
        "pipelines/release.dot",
        "digraph ReleaseCheck { start -> exit }\n",
    );
    package.write("pipelines/no-name.dot", "digraph { start -> exit }\n");
    builds(
        &package,
        "orchestra::pipeline!(\"pipelines/release.dot\");\norchestra::pipeline!(\"pipelines/no-name.dot\", deny(warnings), crate = orchestra);\n\
         pub fn names() -> [&'static str; 2] { [release_check::SOURCE, no_name::SOURCE] }\n",
    );
}

#[test]
fn the_module_is_documented() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "documented");
    package.write(
        "src/lib.rs",
        format!(
            "//! A package.\n#![deny(warnings, rustdoc::all)]\n{}",
            program("::orchestra", None)
        )
        .replace("pub mod pipelines", "/// Pipelines.\npub mod pipelines"),
    );
    let (said, page) = package.document("pipelines/release");
    assert!(said.built && said.messages.is_empty(), "{}", said.listed());
    for part in ["Asks, then ships.", "Ship it", "flowchart", "ship.run", "<table>"] {
        assert!(page.contains(part), "no {part:?}");
    }
}

#[test]
fn sets_of_tools_are_found_under_another_name_of_the_crate() {
    let package = Package::known_as(env!("CARGO_TARGET_TMPDIR"), "renamed_tools", "flow");
    package.write(
        "src/lib.rs",
        "#![no_implicit_prelude]\n\
         mod inner {\n    /// Says it.\n    #[::flow::tool(crate = ::flow, name = \"say-it\")]\n    \
         pub(crate) fn say(what: ::std::string::String) -> ::std::string::String { what }\n}\n\
         pub const NAMES: ::flow::agents::ToolNames = <(inner::say,) as ::flow::agents::ToolSet>::NAMES;\n",
    );
    let said = package.check();
    assert!(said.built, "{}", said.listed());
}
