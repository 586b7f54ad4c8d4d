//! `baton node …`: the nodes of a shared store.

use clap::Subcommand;
use client::body::{ListedNode, NodeList};

use super::described::shown;
use super::{Done, Failed, Target, note, print_json, print_rows, print_text};

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List the live nodes that share the store; requires an operator's credential
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Show a live node; requires an operator's credential
    Show {
        /// Address of the node, as `baton node list` shows it [default: the node that responds]
        address: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        target: Target,
    },
}

impl NodeCommand {
    pub(crate) async fn run(self) -> Done {
        match self {
            Self::List { json, target } => {
                let NodeList { nodes, due_shards } = target.client()?.nodes().await?;
                if json {
                    return print_json(&nodes);
                }
                if nodes.is_empty() {
                    note(NOT_SHARED);
                    return Ok(());
                }
                print_rows(["address", "version", "due shards", "responds"], nodes.iter().map(|it| row(it, due_shards)))
            }
            Self::Show { address, json, target } => {
                let NodeList { nodes, due_shards } = target.client()?.nodes().await?;
                let node = find(nodes, address.as_deref())?;
                if json { print_json(&node) } else { print_text(&show(&node, due_shards)) }
            }
        }
    }
}

/// Message if the service is not one of several nodes.
const NOT_SHARED: &str = "the store is not shared: this service is its only node";

/// Returns the node with this address, or without an address the node that has responded.
fn find(nodes: Vec<ListedNode>, address: Option<&str>) -> Result<ListedNode, Failed> {
    if nodes.is_empty() {
        return Err(Failed::Other(1, NOT_SHARED.to_owned()));
    }
    let is_wanted = |node: &ListedNode| address.map_or(node.responding, |address| node.address == address);
    let known = nodes.iter().map(|node| node.address.clone()).collect::<Vec<_>>().join(", ");
    nodes.into_iter().find(is_wanted).ok_or_else(|| {
        let sought = address.map_or_else(|| "node that responds".to_owned(), |address| format!("node `{address}`"));
        Failed::Other(1, format!("there is no live {sought}: the live nodes are {known}"))
    })
}

fn row(node: &ListedNode, due_shards: u32) -> [String; 4] {
    let version = node.version.clone().unwrap_or_else(|| "unknown".to_owned());
    let responds = if node.responding { "yes" } else { "" };
    [node.address.clone(), version, format!("{} of {due_shards}", node.due_shards), responds.to_owned()]
}

fn show(node: &ListedNode, due_shards: u32) -> String {
    let responding = if node.responding { ", which responds" } else { "" };
    let version = node.version.as_deref().unwrap_or("unknown");
    shown(&[
        format!("node       {}{responding}", node.address),
        format!("version    {version}"),
        format!("shards     {} of {due_shards} shards of the index of due times", node.due_shards),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(address: &str, responding: bool) -> ListedNode {
        let version = responding.then(|| "1.2.3".to_owned());
        ListedNode { address: address.to_owned(), responding, version, due_shards: 3 }
    }

    #[test]
    fn a_node_is_found_by_its_address_or_because_it_responds() {
        let nodes = || vec![node("a:1", false), node("b:1", true)];
        assert_eq!(find(nodes(), Some("a:1")).unwrap().address, "a:1");
        assert_eq!(find(nodes(), None).unwrap().address, "b:1");
        for (nodes, address, expected) in [
            (nodes(), Some("c:1"), "no live node `c:1`: the live nodes are a:1, b:1"),
            (vec![node("a:1", false)], None, "no live node that responds: the live nodes are a:1"),
            (Vec::new(), None, "only node"),
            (Vec::new(), Some("a:1"), "only node"),
        ] {
            let Err(Failed::Other(1, why)) = find(nodes, address) else { unreachable!("{expected}") };
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn a_node_is_shown_with_its_share_of_the_shards() {
        assert_eq!(row(&node("a:1", true), 8), ["a:1", "1.2.3", "3 of 8", "yes"]);
        assert_eq!(row(&node("a:1", false), 8), ["a:1", "unknown", "3 of 8", ""]);
        let expected =
            "node       a:1, which responds\nversion    1.2.3\nshards     3 of 8 shards of the index of due times";
        assert_eq!(show(&node("a:1", true), 8), expected);
    }
}
