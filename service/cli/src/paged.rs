//! Lists that the service returns in pages.

use client::Error;

/// Returns the entries of all pages. `read` returns the page with this token, or the first one without a token, and the
/// token of the page after it.
///
/// # Errors
///
/// The first error of `read`.
pub(super) async fn all_pages<T>(
    read: impl AsyncFn(Option<String>) -> Result<(Vec<T>, Option<String>), Error>,
) -> Result<Vec<T>, Error> {
    let (entries, _) = entries_up_to(usize::MAX, read).await?;
    Ok(entries)
}

/// Returns at most `most` entries, and whether there may be more. Reads only as many pages as these entries need.
///
/// # Errors
///
/// The first error of `read`.
pub(super) async fn entries_up_to<T>(
    most: usize,
    read: impl AsyncFn(Option<String>) -> Result<(Vec<T>, Option<String>), Error>,
) -> Result<(Vec<T>, bool), Error> {
    let (mut entries, mut page) = (Vec::new(), None);
    loop {
        let (found, next) = read(page).await?;
        entries.extend(found);
        page = next;
        if page.is_none() || entries.len() >= most {
            let has_more = page.is_some() || entries.len() > most;
            entries.truncate(most);
            return Ok((entries, has_more));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_pages_that_are_needed_are_read() {
        // Pages with two entries; the third page is empty, and the fourth is the last one.
        let pages = [vec![1, 2], vec![3, 4], vec![], vec![5, 6]];
        for (most, entries, has_more, reads) in [
            (1, vec![1], true, 1),
            (2, vec![1, 2], true, 1),
            (3, vec![1, 2, 3], true, 2),
            (5, vec![1, 2, 3, 4, 5], true, 4),
            (6, vec![1, 2, 3, 4, 5, 6], false, 4),
            (usize::MAX, vec![1, 2, 3, 4, 5, 6], false, 4),
        ] {
            let count = std::cell::Cell::new(0);
            let found = entries_up_to(most, async |page: Option<String>| {
                count.set(count.get() + 1);
                let at: usize = page.map_or(0, |page| page.parse().unwrap());
                Ok((pages[at].clone(), (at + 1 < pages.len()).then(|| (at + 1).to_string())))
            })
            .await
            .unwrap();
            assert_eq!((found, count.get()), ((entries, has_more), reads), "{most}");
        }
    }
}
