//! Paging of requests, and page tokens. A token contains the kind of list, the time of issue, and the position where
//! the next page begins. Its seal (a keyed hash) protects these and the scope of the list, such as the domain, from
//! changes. A token grants no permission and is not secret.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use history::{Duration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::fault::{FaultKind, SwfFault};
use super::words::set;
use engine::Engine;

/// Number of entries per page if the page size in the request is absent or 0. Source: SWF's API reference.
pub(super) const PAGE_DEFAULT: usize = 1_000;

/// First part of the sealed data of SWF tokens. The sealed data of REST tokens begins differently, so that neither kind
/// of token is valid as the other kind.
const WIRE: &str = "swf";

/// Lifetime of a token. Source: SWF's current API model has 24 hours; older models had 60 seconds.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Members of a request that concern paging.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Paging {
    pub(super) next_page_token: Option<String>,
    pub(super) maximum_page_size: Option<f64>,
    pub(super) reverse_order: Option<bool>,
}

/// Page of a list, with the position where the next page begins. The position is `None` if this is the last page.
pub(super) struct Paged<T> {
    pub(super) rows: Vec<T>,
    pub(super) next: Option<String>,
}

/// Kind of list that a token belongs to. A token is not valid for lists of other kinds.
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

    /// Returns a token for a position. It consists of the letter of the kind, the time of issue, the position, and the
    /// seal, separated by dots. The seal protects the first three parts and the scope of the list.
    pub(super) fn token(self, engine: &Engine, scope: &[&str], place: impl Display) -> String {
        let said = format!("{}.{:x}.{place}", self.letter(), engine.clock().now().as_millis());
        let seal = engine.page_seal(&sealed(&said, scope));
        format!("{said}.{seal}")
    }

    /// Returns the position that a token contains.
    ///
    /// # Errors
    ///
    /// If the token belongs to another list, was not issued by this service, or has expired.
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

/// Returns the parts that the seal of a token protects.
fn sealed<'a>(said: &'a str, scope: &[&'a str]) -> Vec<&'a [u8]> {
    [WIRE, said].iter().chain(scope).map(|part| part.as_bytes()).collect()
}

impl Paging {
    /// Returns the maximum number of entries on the requested page.
    pub(super) fn size(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be from 0 to 1,000")]
        let size = self.maximum_page_size.unwrap_or_default() as usize;
        if size == 0 { PAGE_DEFAULT } else { size }
    }

    /// Returns whether the request reverses the order.
    pub(super) fn is_reverse(&self) -> bool {
        self.reverse_order.unwrap_or_default()
    }

    /// Returns the position where the requested page begins; `None` for the first page.
    ///
    /// # Errors
    ///
    /// The errors of [`PageKind::place`].
    pub(super) fn place(&self, of: PageKind, engine: &Engine, scope: &[&str]) -> Result<Option<&str>, SwfFault> {
        let token = self.next_page_token.as_deref().filter(|token| !token.is_empty());
        token.map(|token| of.place(engine, scope, token)).transpose()
    }

    /// Returns a page of rows sorted by name; the order is descending if the request reverses it. The token for the
    /// next page contains the last name on this page. Rows that are added or removed therefore do not shift later
    /// pages.
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

/// Decodes bytes that a token contains.
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
        // A token from the future is valid, because another node whose clock is ahead may have issued it.
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
