//! Reading a schema.

use crate::literal::{self, Unit};
use crate::{
    Family, Kind, MAX_FILE, MAX_ITEMS, MAX_KEYS, MAX_STRING, Presence, RateOf, Schema, SchemaKey, WHOLE,
};
use yaml_document::{Document, Fault, Location, Node, spelling};

const TYPES: [&str; 15] = [
    "boolean",
    "integer",
    "string",
    "enum",
    "duration",
    "size",
    "rate",
    "fraction",
    "file",
    "mac",
    "address",
    "prefix",
    "port_range",
    "list",
    "map",
];

/// Longest name of a key or of an enumeration's value, and longest unit.
const MAX_NAME: usize = 64;

/// Longest help, in characters.
const MAX_HELP: usize = 500;

impl Schema {
    /// Reads a schema from its text; `name` is what faults call it.
    ///
    /// # Errors
    /// All that is wrong with it, defaults included.
    pub fn from_text(name: &str, text: &str) -> Result<Schema, Vec<Fault>> {
        let document = Document::parse(name, text).map_err(|fault| vec![fault])?;
        let root = document.root();
        Schema::parse(&Location::new(name, "", root.position), root)
    }

    /// Reads a schema that is part of a larger document. An empty node is a schema without keys.
    ///
    /// # Errors
    /// All that is wrong with it, defaults included.
    pub fn parse(place: &Location<'_>, node: &Node) -> Result<Schema, Vec<Fault>> {
        let mut faults = Vec::new();
        match keys(place, node, &mut faults) {
            Some(schema) if faults.is_empty() => Ok(schema),
            _ => Err(faults),
        }
    }
}

fn keys(place: &Location<'_>, node: &Node, faults: &mut Vec<Fault>) -> Option<Schema> {
    if node.is_null() {
        return Some(Schema::default());
    }
    let Some(entries) = node.as_map() else {
        place.report(faults, || format!("{}; allowed: a map from key to its description", node.found()));
        return None;
    };
    if entries.len() > MAX_KEYS {
        place.report(faults, || format!("found {} keys; allowed: at most {MAX_KEYS}", entries.len()));
        return None;
    }
    let mut schema = Schema::default();
    for (key, description) in entries {
        let place = place.key(&key.text, key.position);
        if !is_name(&key.text) {
            place.report(faults, || {
                let name = spelling::shown(&key.text);
                format!("found the key `{name}`; allowed: a lower-case letter, then letters, digits and `_`")
            });
            continue;
        }
        schema.keys.extend(schema_key(&place.at(description.position), &key.text, description, faults));
    }
    Some(schema)
}

fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn schema_key(place: &Location<'_>, name: &str, node: &Node, faults: &mut Vec<Fault>) -> Option<SchemaKey> {
    let mut reader = Reader { place, node, faults };
    let kind = reader.kind(&["required", "default", "unit", "help"]);
    let unit = reader.optional("unit").and_then(|(place, node)| reader.line(&place, node, MAX_NAME));
    let help = reader.optional("help").and_then(|(place, node)| reader.line(&place, node, MAX_HELP));
    let required = reader.optional("required").and_then(|(place, node)| reader.boolean(&place, node));
    let kind = kind?;
    let presence = match (required, reader.optional("default")) {
        (None, Some((place, node))) => Presence::Default(kind.check_at(&place, node, reader.faults)?),
        (Some(_), Some((place, _))) => {
            place.report(reader.faults, || "found `required` and `default`; allowed: one of them".to_owned());
            return None;
        }
        (Some(true), None) => Presence::Required,
        (Some(false), None) => Presence::Optional,
        (None, None) => {
            place.report(reader.faults, || {
                "found neither `required` nor `default`; allowed: one of `required: true`, `required: false` and \
                 `default: ...`"
                    .to_owned()
            });
            return None;
        }
    };
    Some(SchemaKey { name: name.to_owned(), kind, presence, unit, help: help.unwrap_or_default() })
}

/// Reads one description.
struct Reader<'a> {
    place: &'a Location<'a>,
    node: &'a Node,
    faults: &'a mut Vec<Fault>,
}

