use crate::faults::Fault;

/// The tokens that an answer says it used, as providers of the format count them.
///
/// ```
/// use orchestra_model_server_tests::Usage;
/// let usage = Usage { input: 100, output: 20, cached: 80, cache_write: 0 };
/// assert!(usage.cached < usage.input);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// All that went in, what came from the cache and went to it included.
    pub input: u64,
    /// All that came out.
    pub output: u64,
    /// Read from the cache.
    pub cached: u64,
    /// Written to the cache.
    pub cache_write: u64,
}

/// A tool that the scripted model calls.
///
/// ```
/// use orchestra_model_server_tests::AnswerCall;
/// let call = AnswerCall { id: "call_1".into(), name: "read_file".into(), arguments: "{}".into() };
/// assert_eq!(call.arguments, "{}");
/// ```
#[derive(Clone, Debug)]
pub struct AnswerCall {
    /// The name of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments as the model writes them; JSON or not.
    pub arguments: String,
}

/// One answer of the scripted model, in whichever format it is asked.
///
/// ```
/// use orchestra_model_server_tests::Answer;
/// let answer = Answer::text("I look into it.").and_call("read_file", r#"{"path": "a.txt"}"#).tokens(100, 20);
/// assert_eq!(answer.calls.len(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// The tools that it calls.
    pub calls: Vec<AnswerCall>,
    /// What it used; `None` does not say.
    pub usage: Option<Usage>,
    /// Signed reasoning that the provider wants back, where the format has it.
    pub signature: Option<String>,
    /// The stop reason in the words of the format; by default the one that fits.
    pub stop: Option<String>,
    /// How it breaks.
    pub fault: Option<Fault>,
}

impl Answer {
    /// An answer in words, which says that it used 10 tokens in and 5 out.
    pub fn text(text: impl Into<String>) -> Answer {
        Answer {
            text: text.into(),
            calls: Vec::new(),
            usage: Some(Usage {
                input: 10,
                output: 5,
                cached: 0,
                cache_write: 0,
            }),
            signature: None,
            stop: None,
            fault: None,
        }
    }

    /// An answer that calls one tool.
    pub fn call(name: impl Into<String>, arguments: impl Into<String>) -> Answer {
        Answer::text("").and_call(name, arguments)
    }

    /// No answer, but a fault.
    pub fn fault(fault: Fault) -> Answer {
        Answer::text("All is well with the patient today.").breaking(fault)
    }

    /// Calls one more tool. The calls of an answer are named `call_1`, `call_2` and so on.
    #[must_use]
    pub fn and_call(mut self, name: impl Into<String>, arguments: impl Into<String>) -> Answer {
        self.calls.push(AnswerCall {
            id: format!("call_{}", self.calls.len() + 1),
            name: name.into(),
            arguments: arguments.into(),
        });
        self
    }

    /// Says how many tokens went in and out.
    #[must_use]
    pub fn tokens(self, input: u64, output: u64) -> Answer {
        self.usage(Usage {
            input,
            output,
            cached: 0,
            cache_write: 0,
        })
    }

    /// Says what was used.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Answer {
        self.usage = Some(usage);
        self
    }

    /// Does not say what was used.
    #[must_use]
    pub fn without_usage(mut self) -> Answer {
        self.usage = None;
        self
    }

    /// Adds signed reasoning.
    #[must_use]
    pub fn signed(mut self, signature: impl Into<String>) -> Answer {
        self.signature = Some(signature.into());
        self
    }

    /// Stops for a reason of the format, such as `max_tokens`.
    #[must_use]
    pub fn stopping(mut self, reason: impl Into<String>) -> Answer {
        self.stop = Some(reason.into());
        self
    }

    /// Breaks on the way.
    #[must_use]
    pub fn breaking(mut self, fault: Fault) -> Answer {
        self.fault = Some(fault);
        self
    }
}
