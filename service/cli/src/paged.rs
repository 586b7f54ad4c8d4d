//! Lists that the service returns in pages.

/// Returns the entries of all pages. `read` returns the page with this token, or the first one without a token, and the
/// token of the page after it.
///
/// # Errors
///
/// The first error of `read`.
pub(super) async fn all_pages<T>(
    read: impl AsyncFn(Option<String>) -> Result<(Vec<T>, Option<String>), client::Error>,
) -> Result<Vec<T>, client::Error> {
    let (mut entries, mut page) = (Vec::new(), None);
    loop {
        let (found, next) = read(page).await?;
        entries.extend(found);
        page = next;
        if page.is_none() {
            return Ok(entries);
        }
    }
}
