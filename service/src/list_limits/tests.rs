use std::path::Path;

use engine::list_settings::{
    BURST_MAX, KEY_WEIGHT_MAX, LIMIT_GROUPS_MAX, LIMITED_KEYS_MAX, LISTS_WITH_SETTINGS_MAX, MAX_RUNNING_MAX,
    PER_SECOND_MAX,
};

use super::*;
use crate::config;
use crate::settings::Serve;

const LIST: &str = "[[task-lists]]\ndomain = 'shop'\nname = 'payments'\nkind = 'activities'\n";
const GROUP: &str = "[[limit-groups]]\ndomain = 'shop'\nname = 'bank'\n";

fn read(text: &str) -> Result<ListLimits, String> {
    config::parse_file::<Serve>(Path::new("baton.toml"), text)?.list_limits()
}

fn side(name: &str, is_decider: bool) -> ListSide {
    ListSide { name: name.to_owned(), is_decider }
}

fn rate(thousandths: u32, burst: u32) -> StartRate {
    StartRate { per_second: Factor::from_thousandths(thousandths), burst }
}

#[test]
fn sections_have_all_settings_of_lists_and_groups() {
    let found = read(&format!(
        "{LIST}max-running = 20\nrate = '90/m'\nburst = 9\nper-key-max-running = 2\nper-key-rate = '0.5/s'\n\
         per-key-burst = 3\nkeys = {{ visa = '10', trial = '1,0.5/s', gold = 'weight:3' }}\ngroup = 'bank'\n\
         {}\n{GROUP}max-running = 30\nrate = '10/s'\n",
        LIST.replace("activities", "deciders")
    ));
    let key = |max_running, rate, weight| KeySettings { limits: TaskLimits { max_running, rate }, weight };
    let keys = [
        ("visa", key(Some(10), None, None)),
        ("trial", key(Some(1), Some(rate(500, 1)), None)),
        ("gold", key(None, None, Some(3))),
    ];
    let settings = ListSettings {
        limits: TaskLimits { max_running: Some(20), rate: Some(rate(1_500, 9)) },
        per_key: TaskLimits { max_running: Some(2), rate: Some(rate(500, 3)) },
        keys: keys.map(|(key, own)| (key.to_owned(), own)).into(),
        group: Some("bank".to_owned()),
        paused: None,
    };
    let bank = TaskLimits { max_running: Some(30), rate: Some(rate(10_000, 10)) };
    let shop = DomainLists {
        // A section without limits removes the limits of the list.
        lists: [(side("payments", false), settings), (side("payments", true), ListSettings::default())].into(),
        groups: [("bank".to_owned(), bank)].into(),
        ..DomainLists::default()
    };
    assert_eq!(found, Ok(ListLimits([("shop".to_owned(), shop)].into())));
    assert_eq!(read(""), Ok(ListLimits::default()));
}

#[test]
fn errors_name_the_place_and_what_is_expected() {
    for (text, says) in [
        ("[[task-lists]]\ndomain = 'shop'\nkind = 'activities'".to_owned(), "`task-lists[0]`: missing field `name`"),
        (format!("{LIST}max_running = 1"), "line 5, column 1: `task-lists[0].max_running`: unknown field"),
        (format!("{LIST}paused = true"), "unknown field `paused`"),
        (LIST.replace("activities", "runners"), "unknown variant `runners`, expected `activities` or `deciders`"),
        (format!("{LIST}max-running = -1"), "line 5, column 15: `task-lists[0].max-running`: invalid value"),
        (
            format!("{LIST}rate = '5'"),
            "line 5, column 8: `task-lists[0].rate`: expected a number per second or minute, such as 5/s or 90/m, \
             found \"5\"",
        ),
        (format!("{LIST}per-key-rate = '5/h'"), "`task-lists[0].per-key-rate`: expected a number per second"),
        (
            format!("{LIST}keys = {{ visa = 'x' }}"),
            "line 5, column 17: `task-lists[0].keys.visa`: `x`: invalid digit found in string; expected limits such",
        ),
        (format!("{LIST}keys = {{ visa = 10 }}"), "`task-lists[0].keys.visa`: invalid type: integer `10`"),
        (format!("{LIST}burst = 1"), "`payments` (activities) in domain `shop`: `burst` requires `rate`"),
        (format!("{LIST}per-key-burst = 1"), "`per-key-burst` requires `per-key-rate`"),
        (format!("{LIST}group = 'bank'"), "the group `bank` is not in the file; add [[limit-groups]]"),
        (
            format!("{LIST}group = 'bank'\n{}max-running = 1", GROUP.replace("shop", "other")),
            "the group `bank` is not in the file",
        ),
        (
            format!("{LIST}{LIST}"),
            "there are two [[task-lists]] for `payments` (activities) in domain `shop`; merge them",
        ),
        (
            format!("{GROUP}max-running = 1\n{GROUP}max-running = 1"),
            "there are two [[limit-groups]] for `bank` in domain `shop`; merge them",
        ),
        (GROUP.to_owned(), "`bank` in domain `shop`: expected `max-running`, `rate` or both"),
        (format!("{GROUP}burst = 1"), "`burst` requires `rate`"),
        (format!("{GROUP}max-running = 0"), "`bank` in domain `shop`: `max-running` is 0; expected 1 to 100000"),
        (LIST.replace("'shop'", "''"), "`domain`"),
        (LIST.replace("'payments'", "''"), "`name`"),
        (GROUP.replace("'bank'", "''") + "max-running = 1", "`name`"),
        (format!("{LIST}keys = {{ '' = '1' }}"), "`keys.`"),
    ] {
        let refused = read(&text).unwrap_err();
        assert!(refused.contains(says), "{text}\n{refused}");
    }
}

