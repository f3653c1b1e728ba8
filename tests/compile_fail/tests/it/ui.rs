//! Wrong uses of the macros in `ui/`, each with the complete output of rustc beside it. `TRYBUILD=overwrite` writes the
//! output anew.
//!
//! Wrong pipelines are tested by packages that the other tests create (`Package`). `trybuild` compares nothing but
//! programs that do not build, so it cannot hold the warnings of a pipeline that builds; and it compiles all programs in
//! one generated package, so they cannot have a manifest, a configuration or prompt layers of their own.

#[test]
fn every_wrong_use_is_explained_at_its_token() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui/*/*.rs");
}
