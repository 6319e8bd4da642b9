//! Checking a configuration against its schema.

use crate::literal::{self, Meant};
use crate::{Files, Kind, MAX_VALUES, Map, NoFiles, Presence, Schema, SchemaKey, Value};
use yaml_document::{Fault, Location, Node, NodeValue, Position, spelling};

impl Schema {
    /// Checks a configuration. `path` is the dotted way to it; no node and an empty node count as a map
    /// without keys.
    ///
    /// Returns the configuration as a [`Value::Map`] with defaults filled in, or `None` after adding what is
    /// wrong to `faults`, all of it.
    pub fn check(
        &self,
        file: &str,
        path: &str,
        node: Option<&Node>,
        faults: &mut Vec<Fault>,
    ) -> Option<Value> {
        let position = node.map_or(Position::START, |node| node.position);
        self.check_at(&Location::new(file, path, position), node, &[], faults)
    }

    /// The same at a place in a larger document, which also says where keys are missing when there is no
    /// node. The keys `beside` the schema's own are allowed and left to the caller.
    pub fn check_at(
        &self,
        place: &Location<'_>,
        node: Option<&Node>,
        beside: &[&str],
        faults: &mut Vec<Fault>,
    ) -> Option<Value> {
        self.check_with(place, node, beside, &NoFiles, faults)
    }

    /// The same where files may be named; `files` reads them.
    pub fn check_with(
        &self,
        place: &Location<'_>,
        node: Option<&Node>,
        beside: &[&str],
        files: &dyn Files,
        faults: &mut Vec<Fault>,
    ) -> Option<Value> {
        let mut checker = Checker { faults, files, room: MAX_VALUES };
        let map = match node {
            None => checker.absent(self, place),
            Some(node) if node.is_null() => checker.absent(self, place),
            Some(node) => checker.map(self, place, node, beside),
        };
        map.map(Value::Map)
    }
}

impl Kind {
    /// Checks one value, as [`Schema::check_at`] does a map.
    pub fn check_at(&self, place: &Location<'_>, node: &Node, faults: &mut Vec<Fault>) -> Option<Value> {
        Checker { faults, files: &NoFiles, room: MAX_VALUES }.value(self, None, place, node)
    }
}

struct Checker<'a> {
    faults: &'a mut Vec<Fault>,
    files: &'a dyn Files,
    /// How many more values there may be.
    room: usize,
}

impl Checker<'_> {
    /// Defaults of a schema can make a large configuration of a small text, hence the bound on what comes
    /// out.
    fn take_room(&mut self, place: &Location<'_>, values: usize) -> Option<()> {
        match self.room.checked_sub(values) {
            Some(room) => {
                self.room = room;
                Some(())
            }
            None if self.room == 0 => None,
            None => {
                self.room = 0;
                place.report(self.faults, || {
                    format!("there are too many values, defaults included; allowed: {MAX_VALUES}")
                });
                None
            }
        }
    }

    fn map(&mut self, schema: &Schema, place: &Location<'_>, node: &Node, beside: &[&str]) -> Option<Map> {
        let Some(entries) = node.as_map() else {
            let names = schema.names(beside);
            place.report(self.faults, || {
                format!("{}; allowed: a map of these keys: {}", node.found(), spelling::listed(names))
            });
            return None;
        };
        let mut complete = true;
        for (key, _) in entries {
            if schema.key(&key.text).is_none() && !beside.contains(&key.text.as_str()) {
                complete = false;
                place.key(&key.text, key.position).report_unknown_key(self.faults, || {
                    let name = spelling::shown(&key.text);
                    format!("unknown key `{name}`{}", spelling::choices(&key.text, schema.names(beside)))
                });
            }
        }
        let mut map = Map::new();
        for key in &schema.keys {
            match node.entry(&key.name) {
                Some((_, value)) => {
                    let place = place.key(&key.name, value.position);
                    if let (Some(file), Some(count)) = (schema.file_beside(key), beyond(&key.kind, value)) {
                        place.report(self.faults, || {
                            format!(
                                "found {count} items; allowed: {}, and more in `{file}`",
                                key.kind.allowed()
                            )
                        });
                        complete = false;
                        continue;
                    }
                    match self.value(&key.kind, key.unit.as_deref(), &place, value) {
                        Some(value) => map.insert(&key.name, value),
                        None => complete = false,
                    }
                }
                None => complete &= self.left_out(key, place, &mut map),
            }
        }
        complete.then_some(map)
    }

    fn absent(&mut self, schema: &Schema, place: &Location<'_>) -> Option<Map> {
        let mut map = Map::new();
        let mut complete = true;
        for key in &schema.keys {
            complete &= self.left_out(key, place, &mut map);
        }
        complete.then_some(map)
    }

    fn left_out(&mut self, key: &SchemaKey, place: &Location<'_>, map: &mut Map) -> bool {
        match &key.presence {
            Presence::Optional => true,
            Presence::Default(value) => {
                let room = self.take_room(place, value.count());
                map.insert(&key.name, value.clone());
                room.is_some()
            }
            Presence::Required => {
                place.key(&key.name, place.position()).report(self.faults, || {
                    let allowed = with_unit(key.kind.allowed(), key.unit.as_deref());
                    format!("the required key `{}` is missing; allowed: {allowed}", key.name)
                });
                false
            }
        }
    }

    fn value(&mut self, kind: &Kind, unit: Option<&str>, place: &Location<'_>, node: &Node) -> Option<Value> {
        self.take_room(place, 1)?;
        match (kind, &node.value) {
            (Kind::Map(schema), _) => self.map(schema, place, node, &[]).map(Value::Map),
            (Kind::List { items, min, max }, NodeValue::List(nodes)) => {
                let count = nodes.len() as u64;
                if count < *min || count > *max {
                    place.report(self.faults, || {
                        let items = if count == 1 { "item" } else { "items" };
                        format!("found {count} {items}; allowed: {}", kind.allowed())
                    });
                    return None;
                }
                let checked: Vec<Option<Value>> = (0..)
                    .zip(nodes)
                    .map(|(n, item)| self.value(items, unit, &place.item(n, item.position), item))
                    .collect();
                checked.into_iter().collect::<Option<Vec<Value>>>().map(Value::List)
            }
            (Kind::File { max }, NodeValue::Scalar { text, .. }) if !text.is_empty() => {
                match self.files.read(text, *max) {
                    Ok(contents) => Some(Value::File(text.clone(), contents)),
                    Err(reason) => {
                        place.report(self.faults, || {
                            format!("`{}`: {reason}; allowed: {}", spelling::shown(text), kind.allowed())
                        });
                        None
                    }
                }
            }
            (_, NodeValue::Scalar { text, quoted }) => match scalar(kind, text, *quoted) {
                Ok(value) => Some(value),
                Err(meant) => self.refuse(kind, unit, place, node, meant),
            },
            _ => self.refuse(kind, unit, place, node, None),
        }
    }

    fn refuse(
        &mut self,
        kind: &Kind,
        unit: Option<&str>,
        place: &Location<'_>,
        node: &Node,
        meant: Meant,
    ) -> Option<Value> {
        place.report(self.faults, || {
            let allowed = kind.allowed_in(node.as_text().unwrap_or_default());
            let mut message = format!("{}; allowed: {}", node.found(), with_unit(allowed, unit));
            if let Some(meant) = meant {
                message.push_str(&format!("; did you mean `{}`?", spelling::shown(&meant)));
            }
            message
        });
        None
    }
}

