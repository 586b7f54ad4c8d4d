//! Page tokens. A token is sealed: it contains a position and a keyed hash. It is valid only for one kind of list of
//! one domain.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use store::PageToken;

use crate::http::Refused;
use engine::{Engine, Refusal};

/// Kind of list that a page token belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) enum ListKind {
    Runs,
    Schedules,
    Batches,
    TaskLists,
    LateRuns,
}

impl ListKind {
    fn word(self) -> &'static [u8] {
        match self {
            Self::Runs => b"rest/runs",
            Self::Schedules => b"rest/schedules",
            Self::Batches => b"rest/batches",
            Self::TaskLists => b"rest/task-lists",
            Self::LateRuns => b"rest/late-runs",
        }
    }

    /// Returns a token for a position in this kind of list of the domain.
    pub(super) fn token(self, engine: &Engine, domain: &str, place: &PageToken) -> String {
        let seal = engine.page_seal(&[self.word(), domain.as_bytes(), &place.0]);
        format!("{}.{seal}", URL_SAFE_NO_PAD.encode(&place.0))
    }

    /// Returns the position that a token contains.
    ///
    /// # Errors
    ///
    /// If this service did not issue the token for this kind of list of the domain.
    pub(super) fn place(self, engine: &Engine, domain: &str, token: &str) -> Result<PageToken, Refused> {
        let not_ours = || Refused::BadQuery("`page` was not issued by this service".to_owned());
        let (place, seal) = token.split_once('.').unwrap_or((token, ""));
        let place = URL_SAFE_NO_PAD.decode(place).map_err(|_| not_ours())?;
        if engine.is_page_seal(&[self.word(), domain.as_bytes(), &place], seal) {
            Ok(PageToken(place))
        } else {
            let why = "it was changed, or belongs to another list".to_owned();
            Err(Refusal::BadPage { why }.into())
        }
    }
}
