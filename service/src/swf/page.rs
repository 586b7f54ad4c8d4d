//! Pages: what a request says about them, and the tokens that lead from one to the next. A token says of which list it is,
//! when it was given and where the next page begins, and is sealed with what the list is of; it confers no right and is not
//! secret.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use history::{Duration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::fault::{FaultKind, SwfFault};
use super::words::set;
use engine::Engine;

/// Entries on a page where the request says nothing or 0. Source: SWF's API reference.
pub(super) const PAGE_DEFAULT: usize = 1_000;

/// What the seals of this wire's tokens begin with: no list over REST begins like this.
const WIRE: &str = "swf";

/// How long a token leads on. Source: SWF's API model, which says 24 hours; older ones said 60 seconds.
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

    /// A token: the list's letter, the instant and the place, and the seal of these and of what the list is of, with a dot
    /// between them.
    pub(super) fn token(self, engine: &Engine, scope: &[&str], place: impl Display) -> String {
        let said = format!("{}.{:x}.{place}", self.letter(), engine.clock().now().as_millis());
        let seal = engine.page_seal(&sealed(&said, scope));
        format!("{said}.{seal}")
    }

    /// The place that a token of this list leads to.
    ///
    /// # Errors
    ///
    /// For one that is none of this list's, for one that this service did not give, and for one that is too old.
    pub(super) fn place<'a>(self, engine: &Engine, scope: &[&str], token: &'a str) -> Result<&'a str, SwfFault> {
        let (said, seal) = token.rsplit_once('.').ok_or_else(invalid_token)?;
        if !engine.is_page_seal(&sealed(said, scope), seal) {
            return Err(invalid_token());
        }
        self.place_said(said, engine.clock().now())
    }

    fn place_said(self, said: &str, now: Timestamp) -> Result<&str, SwfFault> {
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

/// What a seal is of.
fn sealed<'a>(said: &'a str, scope: &[&'a str]) -> Vec<&'a [u8]> {
    [WIRE, said].iter().chain(scope).map(|part| part.as_bytes()).collect()
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
    /// As for [`PageKind::place`].
    pub(super) fn place(&self, of: PageKind, engine: &Engine, scope: &[&str]) -> Result<Option<&str>, SwfFault> {
        let token = self.next_page_token.as_deref().filter(|token| !token.is_empty());
        token.map(|token| of.place(engine, scope, token)).transpose()
    }

    /// The page of what is sorted by name, ascending unless reversed. The token has the last name of the page before, so
    /// that what comes and goes meanwhile moves nothing.
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

/// Bytes as they stand in a token.
pub(super) fn text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes of a place.
pub(super) fn bytes(place: &str) -> Result<Vec<u8>, SwfFault> {
    URL_SAFE_NO_PAD.decode(place).map_err(|_| invalid_token())
}

/// A token that this service never gave.
pub(super) fn invalid_token() -> SwfFault {
    SwfFault::new(FaultKind::Validation, "Invalid token")
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
        let token = format!("h.{:x}.5.a", given_at.as_millis());
        let last = given_at.plus(TOKEN_LIFETIME);
        assert_eq!(PageKind::History.place_said(&token, last).unwrap(), "5.a");
        // Another node's clock may be behind.
        assert_eq!(PageKind::History.place_said(&token, Timestamp::from_millis(0)).unwrap(), "5.a");
        let message = |place: Result<&str, SwfFault>| place.unwrap_err().message().to_owned();
        let late = Timestamp::from_millis(last.as_millis() + 1);
        assert_eq!(
            message(PageKind::History.place_said(&token, late)),
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
            assert_eq!(message(of.place_said(token, given_at)), "Invalid token", "{token}");
        }
    }
}
