//! The initial context of a run, checked against what the pipeline declares.

use orchestra_core::Context;
use orchestra_graph::{Contract, KeyOwner, Pipeline};

use crate::error::StartError;
use crate::setup::settings::EngineSettings;

/// Checks the initial values of a run, and returns its initial context without secrets.
///
/// # Errors
/// A key is reserved for the engine, or the values are not those that the pipeline declares.
pub(crate) fn initial_context(
    engine: &EngineSettings,
    pipeline: &Pipeline,
    mut context: Context,
    is_child: bool,
) -> Result<Context, StartError> {
    let reserved = context.iter().map(|(key, _)| key);
    let reserved: Vec<String> = reserved
        .filter(|key| KeyOwner::of_key(key).is_some())
        .map(str::to_owned)
        .collect();
    if !reserved.is_empty() {
        return Err(StartError::ReservedKeys { keys: reserved });
    }
    let contract = Contract::from_pipeline(pipeline);
    if !contract.is_empty() {
        let mut values = context
            .iter()
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect();
        contract.rename_keys(&mut values);
        if is_child {
            // A child of a manager loop receives all values of its parent.
            values.retain(|key, _| !contract.is_only_output(key));
        }
        if engine
            .run
            .script
            .as_ref()
            .is_some_and(|script| !script.simulates_models_only())
        {
            let required = contract.inputs().iter().filter(|input| !input.optional);
            for input in required {
                let example = || input.value_type.example(&input.key);
                values.entry(input.key.clone()).or_insert_with(example);
            }
        }
        contract
            .check_inputs(|key| values.get(key))
            .map_err(|violations| StartError::Inputs {
                pipeline: pipeline.title().to_owned(),
                violations,
            })?;
        context = values.into_iter().collect();
    }
    if let Some(redactor) = &engine.run.redactor {
        redactor.context(&mut context);
    }
    Ok(context)
}