#[test]
fn limits_have_the_same_bounds_as_over_rest() {
    let line = |key: &str, value: String| format!("{LIST}per-key-rate = '1/s'\n{key} = {value}\n");
    let of_key = |limits: String| line("keys", format!("{{ visa = '{limits}' }}"));
    let (running, burst, per_second) = (MAX_RUNNING_MAX, BURST_MAX, PER_SECOND_MAX);
    for (last, beyond, key) in [
        (line("max-running", running.to_string()), line("max-running", (running + 1).to_string()), "max-running"),
        (line("max-running", "1".to_owned()), line("max-running", "0".to_owned()), "max-running"),
        (
            line("per-key-max-running", running.to_string()),
            line("per-key-max-running", (running + 1).to_string()),
            "per-key-max-running",
        ),
        (line("rate", format!("'{per_second}/s'")), line("rate", format!("'{per_second}.001/s'")), "rate"),
        (line("rate", "'0.001/s'".to_owned()), line("rate", "'0/s'".to_owned()), "rate"),
        (line("per-key-burst", burst.to_string()), line("per-key-burst", (burst + 1).to_string()), "per-key-burst"),
        (
            line("rate", format!("'1/s'\nburst = {burst}")),
            line("rate", format!("'1/s'\nburst = {}", burst + 1)),
            "burst",
        ),
        (of_key(running.to_string()), of_key((running + 1).to_string()), "keys.visa"),
        (of_key(format!("{per_second}/s")), of_key("0/s".to_owned()), "keys.visa"),
        (of_key(format!("weight:{KEY_WEIGHT_MAX}")), of_key(format!("weight:{}", KEY_WEIGHT_MAX + 1)), "keys.visa"),
    ] {
        assert!(read(&last).is_ok(), "{last}");
        let refused = read(&beyond).unwrap_err();
        let has_range = ["; expected 1 to ", "; expected 0.001 to 1000000"].iter().any(|range| refused.contains(range));
        assert!(refused.contains(&format!("`{key}` is ")) && has_range, "{beyond}\n{refused}");
    }
    let per_key = line("per-key-rate", "'0/s'".to_owned()).replace("per-key-rate = '1/s'\n", "");
    assert!(read(&per_key).unwrap_err().contains("`per-key-rate` is 0; expected 0.001 to 1000000"));
}

#[test]
fn the_number_of_sections_and_keys_is_bounded() {
    let keys = |count: usize| {
        let keys: Vec<String> = (0..count).map(|number| format!("k{number} = '1'")).collect();
        read(&format!("{LIST}keys = {{ {} }}", keys.join(", ")))
    };
    assert!(keys(LIMITED_KEYS_MAX).is_ok());
    let refused = keys(LIMITED_KEYS_MAX + 1).unwrap_err();
    assert!(refused.contains("`keys` has 101 keys, at most 100 are allowed"), "{refused}");
    let lists = |count: usize| {
        let list = |number| LIST.replace("payments", &format!("l{number}")) + "max-running = 1\n";
        read(&(0..count).map(list).collect::<String>())
    };
    assert!(lists(LISTS_WITH_SETTINGS_MAX).is_ok());
    let refused = lists(LISTS_WITH_SETTINGS_MAX + 1).unwrap_err();
    assert!(refused.contains("of domain `shop`: limit reached: at most 200 "), "{refused}");
    let groups = |count: usize| {
        let group = |number| GROUP.replace("bank", &format!("g{number}")) + "max-running = 1\n";
        read(&(0..count).map(group).collect::<String>())
    };
    assert!(groups(LIMIT_GROUPS_MAX).is_ok());
    let refused = groups(LIMIT_GROUPS_MAX + 1).unwrap_err();
    assert!(refused.contains("of domain `shop`: limit reached: at most 50 "), "{refused}");
}

#[test]
fn a_removed_section_is_reported_with_the_command_to_run() {
    let before = read(&format!("{LIST}group = 'bank'\n{GROUP}max-running = 1")).unwrap();
    let removed = before.removed(&ListLimits::default());
    assert!(removed[0].contains("`baton task-list limit payments --activities --remove --domain shop`"), "{removed:?}");
    assert!(removed[1].contains("`baton limit-group delete bank --domain shop`"), "{removed:?}");
    assert_eq!(before.removed(&before), Vec::<String>::new());
}
