//! Contracts: the context values that a pipeline needs to start, and those that its stages set, with their types.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

mod cursor;
mod parse;
mod value_type;

pub use cursor::DeclarationCursor;
pub(crate) use parse::{DeclarationError, Entry, key_error, parse_declarations};
pub use value_type::ValueType;
pub(crate) use value_type::describe;

use crate::kind;
use crate::model::NodeIndex;
use crate::table::{Constant, Pipeline, Stage};

/// The prefix of the attributes that declare the outputs of one outcome.
pub(crate) const OUTPUTS_OF: &str = "outputs.";

/// A context value that a pipeline declares.
///
/// ```
/// use orchestra_graph::{Contract, Source, load};
/// let text = r#"digraph { inputs="pr: text, dry_run: bool?"; start -> exit }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let contract = Contract::from_pipeline(&pipeline);
/// let shown: Vec<String> = contract.inputs().iter().map(ToString::to_string).collect();
/// assert_eq!(shown, ["pr: text", "dry_run: bool?"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The key.
    pub key: String,
    /// The type of its value.
    pub value_type: ValueType,
    /// `true` if the value may be missing.
    pub optional: bool,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optional = if self.optional { "?" } else { "" };
        write!(f, "{}: {}{optional}", self.key, self.value_type)
    }
}

/// The outputs that a stage declares.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outputs {
    /// Those of every success.
    success: Vec<Field>,
    /// Those of single outcomes, in addition.
    by_word: Vec<(String, Vec<Field>)>,
}

impl Outputs {
    fn all(&self) -> Vec<Field> {
        let mut found = self.success.clone();
        for field in self.by_word.iter().flat_map(|(_, fields)| fields) {
            if !found.iter().any(|known| known.key == field.key) {
                found.push(Field {
                    optional: true,
                    ..field.clone()
                });
            }
        }
        found
    }
}

/// The context values that a pipeline declares: its inputs (`inputs` on the graph), and the outputs of its stages
/// (`outputs` and `outputs.WORD` on a node).
///
/// The engine enforces a contract: a run does not start without its required inputs, a stage that succeeds without its
/// outputs has failed, and only the stages that declare a key set it. Therefore the checks may rely on it.
///
/// ```
/// use std::collections::BTreeMap;
/// use orchestra_graph::{Contract, Source, load};
/// let text = r#"digraph { start -> review -> exit; review [type=review, outputs="score: int"] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let contract = Contract::from_pipeline(&pipeline);
/// let review = pipeline.find("review").expect("declared");
/// let given = |score: serde_json::Value| BTreeMap::from([("score".to_owned(), score)]);
/// assert!(contract.check_outcome(review, "success", &given(7.into())).is_ok());
/// let error = contract.check_outcome(review, "success", &BTreeMap::new()).unwrap_err();
/// assert_eq!(error, "`score` is missing; it is declared as `int`");
/// let error = contract.check_outcome(review, "success", &given("high".into())).unwrap_err();
/// assert_eq!(error, "`score` is declared as `int`, but is the text \"high\"");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contract {
    inputs: Vec<Field>,
    outputs: BTreeMap<u32, Outputs>,
    types: BTreeMap<String, ValueType>,
}

impl Contract {
    /// Reads the contract of a pipeline. It is empty if the pipeline declares nothing.
    pub fn from_pipeline(pipeline: &Pipeline) -> Contract {
        let mut contract = Contract::default();
        let inputs = pipeline.attribute("inputs").and_then(Constant::text);
        contract.inputs = inputs.map(declared_fields).unwrap_or_default();
        for stage in pipeline.stages() {
            if let Some(outputs) = outputs_of(stage) {
                contract.outputs.insert(stage.index().0, outputs);
            }
        }
        let declared = contract.outputs.values().flat_map(|outputs| {
            let by_word = outputs.by_word.iter().flat_map(|(_, fields)| fields);
            outputs.success.iter().chain(by_word)
        });
        let declared = contract.inputs.iter().chain(declared);
        let mut types = BTreeMap::new();
        for field in declared {
            types
                .entry(field.key.clone())
                .or_insert_with(|| field.value_type.clone());
        }
        contract.types = types;
        contract
    }

