//! The authenticated caller, as handlers see it: its name, and the domains and payloads that responses to this caller
//! may contain.

use std::sync::Arc;

use history::{Author, CallerName, Event};

use super::{Holder, Need};

/// Sender of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller(Option<Arc<Holder>>);

impl Caller {
    /// Returns a caller without a credential. Used if no credentials are configured, or if the call needs none.
    pub(crate) fn anonymous() -> Self {
        Self(None)
    }

    pub(crate) fn holding(holder: Arc<Holder>) -> Self {
        Self(Some(holder))
    }

    fn meets(&self, need: &Need) -> bool {
        self.0.as_ref().is_none_or(|holder| need.is_met_by(holder))
    }

    /// Returns whether any permission of the caller names the domain.
    pub(crate) fn knows(&self, domain: &str) -> bool {
        self.meets(&Need::Related(domain.to_owned()))
    }

    /// Returns whether the caller may read the runs of the domain.
    pub(crate) fn may_read(&self, domain: &str) -> bool {
        self.meets(&Need::Reader(domain.to_owned()))
    }

    /// Returns whether the caller may use the runs of the domain as an application.
    pub(crate) fn may_use(&self, domain: &str) -> bool {
        self.meets(&Need::Application(domain.to_owned()))
    }

    /// Returns the name of the caller's credential; `None` if callers are not authenticated.
    pub(crate) fn by(&self) -> Option<CallerName> {
        self.0.as_ref().map(|holder| holder.by().clone())
    }

    /// Returns the author of the caller's commands.
    pub(crate) fn author(&self) -> Author {
        Author::named(self.by())
    }

    /// Returns the author to be recorded for answers to turns of this task list: the name of the caller's credential,
    /// and the decisions that the credential permits.
    pub(crate) fn decider(&self, domain: &str, list: &str) -> Author {
        let may = self.0.as_ref().and_then(|holder| holder.may_decide(domain, list));
        Author { may, ..self.author() }
    }

    /// Returns whether the decisions that the caller may make in turns of this task list include an activity of this
    /// type on the same list.
    pub(crate) fn may_schedule(&self, domain: &str, list: &str, activity_type: &str) -> bool {
        let may = self.decider(domain, list).may;
        may.is_none_or(|may| may.iter().any(|may| may.allows_activity(activity_type, list)))
    }

    /// Returns whether the caller may see payloads of the domain.
    pub(crate) fn sees_payloads(&self, domain: &str) -> bool {
        self.0.as_ref().is_none_or(|holder| holder.is_shown_payloads(domain))
    }

    /// Redacts payloads in events of the domain's runs, if the caller may not see them.
    pub(crate) fn shown(&self, domain: &str, events: &mut [Event]) {
        if !self.sees_payloads(domain) {
            for event in events {
                event.kind.redact_payloads();
            }
        }
    }

    /// Returns a payload of the domain, if the caller may see it.
    pub(crate) fn payload<T>(&self, domain: &str, payload: Option<T>) -> Option<T> {
        payload.filter(|_| self.sees_payloads(domain))
    }
}
