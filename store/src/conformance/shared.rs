//! The rule about stores that several processes have open.

use super::{Arc, Error, Expect, RUN, Store, head, key, win};

/// Checks that a store with `Limits::is_shared` can be opened again while it is open, and that both instances see each
/// other's commits. The second opening of any other store must fail, or must open a different store. `open` opens the
/// same data with every call.
pub async fn only_a_shared_store_is_open_twice(open: impl AsyncFn() -> Result<Arc<dyn Store>, Error>) {
    let one = open().await.unwrap();
    let is_shared = one.limits().is_shared;
    win(&*one, &key("a"), Expect::Absent, &head(RUN, 1)).await;
    let sees_commits = match open().await {
        Err(Error::InUse { .. }) => false,
        Err(error) => panic!("a store that is open already cannot be opened again: {error}"),
        Ok(other) => {
            win(&*other, &key("b"), Expect::Absent, &head(RUN, 1)).await;
            let seen_by_other = other.load(&key("a")).await.unwrap();
            let seen_by_one = one.load(&key("b")).await.unwrap();
            other.close().await.unwrap();
            assert_eq!(seen_by_other.is_some(), seen_by_one.is_some(), "either both see the other's commits, or none");
            seen_by_one.is_some()
        }
    };
    assert_eq!(sees_commits, is_shared, "`Limits::is_shared` says whether two that have the store open share it");
    one.close().await.unwrap();
}
