//! Permissions: credentials, token issuers, and the level that each call needs. One table lists every call of every
//! protocol with its level. The service enforces the table, `docs/access.md` is generated from it, and tests check
//! each of its rows.

mod caller;
mod certificate;
mod credential;
mod credentials;
mod denials;
mod hex;
mod issuer;
mod jwks;
mod level;
mod page;
mod pass;
mod remote;
mod secret;
mod session;
mod set;
mod table;
mod token;

pub(crate) use caller::Caller;
pub use credential::Credential;
pub(crate) use credential::{Holder, HolderLevels};
pub(crate) use credentials::{AuthenticationError, CredentialKind, Principal};
pub use credentials::{Credentials, Expiring, PREFIX_DIGITS};
pub(crate) use denials::{Denials, Denied};
pub use issuer::{ClaimRule, ISSUER_NAME_BYTES_MAX, ISSUERS_MAX, Issuer, RULES_MAX};
pub use jwks::{KEYS_BYTES_MAX, KEYS_MAX};
pub use level::Level;
pub(crate) use level::{Need, Subject};
pub use page::page;
pub(crate) use pass::Pass;
pub use pass::REVOKED_WAIT;
pub use remote::{FETCH_WAIT, KEYS_AGE_MAX, KEYS_REFETCH_WAIT};
pub use secret::{AccessKey, EXPIRY_WARNING, Moment, SECRET_CHARS_MIN, SECRETS_MAX, Secret};
pub(crate) use session::Session;
pub use session::{SESSION_AGE_MAX, SESSION_IDLE_MAX, SESSIONS_MAX, SESSIONS_OF_ONE_MAX};
pub use set::Stanzas;
pub use table::{CallAccess, CallEffect, Wire};
pub use token::{LEEWAY, TOKEN_BYTES_MAX, VERIFIED_MAX};
