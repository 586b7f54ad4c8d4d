//! Task tokens, which permit their holder to answer a task. They are opaque to callers and cannot be forged: a caller
//! that may poll one task list cannot make a token for a task of another list.

pub(crate) mod secrets;

use std::sync::{Arc, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use history::{Author, EventId, TaskId, Timestamp, TurnId};
use hmac::{Hmac, KeyInit, Mac};
use minicbor::{Decode, Encode};
use sha2::Sha256;
use store::HeadKey;
use uuid::Uuid;

use crate::base::refusal::TokenKind;
use crate::base::token::secrets::{Secrets, TokenSecret};
use crate::{Clock, Refusal};

/// Number of bytes of the authentication tag in a token (96 bits).
const TAG_BYTES: usize = 12;

/// Maximum number of characters of an accepted token. Our choice: a token with the longest names has up to about 4,300
/// characters, or 1,500 if the names are ASCII.
pub const TOKEN_CHARS_MAX: usize = 6_144;

/// Content whose signature is the secret that nodes use to authenticate to each other.
const NODES: &[u8] = b"nodes";

/// Token of a decider task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnToken {
    /// Domain of the run.
    pub domain: Arc<str>,
    /// Workflow id of the run.
    pub workflow_id: Arc<str>,
    /// Run id.
    pub run_id: Uuid,
    /// The task list from which the task was taken.
    pub task_list: String,
    /// The turn. For a query task, `TurnId` contains the task's number and the id of the newest event that the task
    /// shows.
    pub turn: TurnId,
    /// For a query task: the version of the run that the task shows. `None` for a turn.
    pub query_only: Option<EventId>,
    /// For a speculative turn: the number of its task. `None` for other tasks.
    pub speculative: Option<u64>,
    /// Address of the node that holds the task's queries and updates. `None` if there are none, or if only one node
    /// uses the store.
    pub node: Option<Arc<str>>,
    /// True if the task contains updates. The answer must then be recorded by the node that holds them.
    pub judges: bool,
    /// Caller that uses the token. Not part of the encoded token.
    pub author: Author,
}

impl TurnToken {
    /// Returns the key of the workflow id in the store.
    pub(crate) fn key(&self) -> HeadKey {
        HeadKey::new(Arc::clone(&self.domain), Arc::clone(&self.workflow_id))
    }
}

/// Token of an activity task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityToken {
    /// Domain of the run.
    pub domain: Arc<str>,
    /// Workflow id of the run.
    pub workflow_id: Arc<str>,
    /// Run id.
    pub run_id: Uuid,
    /// The task list from which the task was taken.
    pub task_list: String,
    /// Activity and start of the task.
    pub task: TaskId,
    /// Caller that uses the token. Not part of the encoded token.
    pub author: Author,
}

impl ActivityToken {
    /// Returns the key of the workflow id in the store.
    pub(crate) fn key(&self) -> HeadKey {
        HeadKey::new(Arc::clone(&self.domain), Arc::clone(&self.workflow_id))
    }
}

#[derive(Encode, Decode)]
struct TokenFields<'a> {
    #[n(0)]
    is_turn: bool,
    #[b(1)]
    domain: &'a str,
    #[b(2)]
    workflow_id: &'a str,
    #[n(3)]
    #[cbor(with = "minicbor::bytes")]
    run_id: [u8; 16],
    #[b(4)]
    task_list: &'a str,
    #[n(5)]
    scheduled: EventId,
    #[n(6)]
    started: EventId,
    /// Number of this start of the activity, if the activity has a retry policy.
    #[n(7)]
    start: Option<u32>,
    /// Version of the run that a query task shows.
    #[n(8)]
    query_only: Option<EventId>,
    /// Number of the task of a speculative turn.
    #[n(9)]
    speculative: Option<u64>,
    /// Address of the node that holds the queries and updates of the task.
    #[b(10)]
    node: Option<&'a str>,
    /// True if the task contains updates; absent otherwise.
    #[n(11)]
    judges: Option<bool>,
}

/// Prefix of the signed content of a query id. The run and the query's number follow it. The signed content of a task
/// token never starts with this prefix.
const QUERY: &[u8] = b"question";

/// Prefix of the signed content of a page token. The token's parts follow it. The signed content of a task token never
/// starts with this prefix.
const PAGE: &[u8] = b"page";

/// Prefix of the content that is signed to compute the mask for the hash of a query's result. The signed content of a
/// task token never starts with this prefix.
const RESULT: &[u8] = b"result";

/// Signs tokens with the current secret, and verifies them with all valid secrets.
pub(crate) struct Mint {
    clock: Arc<dyn Clock>,
    keys: RwLock<Arc<[SigningKey]>>,
}

