//! Shapes of requests. A request is reduced to the shape of its operation before any other code uses it. Authorization,
//! quotas, logs and the operation therefore see the same members. A fault reports all problems of a request at once, as
//! in AWS SWF. `operations.rs` defines the shapes.
//!
//! Source: SWF's API reference, for the messages, for the limits (in characters, not bytes), and for the reporting of
//! all problems at once.

use serde_json::{Map, Value};

use super::fault::{FaultKind, SwfFault};

/// Member of a structure.
pub(super) struct Field {
    /// Name of the member.
    pub(super) name: &'static str,
    /// True if the member is required.
    pub(super) is_required: bool,
    /// Shape of the member's value.
    pub(super) shape: &'static Shape,
}

/// Shape of a value.
pub(super) enum Shape {
    /// String of `min` to `max` characters.
    Text {
        /// Minimum number of characters.
        min: usize,
        /// Maximum number of characters.
        max: usize,
        /// Required form of the content.
        form: Form,
    },
    /// String from this set.
    Word(&'static [&'static str]),
    /// Integer.
    Whole {
        /// Minimum value.
        min: i64,
        /// Maximum value.
        max: i64,
    },
    /// Boolean.
    Truth,
    /// Seconds since 1970, with a fraction.
    Instant,
    /// Structure.
    Group(&'static [Field]),
    /// List.
    List {
        /// Shape of the entries.
        of: &'static Shape,
        /// Maximum number of entries that this check permits; `usize::MAX` if the engine checks the number instead.
        max: usize,
        /// Maximum number of entries that are read; further entries are ignored. It is one more than the permitted
        /// number, so that longer lists can be detected and refused.
        read: usize,
    },
    /// Decision. Its fields are its type and the attributes of all types.
    Decision(&'static [Field]),
}

/// Required form of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Any string.
    Any,
    /// Name without control characters, used for workflow ids. According to SWF's documentation, workflow ids have the
    /// form of `Name`. But existing programs use ids of the form `<run id>:<number>` for children, and signal, cancel
    /// and describe the children by these ids.
    Plain,
    /// Name of a new item: without `:`, `/`, `|` and control characters, and not `arn`.
    Name,
    /// Like `Name`, and also without white space at the beginning or end.
    TrimmedName,
    /// Number of seconds.
    Seconds,
    /// Number of seconds above 0: the execution timeout of a run.
    RunSeconds,
    /// Number of seconds above 0, or `NONE`: the timeout of a decision task.
    TurnSecondsOrNone,
    /// Number of seconds from 1 to 900: the timeout of a Lambda function.
    FunctionSeconds,
    /// Number of seconds, or `NONE`.
    SecondsOrNone,
    /// Number of days from 0 to 90, or `NONE`.
    Days,
    /// Signed 32-bit integer.
    Priority,
}

/// Maximum number of problems that a fault describes. The fault also contains the number of all problems. Our choice:
/// enough, because the decisions of a decider usually all have the same problem.
const PROBLEMS_NAMED_MAX: usize = 100;

/// Maximum retention in days. Source: SWF's API reference.
const DAYS_MAX: u32 = 90;

/// Maximum and default timeout of a Lambda function, in seconds. Source: SWF's API reference.
pub(super) const FUNCTION_SECONDS_MAX: u64 = 900;

