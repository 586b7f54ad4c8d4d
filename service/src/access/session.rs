//! Sessions of people who have signed in at the console. A browser presents a cookie instead of a secret. Sessions are
//! stored only in the memory of this process: a restart ends them, and other nodes do not know them.
//!
//! A session grants the permissions of the credential with which it began. Each request looks up that credential again.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use history::{CallerName, Duration, Timestamp};
use lru::LruCache;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::time::Instant;

use super::set::AuthenticatedBy;

/// Maximum number of sessions. If a new session exceeds this number, the least recently used session ends. Our choice:
/// enough for one session per user of the console; each takes about 500 bytes.
pub const SESSIONS_MAX: usize = 10_000;

/// Maximum number of sessions of one credential. The limit prevents the holder of one credential from ending the
/// sessions of all others. Our choice: a hundredth of all sessions.
pub const SESSIONS_OF_ONE_MAX: usize = 100;

/// Maximum age of a session. Our choice: one working day.
pub const SESSION_AGE_MAX: Duration = Duration::from_secs(12 * 3_600);

/// Maximum time between two requests of a session. Our choice.
pub const SESSION_IDLE_MAX: Duration = Duration::from_secs(2 * 3_600);

/// Stored session. Dropping `ended` tells the requests of the session that the session has ended.
struct KeptSession {
    method: AuthenticatedBy,
    who: CallerName,
    csrf: Arc<str>,
    until: Timestamp,
    used: Timestamp,
    /// Times of the monotonic clock when the session was begun and last used. With them, the session ends in time even
    /// if the wall clock was ahead at these moments.
    begun_at: Instant,
    used_at: Instant,
    ended: watch::Sender<()>,
}

impl KeptSession {
    fn is_valid(&self, now: Timestamp) -> bool {
        let (age, idle) = (self.begun_at.elapsed(), self.used_at.elapsed());
        let is_in_time =
            age < std::time::Duration::from(SESSION_AGE_MAX) && idle < std::time::Duration::from(SESSION_IDLE_MAX);
        is_in_time && now < self.until && now < self.used.plus(SESSION_IDLE_MAX)
    }

    /// Records that a request has used the session. If the wall clock was set back, also moves the end of the session
    /// back. Otherwise the session would exceed its maximum age.
    fn use_at(&mut self, now: Timestamp) {
        (self.used, self.used_at) = (now, Instant::now());
        self.until = self.until.min(now.plus(SESSION_AGE_MAX));
    }

    fn session(&self) -> Session {
        Session { csrf: Arc::clone(&self.csrf), until: self.until, ended: self.ended.subscribe() }
    }
}

/// Session that authenticated a request.
#[derive(Clone)]
pub(crate) struct Session {
    csrf: Arc<str>,
    until: Timestamp,
    ended: watch::Receiver<()>,
}

impl Session {
    /// Returns the CSRF token, by which a request proves that a page of the console sent it.
    pub(crate) fn csrf(&self) -> &str {
        &self.csrf
    }

    /// Returns the time when the session ends at the latest.
    pub(crate) fn until(&self) -> Timestamp {
        self.until
    }

    /// Returns whether the session has ended.
    pub(super) fn is_over(&self) -> bool {
        self.ended.has_changed().is_err()
    }

    /// Resolves when the session ends.
    pub(super) async fn over(&self) {
        let mut ended = self.ended.clone();
        while ended.changed().await.is_ok() {}
    }
}

/// Newly begun session.
pub(crate) struct BegunSession {
    /// Value of the session's cookie, which is stored nowhere else.
    pub(crate) secret: String,
    /// Session that the cookie belongs to.
    pub(crate) session: Session,
}

/// Sessions by the SHA-256 of their cookie values.
pub(super) struct Sessions(Mutex<LruCache<[u8; 32], KeptSession>>);

