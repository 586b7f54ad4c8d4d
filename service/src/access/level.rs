//! Permission levels of calls.

use super::Holder;

macro_rules! levels {
    ($( $(#[doc = $doc:literal])+ $name:ident $word:literal $who:literal; )+) => {
        /// Level of permission that a call needs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Level { $( $(#[doc = $doc])+ $name, )+ }

        impl Level {
            /// All levels.
            pub const ALL: &'static [Self] = &[$( Self::$name, )+];

            /// Returns the level's name in the documentation.
            pub fn word(self) -> &'static str {
                match self { $( Self::$name => $word, )+ }
            }

            /// Returns a description of the credentials that have this level, for the documentation.
            pub fn who(self) -> &'static str {
                match self { $( Self::$name => $who, )+ }
            }
        }
    };
}

levels! {
    /// No credential is needed.
    Nothing "nothing" "no credential is needed";
    /// Any credential. The response contains only domains that the credential names.
    Known "any" "any credential; the response has only the domains for which the credential has a level";
    /// Any credential that names the domain.
    Related "related" "any credential that has a level for the domain, or for a task list in it";
    /// Permission to read the metrics.
    Metrics "metrics" "`metrics = true`";
    /// Reader permission for the domain.
    Reader "reader" "`readers`, `readers-without-payloads` (without payloads), `applications` or `operators` \
        for the domain";
    /// Application permission for the domain.
    Application "application" "`applications` for the domain";
    /// Application permission for the domain, and decider permission for the task list.
    ActivityStarter "application and decider" "`applications` for the domain, and `deciders` for the task list";
    /// Operator permission for the domain.
    DomainOperator "domain operator" "`operators` for the domain";
    /// Decider permission for the task list.
    Decider "decider" "`deciders` for the task list in the request, or for the list of the token's task";
    /// Runner permission for the task list.
    Runner "runner" "`runners` for the task list in the request, or for the list of the token's task";
    /// Operator permission for the whole service.
    Operator "operator" "`operator = true` only";
    /// Call from another node over the same store.
    Node "node" "no credential; only another node that shares the store";
}

/// Request whose permission is checked. It names the domain or task list to which the permission applies.
pub(crate) trait Subject {
    /// Error if the request names no valid domain or task list.
    type Refusal;

    /// Returns the domain that the request names.
    fn domain(&self) -> Result<String, Self::Refusal>;
    /// Returns the domain and the task list of a decider's request.
    fn of_decider(&self) -> Result<(String, String), Self::Refusal>;
    /// Returns the domain and the task list of a runner's request.
    fn of_runner(&self) -> Result<(String, String), Self::Refusal>;
}

/// Permission that one request needs: a level, and the domain or task list to which it applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// No credential is needed.
    Nothing,
    /// Any credential.
    Known,
    /// Any credential that names this domain.
    Related(String),
    /// Permission to read the metrics.
    Metrics,
    /// Reader permission for this domain.
    Reader(String),
    /// Application permission for this domain.
    Application(String),
    /// Application permission for this domain, and decider permission for this task list.
    ActivityStarter(String, String),
    /// Operator permission for this domain.
    DomainOperator(String),
    /// Decider permission for this task list.
    Decider(String, String),
    /// Runner permission for this task list.
    Runner(String, String),
    /// Operator permission for the whole service.
    Operator,
    /// Call from another node over the same store.
    Node,
}

impl Need {
    /// Returns the domain to which the permission applies, if any.
    pub(crate) fn domain(&self) -> Option<&str> {
        match self {
            Self::Nothing | Self::Known | Self::Metrics | Self::Operator | Self::Node => None,
            Self::Related(domain)
            | Self::Reader(domain)
            | Self::Application(domain)
            | Self::ActivityStarter(domain, _)
            | Self::DomainOperator(domain)
            | Self::Decider(domain, _)
            | Self::Runner(domain, _) => Some(domain),
        }
    }
}

impl Level {
    /// Returns the permission that a call of this level needs for this subject.
    pub(crate) fn need<S: Subject>(self, subject: &S) -> Result<Need, S::Refusal> {
        Ok(match self {
            Self::Nothing => Need::Nothing,
            Self::Known => Need::Known,
            Self::Related => Need::Related(subject.domain()?),
            Self::Metrics => Need::Metrics,
            Self::Reader => Need::Reader(subject.domain()?),
            Self::Application => Need::Application(subject.domain()?),
            Self::ActivityStarter => {
                let (domain, list) = subject.of_decider()?;
                Need::ActivityStarter(domain, list)
            }
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
    /// Returns whether the permissions of this credential suffice.
    pub(crate) fn is_met_by(&self, holder: &Holder) -> bool {
        match self {
            Self::Nothing | Self::Known => true,
            // Nodes authenticate with a separate secret, never with a credential.
            Self::Node => false,
            _ if holder.is_operator => true,
            Self::Operator => false,
            Self::Metrics => holder.metrics,
            Self::Related(domain) => holder.has_level_in(domain),
            Self::Reader(domain) => holder.reads(domain),
            Self::Application(domain) => holder.applications.has(domain),
            Self::ActivityStarter(domain, list) => holder.applications.has(domain) && holder.decides(domain, list),
            Self::DomainOperator(domain) => holder.operators.has(domain),
            Self::Decider(domain, list) => holder.decides(domain, list),
            Self::Runner(domain, list) => holder.runners.iter().any(|lists| lists.has(domain, list)),
        }
    }

    /// Describes the permission in words, for error messages.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Nothing | Self::Known => "do this".to_owned(),
            Self::Node => "act as a node".to_owned(),
            Self::Operator => "operate the service".to_owned(),
            Self::Metrics => "read metrics".to_owned(),
            Self::Related(domain) => format!("read domain `{domain}`"),
            Self::Reader(domain) => format!("read workflows of domain `{domain}`"),
            Self::Application(domain) => format!("use workflows of domain `{domain}`"),
            Self::ActivityStarter(domain, list) => format!("start activities on list `{list}` in domain `{domain}`"),
            Self::DomainOperator(domain) => format!("operate domain `{domain}`"),
            Self::Decider(domain, list) => format!("take or answer turns of list `{list}` in domain `{domain}`"),
            Self::Runner(domain, list) => format!("take or answer activities of list `{list}` in domain `{domain}`"),
        }
    }
}
