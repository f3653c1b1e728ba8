/// The seed of the first pipeline; each has the next one.
const FIRST_SEED: u64 = 71_000;
/// How many pipelines are compiled.
const GRAPHS: usize = 250;
