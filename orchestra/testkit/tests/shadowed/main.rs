//! A pipeline with an edge that no run takes, whose generated tests fail. `cargo test` does not run this program by itself;
//! a test in `it` does.

mod pipelines {
    #![allow(deprecated, reason = "the macro warns about the edge")]

    orchestra::pipeline! {
        pub mod shadowed = digraph shadowed {
            start -> build
            build [prompt=Build]
            build -> exit [condition="outcome!=fail"]
            build -> mend [condition="outcome=fail", weight=1]
            build -> notify [condition="outcome=fail"]
            notify [prompt=Notify]
            notify -> exit
            mend [prompt=Mend]
            mend -> build
        },
        allow(shadowed_edge), paths;
    }
}
