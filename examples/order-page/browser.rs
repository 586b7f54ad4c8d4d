//! A test that clicks through the pages in a headless browser. It needs Chromium and its driver, and is therefore a
//! separate command: `.ci/browser`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of a test, which the lint does not recognize as tests"
)]

use std::process::Stdio;
use std::sync::Arc;

use baton_client::Client;
use baton_history::EventKind;
use engine::{Engine, Settings, SystemClock};
use serde_json::{Value, json};
use service::access::Credentials;
use service::api::router_for;
use service::http::{Server, ServerLimits};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;

/// A headless browser, controlled through the `WebDriver` protocol.
struct Browser {
    http: reqwest::Client,
    session: String,
    driver: tokio::process::Child,
}

/// Time limit for a page. Ours: enough for a machine ten times slower than a desktop.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);

/// Error message of Chrome's driver for an element that disappeared with its page. The protocol defines "stale element
/// reference" for this case, but the driver sometimes reports this message instead.
const GONE: &str = "Node with given id does not belong to the document";

/// Key of an element's id in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

impl Drop for Browser {
    /// Kills the driver together with the browser it started, which would otherwise keep running.
    fn drop(&mut self) {
        if let Some(group) = self.driver.id() {
            drop(std::process::Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status());
        }
    }
}

impl Browser {
    async fn open() -> Self {
        let driver = tokio::process::Command::new("chromedriver")
            .args(["--port=0"])
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn();
        let mut driver = driver.unwrap_or_else(|error| {
            panic!("this test needs a browser: apt-get install chromium chromium-driver (chromedriver: {error})")
        });
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = loop {
            let line = lines.next_line().await.unwrap().expect("chromedriver says its port");
            if let Some((_, port)) = line.split_once("successfully on port ") {
                break port.trim_end_matches('.').to_owned();
            }
        };
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
        let wanted = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": { "args": args } } } });
        let url = format!("http://127.0.0.1:{port}/session");
        let mut browser = Self { http, session: url, driver };
        let session = browser.ask("", Some(&wanted)).await;
        browser.session = format!("{}/{}", browser.session, session["sessionId"].as_str().unwrap());
        browser
    }

    async fn try_ask(&self, path: &str, body: Option<&Value>) -> Result<Value, Value> {
        let url = format!("{}{path}", self.session);
        let request = match body {
            Some(body) => self.http.post(url).header("content-type", "application/json").body(body.to_string()),
            None => self.http.get(url),
        };
        let answer = request.send().await.unwrap().bytes().await.unwrap();
        let mut answer: Value = serde_json::from_slice(&answer).unwrap();
        let value = answer["value"].take();
        if value["error"].is_null() { Ok(value) } else { Err(value) }
    }

    async fn ask(&self, path: &str, body: Option<&Value>) -> Value {
        self.try_ask(path, body).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    async fn go(&self, url: &str) {
        self.ask("/url", Some(&json!({ "url": url }))).await;
    }

    /// Sends a command to an element. Returns `None` if there is no such element, or if it disappears with its page;
    /// then the command had no effect.
    async fn of_element(&self, selector: &str, what: &str, body: Option<&Value>) -> Option<Value> {
        let find = json!({ "using": "css selector", "value": selector });
        let found = self.known(self.try_ask("/element", Some(&find)).await)?;
        let element = found[ELEMENT].as_str().expect("an element");
        self.known(self.try_ask(&format!("/element/{element}{what}"), body).await)
    }

    /// Returns the response, or `None` if the element does not exist or cannot be used yet.
    fn known(&self, answer: Result<Value, Value>) -> Option<Value> {
        match answer {
            Ok(value) => Some(value),
            Err(error) => match error["error"].as_str() {
                Some("no such element" | "stale element reference" | "element not interactable") => None,
                Some("unknown error") if error["message"].as_str().is_some_and(|message| message.contains(GONE)) => {
                    None
                }
                _ => panic!("{}: {error}", self.session),
            },
        }
    }

    /// Waits until an element exists and its response satisfies the condition.
    async fn until(&self, selector: &str, what: &str, body: Option<&Value>, is_so: impl Fn(&Value) -> bool) {
        let answered = async {
            while !self.of_element(selector, what, body).await.as_ref().is_some_and(&is_so) {
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, answered).await.is_ok();
        assert!(in_time, "{selector}{what} timed out:\n{}", self.ask("/source", None).await);
    }

    /// Waits until the element shows this text.
    async fn shows(&self, selector: &str, expected: &str) {
        self.until(selector, "/text", None, |text| *text == expected).await;
    }

    /// Fills in the only field of the form, and submits it.
    async fn send(&self, text: &str) {
        self.until("label input", "/value", Some(&json!({ "text": text })), |_| true).await;
        self.until("button", "/click", Some(&json!({})), |_| true).await;
    }

    async fn tab(&self) -> String {
        self.ask("/window", None).await.as_str().unwrap().to_owned()
    }

    async fn new_tab(&self) -> String {
        let opened = self.ask("/window/new", Some(&json!({ "type": "tab" }))).await;
        opened["handle"].as_str().unwrap().to_owned()
    }

    async fn switch(&self, tab: &str) {
        self.ask("/window", Some(&json!({ "handle": tab }))).await;
    }
}

async fn service() -> Client {
    let store = Arc::new(store::memory::Memory::new());
    let engine = Engine::open(store, Arc::new(SystemClock), Settings::default()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = router_for(engine, Credentials::default());
    tokio::spawn(
        Server { listener, router, limits: ServerLimits::default(), tls: None }.run_until(std::future::pending()),
    );
    Client::new(&url).unwrap()
}

#[tokio::test]
async fn a_browser_completes_an_order_and_a_stale_page_is_refused() {
    let client = service().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(crate::shop(client.clone(), listener));
    let browser = Browser::open().await;
    browser.go(&address).await;
    browser.shows("h1", "What would you like?").await;
    browser.send("99").await;
    browser.shows("#complaint", "Between 1 and 10 pieces, please.").await;
    browser.send("2").await;
    browser.shows("h1", "Where to?").await;

    // The same page in a second tab, in which the order continues.
    let first = browser.tab().await;
    let url = browser.ask("/url", None).await.as_str().unwrap().to_owned();
    let second = browser.new_tab().await;
    browser.switch(&second).await;
    browser.go(&url).await;
    browser.send("nowhere").await;
    browser.shows("#complaint", "There is no such place.").await;
    browser.send("Main Street 1").await;
    // The response waited for the activity.
    browser.shows("#total", "25.00 to Main Street 1").await;

    // The page in the first tab is stale now.
    browser.switch(&first).await;
    browser.send("Other Street 2").await;
    browser.shows("#complaint", "That page was out of date. This is the current state of your order.").await;
    browser.shows("#total", "25.00 to Main Street 1").await;
    browser.send("4111 1111").await;
    browser.shows("h1", "Thank you!").await;
    browser.shows("#sold", "25.00 to Main Street 1").await;

    let order = url.rsplit('/').next().unwrap();
    let events = client.events(order, None).await.unwrap();
    let count = |name: &str| events.iter().filter(|event| event.kind.name() == name).count();
    // The cart, the unknown address, the address and the card; not the ninety-nine pieces, and not the stale page.
    assert_eq!((count("UpdateAccepted"), count("UpdateCompleted"), count("UpdateFailed")), (4, 3, 1));
    assert!(matches!(events.last().unwrap().kind, EventKind::WorkflowSuccess(_)));
}
