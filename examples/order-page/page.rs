//! The pages: plain HTML from a small server. The server reads all data of an order from the order's workflow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use axum::extract::{Form, Path, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use baton_client::body::{StartWorkflow, UpdateWorkflow};
use baton_client::{Client, Error, Page};
use baton_history::{EventKind, Payload};

use crate::flow::{Filled, Screen};

/// Time limit for the answer to a submitted page.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Shop {
    client: Client,
    list: String,
    /// Next number for the id of an order or a page.
    numbers: AtomicU64,
}

impl Shop {
    pub(crate) fn new(client: Client, list: &str) -> Self {
        // The numbers begin with the process id, so that they differ from the numbers of earlier processes.
        let first = u64::from(std::process::id()) << 32;
        Self { client, list: list.to_owned(), numbers: AtomicU64::new(first) }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn router(self) -> axum::Router {
        let orders = get(show).post(submit);
        #[expect(clippy::disallowed_methods, reason = "the page of an application, which knows its own callers")]
        axum::Router::new().route("/", get(begin)).route("/orders/{order}", orders).with_state(Arc::new(self))
    }

    /// Returns the current screen of the order, and the entity tag of its current state.
    async fn screen(&self, order: &str) -> anyhow::Result<(Screen, String)> {
        // The tag is read before the screen. If the order continues between the two reads, the tag is outdated, and the
        // page will be refused when it is submitted.
        let tag = self.client.etag(order, None).await?;
        let page = Page { reverse: true, limit: Some(100), ..Page::default() };
        let newest = self.client.history(order, None, &page).await?.events;
        let answered = newest.iter().find_map(|event| match &event.kind {
            EventKind::UpdateCompleted(it) => it.result.as_ref(),
            _ => None,
        });
        let screen = match answered {
            Some(screen) => screen.read().context("a screen")?,
            None => Screen::Cart,
        };
        Ok((screen, tag))
    }

    /// Renders a page. The page's number is the id of its update, so submitting the page twice has no further effect.
    fn page(&self, order: &str, screen: &Screen, tag: &str, complaint: &str) -> Html<String> {
        let (title, fields, button) = match screen {
            Screen::Cart => ("What would you like?", field("pieces", "How many pieces, at 12.50 each?"), "Continue"),
            Screen::Address => ("Where to?", field("street", "Street and town"), "Continue"),
            Screen::Payment { to, cents } => {
                let what = format!("<p id=\"total\">{} to {}</p>", money(*cents), escape(to));
                ("How will you pay?", what + &field("card", "Card number"), "Pay")
            }
            Screen::Thanks { to, cents } => {
                let what =
                    format!("<p id=\"sold\">{} to {}</p><a href=\"/\">Another one</a>", money(*cents), escape(to));
                ("Thank you!", what, "")
            }
        };
        let form = if button.is_empty() {
            fields
        } else {
            format!(
                "<form method=\"post\"><input type=\"hidden\" name=\"screen\" value=\"{}\"><input type=\"hidden\" \
                 name=\"tag\" value=\"{}\"><input type=\"hidden\" name=\"number\" value=\"{}\">{fields}\
                 <button>{button}</button></form>",
                screen.name(),
                escape(tag),
                self.number(),
            )
        };
        let complaint = if complaint.is_empty() {
            String::new()
        } else {
            format!("<p class=\"complaint\" id=\"complaint\">{}</p>", escape(complaint))
        };
        let page = include_str!("page.html").replace("{title}", title).replace("{order}", &escape(order));
        Html(page.replace("{complaint}", &complaint).replace("{form}", &form))
    }
}

/// An error for which no page is shown. The response has the status 502 and contains only the error's text.
struct PageError(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for PageError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        (StatusCode::BAD_GATEWAY, format!("{:#}", self.0)).into_response()
    }
}

async fn begin(State(shop): State<Arc<Shop>>) -> Result<Redirect, PageError> {
    let workflow_id = format!("order-{}", shop.number());
    let start = StartWorkflow {
        workflow_id: workflow_id.clone(),
        workflow_type: "order-page".to_owned(),
        task_list: Some(shop.list.clone()),
        ..StartWorkflow::default()
    };
    shop.client.start(&start, Some(&workflow_id)).await?;
    Ok(Redirect::to(&format!("/orders/{workflow_id}")))
}

async fn show(State(shop): State<Arc<Shop>>, Path(order): Path<String>) -> Result<Html<String>, PageError> {
    let (screen, tag) = shop.screen(&order).await?;
    Ok(shop.page(&order, &screen, &tag, ""))
}

async fn submit(
    State(shop): State<Arc<Shop>>,
    Path(order): Path<String>,
    Form(mut fields): Form<BTreeMap<String, String>>,
) -> Result<Response, PageError> {
    let mut take = |name: &str| fields.remove(name).unwrap_or_default();
    let (screen, tag, number) = (take("screen"), take("tag"), take("number"));
    let input = Payload::of(&Filled { screen, fields })?;
    let update = UpdateWorkflow {
        input: Some(input),
        update_id: Some(number),
        identity: Some("order-page".to_owned()),
        ..UpdateWorkflow::default()
    };
    // The service refuses stale pages by the entity tag. The flow has no code for stale pages.
    let answered = shop.client.update(&order, "submit", &update, Some(&tag), PATIENCE).await;
    let complaint = match answered {
        Ok(_) => return Ok(Redirect::to(&format!("/orders/{order}")).into_response()),
        Err(error) => complaint(&error).ok_or(error)?,
    };
    let (screen, tag) = shop.screen(&order).await?;
    Ok((StatusCode::CONFLICT, shop.page(&order, &screen, &tag, &complaint)).into_response())
}

/// Returns the message that the page shows for a refusal of the submitted page. Returns `None` for other errors.
fn complaint(error: &Error) -> Option<String> {
    let Error::Refused { problem, .. } = error else { return None };
    match problem.code.as_str() {
        "version-mismatch" | "run-closed" => {
            Some("That page was out of date. This is the current state of your order.".to_owned())
        }
        "update-rejected" | "update-failed" => {
            let details = problem.members.get("details").and_then(|details| details.as_str());
            Some(details.map_or_else(|| problem.detail.clone(), str::to_owned))
        }
        _ => None,
    }
}

fn field(name: &str, label: &str) -> String {
    format!("<label>{label}<input name=\"{name}\" autofocus></label>")
}

fn money(cents: u32) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