impl<'a> Reader<'a> {
    /// The kind; keys that are neither the kind's nor `beside` it are faults.
    fn kind(&mut self, beside: &[&str]) -> Option<Kind> {
        let Some(entries) = self.node.as_map() else {
            let found = self.node.found();
            self.place.report(self.faults, || format!("{found}; allowed: a map with the key `type`"));
            return None;
        };
        let Some((place, node)) = self.optional("type") else {
            let types = spelling::listed(TYPES);
            self.place
                .report(self.faults, || format!("the required key `type` is missing; allowed: {types}"));
            return None;
        };
        let name = node.as_text().unwrap_or_default();
        let own: &[&str] = match name {
            "boolean" | "mac" | "port_range" => &[],
            "integer" | "duration" | "size" | "fraction" => &["min", "max"],
            "file" => &["max"],
            "string" => &["min_length", "max_length"],
            "enum" => &["values"],
            "rate" => &["of", "min", "max"],
            "address" | "prefix" => &["family"],
            "list" => &["items", "min", "max"],
            "map" => &["keys"],
            _ => {
                let found = node.found();
                place.report(self.faults, || format!("{found}{}", spelling::choices(name, TYPES)));
                return None;
            }
        };
        let known = ["type"].iter().chain(own).chain(beside).copied();
        for (key, _) in entries {
            if !known.clone().any(|known| known == key.text) {
                self.place.key(&key.text, key.position).report(self.faults, || {
                    let choices = spelling::choices(&key.text, known.clone());
                    format!("unknown key `{}` of the type `{name}`{choices}", spelling::shown(&key.text))
                });
            }
        }
        match name {
            "boolean" => Some(Kind::Boolean),
            "mac" => Some(Kind::Mac),
            "port_range" => Some(Kind::PortRange),
            "integer" => {
                let (min, max) = self.bounds(i64::MIN, i64::MAX, &|text| literal::integer(text).ok())?;
                Some(Kind::Integer { min, max })
            }
            "duration" => {
                let (min, max) = self.bounds(0, u64::MAX, &in_units(literal::DURATION))?;
                Some(Kind::Duration { min, max })
            }
            "size" => {
                let (min, max) = self.bounds(0, u64::MAX, &in_units(literal::SIZE))?;
                Some(Kind::Size { min, max })
            }
            "fraction" => {
                let (min, max) = self.bounds(0, WHOLE, &in_units(literal::FRACTION))?;
                Some(Kind::Fraction { min, max: max.min(WHOLE) })
            }
            "file" => Some(Kind::File { max: self.bound("max", MAX_FILE, &in_units(literal::SIZE))? }),
            "rate" => {
                let of = self.one_of("of", &[("packets", RateOf::Packets), ("bits", RateOf::Bits)]);
                let of = of?.unwrap_or(RateOf::Packets);
                let (min, max) = self.bounds(0, i64::MAX as u64, &in_units(of.units()))?;
                Some(Kind::Rate { of, min, max })
            }
            "string" => {
                let (min_length, max_length) =
                    self.named_bounds(["min_length", "max_length"], 0, MAX_STRING, &count)?;
                Some(Kind::Text { min_length, max_length })
            }
            "address" => Some(Kind::Address { family: self.family()? }),
            "prefix" => Some(Kind::Prefix { family: self.family()? }),
            "enum" => self.values(),
            "list" => self.list(),
            _ => self.map(),
        }
    }

    fn optional(&self, key: &'a str) -> Option<(Location<'a>, &'a Node)> {
        let (_, node) = self.node.entry(key)?;
        Some((self.place.key(key, node.position), node))
    }

    fn needed(&mut self, key: &'a str, allowed: &str) -> Option<(Location<'a>, &'a Node)> {
        let found = self.optional(key);
        if found.is_none() {
            self.place
                .report(self.faults, || format!("the required key `{key}` is missing; allowed: {allowed}"));
        }
        found
    }

    fn boolean(&mut self, place: &Location<'_>, node: &Node) -> Option<bool> {
        Kind::Boolean.check_at(place, node, self.faults)?.as_bool()
    }