impl Form {
    /// Returns `None` if the text has this form; otherwise the problem in words.
    fn problem(self, text: &str) -> Option<&'static str> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_zero = is_number && text.bytes().all(|byte| byte == b'0');
        let is_plain = || !text.chars().any(char::is_control);
        let is_name = || is_plain() && !text.contains([':', '/', '|']) && text != "arn";
        match self {
            Self::Plain => (!is_plain()).then_some("Member must not contain control characters"),
            Self::Name | Self::TrimmedName if !is_name() => {
                Some("Member must not contain ':', '/', '|' or control characters, and must not be 'arn'")
            }
            Self::TrimmedName if text.trim() != text => Some("Member must not start or end with whitespace"),
            Self::Any | Self::Name | Self::TrimmedName => None,
            Self::Seconds => (!is_number).then_some("Member must be a number of seconds"),
            // SWF's reference permits 0. Baton refuses it, because a run with this timeout would time out before its
            // decider could answer.
            Self::RunSeconds => (!is_number || is_zero).then_some("Member must be a number of seconds greater than 0"),
            Self::TurnSecondsOrNone => ((!is_number && text != "NONE") || is_zero)
                .then_some("Member must be a number of seconds greater than 0 or 'NONE'"),
            Self::FunctionSeconds => {
                let fits = is_number && text.parse().is_ok_and(|seconds| (1..=FUNCTION_SECONDS_MAX).contains(&seconds));
                (!fits).then_some("Member must be a number of seconds from 1 to 900")
            }
            Self::SecondsOrNone => {
                (!is_number && text != "NONE").then_some("Member must be a number of seconds or 'NONE'")
            }
            Self::Days => {
                let fits = is_number && text.parse().is_ok_and(|days: u32| days <= DAYS_MAX);
                (!fits && text != "NONE").then_some("Member must be a number of days from 0 to 90 or 'NONE'")
            }
            Self::Priority => text.parse::<i32>().is_err().then_some("Member must be a signed 32-bit integer"),
        }
    }
}

/// Checks a request and reduces it to these fields. Members with other names, and members that are `null`, are
/// removed.
///
/// # Errors
///
/// `SerializationException` if a member is of the wrong kind; otherwise `ValidationException` with all problems.
pub(super) fn reduce(fields: &[Field], input: Map<String, Value>) -> Result<Map<String, Value>, SwfFault> {
    let mut checker = Checker { path: String::new(), problems: Vec::new(), found: 0 };
    let reduced = checker.group(fields, input)?;
    let Checker { problems, found, .. } = checker;
    if found == 0 {
        return Ok(reduced);
    }
    let plural = if found == 1 { "error" } else { "errors" };
    let rest = if found > problems.len() { "; ..." } else { "" };
    let message = format!("{found} validation {plural} detected: {}{rest}", problems.join("; "));
    Err(SwfFault::new(FaultKind::Validation, message))
}

/// Check of one request, which collects the problems found.
struct Checker {
    path: String,
    /// First problems found, at most [`PROBLEMS_NAMED_MAX`].
    problems: Vec<String>,
    /// Number of all problems found.
    found: usize,
}

impl Checker {
    fn group(&mut self, fields: &[Field], mut input: Map<String, Value>) -> Result<Map<String, Value>, SwfFault> {
        let mut reduced = Map::new();
        for field in fields {
            let value = self.member(field.name, |checker| match input.remove(field.name) {
                None | Some(Value::Null) => {
                    if field.is_required {
                        checker.problem("null", "Member must not be null");
                    }
                    Ok(None)
                }
                Some(value) => checker.value(field.shape, value).map(Some),
            })?;
            if let Some(value) = value {
                reduced.insert(field.name.to_owned(), value);
            }
        }
        Ok(reduced)
    }

    fn member<T>(&mut self, name: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        let checked = check(self);
        self.path.truncate(length);
        checked
    }

    fn value(&mut self, shape: &Shape, value: Value) -> Result<Value, SwfFault> {
        Ok(match (shape, value) {
            (Shape::Text { min, max, form }, Value::String(text)) => {
                let found = text.chars().count();
                if found < *min {
                    self.text_problem(&text, &format!("Member must have length greater than or equal to {min}"));
                } else if found > *max {
                    self.text_problem(&text, &format!("Member must have length less than or equal to {max}"));
                } else if let Some(problem) = form.problem(&text) {
                    self.text_problem(&text, problem);
                }
                Value::String(text)
            }
            (Shape::Word(words), Value::String(text)) => {
                if !words.contains(&text.as_str()) {
                    let problem = format!("Member must satisfy enum value set: [{}]", words.join(", "));
                    self.text_problem(&text, &problem);
                }
                Value::String(text)
            }
            (Shape::Whole { min, max }, Value::Number(number)) => {
                let number = Value::Number(number);
                let Some(found) = whole(&number) else { return Err(not_convertible(shape, &number)) };
                if found < *min {
                    let problem = format!("Member must have value greater than or equal to {min}");
                    self.text_problem(&found.to_string(), &problem);
                } else if found > *max {
                    let problem = format!("Member must have value less than or equal to {max}");
                    self.text_problem(&found.to_string(), &problem);
                }
                number
            }
            (Shape::Truth, value @ Value::Bool(_)) | (Shape::Instant, value @ Value::Number(_)) => value,
            (Shape::Group(fields), Value::Object(members)) => Value::Object(self.group(fields, members)?),
            (Shape::Decision(fields), Value::Object(members)) => Value::Object(self.decision(fields, members)?),
            (Shape::List { of, max, .. }, Value::Array(entries)) => {
                if entries.len() > *max {
                    let found = format!("{} entries", entries.len());
                    self.text_problem(&found, &format!("Member must have length less than or equal to {max}"));
                }
                let entries = entries.into_iter().enumerate().map(|(index, entry)| {
                    self.member(&format!("{}.member", index + 1), |checker| match entry {
                        Value::Null => {
                            checker.problem("null", "Member must not be null");
                            Ok(Value::Null)
                        }
                        entry => checker.value(of, entry),
                    })
                });
                Value::Array(entries.collect::<Result<_, _>>()?)
            }
            (shape, value) => return Err(not_convertible(shape, &value)),
        })
    }