    /// Returns `true` if the pipeline declares nothing.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// Returns the declared inputs, in the order of the file.
    pub fn inputs(&self) -> &[Field] {
        &self.inputs
    }

    /// Iterates over all declared keys with their types, sorted by key.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &ValueType)> {
        self.types
            .iter()
            .map(|(key, value_type)| (key.as_str(), value_type))
    }

    /// Returns the type of a declared key. `context.KEY` means the same as `KEY`.
    pub fn type_of(&self, key: &str) -> Option<&ValueType> {
        self.types.get(plain_key(key))
    }

    /// Returns the outputs that a stage declares for an outcome. Those of a failure may be missing.
    ///
    /// ```
    /// use orchestra_graph::{Contract, Source, load};
    /// let text = r#"digraph { start -> a -> exit; a [type=a, outputs="x: int", outputs.fail="code: text"] }"#;
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let (contract, a) = (Contract::from_pipeline(&pipeline), pipeline.find("a").expect("declared"));
    /// assert_eq!(contract.outputs(a, "success")[0].to_string(), "x: int");
    /// assert_eq!(contract.outputs(a, "fail")[0].to_string(), "code: text");
    /// ```
    pub fn outputs(&self, node: NodeIndex, word: &str) -> Vec<&Field> {
        let Some(outputs) = self.outputs.get(&node.0) else {
            return Vec::new();
        };
        let of_word = outputs.by_word.iter().filter(|(known, _)| known == word);
        let of_word = of_word.flat_map(|(_, fields)| fields);
        let mut found: Vec<&Field> = Vec::new();
        let of_success = outputs.success.iter().filter(|_| is_success(word));
        for field in of_success.chain(of_word) {
            match found.iter_mut().find(|known| known.key == field.key) {
                // A value that one of the declarations requires is required.
                Some(known) if known.optional => *known = field,
                Some(_) => {}
                None => found.push(field),
            }
        }
        found
    }

    /// Iterates over the declarations of outputs: the stage, the outcome (`None` for every success) and the values.
    pub(crate) fn declared_outputs(&self) -> impl Iterator<Item = (NodeIndex, Option<&str>, &[Field])> {
        self.outputs.iter().flat_map(|(node, outputs)| {
            let success = Some((None, outputs.success.as_slice())).filter(|(_, fields)| !fields.is_empty());
            let by_word = outputs.by_word.iter();
            let by_word = by_word.map(|(word, fields)| (Some(word.as_str()), fields.as_slice()));
            let all = success.into_iter().chain(by_word);
            all.map(|(word, fields)| (NodeIndex(*node), word, fields))
        })
    }

    /// Returns whether a run does not start without a key.
    pub(crate) fn requires_input(&self, key: &str) -> bool {
        self.inputs
            .iter()
            .any(|input| input.key == key && !input.optional)
    }

    /// Returns the outputs that a stage declares for any outcome, each key once. Those that not every success must have
    /// are optional.
    pub(crate) fn all_outputs(&self, node: NodeIndex) -> Vec<Field> {
        self.outputs.get(&node.0).map_or_else(Vec::new, Outputs::all)
    }

    /// Renames keys such as `context.KEY`, which mean the declared key `KEY` (rule C3).
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use orchestra_graph::{Contract, Source, load};
    /// let text = r#"digraph { inputs="pr: int"; start -> exit }"#;
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let mut values = BTreeMap::from([("context.pr".to_owned(), 7.into())]);
    /// Contract::from_pipeline(&pipeline).rename_keys(&mut values);
    /// assert!(values.contains_key("pr"));
    /// ```
    pub fn rename_keys(&self, values: &mut BTreeMap<String, Value>) {
        let means_other = |key: &String| plain_key(key) != key && self.type_of(key).is_some();
        let renamed: Vec<String> = values.keys().filter(|key| means_other(key)).cloned().collect();
        for key in renamed {
            if let Some(value) = values.remove(&key) {
                values.entry(plain_key(&key).to_owned()).or_insert(value);
            }
        }
    }

    /// Removes the values of declared keys that a stage does not declare for its outcome.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use orchestra_graph::{Contract, Source, load};
    /// let text = r#"digraph { start -> a -> exit; a [type=a, outputs="x: int", outputs.fail="code: text"] }"#;
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let (contract, a) = (Contract::from_pipeline(&pipeline), pipeline.find("a").expect("declared"));
    /// let mut values = BTreeMap::from(["x", "code", "other"].map(|key| (key.to_owned(), "1".into())));
    /// contract.retain_declared(a, "fail", &mut values);
    /// assert!(values.into_keys().eq(["code", "other"]));
    /// ```
    pub fn retain_declared(&self, node: NodeIndex, word: &str, values: &mut BTreeMap<String, Value>) {
        let outputs = self.outputs(node, word);
        let is_output = |key: &str| outputs.iter().any(|field| field.key == key);
        values.retain(|key, _| !self.types.contains_key(key) || is_output(key));
    }

    /// Checks the context values that a stage sets with an outcome.
    ///
    /// An outcome that is not a failure must set the outputs that the stage declares for it, and no other declared keys.
    /// Each value must have its type; only an optional one may be null.
    ///
    /// # Errors
    /// Returns a message that names all violations.
    pub fn check_outcome(
        &self,
        node: NodeIndex,
        word: &str,
        updates: &BTreeMap<String, Value>,
    ) -> Result<(), String> {
        let outputs = self.outputs(node, word);
        let mut violations = Vec::new();
        let has_succeeded = is_success(word);
        for field in outputs.iter().filter(|field| has_succeeded && !field.optional) {
            if updates.get(&field.key).is_none_or(Value::is_null) {
                violations.push(format!(
                    "`{}` is missing; it is declared as `{}`",
                    field.key, field.value_type
                ));
            }
        }
        for (key, value) in updates {
            let Some(value_type) = self.types.get(key) else {
                continue;
            };
            match outputs.iter().find(|field| field.key == *key) {
                // The values that a failed stage does not declare are left out.
                None if !has_succeeded => {}
                None => violations.push(format!("`{key}` is not declared as an output of this stage")),
                Some(field) if value.is_null() => {
                    // A missing output was reported above.
                    if !field.optional && !has_succeeded {
                        violations.push(format!("`{key}` is declared as `{value_type}`, but is null"));
                    }
                }
                Some(_) if value_type.accepts(value) => {}
                Some(_) => violations.push(format!(
                    "`{key}` is declared as `{value_type}`, but is {}",
                    value_type::describe(value)
                )),
            }
        }
        if violations.is_empty() {
            Ok(())
        } else {
            Err(violations.join("; "))
        }
    }

    /// Checks the initial context values of a run.
    ///
    /// # Errors
    /// Returns a message that names all inputs that are missing or have another type, and all values of other declared
    /// keys.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use orchestra_graph::{Contract, Source, load};
    /// let text = r#"digraph { inputs="pr: int, dry_run: bool?"; start -> exit }"#;
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let contract = Contract::from_pipeline(&pipeline);
    /// let error = contract.check_inputs(|_| None).unwrap_err();
    /// assert_eq!(error, "the input `pr` is missing; it is declared as `int`");
    /// let given = BTreeMap::from([("pr", serde_json::Value::from(42))]);
    /// assert!(contract.check_inputs(|key| given.get(key)).is_ok());
    /// ```
    pub fn check_inputs<'v>(&self, value: impl Fn(&str) -> Option<&'v Value>) -> Result<(), String> {
        let mut violations = Vec::new();
        for input in &self.inputs {
            match value(&input.key) {
                None | Some(Value::Null) if input.optional => {}
                None | Some(Value::Null) => violations.push(format!(
                    "the input `{}` is missing; it is declared as `{}`",
                    input.key, input.value_type
                )),
                Some(value) if input.value_type.accepts(value) => {}
                Some(value) => violations.push(format!(
                    "`{}` is declared as `{}`, but is {}",
                    input.key,
                    input.value_type,
                    value_type::describe(value)
                )),
            }
        }
        let outputs = self.types.keys().filter(|key| !self.is_input(key));
        let given = outputs.filter(|key| value(key).is_some());
        violations.extend(given.map(|key| format!("`{key}` is an output of a stage, not an input")));
        if violations.is_empty() {
            Ok(())
        } else {
            Err(violations.join("; "))
        }
    }

    /// Checks that the context of a run that was started with an earlier contract has the inputs that are required only by
    /// this one.
    ///
    /// # Errors
    /// Returns a message that names all inputs that are missing or have another type.
    ///
    /// ```
    /// use orchestra_graph::{Contract, Source, load};
    /// let of = |inputs: &str| {
    ///     let text = format!("digraph {{ inputs={inputs:?}; start -> exit }}");
    ///     Contract::from_pipeline(&load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound"))
    /// };
    /// let (old, new) = (of("pr: int"), of("pr: int, tag: text"));
    /// let error = new.check_new_inputs(&old, |_| None).unwrap_err();
    /// assert_eq!(error, "the input `tag` is missing; it is declared as `text`");
    /// assert!(old.check_new_inputs(&new, |_| None).is_ok());
    /// ```
    pub fn check_new_inputs<'v>(
        &self,
        old: &Contract,
        value: impl Fn(&str) -> Option<&'v Value>,
    ) -> Result<(), String> {
        let required = self.inputs.iter().filter(|input| !input.optional);
        let new = required.filter(|input| !old.requires_input(&input.key));
        let violations = new.filter_map(|input| match value(&input.key).filter(|value| !value.is_null()) {
            None => Some(format!(
                "the input `{}` is missing; it is declared as `{}`",
                input.key, input.value_type
            )),
            Some(value) => mismatch(&input.key, &input.value_type, value),
        });
        no_violations(violations)
    }

    /// Checks that the context values of a run that was started with an earlier contract have the types that changed since.
    ///
    /// # Errors
    /// Returns a message that names all values of another type.
    ///
    /// ```
    /// use orchestra_graph::{Contract, Source, load};
    /// let of = |inputs: &str| {
    ///     let text = format!("digraph {{ inputs={inputs:?}; start -> exit }}");
    ///     Contract::from_pipeline(&load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound"))
    /// };
    /// let (old, new) = (of("pr: text"), of("pr: int"));
    /// let seven = serde_json::Value::from("seven");
    /// let error = new.check_changed_types(&old, |key| (key == "pr").then_some(&seven)).unwrap_err();
    /// assert_eq!(error, "`pr` is declared as `int`, but is the text \"seven\"");
    /// ```
    pub fn check_changed_types<'v>(
        &self,
        old: &Contract,
        value: impl Fn(&str) -> Option<&'v Value>,
    ) -> Result<(), String> {
        let changed = self.keys().filter(|(key, value_type)| {
            let before = old.type_of(key);
            before.is_some_and(|before| before != *value_type)
        });
        no_violations(changed.filter_map(|(key, value_type)| {
            let value = value(key).filter(|value| !value.is_null())?;
            mismatch(key, value_type, value)
        }))
    }

    /// Returns whether a key is declared as an output only, so that a run cannot start with a value of it.
    ///
    /// ```
    /// use orchestra_graph::{Contract, Source, load};
    /// let text = r#"digraph { inputs="pr: int"; start -> a -> exit; a [type=a, outputs="x: int"] }"#;
    /// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
    /// let contract = Contract::from_pipeline(&pipeline);
    /// assert!(contract.is_only_output("x") && !contract.is_only_output("pr") && !contract.is_only_output("y"));
    /// ```
    pub fn is_only_output(&self, key: &str) -> bool {
        self.types.contains_key(key) && !self.is_input(key)
    }

    fn is_input(&self, key: &str) -> bool {
        self.inputs.iter().any(|input| input.key == key)
    }
}

