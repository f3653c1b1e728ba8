//! The prompt layers that come with Orchestra.

macro_rules! layers {
    ($($path:literal)*) => {
        /// Paths within `prompts/`, with the texts.
        pub(crate) const BUILT_IN: &[(&str, &str)] = &[$(($path, include_str!(concat!("../prompts/", $path)))),*];
    };
}

layers! {}