    /// Checks a decision. Attributes of other types are removed. The attributes of its type must be present if they
    /// have at least one required member.
    fn decision(
        &mut self,
        fields: &'static [Field],
        members: Map<String, Value>,
    ) -> Result<Map<String, Value>, SwfFault> {
        let kind = members.get("decisionType").and_then(Value::as_str).map(str::to_owned);
        let own = fields.iter().filter_map(|field| {
            let is_kind = field.name == "decisionType";
            let is_own = kind.as_deref().is_some_and(|kind| is_attributes_of(field.name, kind));
            let needs_any = matches!(field.shape, Shape::Group(inner) if inner.iter().any(|inner| inner.is_required));
            let is_required = is_kind || needs_any;
            (is_kind || is_own).then_some(Field { name: field.name, is_required, shape: field.shape })
        });
        self.group(&own.collect::<Vec<_>>(), members)
    }

    fn text_problem(&mut self, found: &str, problem: &str) {
        self.problem(&format!("'{found}'"), problem);
    }

    fn problem(&mut self, found: &str, problem: &str) {
        let path = &self.path;
        self.found += 1;
        if self.problems.len() < PROBLEMS_NAMED_MAX {
            self.problems.push(format!("Value {found} at '{path}' failed to satisfy constraint: {problem}"));
        }
    }
}

/// Returns whether a member of a decision contains the attributes of this type, such as
/// `startTimerDecisionAttributes` for `StartTimer`.
pub(super) fn is_attributes_of(member: &str, kind: &str) -> bool {
    let Some(stem) = member.strip_suffix("DecisionAttributes") else { return false };
    stem.len() == kind.len()
        && stem.get(..1).zip(kind.get(..1)).is_some_and(|(a, b)| a.eq_ignore_ascii_case(b))
        && stem.get(1..) == kind.get(1..)
}

/// Returns the value of an integer without fraction or exponent; `None` for any other number. If the value is too
/// large, returns the maximum.
fn whole(number: &Value) -> Option<i64> {
    number.as_i64().or_else(|| number.as_u64().map(|_| i64::MAX))
}

fn not_convertible(shape: &Shape, value: &Value) -> SwfFault {
    let found = match value {
        Value::Null => "NULL_VALUE",
        Value::Bool(true) => "TRUE_VALUE",
        Value::Bool(false) => "FALSE_VALUE",
        Value::Number(_) => "NUMBER_VALUE",
        Value::String(_) => "STRING_VALUE",
        Value::Array(_) => "START_ARRAY",
        Value::Object(_) => "START_OBJECT",
    };
    let expected = match shape {
        Shape::Text { .. } | Shape::Word(_) => "String",
        Shape::Whole { .. } => "Integer",
        Shape::Truth => "Boolean",
        Shape::Instant => "Timestamp",
        Shape::Group(_) | Shape::Decision(_) => "Structure",
        Shape::List { .. } => "List",
    };
    SwfFault::new(FaultKind::Serialization, format!("{found} can not be converted to a {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_at_most_900_seconds() {
        let is_refused = |text: &str| Form::FunctionSeconds.problem(text).is_some();
        assert!(!is_refused("1") && !is_refused("900"));
        assert!(is_refused("0") && is_refused("901") && is_refused("NONE"));
    }
}
