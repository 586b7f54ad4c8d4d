//! `baton type` and `baton node`, and the commands of the page about the command line.

use serde_json::{Value, json};

use crate::commands::Shell;

const PAGE: &str = include_str!("../../../docs/cli.md");

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_work_as_written() {
    let shell = Shell::open("cli-page");
    let blocks = PAGE.split("```sh\n").skip(1).filter_map(|block| block.split_once("```"));
    let mut count = 0;
    for line in blocks.flat_map(|(block, _)| block.lines()) {
        if !line.contains("jq ") || std::process::Command::new("jq").arg("--version").output().is_ok() {
            let (code, out, said) = shell.script(line);
            assert_eq!(code, 0, "{line}: {out}{said}");
        }
        count += 1;
    }
    assert!(count > 12, "{count}");
    assert_eq!(shell.json("type list --workflows --json"), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_is_registered_listed_deprecated_and_deleted() {
    let shell = Shell::open("types");
    for (flag, kind) in [("--workflows", "workflow"), ("--activities", "activity")] {
        let defaults = "{\"taskList\":\"l\",\"taskPriority\":-1}";
        let line = format!("type register order/1 {flag} --description orders --defaults {defaults}");
        let shown = shell.ok(&line);
        for part in [&format!("type       order/1 ({kind}) since 2"), "about      orders", "default    taskList l"] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        assert!(shell.refused(&line).contains("type-exists"));
        let registered = shell.json(&format!("type register plain {flag} --json"));
        assert_eq!((&registered["type"], &registered["version"]), (&json!("plain"), &Value::Null));
        assert_eq!(shell.json(&format!("type show order/1 {flag} --json"))["defaults"]["taskPriority"], -1);
        let refused = shell.refused(&format!("type delete order/1 {flag}"));
        assert!(refused.contains("`baton type deprecate`"), "{refused}");
        let deprecated = shell.ok(&format!("type deprecate order/1 {flag}"));
        assert!(deprecated.contains("deprecated since 2"), "{deprecated}");
        let names = |options: &str| -> Vec<String> {
            let listed = shell.json(&format!("type list {flag} --json{options}"));
            listed.as_array().unwrap().iter().map(|it| format!("{} {}", it["kind"], it["type"])).collect()
        };
        assert_eq!(names(""), [format!("\"{kind}\" \"order/1\""), format!("\"{kind}\" \"plain\"")]);
        assert_eq!(names(" --deprecated"), [format!("\"{kind}\" \"order/1\"")]);
        assert_eq!(names(" --active"), [format!("\"{kind}\" \"plain\"")]);
        assert!(!shell.ok(&format!("type undeprecate order/1 {flag}")).contains("deprecated"));
        let listed = shell.ok("type list");
        assert!(listed.lines().any(|line| line.split_whitespace().eq([kind, "order/1", "active"])), "{listed}");
        shell.ok(&format!("type deprecate order/1 {flag}"));
        assert_eq!(shell.ok(&format!("type delete order/1 {flag}")), "");
        let refused = shell.refused(&format!("type show order/1 {flag}"));
        assert!(refused.contains("unknown-type") && refused.contains("`baton type list`"), "{refused}");
    }
    for (line, expected) in [
        ("type show t", "--workflows|--activities"),
        ("type show t --workflows --activities", "cannot be used with"),
        ("type list --workflows --activities", "cannot be used with"),
        ("type list --active --deprecated", "cannot be used with"),
        ("type register t --workflows --defaults {\"timeouts\":{}}", "defaults of workflow types: unknown field"),
        ("type register t --activities --defaults [", "the input is not JSON"),
    ] {
        let (code, text) = shell.run(line);
        assert!(code == 2 && text.contains(expected), "{line}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_types_contains_all_pages() {
    let shell = Shell::open("type-pages");
    let client = shell.client();
    for number in 0..105 {
        let name = format!("t-{number:03}");
        let register = client::body::RegisterType::<history::WorkflowDefaults> {
            name,
            version: None,
            description: None,
            defaults: history::WorkflowDefaults::default(),
        };
        client.register_type(&register).await.unwrap();
    }
    assert_eq!(shell.json("type list --json").as_array().unwrap().len(), 105);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_not_shared_has_no_nodes() {
    let shell = Shell::open("one-node");
    let (code, out, said) = shell.script("baton node list");
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(said.contains("the store is not shared"), "{said}");
    assert_eq!(shell.json("node list --json"), json!([]));
    assert!(shell.refused("node show").contains("the store is not shared"));
    assert!(shell.refused("node show http://127.0.0.1:1 --json").contains("the store is not shared"));
}
