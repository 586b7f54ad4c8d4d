//! Options that several commands have: the service and its domain, the user, and inputs.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;
use client::{Access, Client, ClientCertificate, Patience};
use history::Payload;

use crate::failed::Failed;

/// Which service to talk to.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// Where the service is, e.g. `https://baton.example`, or `localhost:7420`
    #[arg(long, env = "BATON_URL", default_value = "http://127.0.0.1:7420", value_name = "URL")]
    url: String,
    /// The domain
    #[arg(long, env = "BATON_DOMAIN", default_value = "default", value_name = "NAME")]
    domain: String,
    /// A file with a credential's secret; without one `BATON_SECRET` has it. On a command line everybody could read it
    #[arg(long, env = "BATON_SECRET_FILE", value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Certificates of authorities to trust for https beside those that this machine trusts, as PEM
    #[arg(long, env = "BATON_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// A certificate to show to the service, as PEM, where it takes one in the place of a secret or wants one of
    /// everybody
    #[arg(long, env = "BATON_CLIENT_CERT", value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// Its key, as PEM without a passphrase
    #[arg(long, env = "BATON_CLIENT_KEY", value_name = "FILE")]
    client_key: Option<PathBuf>,
}

impl Target {
    /// Returns a client of the service.
    ///
    /// # Errors
    ///
    /// [`Failed::Usage`] if a file cannot be read or an option is invalid.
    pub fn client(&self) -> Result<Client, Failed> {
        let read = |option: &str, path: &Option<PathBuf>| {
            let Some(path) = path else { return Ok(None) };
            let failed = |error| Failed::Usage(format!("{option} {}: {error}", path.display()));
            std::fs::read(path).map(Some).map_err(failed)
        };
        let ca = read("--ca-file", &self.ca_file)?;
        let (certificate, key) = (read("--client-cert", &self.client_cert)?, read("--client-key", &self.client_key)?);
        let certificate = match (&certificate, &key) {
            (Some(certificate), Some(key)) => Some(ClientCertificate { certificate, key }),
            (None, None) => None,
            _ => return Err(Failed::Usage("--client-cert and --client-key belong together: give both".to_owned())),
        };
        let secret = self.secret()?;
        let access = Access { secret: secret.as_deref(), ca: ca.as_deref(), certificate };
        let client = Client::with_access(&self.url, access)?;
        // A person is waiting, so that an unreachable service is reported at once.
        Ok(client.domain(&self.domain).patience(Patience::None).within(trace_of_caller().as_ref()))
    }

    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }

    fn secret(&self) -> Result<Option<String>, Failed> {
        let Some(file) = &self.secret_file else {
            return Ok(std::env::var("BATON_SECRET").ok().filter(|secret| !secret.is_empty()));
        };
        let bad = |what: String| Failed::Usage(format!("--secret-file {}: {what}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
        match text.trim() {
            "" => Err(bad("it is empty".to_owned())),
            secret => Ok(Some(secret.to_owned())),
        }
    }
}

/// Returns the trace context of this program's caller from the environment. Source: OpenTelemetry, "Environment
/// Variables as Context Propagation Carriers". A malformed one is ignored.
fn trace_of_caller() -> Option<client::TraceContext> {
    let tracestate = std::env::var("TRACESTATE").ok();
    client::TraceContext::of_headers(&std::env::var("TRACEPARENT").ok()?, tracestate.as_deref())
}

/// The user, whom histories record.
#[derive(Debug, Clone, Args)]
pub struct Identity {
    /// Your name, which the history records
    #[arg(long, env = "USER", default_value = "baton", value_name = "NAME")]
    identity: String,
}

impl Identity {
    pub(crate) fn identity(&self) -> String {
        self.identity.clone()
    }
}

/// Reads an `--input`: JSON, `@file`, or `-` for standard input.
pub(crate) fn read_input(input: Option<&str>) -> Result<Option<Payload>, Failed> {
    let Some(input) = input else { return Ok(None) };
    let text = if input == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| Failed::Usage(format!("standard input: {error}")))?;
        text
    } else if let Some(path) = input.strip_prefix('@') {
        std::fs::read_to_string(path).map_err(|error| Failed::Usage(format!("{path}: {error}")))?
    } else {
        input.to_owned()
    };
    let bad = |error| Failed::Usage(format!("the input is not JSON: {error}; a text needs quotes: '\"text\"'"));
    Payload::from_json(&text).map(Some).map_err(bad)
}

/// Parses a value of an API enumeration.
pub(crate) fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}
