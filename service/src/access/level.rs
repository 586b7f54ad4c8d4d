//! What a call needs of a credential.

use super::Holder;

macro_rules! levels {
    ($( $(#[doc = $doc:literal])+ $name:ident $word:literal $who:literal; )+) => {
        /// What a call needs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Level { $( $(#[doc = $doc])+ $name, )+ }

        impl Level {
            /// Every level.
            pub const ALL: &'static [Self] = &[$( Self::$name, )+];

            /// Its name in the docs.
            pub fn word(self) -> &'static str {
                match self { $( Self::$name => $word, )+ }
            }

            /// Whose credential meets it, in the docs' words.
            pub fn who(self) -> &'static str {
                match self { $( Self::$name => $who, )+ }
            }
        }
    };
}

levels! {
    /// Nothing.
    Nothing "nothing" "none needed";
    /// Any credential; the answer has only what that one has to do with.
    Known "any" "any; the response has only the domains that the credential names";
    /// One that has something to do with the domain.
    Related "related" "any that names the domain, or a list in it, at any level";
    /// One that may read the metrics.
    Metrics "metrics" "`metrics = true`";
    /// One for readers of the domain.
    Reader "reader" "`readers`, `readers-without-payloads` (without payloads), `applications`, \
        `operators`: of the domain";
    /// One for applications of the domain.
    Application "application" "`applications`: of the domain";
    /// One for operators of the domain.
    DomainOperator "domain operator" "`operators`: of the domain";
    /// One for deciders of the task list.
    Decider "decider" "`deciders`: of the task list, or of the token's list";
    /// One for runners of the task list.
    Runner "runner" "`runners`: of the task list, or of the token's list";
    /// An operator's.
    Operator "operator" "`operator = true` only";
    /// What nodes over one store show each other.
    Node "node" "another node over the same store; no credential, whatever its level";
}

/// What a request is about.
pub(crate) trait Subject {
    /// Why it cannot be told.
    type Refusal;

    /// The domain.
    fn domain(&self) -> Result<String, Self::Refusal>;
    /// The domain and the list of a decider.
    fn of_decider(&self) -> Result<(String, String), Self::Refusal>;
    /// The domain and the list of a runner.
    fn of_runner(&self) -> Result<(String, String), Self::Refusal>;
}

/// What one request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// Any credential.
    Known,
    /// One that has something to do with this domain.
    Related(String),
    /// One for metrics.
    Metrics,
    /// One for readers of this domain.
    Reader(String),
    /// One for applications of this domain.
    Application(String),
    /// One for operators of this domain.
    DomainOperator(String),
    /// One for deciders of this list.
    Decider(String, String),
    /// One for runners of this list.
    Runner(String, String),
    /// An operator's.
    Operator,
    /// Another node.
    Node,
}

impl Need {
    /// The domain that it is about.
    pub(crate) fn domain(&self) -> Option<&str> {
        match self {
            Self::Nothing | Self::Known | Self::Metrics | Self::Operator | Self::Node => None,
            Self::Related(domain)
            | Self::Reader(domain)
            | Self::Application(domain)
            | Self::DomainOperator(domain)
            | Self::Decider(domain, _)
            | Self::Runner(domain, _) => Some(domain),
        }
    }
}

impl Level {
    /// What a request about this needs.
    pub(crate) fn need<S: Subject>(self, subject: &S) -> Result<Need, S::Refusal> {
        Ok(match self {
            Self::Nothing => Need::Nothing,
            Self::Known => Need::Known,
            Self::Related => Need::Related(subject.domain()?),
            Self::Metrics => Need::Metrics,
            Self::Reader => Need::Reader(subject.domain()?),
            Self::Application => Need::Application(subject.domain()?),
            Self::DomainOperator => Need::DomainOperator(subject.domain()?),
            Self::Decider => {
                let (domain, list) = subject.of_decider()?;
                Need::Decider(domain, list)
            }
            Self::Runner => {
                let (domain, list) = subject.of_runner()?;
                Need::Runner(domain, list)
            }
            Self::Operator => Need::Operator,
            Self::Node => Need::Node,
        })
    }
}

impl Need {
    /// Whether this credential will do.
    pub(crate) fn is_met_by(&self, holder: &Holder) -> bool {
        match self {
            Self::Nothing | Self::Known => true,
            // No secret of a person's or a program's is a node's.
            Self::Node => false,
            _ if holder.is_operator => true,
            Self::Operator => false,
            Self::Metrics => holder.metrics,
            Self::Related(domain) => holder.has_to_do_with(domain),
            Self::Reader(domain) => holder.reads(domain),
            Self::Application(domain) => holder.applications.has(domain),
            Self::DomainOperator(domain) => holder.operators.has(domain),
            Self::Decider(domain, list) => holder.deciders.iter().any(|it| it.lists.has(domain, list)),
            Self::Runner(domain, list) => holder.runners.iter().any(|lists| lists.has(domain, list)),
        }
    }

    /// What one may not do without it.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Nothing | Self::Known => "do this".to_owned(),
            Self::Node => "do what nodes do".to_owned(),
            Self::Operator => "do what operators do".to_owned(),
            Self::Metrics => "read metrics".to_owned(),
            Self::Related(domain) => format!("look at domain `{domain}`"),
            Self::Reader(domain) => format!("read workflows of domain `{domain}`"),
            Self::Application(domain) => format!("use workflows of domain `{domain}`"),
            Self::DomainOperator(domain) => format!("do what operators of domain `{domain}` do"),
            Self::Decider(domain, list) => format!("take or answer turns of list `{list}` in domain `{domain}`"),
            Self::Runner(domain, list) => format!("take or answer activities of list `{list}` in domain `{domain}`"),
        }
    }
}
