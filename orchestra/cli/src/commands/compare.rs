//! `compare`: shows up to where two runs agree, where they diverge, and why.

use crate::args::CompareArgs;
use crate::error::{CliError, Exit};
use crate::project::pipelines::run_transforms;
use crate::report::comparison;
use crate::report::schema::WithSchema;
use crate::runs::Runs;
use crate::terminal::Terminal;

pub(crate) fn compare(args: &CompareArgs, program: &str, terminal: &Terminal) -> Result<Exit, CliError> {
    let runs = Runs::new(&args.runs, program);
    let (left, right) = (runs.find(&args.run)?, runs.find(&args.other)?);
    let (index, left) = runs.index_of(&left)?;
    let (other, right) = runs.index_of(&right)?;
    let content = index.compare_with(&left, &other, &right, &run_transforms())?;
    if terminal.json {
        let schema = "orchestra.comparison/1";
        let content = &content;
        let result = terminal.json_stream(&WithSchema { schema, content });
        result.map_err(|error| CliError::usage("session", error.to_string()).exit(Exit::RunFailed))?;
    } else {
        comparison::print(&content, args.all, terminal);
    }
    Ok(Exit::Ok)
}
