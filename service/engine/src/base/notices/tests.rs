use super::*;

#[test]
fn every_kind_has_a_place_of_its_own() {
    let places = NoticeKind::ALL.map(NoticeKind::place);
    assert_eq!(places, std::array::from_fn(|place| place));
}

#[test]
fn text_of_others_stays_on_one_line_and_is_cut() {
    for (text, shown) in [
        ("boom", "boom".to_owned()),
        ("zażółć 漢字", "zażółć 漢字".to_owned()),
        ("two\nlines\r\n", "two\\nlines\\r\\n".to_owned()),
        ("\u{1b}[31mred", "\\u{1b}[31mred".to_owned()),
        ("a\u{2028}b\u{202e}c", "a\\u{2028}b\\u{202e}c".to_owned()),
        (&"漢".repeat(TEXT_CHARS_MAX), "漢".repeat(TEXT_CHARS_MAX)),
        (&"漢".repeat(TEXT_CHARS_MAX + 1), format!("{}…", "漢".repeat(TEXT_CHARS_MAX))),
    ] {
        assert_eq!(in_log(text), shown);
    }
}

#[test]
fn a_word_of_a_command_is_quoted_for_the_shell() {
    for (word, shown) in [
        ("order-1", "order-1"),
        ("eu/orders:7@x", "eu/orders:7@x"),
        ("", "''"),
        ("--domain", "'--domain'"),
        ("two words", "'two words'"),
        ("$(rm -rf ~)", "'$(rm -rf ~)'"),
        ("it's", r"'it'\''s'"),
        ("zażółć", "'zażółć'"),
    ] {
        assert_eq!(in_shell(word), shown);
    }
}
