//! The functions and macros behind the items of a generated module.

use orchestra_engine::SourceLocation;
use orchestra_graph::NodeIndex;
use orchestra_graph::table::Pipeline;

use crate::compiled::UnknownNode;

/// Returns the id of a node.
pub fn id(pipeline: &'static Pipeline, at: usize) -> &'static str {
    pipeline.stage(NodeIndex(at as u32)).id()
}

/// Creates a position in the text.
pub const fn at(line: u32, column: u32, offset: u32, length: u32) -> SourceLocation {
    SourceLocation {
        line,
        column,
        offset,
        length,
    }
}

/// Returns the node with an id.
///
/// # Errors
///
/// Fails if there is no such node.
pub fn parse<N: Copy>(pipeline: &'static Pipeline, nodes: &[N], id: &str) -> Result<N, UnknownNode> {
    let found = pipeline.find(id).and_then(|index| nodes.get(index.at()));
    found.copied().ok_or_else(|| UnknownNode::new(pipeline, id))
}

/// Implements the common part of an enum of a human gate's answers.
#[macro_export]
#[doc(hidden)]
macro_rules! __gate {
    ($gate:ident $($answer:ident = $label:literal, $key:literal, $target:ident;)+) => {
        impl $gate {
            /// All answers, in the order of the file.
            pub const ALL: &'static [$gate] = &[$($gate::$answer),+];
            const __CHOICES: &'static [$crate::compiled::Choice<super::Node>] =
                &[$($crate::compiled::Choice::new($label, $key, super::Node::$target)),+];
        }
        impl ::core::clone::Clone for $gate {
            fn clone(&self) -> $gate {
                *self
            }
        }
        impl ::core::marker::Copy for $gate {}
        impl ::core::ops::Deref for $gate {
            type Target = $crate::compiled::Choice<super::Node>;
            fn deref(&self) -> &$crate::compiled::Choice<super::Node> {
                &$gate::__CHOICES[*self as usize]
            }
        }
        impl $crate::__private::GateAnswer for $gate {}
        impl ::core::str::FromStr for $gate {
            type Err = $crate::engine::AnswerRefused;
            fn from_str(text: &str) -> ::core::result::Result<$gate, $crate::engine::AnswerRefused> {
                $crate::compiled::Choice::named($gate::__CHOICES, text).map(|at| $gate::ALL[at])
            }
        }
    };
}
pub use __gate as gate;

/// Generates the part of a module that is for tests.
#[cfg(feature = "testkit")]
#[macro_export]
#[doc(hidden)]
macro_rules! __simulate {
    ($node:ty, $table:path) => {
        /// Starts a simulation: a run of this pipeline whose stages do what a test defines.
        pub fn simulate() -> $crate::testkit::Simulation<$node> {
            $crate::testkit::Simulation::compiled(&$table)
        }
    };
}
/// Generates nothing, because the feature `testkit` is off.
#[cfg(not(feature = "testkit"))]
#[macro_export]
#[doc(hidden)]
macro_rules! __simulate {
    ($node:ty, $table:path) => {};
}
pub use __simulate as simulate;

/// Generates the tests of a module: one for each edge and each jump, or one for all of them.
#[cfg(feature = "testkit")]
#[macro_export]
#[doc(hidden)]
macro_rules! __paths {
    ($folder:expr, [$($allowed:literal,)*], $($tests:tt)*) => {
        /// One test for each edge and each jump: a run by a shortest script takes it.
        #[cfg(test)]
        mod paths {
            static PATHS: $crate::testkit::PathTests = $crate::testkit::PathTests::new(
                $folder,
                super::SOURCE,
                &super::__table::TABLE,
                &[$($allowed,)*],
            );
            $crate::__path_tests! { $($tests)* }
        }
    };
}
/// Generates the test functions.
#[cfg(feature = "testkit")]
#[macro_export]
#[doc(hidden)]
macro_rules! __path_tests {
    (every_path) => {
        #[::core::prelude::v1::test]
        fn every_path() {
            PATHS.check_all();
        }
    };
    ($($test:ident = $target:literal,)*) => {
        $(#[::core::prelude::v1::test]
        fn $test() {
            PATHS.check($target);
        })*
    };
}
/// Refuses to generate tests, because the feature `testkit` is off.
#[cfg(not(feature = "testkit"))]
#[macro_export]
#[doc(hidden)]
macro_rules! __paths {
    ($($tests:tt)*) => {
        #[cfg(test)]
        ::core::compile_error!(
            "the option `paths` needs the feature `testkit` of the package `orchestra-workflow` in `[dev-dependencies]`"
        );
    };
}
pub use __paths as paths;

/// Generates the methods of the limits of a module.
#[macro_export]
#[doc(hidden)]
macro_rules! __limits {
    ($node:ty, $numbers:expr, $reasons:expr, $visits:literal, $attempts:literal) => {
        impl Limits {
            const NUMBERS: &'static [u8] = $numbers;
            const REASONS: &'static [&'static str] = $reasons;

            /// Returns the limits of a node, with the reason for them.
            pub const fn node(self, node: $node) -> $crate::compiled::NodeLimit {
                $crate::compiled::NodeLimit::read(Limits::NUMBERS, Limits::REASONS, node as usize)
            }

            /// Returns the maximum number of visits of a node in a run.
            pub const fn visits(self, node: $node) -> u64 {
                self.node(node).visits
            }

            /// Returns the maximum number of attempts of a node in a run.
            pub const fn attempts(self, node: $node) -> u64 {
                self.node(node).attempts
            }

            /// Returns the maximum number of visits of all nodes together.
            pub const fn total_visits(self) -> u64 {
                $visits
            }

            /// Returns the maximum number of attempts at all nodes together.
            pub const fn total_attempts(self) -> u64 {
                $attempts
            }
        }
    };
}
pub use __limits as limits;
