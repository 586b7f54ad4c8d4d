//! Who asks, as the handlers see it: what the answer may show.

use std::sync::Arc;

use history::{Author, CallerName, Event};

use super::{Holder, Need};

/// Whoever sent a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller(Option<Arc<Holder>>);

impl Caller {
    /// Where there are no credentials, so that nobody is asked; and where a call is for everybody.
    pub(crate) fn anybody() -> Self {
        Self(None)
    }

    pub(crate) fn holding(holder: Arc<Holder>) -> Self {
        Self(Some(holder))
    }

    fn meets(&self, need: &Need) -> bool {
        self.0.as_ref().is_none_or(|holder| need.is_met_by(holder))
    }

    /// Whether the domain is any business of theirs.
    pub(crate) fn knows(&self, domain: &str) -> bool {
        self.meets(&Need::Related(domain.to_owned()))
    }

    /// Whether they may look at the runs of the domain.
    pub(crate) fn may_look(&self, domain: &str) -> bool {
        self.meets(&Need::Reader(domain.to_owned()))
    }

    /// The name of their credential; `None` where nobody is asked for one.
    pub(crate) fn by(&self) -> Option<CallerName> {
        self.0.as_ref().map(|holder| holder.by().clone())
    }

    /// Who gives their commands.
    pub(crate) fn author(&self) -> Author {
        Author::named(self.by())
    }

    /// Who answers turns of this list: the name of their credential, and what it may decide there.
    pub(crate) fn decider(&self, domain: &str, list: &str) -> Author {
        let may = self.0.as_ref().and_then(|holder| holder.may_decide(domain, list));
        Author { may, ..self.author() }
    }

    /// Whether payloads of the domain are shown to them.
    pub(crate) fn sees_payloads(&self, domain: &str) -> bool {
        self.0.as_ref().is_none_or(|holder| holder.is_shown_payloads(domain))
    }

    /// What they may see of events of the domain's runs.
    pub(crate) fn shown(&self, domain: &str, events: &mut [Event]) {
        if !self.sees_payloads(domain) {
            for event in events {
                event.kind.redact_payloads();
            }
        }
    }

    /// What they may see of a payload of the domain's.
    pub(crate) fn payload<T>(&self, domain: &str, payload: Option<T>) -> Option<T> {
        payload.filter(|_| self.sees_payloads(domain))
    }
}
