//! Calls about domains.

use super::{Client, encode};
use crate::Error;
use crate::body::{CreateDomain, Domain, Domains};

impl Client {
    /// Creates a domain.
    ///
    /// # Errors
    ///
    /// See [`Error`]: `domain-exists` if a domain with this name exists.
    pub async fn create_domain(&self, domain: &CreateDomain) -> Result<Domain, Error> {
        self.write(&self.service_url("domains"), domain, None).await
    }

    /// Returns all domains.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn domains(&self) -> Result<Vec<Domain>, Error> {
        Ok(self.get::<Domains>(&self.service_url("domains"), None).await?.domains)
    }

    /// Returns this client's domain.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub async fn show_domain(&self) -> Result<Domain, Error> {
        self.get(&self.service_url(&format!("domains/{}", encode(&self.domain))), None).await
    }
}
