//! JSON Web Key Sets of issuers (RFC 7517): parses the keys that can verify signatures.

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Maximum size of a key set in bytes. Our choice: enough for a hundred keys with their certificates.
pub const KEYS_BYTES_MAX: usize = 256 * 1024;

/// Maximum number of keys in a set. Our choice: most issuers have two or three keys, and large cloud providers about
/// ten.
pub const KEYS_MAX: usize = 100;

/// Supported algorithms. All of them are asymmetric, so that a service with the keys to verify tokens cannot create
/// tokens.
pub(super) const ALGORITHMS: [(&str, Algorithm); 9] = [
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

/// Algorithms of RSA keys.
const RSA: [&str; 6] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];

/// Public key.
struct JwksKey {
    id: Option<String>,
    /// Algorithms with which the key may verify signatures.
    algorithms: Vec<Algorithm>,
    public: DecodingKey,
}

/// Keys of an issuer. Two sets are equal if their published documents are equal.
#[derive(Default)]
pub(super) struct KeySet {
    keys: Vec<JwksKey>,
    published: [u8; 32],
}

impl PartialEq for KeySet {
    fn eq(&self, other: &Self) -> bool {
        self.published == other.published
    }
}

/// Published key set document.
#[derive(Deserialize)]
struct Published {
    keys: Vec<Value>,
}

impl KeySet {
    /// Parses a set. Keys of unsupported kinds are ignored.
    ///
    /// # Errors
    ///
    /// If the document is no key set, is too large, contains a symmetric key, or has no usable key.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > KEYS_BYTES_MAX {
            return Err(format!("it has more than {KEYS_BYTES_MAX} bytes"));
        }
        let found: Published = history::read_json(bytes).map_err(|_| "this is not a JSON Web Key Set".to_owned())?;
        if found.keys.len() > KEYS_MAX {
            return Err(format!("it has {} keys, expected at most {KEYS_MAX}", found.keys.len()));
        }
        if found.keys.iter().any(|key| text(key, "kty") == Some("oct")) {
            let why = "it could also forge tokens; configure the issuer to sign with RSA, EC or Ed25519";
            return Err(format!("it contains a symmetric key (`oct`): {why}"));
        }
        let keys: Vec<JwksKey> = found.keys.into_iter().filter_map(JwksKey::read).collect();
        if keys.is_empty() {
            return Err("it has no key that can verify a signature".to_owned());
        }
        Ok(Self { keys, published: Sha256::digest(bytes).into() })
    }

    /// Returns the key with this id for this algorithm. If `id` is `None`, returns the only key for the algorithm;
    /// `None` if there are several.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let mut fitting = self.keys.iter().filter(|key| key.algorithms.contains(&algorithm));
        match id {
            Some(id) => fitting.find(|key| key.id.as_deref() == Some(id)).map(|key| &key.public),
            None => fitting.next().filter(|_| fitting.next().is_none()).map(|key| &key.public),
        }
    }

    /// Returns whether the set has a key with this id, for any algorithm. If `id` is `None`, returns whether the set
    /// has any key.
    pub(super) fn knows(&self, id: Option<&str>) -> bool {
        self.keys.iter().any(|key| id.is_none() || key.id.as_deref() == id)
    }
}

impl JwksKey {
    /// Parses a key. Returns `None` if the key is not for signatures, or if its kind is not supported.
    fn read(published: Value) -> Option<Self> {
        let is_for_signatures = text(&published, "use").is_none_or(|usage| usage == "sig");
        let operations = published.get("key_ops").and_then(Value::as_array);
        let checks = operations.is_none_or(|all| all.iter().any(|one| one == "verify"));
        let kind = (text(&published, "kty")?, text(&published, "crv"));
        let of_kind: &[&str] = match kind {
            ("RSA", _) => &RSA,
            ("EC", Some("P-256")) => &["ES256"],
            ("EC", Some("P-384")) => &["ES384"],
            ("OKP", Some("Ed25519")) => &["EdDSA"],
            _ => &[],
        };
        let own = text(&published, "alg");
        let is_fit = |name: &str| of_kind.contains(&name) && own.is_none_or(|own| own == name);
        let fitting = ALGORITHMS.iter().filter(|(name, _)| is_fit(name));
        let algorithms: Vec<Algorithm> = fitting.map(|(_, algorithm)| *algorithm).collect();
        if !is_for_signatures || !checks || algorithms.is_empty() {
            return None;
        }
        let jwk: Jwk = serde_json::from_value(published).ok()?;
        let public = DecodingKey::from_jwk(&jwk).ok()?;
        Some(Self { id: jwk.common.key_id, algorithms, public })
    }
}