/// Returns the violation of a value that does not have its declared type.
fn mismatch(key: &str, value_type: &ValueType, value: &Value) -> Option<String> {
    let is_violation = !value_type.accepts(value);
    is_violation.then(|| {
        format!(
            "`{key}` is declared as `{value_type}`, but is {}",
            value_type::describe(value)
        )
    })
}

fn no_violations(violations: impl Iterator<Item = String>) -> Result<(), String> {
    let violations: Vec<String> = violations.collect();
    if violations.is_empty() {
        Ok(())
    } else {
        Err(violations.join("; "))
    }
}

/// Iterates over the keys that a text declares, those without a type included.
///
/// ```
/// let keys = orchestra_graph::declared_keys("pr: text, plan, tags: list<text>?");
/// assert!(keys.eq(["pr", "plan", "tags"]));
/// ```
pub fn declared_keys(text: &str) -> impl Iterator<Item = &str> {
    let keys = text
        .split(',')
        .map(|part| part.split(':').next().unwrap_or_default().trim());
    keys.filter(|key| !key.is_empty())
}

/// Returns the key that a condition, a template or a stage means (rule C3).
pub(crate) fn plain_key(key: &str) -> &str {
    let mut key = key;
    while let Some(rest) = key.strip_prefix("context.") {
        key = rest;
    }
    key
}

