//! The build as a whole: an edited file is compiled anew, and no file can kill the compiler.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::time::Duration;

use orchestra_compile_fail_tests::Package;

#[test]
fn editing_the_file_builds_anew() {
    for (name, path, invocation) in [
        ("edited", "src/a.dot", "{ pub mod a = \"./a.dot\"; }"),
        (
            "edited_package",
            "flows/a.dot",
            "{ pub mod a = \"flows/a.dot\"; }",
        ),
        // The short form looks up paths in the same way.
        ("edited_short", "src/a.dot", "(\"./a.dot\");"),
    ] {
        let package = Package::new(env!("CARGO_TARGET_TMPDIR"), name);
        package.write(path, "digraph a { start -> exit }\n");
        package.write("src/lib.rs", format!("orchestra::pipeline!{invocation}\n"));
        assert!(package.check().built);
        // Cargo compares times of change, whose steps may be as long as a second.
        std::thread::sleep(Duration::from_millis(1_100));
        package.write(path, "digraph a { start -> exit [weight=heavy] }\n");
        let said = package.check();
        assert!(!said.built, "an edited file was not read again");
        said.about("attribute_type");
        std::thread::sleep(Duration::from_millis(1_100));
        package.write(path, "digraph a { start -> exit [weight=1] }\n");
        assert!(package.check().built);
    }
}

#[test]
fn no_file_kills_the_compiler() {
    let package = Package::new(env!("CARGO_TARGET_TMPDIR"), "hostile");
    let long_condition = format!(
        "digraph a {{ start -> exit [condition=\"{}outcome=fail\"]; start -> b -> exit; b [prompt=b] }}",
        "outcome=success || ".repeat(100_000)
    );
    let wide: String = (0..5_000)
        .map(|at| format!("n{at} -> exit [condition=\"context.k{at}=1\"]\n"))
        .collect();
    let texts: [(&str, Vec<u8>, bool); 9] = [
        (
            "deep",
            ["digraph a {\n", &"{".repeat(100_000), &"}".repeat(100_000), "}\n"]
                .concat()
                .into_bytes(),
            false,
        ),
        (
            "open",
            ["digraph a {\n", &"subgraph x {".repeat(100_000)]
                .concat()
                .into_bytes(),
            false,
        ),
        (
            "string",
            b"digraph a { start -> exit [label=\"never closed }\n".to_vec(),
            false,
        ),
        (
            "nul",
            b"digraph a { start -> exit [label=\"a\0b\"] \0 }\n".to_vec(),
            false,
        ),
        ("bytes", b"digraph a { start -> \xff\xfe }\n".to_vec(), false),
        (
            "brackets",
            ["digraph a { start ", &"[a=1".repeat(50_000), "}"]
                .concat()
                .into_bytes(),
            false,
        ),
        (
            "nots",
            format!(
                "digraph a {{ start -> exit [condition=\"{}outcome=fail\"] }}",
                "!".repeat(100_000)
            )
            .into_bytes(),
            false,
        ),
        ("condition", long_condition.into_bytes(), true),
        (
            "wide",
            format!("digraph a {{ start -> exit\n{wide} }}").into_bytes(),
            false,
        ),
    ];
    let mut program = String::new();
    for (name, text, _) in &texts {
        package.write(&format!("src/{name}.dot"), text);
        program.push_str(&format!(
            "orchestra::pipeline! {{ pub mod {name}_ = \"./{name}.dot\"; }}\n"
        ));
    }
    // A file of 100 MB that takes no room, a folder, and no file at all.
    let huge = File::create(package.path("src/huge.dot")).expect("the file can be made");
    huge.set_len(100 << 20).expect("the file can be made long");
    std::fs::create_dir_all(package.path("src/folder.dot")).expect("the folder can be made");
    for name in ["huge", "folder", "absent"] {
        program.push_str(&format!(
            "orchestra::pipeline! {{ pub mod {name}_ = \"./{name}.dot\"; }}\n"
        ));
    }
    let inline = format!(
        "orchestra::pipeline! {{ pub mod inline = digraph a {{ {} {} }} }}\n",
        "{".repeat(200),
        "}".repeat(200)
    );
    program.push_str(&inline);
    package.write("src/lib.rs", program);
    let said = package.check();
    assert!(!said.built);
    for (at, (name, _, sound)) in texts.iter().enumerate() {
        let line = at as u64 + 1;
        let own = said
            .messages
            .iter()
            .filter(|message| message.start.0 == line && message.level == "error");
        assert_eq!(
            own.count() == 0,
            *sound,
            "{name}: {}",
            said.listed().chars().take(4_000).collect::<String>()
        );
    }
    for words in [
        "the limit is 16777216 [size_limit]",
        "src/folder.dot` cannot be read: it is not a regular file",
        "no file `src/absent.dot`",
    ] {
        said.about(words);
    }
    assert!(!said.listed().contains("is a bug"), "a macro panicked");
}
