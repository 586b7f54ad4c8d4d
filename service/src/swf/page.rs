//! Paging of requests, and page tokens. A token contains its list, its time of issue and the start of the next page. It
//! is sealed together with the list's scope. It grants no permission and is not secret.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use history::{Duration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::fault::{FaultKind, SwfFault};
use super::words::set;
use engine::Engine;

/// Number of entries on a page if the request has none or 0. Source: SWF's API reference.
pub(super) const PAGE_DEFAULT: usize = 1_000;

/// Prefix of the seals of SWF tokens. No list of the REST API has it.
const WIRE: &str = "swf";

/// Lifetime of a token. Source: 24 hours in the current API model of SWF; older models had 60 seconds.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Paging members of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Paging {
    pub(super) next_page_token: Option<String>,
    pub(super) maximum_page_size: Option<f64>,
    pub(super) reverse_order: Option<bool>,
}

/// Page of a list.
pub(super) struct Paged<T> {
    pub(super) rows: Vec<T>,
    pub(super) next: Option<String>,
}

/// List that a token belongs to. A token is not valid for any other list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    Domains,
    WorkflowTypes,
    ActivityTypes,
    OpenRuns,
    ClosedRuns,
    History,
    Turn,
}

impl PageKind {
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

    /// Returns a token: the list's letter, the time, the place, and a seal of these and the scope, separated by dots.
    pub(super) fn token(self, engine: &Engine, scope: &[&str], place: impl Display) -> String {
        let said = format!("{}.{:x}.{place}", self.letter(), engine.clock().now().as_millis());
        let seal = engine.page_seal(&sealed(&said, scope));
        format!("{said}.{seal}")
    }

    /// Returns the place of a token of this list.
    ///
    /// # Errors
    ///
    /// For a token of another list, for one that this service did not issue, and for an expired one.
    pub(super) fn place<'a>(self, engine: &Engine, scope: &[&str], token: &'a str) -> Result<&'a str, SwfFault> {
        let (said, seal) = token.rsplit_once('.').ok_or_else(invalid_token)?;
        if !engine.is_page_seal(&sealed(said, scope), seal) {
            return Err(invalid_token());
        }
        self.position_from_token(said, engine.clock().now())
    }

    fn position_from_token(self, said: &str, now: Timestamp) -> Result<&str, SwfFault> {
        let mut parts = said.splitn(3, '.');
        let letter = parts.next().filter(|letter| letter.chars().eq([self.letter()]));
        let given_at = parts.next().and_then(|given_at| u64::from_str_radix(given_at, 16).ok());
        let (Some(_), Some(given_at), Some(place)) = (letter, given_at, parts.next()) else {
            return Err(invalid_token());
        };
        if now.since(Timestamp::from_millis(given_at)) > TOKEN_LIFETIME {
            return Err(SwfFault::new(FaultKind::Validation, "Specified token has exceeded its maximum lifetime"));
        }
        Ok(place)
    }
}

/// Returns the parts that a seal covers.
fn sealed<'a>(said: &'a str, scope: &[&'a str]) -> Vec<&'a [u8]> {
    [WIRE, said].iter().chain(scope).map(|part| part.as_bytes()).collect()
}

impl Paging {
    /// Returns the number of entries of a page.
    pub(super) fn size(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be from 0 to 1,000")]
        let size = self.maximum_page_size.unwrap_or_default() as usize;
        if size == 0 { PAGE_DEFAULT } else { size }
    }

    /// Returns whether the order is reversed.
    pub(super) fn is_reverse(&self) -> bool {
        self.reverse_order.unwrap_or_default()
    }

    /// Returns the beginning of the page; `None` for the first one.
    ///
    /// # Errors
    ///
    /// As for [`PageKind::place`].
    pub(super) fn place(&self, of: PageKind, engine: &Engine, scope: &[&str]) -> Result<Option<&str>, SwfFault> {
        let token = self.next_page_token.as_deref().filter(|token| !token.is_empty());
        token.map(|token| of.place(engine, scope, token)).transpose()
    }

    /// Returns a page of rows sorted by name, descending if reversed. The token contains the last name of the previous
    /// page, so that added and removed rows do not shift the pages.
    pub(super) fn page<T>(
        &self,
        of: PageKind,
        (engine, scope): (&Engine, &[&str]),
        mut rows: Vec<T>,
        name: impl Fn(&T) -> &str,
    ) -> Result<Paged<T>, SwfFault> {
        rows.sort_by(|one, other| name(one).cmp(name(other)));
        if self.is_reverse() {
            rows.reverse();
        }
        if let Some(place) = self.place(of, engine, scope)? {
            let last = String::from_utf8(bytes(place)?).map_err(|_| invalid_token())?;
            let is_reverse = self.is_reverse();
            rows.retain(|row| if is_reverse { name(row) < last.as_str() } else { name(row) > last.as_str() });
        }
        let has_more = rows.len() > self.size();
        rows.truncate(self.size());
        let last = rows.last().filter(|_| has_more).map(|row| of.token(engine, scope, text(name(row).as_bytes())));
        Ok(Paged { rows, next: last })
    }
}

/// Encodes bytes for a token.
pub(super) fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes the bytes of a place.
pub(super) fn bytes(place: &str) -> Result<Vec<u8>, SwfFault> {
    URL_SAFE_NO_PAD.decode(place).map_err(|_| invalid_token())
}

/// Returns the fault for a token that this service did not issue.
pub(super) fn invalid_token() -> SwfFault {
    SwfFault::new(FaultKind::Validation, "Invalid token")
}

/// Adds the token of the next page, if there is one.
pub(super) fn with_next(mut body: Value, next: Option<String>) -> Value {
    set(&mut body, "nextPageToken", next);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_for_a_day_in_its_own_list() {
        let given_at = Timestamp::from_millis(1_700_000_000_000);
        let token = format!("h.{:x}.5.a", given_at.as_millis());
        let last = given_at.plus(TOKEN_LIFETIME);
        assert_eq!(PageKind::History.position_from_token(&token, last).unwrap(), "5.a");
        // The clock of another node may be behind.
        assert_eq!(PageKind::History.position_from_token(&token, Timestamp::from_millis(0)).unwrap(), "5.a");
        let message = |place: Result<&str, SwfFault>| place.unwrap_err().message().to_owned();
        let late = Timestamp::from_millis(last.as_millis() + 1);
        assert_eq!(
            message(PageKind::History.position_from_token(&token, late)),
            "Specified token has exceeded its maximum lifetime"
        );
        for (of, token) in [
            (PageKind::Turn, token.as_str()),
            (PageKind::History, ""),
            (PageKind::History, "h"),
            (PageKind::History, "h.1"),
            (PageKind::History, "h.x.5"),
            (PageKind::History, "hh.1.5"),
            (PageKind::History, "5"),
        ] {
            assert_eq!(message(of.position_from_token(token, given_at)), "Invalid token", "{token}");
        }
    }
}