/// Returns whether a stage that ends with an outcome has not failed, so that it must set its outputs. The stages after it
/// rely on them even if it was skipped.
pub(crate) fn is_success(word: &str) -> bool {
    !matches!(word, "fail" | "retry")
}

/// Returns whether the stages of a kind can set context values. The engine itself completes the others.
pub(crate) fn may_have_outputs(kind: &str) -> bool {
    !matches!(
        kind,
        kind::START
            | kind::EXIT
            | kind::CONDITIONAL
            | kind::PARALLEL
            | kind::FAN_IN
            | kind::WAIT_HUMAN
            | kind::MANAGER_LOOP
    )
}

/// Returns the outputs that a stage declares for any outcome, each key once. Those that not every success must have are
/// optional.
///
/// ```
/// use orchestra_graph::{Source, declared_outputs, load};
/// let text = r#"digraph { start -> a -> exit; a [type=a, outputs="x: int", outputs.fail="code: text"] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let stage = pipeline.stage(pipeline.find("a").expect("declared"));
/// let shown: Vec<String> = declared_outputs(stage).iter().map(ToString::to_string).collect();
/// assert_eq!(shown, ["x: int", "code: text?"]);
/// ```
pub fn declared_outputs(stage: Stage<'_>) -> Vec<Field> {
    outputs_of(stage).map_or_else(Vec::new, |outputs| outputs.all())
}

fn outputs_of(stage: Stage<'_>) -> Option<Outputs> {
    if !may_have_outputs(stage.kind()) {
        return None;
    }
    let mut outputs = Outputs::default();
    for (name, value) in stage.attributes() {
        if name == "outputs" {
            outputs.success = declared_fields(value.text().unwrap_or_default());
        } else if let Some(word) = name.strip_prefix(OUTPUTS_OF) {
            outputs
                .by_word
                .push((word.to_owned(), declared_fields(value.text().unwrap_or_default())));
        }
    }
    (outputs != Outputs::default()).then_some(outputs)
}

/// Returns the valid declarations of a text. Invalid ones are errors of the pipeline, and names without a type are no
/// declarations.
pub(crate) fn declared_fields(text: &str) -> Vec<Field> {
    let entries = parse_declarations(text).into_iter().filter_map(Result::ok);
    entries
        .filter_map(|entry| {
            let Entry { key, declared, .. } = entry;
            let (value_type, optional) = declared?;
            Some(Field {
                key,
                value_type,
                optional,
            })
        })
        .collect()
}