/// A secret, prepared for signing.
struct SigningKey {
    keyed: Hmac<Sha256>,
    from: Timestamp,
    until: Option<Timestamp>,
}

impl Mint {
    pub(crate) fn new(clock: Arc<dyn Clock>, secrets: &Secrets) -> Self {
        let mint = Self { clock, keys: RwLock::new(Arc::new([])) };
        mint.set(secrets);
        mint
    }

    /// Replaces the secrets with which tokens are signed and verified.
    pub(crate) fn set(&self, secrets: &Secrets) {
        let key = |secret: &TokenSecret| SigningKey {
            keyed: Hmac::new_from_slice(&secret.bytes()).expect("any key length is acceptable"),
            from: secret.from,
            until: secret.until,
        };
        *self.keys.write().expect("no code panics while it holds this lock") = secrets.iter().map(key).collect();
    }

    fn keys(&self) -> Arc<[SigningKey]> {
        Arc::clone(&self.keys.read().expect("no code panics while it holds this lock"))
    }

    /// Returns the key for signing, which is the newest key whose use for signing has begun.
    fn present(&self) -> Hmac<Sha256> {
        let (now, keys) = (self.clock.now(), self.keys());
        let in_use = keys.iter().rev().find(|key| key.from <= now);
        in_use.or(keys.first()).map(|key| key.keyed.clone()).expect("there is always a secret")
    }

    /// Returns true if `check` returns true for any valid secret. This includes secrets whose use for signing begins
    /// later, because the clock of another node may be ahead.
    fn is_signed(&self, check: impl Fn(Hmac<Sha256>) -> bool) -> bool {
        let now = self.clock.now();
        let keys = self.keys();
        let mut good = keys.iter().rev().filter(|key| key.until.is_none_or(|until| now < until));
        good.any(|key| check(key.keyed.clone()))
    }

    pub(crate) fn turn(&self, token: &TurnToken) -> String {
        self.seal(&TokenFields {
            is_turn: true,
            domain: &token.domain,
            workflow_id: &token.workflow_id,
            run_id: *token.run_id.as_bytes(),
            task_list: &token.task_list,
            scheduled: token.turn.scheduled_event_id,
            started: token.turn.started_event_id,
            start: None,
            query_only: token.query_only,
            speculative: token.speculative,
            node: token.node.as_deref(),
            judges: token.judges.then_some(true),
        })
    }

    pub(crate) fn activity(&self, token: &ActivityToken) -> String {
        self.seal(&TokenFields {
            is_turn: false,
            domain: &token.domain,
            workflow_id: &token.workflow_id,
            run_id: *token.run_id.as_bytes(),
            task_list: &token.task_list,
            scheduled: token.task.scheduled_event_id,
            started: token.task.started_event_id,
            start: (token.task.start > 0).then_some(token.task.start),
            query_only: None,
            speculative: None,
            node: None,
            judges: None,
        })
    }

