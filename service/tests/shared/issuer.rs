//! A test issuer of tokens: keys, tokens and its configuration.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256, PublicKeyData as _};
use serde_json::{Value, json};

/// Length of the header before a private RSA key of 2,048 bits in PKCS #8.
const PKCS8_HEAD: usize = 26;

/// A key of an issuer.
pub(crate) struct Key {
    id: &'static str,
    algorithm: Algorithm,
    private: EncodingKey,
    pub(crate) jwk: Value,
}

impl Key {
    pub(crate) fn new(id: &'static str, algorithm: Algorithm) -> Self {
        let kind = match algorithm {
            Algorithm::ES256 => &PKCS_ECDSA_P256_SHA256,
            Algorithm::EdDSA => &PKCS_ED25519,
            _ => &PKCS_RSA_SHA256,
        };
        let pair = KeyPair::generate_for(kind).unwrap();
        let der = pair.serialize_der();
        let private = match algorithm {
            Algorithm::ES256 => EncodingKey::from_ec_der(&der),
            Algorithm::EdDSA => EncodingKey::from_ed_der(&der),
            _ => EncodingKey::from_rsa_der(&der[PKCS8_HEAD..]),
        };
        let mut jwk = if algorithm == Algorithm::EdDSA {
            json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "x": URL_SAFE_NO_PAD.encode(pair.der_bytes()) })
        } else {
            serde_json::to_value(Jwk::from_encoding_key(&private, algorithm).unwrap()).unwrap()
        };
        (jwk["kid"], jwk["use"]) = (json!(id), json!("sig"));
        Self { id, algorithm, private, jwk }
    }

    /// A key of the fastest algorithm.
    pub(crate) fn ed(id: &'static str) -> Self {
        Self::new(id, Algorithm::EdDSA)
    }

    pub(crate) fn header(&self) -> Header {
        Header { kid: Some(self.id.to_owned()), ..Header::new(self.algorithm) }
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as(&self.header(), claims)
    }

    pub(crate) fn sign_as(&self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &self.private).unwrap()
    }
}

/// The keys as an issuer publishes them, plus one of an unknown type.
pub(crate) fn jwks(keys: &[&Key]) -> String {
    let strange = json!({ "kty": "XYZ", "kid": "strange" });
    json!({ "keys": keys.iter().map(|key| key.jwk.clone()).chain([strange]).collect::<Vec<_>>() }).to_string()
}

/// Claims of a token that is valid until `exp`, with this group.
pub(crate) fn claims(group: &str, exp: u64) -> Value {
    json!({ "iss": "https://id.example", "aud": "baton", "sub": "alice", "exp": exp, "groups": ["staff", group] })
}
