//! Who may do what: credentials, and the levels that calls need. One table has every call of every wire with its level; it is
//! what is enforced, what `docs/access.md` is made of, and what the tests go through.

mod caller;
mod credential;
mod denials;
mod level;
mod page;
mod table;

pub(crate) use caller::Caller;
pub(crate) use credential::Holder;
pub use credential::{Credential, Credentials};
pub(crate) use denials::{Denials, Denied};
pub use level::Level;
pub(crate) use level::{Need, Subject};
pub use page::page;
pub use table::{Call, Wire, table};
