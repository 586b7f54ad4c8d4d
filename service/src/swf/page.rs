//! Pages: what a request says about them, and the tokens that lead from one to the next. A token says of which list it is,
//! when it was given and where the next page begins; it confers no right and is not secret.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use history::{Duration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::fault::{Fault, FaultKind};
use super::words::set;

/// Entries on a page where the request says nothing or 0. Source: SWF.md §8.3.
pub(super) const PAGE_DEFAULT: usize = 1_000;

/// How long a token leads on. Source: SWF.md §7, the model's 24 hours; older ones said 60 seconds.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

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

/// Which list a token is of. None leads on in another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Domains,
    WorkflowTypes,
    ActivityTypes,
    OpenRuns,
    ClosedRuns,
    History,
    Turn,
}

impl Of {
    fn letter(self) -> char {
        match self {
            Self::Domains => 'd',
            Self::WorkflowTypes => 'w',
            Self::ActivityTypes => 'a',
            Self::OpenRuns => 'o',
            Self::ClosedRuns => 'c',
            Self::History => 'h',
            Self::Turn => 't',
        }
    }

    /// A token: the list's letter, the instant and the place, with a dot between them.
    pub(super) fn token(self, now: Timestamp, place: impl Display) -> String {
        format!("{}.{:x}.{place}", self.letter(), now.as_millis())
    }

    /// The place that a token of this list leads to.
    ///
    /// # Errors
    ///
    /// For one that is none of this list's, and for one that is too old.
    pub(super) fn place(self, token: &str, now: Timestamp) -> Result<&str, Fault> {
        let mut parts = token.splitn(3, '.');
        let letter = parts.next().filter(|letter| letter.chars().eq([self.letter()]));
        let given_at = parts.next().and_then(|given_at| u64::from_str_radix(given_at, 16).ok());
        let (Some(_), Some(given_at), Some(place)) = (letter, given_at, parts.next()) else {
            return Err(invalid_token());
        };
        if now.since(Timestamp::from_millis(given_at)) > TOKEN_LIFETIME {
            return Err(Fault::new(FaultKind::Validation, "Specified token has exceeded its maximum lifetime"));
        }
        Ok(place)
    }
}

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

    /// Where the page begins; `None` for the first one.
    ///
    /// # Errors
    ///
    /// As for [`Of::place`].
    pub(super) fn place(&self, of: Of, now: Timestamp) -> Result<Option<&str>, Fault> {
        let token = self.next_page_token.as_deref().filter(|token| !token.is_empty());
        token.map(|token| of.place(token, now)).transpose()
    }

    /// The page of what is sorted by name, ascending unless reversed. The token has the last name of the page before, so
    /// that what comes and goes meanwhile moves nothing.
    pub(super) fn page<T>(
        &self,
        of: Of,
        now: Timestamp,
        mut rows: Vec<T>,
        name: impl Fn(&T) -> &str,
    ) -> Result<Paged<T>, Fault> {
        rows.sort_by(|one, other| name(one).cmp(name(other)));
        if self.is_reverse() {
            rows.reverse();
        }
        if let Some(place) = self.place(of, now)? {
            let last = String::from_utf8(bytes(place)?).map_err(|_| invalid_token())?;
            let is_reverse = self.is_reverse();
            rows.retain(|row| if is_reverse { name(row) < last.as_str() } else { name(row) > last.as_str() });
        }
        let has_more = rows.len() > self.size();
        rows.truncate(self.size());
        let last = rows.last().filter(|_| has_more).map(|row| of.token(now, text(name(row).as_bytes())));
        Ok(Paged { rows, next: last })
    }
}

/// Bytes as they stand in a token.
pub(super) fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes of a place.
pub(super) fn bytes(place: &str) -> Result<Vec<u8>, Fault> {
    URL_SAFE_NO_PAD.decode(place).map_err(|_| invalid_token())
}

/// A token that this service never gave.
pub(super) fn invalid_token() -> Fault {
    Fault::new(FaultKind::Validation, "Invalid token")
}

/// The token of the next page, where there is one.
pub(super) fn with_next(mut body: Value, next: Option<String>) -> Value {
    set(&mut body, "nextPageToken", next);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_on_for_a_day_in_its_own_list_and_no_longer() {
        let given_at = Timestamp::from_millis(1_700_000_000_000);
        let token = Of::History.token(given_at, "5.a");
        let last = given_at.plus(TOKEN_LIFETIME);
        assert_eq!(Of::History.place(&token, last).unwrap(), "5.a");
        // Another node's clock may be behind.
        assert_eq!(Of::History.place(&token, Timestamp::from_millis(0)).unwrap(), "5.a");
        let message = |place: Result<&str, Fault>| place.unwrap_err().message().to_owned();
        let late = Timestamp::from_millis(last.as_millis() + 1);
        assert_eq!(message(Of::History.place(&token, late)), "Specified token has exceeded its maximum lifetime");
        for (of, token) in [
            (Of::Turn, token.as_str()),
            (Of::History, ""),
            (Of::History, "h"),
            (Of::History, "h.1"),
            (Of::History, "h.x.5"),
            (Of::History, "hh.1.5"),
            (Of::History, "5"),
        ] {
            assert_eq!(message(of.place(token, given_at)), "Invalid token", "{token}");
        }
    }
}
