//! `main!`: the command line for compiled pipelines.

/// Generates `fn main` with the whole command line for the pipelines that are compiled into the program.
///
/// Each pipeline is named by its module. On the command line, the name of the module replaces the path of a file. The
/// handlers are created by `Default`, or by the expression after `=`.
///
/// ```no_run
/// orchestra::pipeline! {
///     pub mod release = digraph release {
///         start -> build -> exit
///         build [shape=parallelogram, tool_command="cargo build"]
///     };
/// }
///
/// orchestra::main!(release);
/// ```
///
/// ```no_run
/// use orchestra::prelude::*;
///
/// struct App {
///     registry: String,
/// }
///
/// #[handlers]
/// impl App {
///     #[handler("publish")]
///     async fn publish(&self) -> Result<(), std::fmt::Error> {
///         assert!(!self.registry.is_empty());
///         Ok(())
///     }
/// }
///
/// orchestra::pipeline! {
///     pub mod release = digraph release {
///         start -> publish -> exit
///         publish [type=publish]
///     },
///     handlers = App;
/// }
///
/// orchestra::main!(release = App { registry: "internal".to_owned() });
/// ```
#[macro_export]
macro_rules! main {
    ($($($module:ident)::+ $(= $handlers:expr)?),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::__private::cli::main(::std::vec![
                $($crate::main!(@entry [$($module)::+] $($handlers)?)),+
            ])
        }
    };
    (@entry [$($module:ident)::+]) => {
        $crate::__private::cli::Entry::with_default(
            $crate::main!(@name $($module)::+),
            &$($module)::+::PIPELINE,
        )
    };
    (@entry [$($module:ident)::+] $handlers:expr) => {
        $crate::__private::cli::Entry::new(
            $crate::main!(@name $($module)::+),
            &$($module)::+::PIPELINE,
            || $handlers,
        )
    };
    (@name $last:ident) => { ::std::stringify!($last) };
    (@name $first:ident :: $($rest:ident)::+) => { $crate::main!(@name $($rest)::+) };
}