/// How many items a list has, if these are more than it may have.
fn beyond(kind: &Kind, node: &Node) -> Option<usize> {
    let (Kind::List { max, .. }, Some(items)) = (kind, node.as_list()) else { return None };
    (items.len() as u64 > *max).then_some(items.len())
}

impl Schema {
    /// The key of a file that has further items of a list: `routes_file` beside `routes`.
    fn file_beside(&self, list: &SchemaKey) -> Option<&str> {
        let name = list.name.as_str();
        let file = self.keys.iter().find(|key| key.name.strip_suffix("_file") == Some(name))?;
        matches!(file.kind, Kind::File { .. }).then_some(file.name.as_str())
    }

    fn names<'a>(&'a self, beside: &'a [&'a str]) -> impl Iterator<Item = &'a str> + Clone {
        beside.iter().copied().chain(self.keys.iter().map(|key| key.name.as_str()))
    }
}

fn with_unit(allowed: String, unit: Option<&str>) -> String {
    match unit {
        Some(unit) => format!("{allowed} (unit: {unit})"),
        None => allowed,
    }
}

/// Reads a scalar; the error is what was probably meant.
pub(crate) fn scalar(kind: &Kind, text: &str, quoted: bool) -> Result<Value, Meant> {
    match kind {
        Kind::Boolean if quoted => Err(literal::boolean(text).ok().map(|value| value.to_string())),
        Kind::Boolean => literal::boolean(text).map(Value::Boolean),
        Kind::Integer { .. } if quoted => Err(literal::integer(text).ok().map(|value| value.to_string())),
        Kind::Integer { min, max } => {
            literal::integer(text).and_then(|n| within(n, min, max)).map(Value::Integer)
        }
        Kind::Text { min_length, max_length } => {
            within(text.chars().count() as u64, min_length, max_length)?;
            Ok(Value::Text(text.to_owned()))
        }
        Kind::Enum { values } if values.iter().any(|value| value == text) => Ok(Value::Text(text.to_owned())),
        Kind::Enum { values } => {
            Err(spelling::nearest(text, values.iter().map(String::as_str)).map(str::to_owned))
        }
        Kind::Duration { min, max } => literal::number_with_unit(text, literal::DURATION)
            .and_then(|n| within(n, min, max))
            .map(Value::Duration),
        Kind::Size { min, max } => {
            literal::number_with_unit(text, literal::SIZE).and_then(|n| within(n, min, max)).map(Value::Size)
        }
        Kind::Rate { of, min, max } => {
            let rate = literal::number_with_unit(text, of.units()).and_then(|n| within(n, min, max))?;
            i64::try_from(rate).map(Value::Integer).map_err(|_| None)
        }
        Kind::Fraction { min, max } => {
            let parts =
                literal::number_with_unit(text, literal::FRACTION).and_then(|n| within(n, min, max))?;
            i64::try_from(parts).map(Value::Integer).map_err(|_| None)
        }
        Kind::Mac => literal::mac(text).map(Value::Mac),
        Kind::Address { family } => literal::address(text, *family).map(Value::Address),
        Kind::Prefix { family } => {
            literal::prefix(text, *family).map(|(address, length)| Value::Prefix(address, length))
        }
        Kind::PortRange => literal::port_range(text).map(|(first, last)| Value::PortRange(first, last)),
        Kind::File { .. } | Kind::List { .. } | Kind::Map(_) => Err(None),
    }
}

fn within<T: PartialOrd>(value: T, min: &T, max: &T) -> Result<T, Meant> {
    if value < *min || value > *max { Err(None) } else { Ok(value) }
}
