//! A store that fails for one workflow id.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use store::{Cas, Error, Expect, Head, HeadKey, PartKey, Store};

use crate::meddled::{Meddled, Meddler};

/// Failure of the store for the workflow id `poison`.
#[derive(Debug, Clone, Copy)]
pub enum Trouble {
    /// It cannot write.
    TooLarge,
    /// It cannot read.
    Corrupt,
}

/// The failing store.
pub struct Poison {
    store: Arc<dyn Store>,
    trouble: Trouble,
}

impl Poison {
    /// Creates one that works otherwise.
    pub fn over(store: Arc<dyn Store>, trouble: Trouble) -> Arc<dyn Store> {
        Arc::new(Meddled(Self { store, trouble }))
    }
}

#[async_trait]
impl Meddler for Poison {
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

    async fn commit(
        &self,
        key: &HeadKey,
        expect: Expect<'_>,
        head: &Head,
        parts: &[(PartKey, Bytes)],
    ) -> Result<Cas, Error> {
        match self.trouble {
            Trouble::TooLarge if &*key.workflow_id == "poison" => Err(Error::TooLarge { max: 1, found: 2 }),
            _ => self.store.commit(key, expect, head, parts).await,
        }
    }
}
