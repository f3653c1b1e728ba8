//! Usage errors: exit code 2, text for people, and one object with `--json`.

use crate::support;

use support::Scratch;

#[test]
fn each_wrong_usage_is_one_object_with_json() {
    let scratch = Scratch::new();
    scratch.write("a.dot", "digraph { start -> exit }");
    let wrong: [(&[&str], &str, &str); 20] = [
        (&[], "missing_command", "the command is missing"),
        (&["runn"], "unknown_command", "'runn'"),
        (&["a.dot"], "unknown_command", "'a.dot'"),
        (&["run"], "missing_argument", "<FILE>"),
        (&["check"], "missing_argument", "<FILE>"),
        (&["resume"], "missing_argument", "<RUN>"),
        (&["replay", "last"], "missing_argument", "--checkpoint"),
        (&["answer", "last", "gate"], "missing_argument", "<CHOICE>"),
        (&["compare", "last"], "missing_argument", "<OTHER>"),
        (&["fmt"], "missing_argument", "<FILE>"),
        (
            &["run", "a.dot", "--auto-aprove"],
            "unknown_argument",
            "--auto-aprove",
        ),
        (&["run", "a.dot", "b.dot"], "unknown_argument", "b.dot"),
        (&["status", "--limit", "many"], "invalid_value", "many"),
        (
            &["status", "last", "--limit", "3"],
            "argument_conflict",
            "--limit",
        ),
        (&["status", "--all"], "missing_argument", "<RUN>"),
        (&["run", "a.dot", "--seed"], "invalid_value", "--seed"),
        (&["run", "a.dot", "--seed", "-1"], "unknown_argument", "-1"),
        (&["run", "a.dot", "--durability", "ful"], "invalid_value", "ful"),
        (&["check", "a.dot", "--format", "xml"], "invalid_value", "xml"),
        (&["completions", "dash"], "invalid_value", "dash"),
    ];
    for (args, code, part) in wrong {
        let plain = scratch.call(args).exits(2);
        assert_eq!(plain.stdout, "", "{args:?}");
        assert!(!plain.stderr.is_empty(), "{args:?}");
        // The option counts at any position.
        for at in [0, args.len()] {
            let mut args = args.to_vec();
            args.insert(at, "--json");
            let reported = scratch.call(&args);
            assert_eq!(reported.code, 2, "{args:?}");
            let objects = reported.objects();
            let [object] = &objects[..] else {
                panic!("{args:?}: {}", reported.stdout);
            };
            assert_eq!(object["schema"], "orchestra.error/1", "{object}");
            assert_eq!(object["code"], code, "{args:?}: {object}");
            let message = object["message"].as_str().unwrap();
            assert!(
                message.contains(part) && !message.contains('\n'),
                "{args:?}: {object}"
            );
            assert!(!message.starts_with("error"), "{object}");
            // Without any argument, the text output is the help instead.
            if code != "missing_command" {
                assert_eq!(
                    reported.stderr.lines().next(),
                    plain.stderr.lines().next(),
                    "{args:?}"
                );
            }
        }
    }
    // Hints are included.
    let near = scratch.call(&["runn", "--json"]).objects().remove(0);
    assert!(near["help"].as_str().unwrap().contains("'run'"), "{near}");
    // After `--` it is not an option.
    let literal = scratch.call(&["check", "--", "--json"]);
    assert!(
        literal.code != 0 && literal.stdout.is_empty(),
        "{}",
        literal.stdout
    );
}
