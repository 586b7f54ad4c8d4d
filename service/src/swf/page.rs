//! Pages of what is listed by name, and the tokens that lead from one to the next.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::fault::{Fault, FaultKind};

/// Entries on a page where the request says nothing or 0. Source: SWF.md §8.3.
pub(super) const PAGE_DEFAULT: usize = 1_000;

/// What a request says about pages.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Paging {
    pub(super) next_page_token: Option<String>,
    pub(super) maximum_page_size: Option<f64>,
    pub(super) reverse_order: Option<bool>,
}

/// A page.
pub(super) struct Paged<T> {
    pub(super) rows: Vec<T>,
    pub(super) next: Option<String>,
}

/// What a token has in front, so that one of another list is known.
const BY_NAME: &[u8] = b"n:";

impl Paging {
    /// How many entries a page has.
    pub(super) fn size(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be from 0 to 1,000")]
        let size = self.maximum_page_size.unwrap_or_default() as usize;
        if size == 0 { PAGE_DEFAULT } else { size }
    }

    /// Newest or last first.
    pub(super) fn is_reverse(&self) -> bool {
        self.reverse_order.unwrap_or_default()
    }

    /// The page of what is sorted by name, ascending unless reversed. The token has the last name of the page before, so
    /// that what comes and goes meanwhile moves nothing.
    pub(super) fn page<T>(&self, mut rows: Vec<T>, name: impl Fn(&T) -> &str) -> Result<Paged<T>, Fault> {
        rows.sort_by(|one, other| name(one).cmp(name(other)));
        if self.is_reverse() {
            rows.reverse();
        }
        if let Some(token) = self.next_page_token.as_deref().filter(|token| !token.is_empty()) {
            let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| invalid_token())?;
            let last = bytes.strip_prefix(BY_NAME).and_then(|last| std::str::from_utf8(last).ok());
            let last = last.ok_or_else(invalid_token)?.to_owned();
            let is_reverse = self.is_reverse();
            rows.retain(|row| if is_reverse { name(row) < last.as_str() } else { name(row) > last.as_str() });
        }
        let has_more = rows.len() > self.size();
        rows.truncate(self.size());
        let last = rows.last().filter(|_| has_more).map(|row| [BY_NAME, name(row).as_bytes()].concat());
        Ok(Paged { rows, next: last.map(|last| URL_SAFE_NO_PAD.encode(last)) })
    }
}

/// A token that this service never gave.
pub(super) fn invalid_token() -> Fault {
    Fault::new(FaultKind::Validation, "Invalid token")
}
