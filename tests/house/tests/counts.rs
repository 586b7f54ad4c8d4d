//! Tests of the measures on small examples, which contain findings and cases that must not count as findings.

use std::collections::BTreeSet;

use house::arrows::{Arrow, circles};
use house::{Arrows, Sources, debugged, names, references, texts};

fn arrows(texts: &[(&str, &str)]) -> Vec<(String, String)> {
    let sources = Sources::of("house", texts).expect("they are Rust");
    let arrows = Arrows::of(&sources);
    arrows.names.into_keys().map(|Arrow { from, to }| (from, to)).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect()
}

#[test]
fn an_arrow_leads_to_the_file_that_defines_a_name_however_it_is_reached() {
    let found = arrows(&[
        ("lib.rs", "mod a; mod b; pub use a::Deep;"),
        ("a.rs", "mod inner; pub use inner::Deep as Renamed; pub use inner::*;"),
        ("a/inner.rs", "pub struct Deep;"),
        ("b.rs", "use crate::a::Renamed; fn take(_: super::a::Deep) {}"),
    ]);
    assert_eq!(found, pairs(&[("b.rs", "a/inner.rs")]));
}

#[test]
fn handing_a_name_on_is_no_arrow_nor_is_who_may_see_it() {
    let found = arrows(&[("lib.rs", "mod a; pub use a::A;"), ("a.rs", "pub(crate) struct B; pub(super) struct A(B);")]);
    assert_eq!(found, pairs(&[]));
}

#[test]
fn what_a_macro_is_given_is_looked_at() {
    let found = arrows(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub const MAX: usize = 1;"),
        ("b.rs", "fn show() { println!(\"{}\", crate::a::MAX); }"),
    ]);
    assert_eq!(found, pairs(&[("b.rs", "a.rs")]));
}

#[test]
fn a_variable_that_is_called_as_a_module_is_none() {
    let found = arrows(&[("lib.rs", "mod a; fn f(a: usize) -> usize { a }"), ("a.rs", "")]);
    assert_eq!(found, pairs(&[]));
}

#[test]
fn tests_are_no_part_of_the_house() {
    let found = arrows(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub struct A;"),
        ("b.rs", "#[cfg(test)] mod tests { use crate::a::A; }"),
    ]);
    assert_eq!(found, pairs(&[]));
}

#[test]
fn a_circle_is_all_files_that_lead_to_each_other() {
    let found = circles([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("e", "f")]);
    let circle = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(found, [circle(&["a", "b", "c"]), circle(&["d", "e"])]);
}

#[test]
fn a_name_is_ambiguous_where_several_files_define_a_type_of_it() {
    let sources = Sources::of(
        "house",
        &[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "struct A; struct B; fn f() {}"),
            ("b.rs", "enum A {} trait C {} fn f() {}"),
        ],
    );
    let found = names::ambiguous(&sources.unwrap());
    assert_eq!(found.into_keys().collect::<Vec<_>>(), ["A"]);
}

#[test]
fn a_number_of_a_rule_is_known_from_other_words() {
    let found: Vec<_> =
        references::rules("see S1.23, (D11) and N8. Not S3, 4.5, A1, S1234, x/S1.1, or R2D2.").collect();
    assert_eq!(found, ["S1.23", "D11", "N8"]);
}

#[test]
fn a_line_that_git_left_is_known_by_its_seven_signs() {
    for sign in ["<", "|", ">"] {
        let signs = sign.repeat(7);
        assert!(texts::is_conflict(&signs) && texts::is_conflict(&format!("{signs} main")), "{signs}");
        assert!(!texts::is_conflict(&format!("{signs}{sign} main")) && !texts::is_conflict(&format!(" {signs} main")));
    }
    let middle = "=".repeat(7);
    assert!(texts::is_conflict(&middle) && !texts::is_conflict(&format!("{middle}=")));
}

#[test]
fn debug_forms_count_in_messages_and_not_in_assertions_or_tests() {
    let text = r#"
        #[derive(Debug, Error)]
        #[error("found {found:?}")]
        struct Wrong { found: u8 }
        fn say(it: u8) -> Result<(), Wrong> {
            println!("{it:?}");
            let _ = vec![format!("{:#?}", it)];
            tracing::info!(it = ?it, "said");
            tracing::info!(?it, "said");
            tracing::info!(it = of(it)?, more = of(it)?.more, %it, "said, was it?");
            println!("{it} {{:?");
            assert!(it > 0, "{it:?}");
            tokio::select! { it = wait() => tracing::warn!(?it, "late"), else => assert!(it, "{it:?}") }
            panic!("{it:?}")
        }
        macro_rules! either { ($one:expr, $other:expr $(, ?$more:expr)?) => {} }
        #[cfg(test)]
        mod tests { fn say() { println!("{:?}", 1); } }
    "#;
    let sources = Sources::of("house", &[("lib.rs", text)]).expect("it is Rust");
    assert_eq!(debugged::of(&sources), ["lib.rs:3", "lib.rs:6", "lib.rs:7", "lib.rs:8", "lib.rs:9", "lib.rs:13"]);
}