fn text<'a>(key: &'a Value, member: &str) -> Option<&'a str> {
    key.get(member).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(keys: &Value) -> Result<KeySet, String> {
        KeySet::read(json!({ "keys": keys }).to_string().as_bytes())
    }

    fn ed(id: &str) -> Value {
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" })
    }

    fn with(mut key: Value, member: &str, value: Value) -> Value {
        key[member] = value;
        key
    }

    #[test]
    fn a_key_verifies_only_algorithms_of_its_kind_and_alg() {
        let coordinate = "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4";
        let ec = json!({ "kty": "EC", "crv": "P-256", "kid": "ec", "x": coordinate, "y": coordinate });
        let rsa = json!({ "kty": "RSA", "kid": "rsa", "n": "AQAB", "e": "AQAB" });
        let pss = with(with(rsa.clone(), "alg", json!("PS256")), "kid", json!("pss"));
        let set = read(&json!([ec, rsa, pss, ed("ed")])).unwrap();
        for (id, algorithms) in
            [("ec", vec!["ES256"]), ("rsa", RSA.to_vec()), ("pss", vec!["PS256"]), ("ed", vec!["EdDSA"])]
        {
            for (name, algorithm) in ALGORITHMS {
                assert_eq!(set.find(Some(id), algorithm).is_some(), algorithms.contains(&name), "{id} {name}");
            }
            for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
                assert!(set.find(Some(id), algorithm).is_none(), "{id} {algorithm:?}");
            }
        }
        assert!(set.find(None, Algorithm::EdDSA).is_some());
        assert!(set.find(None, Algorithm::PS256).is_none(), "there are two");
        assert!(set.knows(Some("ec")) && set.knows(None) && !set.knows(Some("other")));
    }

    #[test]
    fn unknown_keys_are_ignored_and_symmetric_keys_refused() {
        for odd in [
            json!({ "kty": "XYZ", "kid": "odd" }),
            json!({ "kty": "EC", "crv": "P-521", "kid": "odd", "x": "AA", "y": "AA" }),
            json!({ "kty": "OKP", "crv": "X25519", "kid": "odd", "x": "AA" }),
            json!({ "kty": "RSA", "kid": "odd", "n": 7 }),
            with(ed("odd"), "use", json!("enc")),
            with(ed("odd"), "alg", json!("ES256")),
            with(ed("odd"), "key_ops", json!(["encrypt"])),
            json!(7),
        ] {
            let set = read(&json!([odd, ed("ed")])).unwrap();
            assert!(set.find(Some("ed"), Algorithm::EdDSA).is_some() && !set.knows(Some("odd")), "{odd}");
            assert!(read(&json!([odd])).err().unwrap().contains("no key"), "{odd}");
        }
        let secret = json!({ "kty": "oct", "kid": "shared", "k": "c2VjcmV0" });
        assert!(read(&json!([secret, ed("ed")])).err().unwrap().contains("symmetric"));
        assert!(read(&json!(vec![ed("ed"); KEYS_MAX + 1])).err().unwrap().contains("at most 100"));
        assert!(KeySet::read(&vec![b' '; KEYS_BYTES_MAX + 1]).err().unwrap().contains("more than 262144 bytes"));
        assert!(KeySet::read(b"<html>").err().unwrap().contains("not a JSON Web Key Set"));
    }

    #[test]
    fn a_set_of_keys_at_its_limits_is_taken_and_one_above_refused() {
        let keys = |count: usize| json!((0..count).map(|number| ed(&format!("key-{number}"))).collect::<Vec<_>>());
        assert!(read(&keys(KEYS_MAX)).is_ok());
        assert!(read(&keys(KEYS_MAX + 1)).err().unwrap().contains("has 101 keys, expected at most 100"));
        let mut bytes = json!({ "keys": keys(1) }).to_string().into_bytes();
        bytes.resize(KEYS_BYTES_MAX, b' ');
        assert!(KeySet::read(&bytes).is_ok());
        bytes.push(b' ');
        assert!(KeySet::read(&bytes).err().unwrap().contains("more than 262144 bytes"));
    }
}
