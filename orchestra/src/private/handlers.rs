//! The arguments, results and registration of handlers.

use std::sync::Arc;

use orchestra_engine::{
    AttributeError, AttributeField, FieldSpec, FieldType, FromStage, Handler, HandlerFuture, IntoOutcome,
    KindSpec, Outcome, Registry, StageContext, StageEnd, Status, Words,
};
use orchestra_graph::table::Constant;

/// An argument of a handler. Its type is named once, so that an invalid type is reported once.
pub struct Argument<T> {
    pub fields: &'static [FieldSpec],
    read: fn(&StageContext) -> Result<T, AttributeError>,
}

impl<T> Argument<T> {
    /// Reads the argument from a stage.
    ///
    /// # Errors
    ///
    /// Fails with the end of the stage if its attributes do not fit.
    pub fn read(&self, stage: &StageContext) -> Result<T, Box<StageEnd>> {
        (self.read)(stage).map_err(|error| Box::new(Outcome::fail_terminal(error.to_string()).into()))
    }
}

/// Returns the argument of a type.
pub const fn argument<T: FromStage>() -> Argument<T> {
    Argument {
        fields: T::FIELDS,
        read: T::from_stage,
    }
}

/// The return value of a handler. Its type is named once, so that an invalid type is reported once.
pub struct Returned<T> {
    pub words: Words,
    pub end: fn(T) -> StageEnd,
}

/// Returns the return value of a type.
pub const fn returned<T: IntoOutcome>() -> Returned<T> {
    Returned {
        words: T::WORDS,
        end: T::into_stage_end,
    }
}

/// A field of a struct that derives `Attributes`. Its type is named once, so that an invalid type is reported once.
pub struct Field<T> {
    pub ty: FieldType,
    pub required: bool,
    read: fn(Option<Constant<&str>>) -> Result<T, String>,
}

impl<T> Field<T> {
    /// Reads the field from a node.
    ///
    /// # Errors
    ///
    /// Fails if the attribute is missing or has the wrong type.
    pub fn read(&self, stage: &StageContext, name: &'static str) -> Result<T, AttributeError> {
        let node = stage.node();
        (self.read)(node.attribute(name)).map_err(|problem| AttributeError {
            node: node.id().to_owned(),
            name: name.to_owned(),
            problem,
        })
    }

    /// Reads the field, or returns its default if the attribute is missing.
    ///
    /// # Errors
    ///
    /// Fails if the attribute has the wrong type.
    pub fn read_or(
        &self,
        stage: &StageContext,
        name: &'static str,
        default: impl FnOnce() -> T,
    ) -> Result<T, AttributeError> {
        match stage.node().attribute(name) {
            Some(_) => self.read(stage, name),
            None => Ok(default()),
        }
    }
}

/// Returns the field of a type.
pub const fn field<T: AttributeField>() -> Field<T> {
    Field {
        ty: T::TYPE,
        required: T::REQUIRED,
        read: T::read,
    }
}

/// A handler that consists of a function and the state that it shares with the other handlers of its set.
struct Method<S> {
    state: Arc<S>,
    run: for<'a> fn(&'a Arc<S>, StageContext) -> HandlerFuture<'a>,
}

impl<S: Send + Sync> Handler for Method<S> {
    fn run<'a>(&'a self, stage: StageContext) -> HandlerFuture<'a> {
        (self.run)(&self.state, stage)
    }
}

/// Adds a handler to a registry.
pub fn add<S: Send + Sync + 'static>(
    registry: &mut Registry,
    spec: KindSpec,
    state: &Arc<S>,
    run: for<'a> fn(&'a Arc<S>, StageContext) -> HandlerFuture<'a>,
) {
    let state = Arc::clone(state);
    registry.add(spec, Arc::new(Method { state, run }));
}

/// Returns the outcome of a name that is known at build time.
pub fn outcome(word: &'static str) -> Outcome {
    match Status::from_name(word) {
        Status::Custom(_) => Outcome::custom(word),
        status => Outcome::new(status),
    }
}