impl Default for Sessions {
    fn default() -> Self {
        // An unbounded cache is created first, because it allocates nothing in advance. `resize` then sets the bound.
        let mut sessions = LruCache::unbounded();
        sessions.resize(NonZeroUsize::new(SESSIONS_MAX).unwrap_or(NonZeroUsize::MIN));
        Self(Mutex::new(sessions))
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Returns a secret of 256 random bits; `None` if the operating system provides no randomness.
fn drawn() -> Option<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, LruCache<[u8; 32], KeptSession>> {
        self.0.lock().expect("no code panics while it holds this lock")
    }

    /// Begins a session for the caller with this name. `method` is the way in which the caller was authenticated.
    pub(super) fn begin(&self, method: AuthenticatedBy, who: CallerName, now: Timestamp) -> Option<BegunSession> {
        let (secret, csrf, until) = (drawn()?, drawn()?.into(), now.plus(SESSION_AGE_MAX));
        let (begun_at, ended) = (Instant::now(), watch::Sender::new(()));
        let kept = KeptSession { method, who, csrf, until, used: now, begun_at, used_at: begun_at, ended };
        let session = kept.session();
        let mut sessions = self.lock();
        let over: Vec<_> = sessions.iter().filter(|(_, it)| !it.is_valid(now)).map(|(key, _)| *key).collect();
        for key in over {
            sessions.pop(&key);
        }
        // The cache iterates from the most to the least recently used session.
        let own = sessions.iter().filter(|(_, it)| it.who == kept.who).skip(SESSIONS_OF_ONE_MAX - 1);
        let too_many: Vec<_> = own.map(|(key, _)| *key).collect();
        for key in too_many {
            sessions.pop(&key);
        }
        sessions.put(digest(&secret), kept);
        Some(BegunSession { secret, session })
    }

    /// Returns the session with this cookie value, and the credential that it began with.
    pub(super) fn find(&self, secret: &str, now: Timestamp) -> Option<(Session, AuthenticatedBy)> {
        let (mut sessions, key) = (self.lock(), digest(secret));
        let kept = sessions.get_mut(&key)?;
        if !kept.is_valid(now) {
            sessions.pop(&key);
            return None;
        }
        kept.use_at(now);
        Some((kept.session(), kept.method.clone()))
    }

    /// Ends a session.
    pub(super) fn end(&self, secret: &str) {
        self.lock().pop(&digest(secret));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> CallerName {
        CallerName::new(name).unwrap()
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    const METHOD: AuthenticatedBy = AuthenticatedBy::Secret([7; 32]);

    #[test]
    fn a_session_ends_when_it_is_closed_idle_or_too_old() {
        let sessions = Sessions::default();
        let idle = SESSION_IDLE_MAX.as_millis() / 1_000;
        let begun = sessions.begin(METHOD, who("a"), at(0)).unwrap();
        assert!(sessions.find(&begun.secret, at(idle - 1)).is_some());
        assert!(sessions.find(&begun.secret, at(2 * idle - 2)).is_some(), "it was used meanwhile");
        assert!(sessions.find(&begun.secret, at(3 * idle - 2)).is_none());
        assert!(begun.session.is_over());
        let begun = sessions.begin(METHOD, who("a"), at(0)).unwrap();
        let age = SESSION_AGE_MAX.as_millis() / 1_000;
        for hour in 1..age / 3_600 {
            assert!(sessions.find(&begun.secret, at(hour * 3_600)).is_some());
        }
        assert!(sessions.find(&begun.secret, at(age - 1)).is_some());
        assert!(sessions.find(&begun.secret, at(age)).is_none());
        let begun = sessions.begin(METHOD, who("a"), at(0)).unwrap();
        sessions.end(&begun.secret);
        assert!(begun.session.is_over() && sessions.find(&begun.secret, at(0)).is_none());
        assert!(sessions.find("", at(0)).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_begun_with_a_fast_clock_lasts_no_longer() {
        let two_days = 2 * 24 * 3_600;
        let pass = async |seconds: Duration| tokio::time::advance(seconds.into()).await;
        for (first, then) in [(two_days, 0), (0, 0)] {
            let sessions = Sessions::default();
            let begun = sessions.begin(METHOD, who("a"), at(first)).unwrap();
            pass(SESSION_IDLE_MAX).await;
            assert!(sessions.find(&begun.secret, at(then)).is_none(), "it was idle for too long");
            let begun = sessions.begin(METHOD, who("a"), at(first)).unwrap();
            for _ in 0..11 {
                pass(Duration::from_secs(3_600)).await;
                let (session, _) = sessions.find(&begun.secret, at(then)).unwrap();
                assert!(session.until <= at(then).plus(SESSION_AGE_MAX));
            }
            pass(Duration::from_secs(3_600)).await;
            assert!(sessions.find(&begun.secret, at(then)).is_none(), "it is too old");
        }
    }

    #[test]
    fn too_many_sessions_of_a_credential_end_its_least_recent() {
        let sessions = Sessions::default();
        let other = sessions.begin(METHOD, who("b"), at(0)).unwrap();
        let own: Vec<_> = (0..SESSIONS_OF_ONE_MAX).map(|_| sessions.begin(METHOD, who("a"), at(0)).unwrap()).collect();
        assert!(sessions.find(&own[0].secret, at(1)).is_some());
        drop(sessions.begin(METHOD, who("a"), at(2)));
        assert!(own[1].session.is_over() && !own[0].session.is_over() && !other.session.is_over());
    }

    #[test]
    fn too_many_sessions_end_the_least_recently_used() {
        let sessions = Sessions::default();
        let first = sessions.begin(METHOD, who("first"), at(0)).unwrap();
        let second = sessions.begin(METHOD, who("second"), at(0)).unwrap();
        for number in 2..SESSIONS_MAX {
            drop(sessions.begin(METHOD, who(&format!("n{}", number % 200)), at(0)));
        }
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
        assert!(sessions.find(&first.secret, at(1)).is_some());
        drop(sessions.begin(METHOD, who("another"), at(1)));
        assert_eq!(sessions.lock().len(), SESSIONS_MAX);
        assert!(second.session.is_over() && !first.session.is_over());
    }
}
