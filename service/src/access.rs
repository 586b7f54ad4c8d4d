//! Who may do what: credentials, and the levels that calls need. One table has every call of every wire with its level; it is
//! what is enforced, what `docs/access.md` is made of, and what the tests go through.

mod caller;
mod certificate;
mod credential;
mod credentials;
mod denials;
mod level;
mod page;
mod pass;
mod secret;
mod table;

pub(crate) use caller::Caller;
pub use credential::Credential;
pub(crate) use credential::Holder;
pub(crate) use credentials::{Admitted, NoEntry};
pub use credentials::{Credentials, Expiring, PREFIX_DIGITS};
pub(crate) use denials::{Denials, Denied};
pub use level::Level;
pub(crate) use level::{Need, Subject};
pub use page::page;
pub(crate) use pass::Pass;
pub use pass::REVOKED_WAIT;
pub use secret::{AccessKey, EXPIRY_WARNING, Moment, SECRETS_MAX, Secret};
pub use table::{Call, Wire, table};
