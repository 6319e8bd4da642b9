//! The tree.

use crate::{Position, spelling};

/// A parsed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub(crate) root: Node,
}

impl Document {
    /// A document that was not written as text: what its author has bounded. Positions are for its order
    /// alone.
    pub fn of(root: Node) -> Document {
        Document { root }
    }

    /// The outermost node; [`NodeValue::Null`] for an empty text.
    pub fn root(&self) -> &Node {
        &self.root
    }
}

/// A value and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The first character.
    pub position: Position,
    /// What stands there.
    pub value: NodeValue,
}

/// The kinds of node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeValue {
    /// Nothing, or one of the plain words `null`, `Null`, `NULL` and `~` (YAML 1.2, section 10.3.2).
    Null,
    /// Text, not interpreted.
    Scalar {
        /// The text, quotes and escapes resolved.
        text: String,
        /// In quotes or in a block (`|`, `>`): certainly meant as text.
        quoted: bool,
    },
    /// Items in order.
    List(Vec<Node>),
    /// Keys in the order of the text, each once.
    Map(Vec<(Key, Node)>),
}

/// A key of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its first character.
    pub position: Position,
    /// The text, quotes and escapes resolved.
    pub text: String,
}

impl Node {
    /// The text of a scalar.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn as_list(&self) -> Option<&[Node]> {
        match &self.value {
            NodeValue::List(items) => Some(items),
            _ => None,
        }
    }

    /// The entries of a map.
    pub fn as_map(&self) -> Option<&[(Key, Node)]> {
        match &self.value {
            NodeValue::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// Is there nothing?
    pub fn is_null(&self) -> bool {
        self.value == NodeValue::Null
    }

    /// The value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, node)| node)
    }

    /// A key with its value, if this is a map that has it.
    pub fn entry(&self, key: &str) -> Option<(&Key, &Node)> {
        self.as_map()?.iter().find(|(k, _)| k.text == key).map(|(k, node)| (k, node))
    }

    /// Where `functions.fw.config.rules[2].action` stands below this one, or as much of the way there as
    /// there is. Names may have dots in them: of several keys that fit, the longest is meant. `at_key`: where
    /// the last key stands, and not its value.
    pub fn position_of(&self, at: &str, at_key: bool) -> Option<Position> {
        let (mut node, mut rest, mut found) = (self, at, None);
        while !rest.is_empty() {
            if let Some((index, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                let Some(item) = index.parse::<usize>().ok().and_then(|index| node.as_list()?.get(index))
                else {
                    break;
                };
                (node, rest, found) = (item, after.strip_prefix('.').unwrap_or(after), Some(item.position));
                continue;
            }
            let fits = |key: &str| {
                let after = rest.strip_prefix(key)?;
                (after.is_empty() || after.starts_with(['.', '['])).then_some(after)
            };
            let entries = node.as_map().unwrap_or_default().iter();
            let fitting =
                entries.filter_map(|(key, node)| Some((key, node, fits(&spelling::shown(&key.text))?)));
            let Some((key, value, after)) = fitting.min_by_key(|(_, _, after)| after.len()) else { break };
            let last = after.is_empty() && at_key;
            found = Some(if last || value.is_null() { key.position } else { value.position });
            (node, rest) = (value, after.strip_prefix('.').unwrap_or(after));
        }
        found
    }

    /// What stands here in the words of a fault: "found a list", "found `10`".
    pub fn found(&self) -> String {
        match &self.value {
            NodeValue::Null => "found nothing".to_owned(),
            NodeValue::Scalar { text, quoted: false } => format!("found `{}`", spelling::shown(text)),
            NodeValue::Scalar { text, quoted: true } => {
                format!("found the text \"{}\"", spelling::shown(text))
            }
            NodeValue::List(_) => "found a list".to_owned(),
            NodeValue::Map(_) => "found a map".to_owned(),
        }
    }
}
