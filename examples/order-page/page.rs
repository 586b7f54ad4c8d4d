//! The pages: plain HTML, made by a small server that knows nothing of an order but what its workflow says.

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

/// How long a page waits for the next.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Shop {
    client: Client,
    list: String,
    /// Numbers orders and pages.
    numbers: AtomicU64,
}

impl Shop {
    pub(crate) fn new(client: Client, list: &str) -> Self {
        // Pages of an earlier process have other numbers.
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

    /// What the order shows now, and the tag that says how it is now.
    async fn screen(&self, order: &str) -> anyhow::Result<(Screen, String)> {
        // The tag first: if the order goes on in between, the page is stale, and refused when it is sent.
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

    /// A page, with a number that makes sending it twice the same as sending it once.
    fn page(&self, order: &str, screen: &Screen, tag: &str, complaint: &str) -> Html<String> {
        let (title, fields, button) = match screen {
            Screen::Cart => ("What would you like?", field("pieces", "How many pieces, at 12.50?"), "Go on"),
            Screen::Address => ("Where to?", field("street", "Street and town"), "Go on"),
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

/// What went wrong that a page cannot help.
struct Trouble(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        (StatusCode::BAD_GATEWAY, format!("{:#}", self.0)).into_response()
    }
}

async fn begin(State(shop): State<Arc<Shop>>) -> Result<Redirect, Trouble> {
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

async fn show(State(shop): State<Arc<Shop>>, Path(order): Path<String>) -> Result<Html<String>, Trouble> {
    let (screen, tag) = shop.screen(&order).await?;
    Ok(shop.page(&order, &screen, &tag, ""))
}

async fn submit(
    State(shop): State<Arc<Shop>>,
    Path(order): Path<String>,
    Form(mut fields): Form<BTreeMap<String, String>>,
) -> Result<Response, Trouble> {
    let mut take = |name: &str| fields.remove(name).unwrap_or_default();
    let (screen, tag, number) = (take("screen"), take("tag"), take("number"));
    let input = Payload::of(&Filled { screen, fields })?;
    let update = UpdateWorkflow {
        input: Some(input),
        update_id: Some(number),
        identity: Some("order-page".to_owned()),
        ..UpdateWorkflow::default()
    };
    // The tag is all that keeps a stale page out: the order's own code does not know of it.
    let answered = shop.client.update(&order, "submit", &update, Some(&tag), PATIENCE).await;
    let complaint = match answered {
        Ok(_) => return Ok(Redirect::to(&format!("/orders/{order}")).into_response()),
        Err(error) => complaint(&error).ok_or(error)?,
    };
    let (screen, tag) = shop.screen(&order).await?;
    Ok((StatusCode::CONFLICT, shop.page(&order, &screen, &tag, &complaint)).into_response())
}

/// What a page says about a refusal; `None` where it is no answer to the page.
fn complaint(error: &Error) -> Option<String> {
    let Error::Refused { problem, .. } = error else { return None };
    match problem.code.as_str() {
        "version-moved" | "run-closed" => Some("That page was out of date. This is how your order is now.".to_owned()),
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