    /// Text for people: not empty, one line.
    fn line(&mut self, place: &Location<'_>, node: &Node, most: usize) -> Option<String> {
        let text = node.as_text().map(|text| text.trim_end_matches('\n')).filter(|text| {
            !text.is_empty() && text.chars().count() <= most && !text.chars().any(char::is_control)
        });
        if text.is_none() {
            place.report(self.faults, || {
                format!("{}; allowed: one line of 1 to {most} characters", node.found())
            });
        }
        text.map(str::to_owned)
    }

    fn bounds<T: Copy + PartialOrd>(
        &mut self,
        min: T,
        max: T,
        read: &dyn Fn(&str) -> Option<T>,
    ) -> Option<(T, T)> {
        self.named_bounds(["min", "max"], min, max, read)
    }

    fn named_bounds<T: Copy + PartialOrd>(
        &mut self,
        [min_name, max_name]: [&'a str; 2],
        min: T,
        max: T,
        read: &dyn Fn(&str) -> Option<T>,
    ) -> Option<(T, T)> {
        let low = self.bound(min_name, min, read);
        let high = self.bound(max_name, max, read);
        let (low, high) = (low?, high?);
        if low > high {
            self.place.report(self.faults, || format!("found a `{min_name}` above the `{max_name}`"));
            return None;
        }
        Some((low, high))
    }

    fn bound<T>(&mut self, name: &'a str, default: T, read: &dyn Fn(&str) -> Option<T>) -> Option<T> {
        let Some((place, node)) = self.optional(name) else { return Some(default) };
        let bound = node.as_text().and_then(read);
        if bound.is_none() {
            place.report(self.faults, || format!("{}; allowed: a value of this type", node.found()));
        }
        bound
    }

    fn one_of<T: Copy>(&mut self, key: &'a str, choices: &[(&str, T)]) -> Option<Option<T>> {
        let Some((place, node)) = self.optional(key) else { return Some(None) };
        let text = node.as_text().unwrap_or_default();
        let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        if found.is_none() {
            place.report(self.faults, || {
                format!("{}{}", node.found(), spelling::choices(text, choices.iter().map(|(name, _)| *name)))
            });
        }
        found.map(Some)
    }

    fn family(&mut self) -> Option<Family> {
        let families = [("ipv4", Family::Ipv4), ("ipv6", Family::Ipv6), ("any", Family::Any)];
        Some(self.one_of("family", &families)?.unwrap_or(Family::Any))
    }

    fn values(&mut self) -> Option<Kind> {
        let (place, node) = self.needed("values", "a list of names")?;
        let mut values: Vec<String> = Vec::new();
        let nodes = node.as_list().unwrap_or_default();
        if nodes.is_empty() || nodes.len() > MAX_KEYS {
            place.report(self.faults, || {
                format!("{}; allowed: a list of 1 to {MAX_KEYS} names", node.found())
            });
            return None;
        }
        for (n, item) in nodes.iter().enumerate() {
            let place = place.item(n, item.position);
            let name = self.line(&place, item, MAX_NAME)?;
            if values.contains(&name) {
                place
                    .report(self.faults, || format!("the value `{}` is given twice", spelling::shown(&name)));
            }
            values.push(name);
        }
        Some(Kind::Enum { values })
    }

    fn list(&mut self) -> Option<Kind> {
        let bounds = self.bounds(0, MAX_ITEMS, &count);
        let (place, node) = self.needed("items", "the description of an item")?;
        let items = Reader { place: &place, node, faults: self.faults }.kind(&["unit", "help"]);
        let (min, max) = bounds?;
        Some(Kind::List { items: Box::new(items?), min, max })
    }

    fn map(&mut self) -> Option<Kind> {
        let (place, node) = self.needed("keys", "a map from key to its description")?;
        keys(&place, node, self.faults).map(Kind::Map)
    }
}

fn in_units(units: &'static [Unit]) -> impl Fn(&str) -> Option<u64> {
    move |text| literal::number_with_unit(text, units).ok()
}

fn count(text: &str) -> Option<u64> {
    literal::integer(text).ok().and_then(|n| u64::try_from(n).ok())
}