    /// Returns the secret with which nodes that share the store authenticate to each other. The signed content of a
    /// task token never starts with [`NODES`], so a token cannot serve as this secret.
    pub(crate) fn node_pass(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.present().chain_update(NODES).finalize().into_bytes())
    }

    /// Compares the secret of a node in constant time.
    pub(crate) fn is_node_pass(&self, pass: &str) -> bool {
        let bytes = URL_SAFE_NO_PAD.decode(pass).unwrap_or_default();
        self.is_signed(|keyed| keyed.chain_update(NODES).verify_slice(&bytes).is_ok())
    }

    /// Returns the id of a query to a run, with a signature.
    pub(crate) fn query(&self, run_id: Uuid, number: u64) -> String {
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.extend(query_tag(self.present(), run_id, number).finalize().into_bytes().iter().take(TAG_BYTES));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Returns the number of a query to this run, if the id was signed by any node that shares the store; otherwise
    /// `None`.
    pub(crate) fn open_query(&self, run_id: Uuid, id: &str) -> Option<u64> {
        let bytes = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (number, tag) = bytes.split_first_chunk::<8>()?;
        let number = u64::from_be_bytes(*number);
        let is_whole = tag.len() == TAG_BYTES;
        let check = |keyed| query_tag(keyed, run_id, number).verify_truncated_left(tag).is_ok();
        (is_whole && self.is_signed(check)).then_some(number)
    }

    /// Returns the mask that is combined with the hash of a query's result by exclusive or. The mask is different for
    /// each run, version, query and input. Because a caller cannot compute the mask, it cannot use the masked hash to
    /// test guesses of the result.
    pub(crate) fn result_seal(&self, run_id: Uuid, version: EventId, query: [&[u8]; 2]) -> u64 {
        let [name, input] = query;
        let parts = [run_id.as_bytes(), &version.to_be_bytes()[..], name, input];
        let tag = of_parts(self.present().chain_update(RESULT), &parts).finalize().into_bytes();
        tag.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
    }

    /// Returns the signature over the parts of a page token.
    pub(crate) fn page_seal(&self, parts: &[&[u8]]) -> String {
        URL_SAFE_NO_PAD
            .encode(page_tag(self.present(), parts).finalize().into_bytes().get(..TAG_BYTES).unwrap_or_default())
    }

    /// Verifies the signature over the parts of a page token in constant time.
    pub(crate) fn is_page_seal(&self, parts: &[&[u8]], seal: &str) -> bool {
        let tag = URL_SAFE_NO_PAD.decode(seal).unwrap_or_default();
        tag.len() == TAG_BYTES && self.is_signed(|keyed| page_tag(keyed, parts).verify_truncated_left(&tag).is_ok())
    }

    fn seal(&self, wire: &TokenFields<'_>) -> String {
        let mut bytes = minicbor::to_vec(wire).expect("writing to memory does not fail");
        let tag = self.present().chain_update(&bytes).finalize().into_bytes();
        bytes.extend(tag.iter().take(TAG_BYTES));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn open<T>(&self, token: &str, kind: TokenKind, read: impl FnOnce(&TokenFields<'_>) -> T) -> Result<T, Refusal> {
        if token.len() > TOKEN_CHARS_MAX {
            return Err(Refusal::BadToken);
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| Refusal::BadToken)?;
        let (content, tag) = bytes.split_last_chunk::<TAG_BYTES>().ok_or(Refusal::BadToken)?;
        if !self.is_signed(|keyed| keyed.chain_update(content).verify_truncated_left(tag).is_ok()) {
            return Err(Refusal::BadToken);
        }
        let wire: TokenFields<'_> = minicbor::decode(content).map_err(|_| Refusal::BadToken)?;
        let found = if wire.is_turn { TokenKind::Decider } else { TokenKind::Activity };
        if found != kind {
            return Err(Refusal::WrongTokenKind { found });
        }
        Ok(read(&wire))
    }

    pub(crate) fn open_turn(&self, token: &str) -> Result<TurnToken, Refusal> {
        self.open(token, TokenKind::Decider, |wire| TurnToken {
            domain: wire.domain.into(),
            workflow_id: wire.workflow_id.into(),
            run_id: Uuid::from_bytes(wire.run_id),
            task_list: wire.task_list.to_owned(),
            turn: TurnId { scheduled_event_id: wire.scheduled, started_event_id: wire.started },
            query_only: wire.query_only,
            speculative: wire.speculative,
            node: wire.node.map(Into::into),
            judges: wire.judges.unwrap_or_default(),
            author: Author::default(),
        })
    }

    pub(crate) fn open_activity(&self, token: &str) -> Result<ActivityToken, Refusal> {
        self.open(token, TokenKind::Activity, |wire| ActivityToken {
            domain: wire.domain.into(),
            workflow_id: wire.workflow_id.into(),
            run_id: Uuid::from_bytes(wire.run_id),
            task_list: wire.task_list.to_owned(),
            task: TaskId {
                scheduled_event_id: wire.scheduled,
                started_event_id: wire.started,
                start: wire.start.unwrap_or(0),
            },
            author: Author::default(),
        })
    }
}

/// Adds the parts with their lengths to the signed content, so that different lists of parts never have the same
/// content.
fn page_tag(keyed: Hmac<Sha256>, parts: &[&[u8]]) -> Hmac<Sha256> {
    of_parts(keyed.chain_update(PAGE), parts)
}

fn of_parts(keyed: Hmac<Sha256>, parts: &[&[u8]]) -> Hmac<Sha256> {
    parts.iter().fold(keyed, |keyed, part| keyed.chain_update((part.len() as u64).to_be_bytes()).chain_update(part))
}

fn query_tag(keyed: Hmac<Sha256>, run_id: Uuid, number: u64) -> Hmac<Sha256> {
    keyed.chain_update(QUERY).chain_update(run_id.as_bytes()).chain_update(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemClock;

    fn mint_of(secret: &[u8]) -> Mint {
        Mint::new(Arc::new(SystemClock), &Secrets::of(secret))
    }

    fn turn() -> TurnToken {
        TurnToken {
            domain: "shop".into(),
            workflow_id: "order/1".into(),
            run_id: Uuid::from_u128(7),
            task_list: "orders".to_owned(),
            turn: TurnId { scheduled_event_id: 2, started_event_id: 3 },
            query_only: None,
            speculative: None,
            node: None,
            judges: false,
            author: Author::default(),
        }
    }

    #[test]
    fn a_token_decodes_to_its_fields() {
        let mint = mint_of(b"secret");
        assert_eq!(mint.open_turn(&mint.turn(&turn())).unwrap(), turn());
        let asks = TurnToken { query_only: Some(1), node: Some("http://10.0.0.7:7420".into()), ..turn() };
        assert_eq!(mint.open_turn(&mint.turn(&asks)).unwrap(), asks);
        let speculative = TurnToken { speculative: Some(1), judges: true, ..turn() };
        assert_eq!(mint.open_turn(&mint.turn(&speculative)).unwrap(), speculative);
        for (started_event_id, start) in [(7, 0), (0, 3)] {
            let TurnToken { domain, workflow_id, run_id, task_list, .. } = turn();
            let task = TaskId { scheduled_event_id: 5, started_event_id, start };
            let activity = ActivityToken { domain, workflow_id, run_id, task_list, task, author: Author::default() };
            assert_eq!(mint.open_activity(&mint.activity(&activity)).unwrap(), activity);
        }
    }

    #[test]
    fn a_changed_forged_or_wrong_kind_token_is_refused() {
        let mint = mint_of(b"secret");
        let token = mint.turn(&turn());
        assert!(mint.open_activity(&token).is_err(), "a turn is no activity");
        assert!(mint_of(b"other").open_turn(&token).is_err(), "another service's token");
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            // The last character may have unused bits. The decoder rejects a token in which any of these bits is set.
            assert!(mint.open_turn(&changed).is_err(), "changed at {at}");
        }
        for junk in ["", "A", "!!!!", &"A".repeat(3_000)] {
            assert!(mint.open_turn(junk).is_err(), "{junk}");
        }
    }

    #[test]
    fn a_node_shows_that_it_knows_the_secret() {
        let mint = mint_of(b"secret");
        assert!(mint.is_node_pass(&mint.node_pass()));
        assert!(!mint.is_node_pass(&mint_of(b"other").node_pass()));
        for pass in ["", "AAAA", "!", &mint.turn(&turn()), mint.node_pass().get(..16).unwrap()] {
            assert!(!mint.is_node_pass(pass), "{pass}");
        }
        assert!(mint.open_turn(&mint.node_pass()).is_err());
    }

    #[test]
    fn the_id_of_a_query_is_good_for_its_run_alone() {
        let mint = mint_of(b"secret");
        let (run_id, other) = (Uuid::from_u128(7), Uuid::from_u128(8));
        let id = mint.query(run_id, 41);
        assert_eq!(mint.open_query(run_id, &id), Some(41));
        assert_eq!(mint.open_query(other, &id), None);
        assert_eq!(mint_of(b"other").open_query(run_id, &id), None);
        for id in ["", "A", "!", &id[1..], &format!("{id}AAAA"), &mint.turn(&turn()), &mint.node_pass()] {
            assert_eq!(mint.open_query(run_id, id), None, "{id}");
        }
    }

    #[test]
    fn the_seal_of_a_page_is_good_for_its_list_and_its_place_alone() {
        let mint = mint_of(b"secret");
        let parts: [&[u8]; 3] = [b"runs", b"shop", b"7"];
        let seal = mint.page_seal(&parts);
        assert!(mint.is_page_seal(&parts, &seal));
        assert!(!mint_of(b"other").is_page_seal(&parts, &seal));
        let others: [&[&[u8]]; 4] = [&[b"runs", b"shop", b"8"], &[b"runs", b"sho", b"p7"], &[b"runs", b"shop7"], &[]];
        for other in others {
            assert!(!mint.is_page_seal(other, &seal), "{other:?}");
        }
        for junk in ["", "A", "!", &seal[1..], &format!("{seal}AAAA"), &mint.node_pass(), &mint.turn(&turn())] {
            assert!(!mint.is_page_seal(&parts, junk), "{junk}");
        }
    }

    #[test]
    fn the_longest_names_fit_into_a_token() {
        let mint = mint_of(b"secret");
        let long: String = "漢".repeat(history::limits::NAME_CHARS_MAX);
        let token = TurnToken {
            domain: long.as_str().into(),
            workflow_id: long.as_str().into(),
            run_id: Uuid::from_u128(u128::MAX),
            task_list: long.clone(),
            turn: TurnId { scheduled_event_id: u64::MAX, started_event_id: u64::MAX },
            query_only: Some(u64::MAX),
            speculative: Some(u64::MAX),
            node: Some(long.as_str().into()),
            judges: true,
            author: Author::default(),
        };
        assert_eq!(mint.open_turn(&mint.turn(&token)).unwrap(), token);
    }
}
