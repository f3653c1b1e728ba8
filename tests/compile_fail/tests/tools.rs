//! Functions that are no tools: each fault at its place.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use orchestra_compile_fail_tests::{Package, Said};

fn check(name: &str, program: &str) -> Said {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), name);
    package.manifest(&format!(
        "orchestra = {{ path = {:?}, features = [\"agents\"] }}",
        Package::orchestra().display().to_string()
    ));
    package.write("src/lib.rs", program);
    package.check()
}

#[test]
fn a_wrong_function_is_explained_at_what_is_wrong() {
    let lines = [
        "/// A. \n #[orchestra::tool] pub fn a(path: &str) {}",
        "/// B. \n #[orchestra::tool] pub fn b<T>(path: T) {}",
        "/// C. \n #[orchestra::tool] pub unsafe fn c() {}",
        "/// D. \n #[orchestra::tool] pub fn d((x, y): (u8, u8)) {}",
        "#[orchestra::tool] \n pub fn e() {}",
        "/// F. \n #[orchestra::tool(name = \"a tool\")] pub fn f() {}",
        "/// G. \n #[orchestra::tool(repository = \"x\")] pub fn g() {}",
        "/// H. \n #[orchestra::tool] pub fn h() -> impl Sized {}",
        "/// I. \n #[orchestra::tool] pub fn i(a: ToolContext, b: ToolContext) {}",
        "#[orchestra::tool] \n pub struct J;",
        "pub struct K; impl K { /// K. \n #[orchestra::tool] pub fn k(&self) {} }",
        "/// L. \n #[orchestra::tool] pub async fn l(file: std::fs::File) {}",
        "/// M. \n #[orchestra::tool] pub async fn m() -> std::fs::File { panic!() }",
    ];
    let program = format!("use orchestra::agents::ToolContext;\n{}\n", lines.join("\n"));
    let said = check("wrong_tools", &program);
    assert!(!said.built);
    for (at, (words, token)) in [
        ("arguments of a tool are owned; remove the `&`", "&str"),
        ("a tool cannot be generic", "<T>"),
        ("a tool cannot be unsafe", "unsafe"),
        ("an argument of a tool has a name", "(x, y)"),
        ("a model chooses a tool by what it does", "e()"),
        ("a name is made of up to 64 letters", "\"a tool\""),
        (
            "expected `name = \"..\"`, `repo = \"..\"`, `read_only` or `crate = path`",
            "repository",
        ),
        ("name the type that the tool returns", "impl Sized"),
        ("a tool takes one `ToolContext`", "ToolContext) {}"),
        ("`#[tool]` stands on a function", "#[orchestra::tool] \n"),
        ("a tool is a free function; it has no `self`", "&self"),
        (
            "`std::fs::File: serde::de::DeserializeOwned` is not satisfied",
            "std::fs::File) {}",
        ),
        ("`std::fs::File: serde::Serialize` is not satisfied", "File {"),
    ]
    .into_iter()
    .enumerate()
    {
        let message = said.about(words);
        let before = lines[..at]
            .iter()
            .map(|text| text.matches('\n').count() + 1)
            .sum::<usize>();
        let offset = lines[at].rfind(token).expect("the token stands there");
        let above = &lines[at][..offset];
        let line = 2 + before + above.matches('\n').count();
        let column = above.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        assert_eq!(
            message.start,
            (line as u64, column as u64),
            "{words}:\n{}",
            said.listed()
        );
    }
}

#[test]
fn sets_of_tools_are_found_under_another_name_of_the_crate() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "renamed_tools");
    package.manifest(&format!(
        "flow = {{ package = \"orchestra\", path = {:?}, features = [\"agents\"] }}",
        Package::orchestra().display().to_string()
    ));
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
