//! Wrong uses of the macros in `ui/`, each with the complete output of rustc beside it.

use std::fs;
use std::path::Path;

use orchestra_compile_fail_tests::{Package, expect_at};

#[test]
fn every_wrong_use_is_explained_at_its_token() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut programs = Vec::new();
    for group in fs::read_dir(here.join("ui")).expect("the folder can be listed") {
        let group = group.expect("the folder can be listed").path();
        for file in fs::read_dir(group).expect("the folder can be listed") {
            let file = file.expect("the folder can be listed").path();
            if file.extension().is_some_and(|extension| extension == "rs") {
                let program = file.strip_prefix(here).expect("the file is in the folder");
                programs.push(program.to_string_lossy().into_owned());
            }
        }
    }
    programs.sort();
    assert!(programs.len() > 40);
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "wrong_uses");
    let texts = package.check_programs(&programs);
    for program in programs {
        let text = texts.get(&program).map_or("", String::as_str);
        assert!(text.contains("error"), "{program} builds");
        expect_at(&here.join(&program).with_extension("stderr"), text);
    }
}
