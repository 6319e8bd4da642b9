//! Configuration and wires on the command line: `default_action=accept`, `rules=@rules.yaml`, `@all.yaml`;
//! `inside=lan`.

use serde_json::{Map, Value};
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use yaml_document::{Document, spelling};

/// Largest file of configuration.
const LARGEST: u64 = yaml_document::MAX_TEXT as u64;

/// A part of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Given {
    /// All of it.
    Whole(Map<String, Value>),
    /// What stands at the end of this way.
    Part(Vec<String>, Value),
}

impl FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Given, String> {
        if let Some(path) = text.strip_prefix('@') {
            return match file(path)? {
                Value::Object(entries) => Ok(Given::Whole(entries)),
                Value::Null => Ok(Given::Whole(Map::new())),
                _ => Err(format!("{path}: found no map; allowed: the keys of a configuration")),
            };
        }
        let form = || {
            let text = spelling::shown(text);
            format!("`{text}` is no part of a configuration; allowed: KEY=VALUE, KEY=@FILE, @FILE")
        };
        let (way, value) = text.split_once('=').ok_or_else(form)?;
        let way: Vec<_> = way.split('.').map(str::to_owned).collect();
        if way.iter().any(String::is_empty) {
            return Err(form());
        }
        let value = match value.strip_prefix('@') {
            Some(path) => file(path)?,
            None => parsed("value", value)?,
        };
        Ok(Given::Part(way, value))
    }
}

fn file(path: &str) -> Result<Value, String> {
    let mut bytes = Vec::new();
    local_file::open_given(Path::new(path))
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("{path}: {error}"))?;
    let text = yaml_document::text(path, &bytes).map_err(|fault| fault.to_string())?;
    parsed(path, text)
}

fn parsed(name: &str, text: &str) -> Result<Value, String> {
    Document::parse(name, text)
        .map(|document| api_server::json_of(document.root()))
        .map_err(|fault| fault.to_string())
}

/// Puts parts together; `None` when there are none.
///
/// # Errors
/// Two parts that do not go together.
pub(crate) fn configuration(parts: &[Given]) -> Result<Option<Value>, String> {
    let mut all = Map::new();
    for part in parts {
        match part {
            Given::Whole(entries) => {
                for (key, value) in entries {
                    put(&mut all, std::slice::from_ref(key), value)?;
                }
            }
            Given::Part(way, value) => put(&mut all, way, value)?,
        }
    }
    Ok((!parts.is_empty()).then_some(Value::Object(all)))
}

fn put(map: &mut Map<String, Value>, way: &[String], value: &Value) -> Result<(), String> {
    let twice =
        || format!("the configuration has `{}` twice; allowed: once", spelling::shown(&way.join(".")));
    match way {
        [] => Err(twice()),
        [last] => match map.insert(last.clone(), value.clone()) {
            None => Ok(()),
            Some(_) => Err(twice()),
        },
        [first, rest @ ..] => match map.entry(first.clone()).or_insert_with(|| Map::new().into()) {
            Value::Object(below) => put(below, rest, value),
            _ => Err(twice()),
        },
    }
}

/// An interface and what it is connected with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attached {
    pub(crate) interface: String,
    pub(crate) end: String,
}

impl FromStr for Attached {
    type Err = String;

    fn from_str(text: &str) -> Result<Attached, String> {
        match text.split_once('=') {
            Some((interface, end)) if !interface.is_empty() && !end.is_empty() && !end.contains('=') => {
                Ok(Attached { interface: interface.to_owned(), end: end.to_owned() })
            }
            _ => Err(format!(
                "`{}` connects nothing; allowed: INTERFACE=END, such as inside=lan or 0=gate:1",
                spelling::shown(text)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn given(texts: &[&str]) -> Result<Option<Value>, String> {
        let parts: Result<Vec<Given>, _> = texts.iter().map(|text| text.parse()).collect();
        configuration(&parts?)
    }

    #[test]
    fn parts_make_a_configuration() {
        assert_eq!(given(&[]), Ok(None));
        let all = given(&["a=accept", "b.c=1", "b.d=[{x: 5s}, true]", "e=\"7\"", "f=", "g=a=b"]);
        let wanted =
            json!({"a": "accept", "b": {"c": 1, "d": [{"x": "5s"}, true]}, "e": "7", "f": null, "g": "a=b"});
        assert_eq!(all, Ok(Some(wanted)));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("c.yaml");
        std::fs::write(&path, "rules:\n  - {action: drop}\ntop: 5\n").expect("written");
        let path = path.display();
        let whole = given(&[&format!("@{path}"), "more=1"]);
        assert_eq!(whole, Ok(Some(json!({"rules": [{"action": "drop"}], "top": 5, "more": 1}))));
        let part = given(&[&format!("x.y=@{path}")]).expect("good").expect("some");
        assert_eq!(part["x"]["y"]["top"], 5);
    }

    #[test]
    fn what_does_not_go_together_is_told() {
        let wrong = |texts: &[&str]| given(texts).expect_err("wrong");
        assert!(wrong(&["a"]).contains("`a` is no part of a configuration; allowed: KEY=VALUE"));
        assert!(wrong(&["=1"]).contains("is no part") && wrong(&["a..b=1"]).contains("is no part"));
        assert!(wrong(&["a=1", "a=2"]).contains("has `a` twice"));
        assert!(wrong(&["a=1", "a.b=2"]).contains("twice") && wrong(&["a.b=1", "a=2"]).contains("twice"));
        assert!(wrong(&["a=[1"]).contains("this is not YAML"), "{}", wrong(&["a=[1"]));
        assert!(wrong(&["a=@/no/such"]).contains("/no/such: No such file"));
        assert!("inside".parse::<Attached>().expect_err("wrong").contains("INTERFACE=END"));
        assert!("a=b=c".parse::<Attached>().is_err() && "=b".parse::<Attached>().is_err());
    }
}
