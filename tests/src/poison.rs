//! A store that fails for one workflow id.

use std::sync::Arc;

use async_trait::async_trait;
use store::{Cas, Error, Head, HeadKey, Store};

use crate::intercepted::{Commit, Intercepted, Interceptor};

/// Failure of the store for the workflow id `poison`.
#[derive(Debug, Clone, Copy)]
pub enum Trouble {
    /// Commits fail, because the run is too large.
    TooLarge,
    /// Reads fail, because the data is damaged.
    Corrupt,
}

/// A store that fails for the workflow id `poison` and works otherwise.
pub struct Poison {
    store: Arc<dyn Store>,
    trouble: Trouble,
}

impl Poison {
    /// Creates such a store over another store.
    pub fn over(store: Arc<dyn Store>, trouble: Trouble) -> Arc<dyn Store> {
        Arc::new(Intercepted(Self { store, trouble }))
    }
}

#[async_trait]
impl Interceptor for Poison {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    async fn load(&self, key: &HeadKey) -> Result<Option<Head>, Error> {
        match self.trouble {
            Trouble::Corrupt if &*key.workflow_id == "poison" => {
                Err(Error::Corrupt { what: "a bad sector".to_owned() })
            }
            _ => self.store.load(key).await,
        }
    }

    async fn commit(&self, Commit { key, expect, head, parts }: Commit<'_>) -> Result<Cas, Error> {
        match self.trouble {
            Trouble::TooLarge if &*key.workflow_id == "poison" => Err(Error::TooLarge { max: 1, found: 2 }),
            _ => self.store.commit(key, expect, head, parts).await,
        }
    }
}
