//! Reads `tests/image.yaml`.

use crate::{Case, ImageTest, MAX_CASES, MAX_SHOWN, MAX_TEXT, Shown, TEST_FILE};
use manifest::Manifest;
use nf_abi::Verdict;
use schema::{Files, Schema, Value};
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::LazyLock;
use thiserror::Error;
use yaml_document::{self as yaml, Document, Fault, Location, Node, spelling};

/// The keys of a case beside `config` and `counters`. A test proves that the text is a schema.
static CASE: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("case.yaml", include_str!("case.yaml")).unwrap_or_default());

/// Why a function's own test cannot be read.
#[derive(Debug, Error)]
pub enum TestError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is wrong.
    #[error("{}", faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n"))]
    Wrong {
        /// All that is wrong with it; at least one.
        faults: Vec<Fault>,
    },
}

impl ImageTest {
    /// Reads the test of the function in this folder; `None` when it has none.
    ///
    /// # Errors
    /// [`TestError`], all faults at once.
    pub fn open(folder: &Path, manifest: &Manifest) -> Result<Option<ImageTest>, TestError> {
        let path = folder.join(TEST_FILE);
        let name = path.display().to_string();
        let mut bytes = Vec::new();
        match local_file::open(&path).and_then(|file| file.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes))
        {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(TestError::File { path: name, source }),
        }
        let text = yaml::text(&name, &bytes).map_err(|fault| TestError::Wrong { faults: vec![fault] })?;
        let beside = Beside(path.parent().unwrap_or(folder));
        ImageTest::parse(&name, text, manifest, &beside)
            .map(Some)
            .map_err(|faults| TestError::Wrong { faults })
    }

    /// Reads a test. `file` is what faults call it, `files` reads what configurations name.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn parse(
        file: &str,
        text: &str,
        manifest: &Manifest,
        files: &dyn Files,
    ) -> Result<ImageTest, Vec<Fault>> {
        if text.len() > MAX_TEXT {
            let place = Location::new(file, "", yaml::Position::START);
            return Err(vec![
                place.fault(format!("found {} bytes; allowed: at most {MAX_TEXT}", text.len())),
            ]);
        }
        let document = Document::parse(file, text).map_err(|fault| vec![fault])?;
        let (root, mut faults) = (document.root(), Vec::new());
        let place = Location::new(file, "", root.position);
        Schema::default().check_at(&place, Some(root), &["cases"], &mut faults);
        let list = root.get("cases");
        let place = place.key("cases", list.map_or(root.position, |list| list.position));
        let items = list.and_then(Node::as_list).unwrap_or_default();
        if items.is_empty() || items.len() > MAX_CASES {
            let found = match list.map(|list| (list, list.as_list())) {
                Some((_, Some(items))) => format!("found {} cases", items.len()),
                Some((list, None)) => list.found(),
                None => "the required key `cases` is missing".to_owned(),
            };
            place.report(&mut faults, || format!("{found}; allowed: a list of 1 to {MAX_CASES} cases"));
            return Err(faults);
        }
        let reader = Reader { manifest, files };
        let cases: Vec<Case> = items
            .iter()
            .enumerate()
            .filter_map(|(n, item)| reader.case(&place.item(n, item.position), item, &mut faults))
            .collect();
        let test = ImageTest { cases };
        if test.packets() > MAX_SHOWN {
            place.report(&mut faults, || {
                format!(
                    "found {} packets, each as often as it comes; allowed: at most {MAX_SHOWN}",
                    test.packets()
                )
            });
        }
        if faults.is_empty() {
            return Ok(test);
        }
        faults.sort_by_key(|fault| fault.position);
        Err(faults)
    }
}

/// Files that configurations name lie beside the test.
struct Beside<'a>(&'a Path);

impl Files for Beside<'_> {
    fn read(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        local_file::open(&self.0.join(path))
            .and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut bytes))
            .map_err(|error| error.to_string())?;
        if bytes.len() as u64 > most { Err("larger than allowed".to_owned()) } else { Ok(bytes) }
    }
}

pub(crate) struct Reader<'a> {
    manifest: &'a Manifest,
    files: &'a dyn Files,
}

impl Reader<'_> {
    fn case(&self, place: &Location<'_>, node: &Node, faults: &mut Vec<Fault>) -> Option<Case> {
        let values = CASE.check_at(place, Some(node), &["config", "counters"], faults);
        node.as_map()?;
        let config = node.get("config");
        let config = self.manifest.schema.check_with(
            &place.key("config", config.map_or(node.position, |config| config.position)),
            config,
            &[],
            self.files,
            faults,
        );
        let counters = self.counters(place, node, faults);
        let values = values?;
        let devices = node.get("devices");
        let devices = place.key("devices", devices.map_or(node.position, |devices| devices.position));
        let devices = self.devices(&devices, &values, faults);
        let list = node.get("packets");
        let lines = list.and_then(Node::as_list).unwrap_or_default();
        let list_place = place.key("packets", list.map_or(node.position, |list| list.position));
        let mut packets: Vec<Shown> = Vec::new();
        let items = values.get("packets").and_then(Value::as_list).unwrap_or_default();
        for (n, (value, line)) in items.iter().zip(lines).enumerate() {
            let before = packets.last().map_or(0, |shown| shown.at);
            packets.extend(self.packet(&list_place.item(n, line.position), value, before, faults));
        }
        let name = values.get("name").and_then(Value::as_text)?.to_owned();
        Some(Case { name, config: config?.to_cbor(), devices, packets, counters })
    }

    fn counters(
        &self,
        place: &Location<'_>,
        node: &Node,
        faults: &mut Vec<Fault>,
    ) -> Vec<(usize, String, u64)> {
        let Some(node) = node.get("counters") else { return Vec::new() };
        let place = place.key("counters", node.position);
        let Some(entries) = node.as_map() else {
            place.report(faults, || {
                format!("{}; allowed: a map from a counter's name to a number", node.found())
            });
            return Vec::new();
        };
        let mut counters = Vec::new();
        for (key, value) in entries {
            let index = self.manifest.counters.iter().position(|name| *name == key.text);
            let number = value.as_text().and_then(|text| text.parse().ok());
            match (index, number) {
                (Some(index), Some(number)) => counters.push((index, key.text.clone(), number)),
                (None, _) => place.key(&key.text, key.position).report(faults, || {
                    let names = self.manifest.counters.iter().map(String::as_str);
                    format!(
                        "the function has no counter `{}`{}",
                        spelling::shown(&key.text),
                        spelling::choices(&key.text, names)
                    )
                }),
                (_, None) => place
                    .key(&key.text, value.position)
                    .report(faults, || format!("{}; allowed: an integer of at least 0", value.found())),
            }
        }
        counters
    }

    fn packet(
        &self,
        place: &Location<'_>,
        value: &Value,
        before: u64,
        faults: &mut Vec<Fault>,
    ) -> Option<Shown> {
        let text = |key| value.get(key).and_then(Value::as_text);
        let number = |key| value.get(key).and_then(Value::as_integer).and_then(|n| u64::try_from(n).ok());
        let told = faults.len();
        let mut bytes = hex(place, "hex", text("hex").unwrap_or_default(), faults).unwrap_or_default();
        let length = number("length").map_or(bytes.len(), |length| length as usize);
        if length < bytes.len() || length == 0 || length > 9000 {
            place.report(faults, || match length {
                0 => "the packet has no bytes; allowed: `hex`, `length` or both".to_owned(),
                _ => format!(
                    "a length of {length} with {} bytes in `hex`; allowed: as many or more, up to 9000",
                    bytes.len()
                ),
            });
        }
        bytes.resize(length.min(9000), 0);
        let becomes = text("becomes").and_then(|digits| hex(place, "becomes", digits, faults));
        let ingress = text("from").map_or(Some(0), |name| self.interface(place, "from", name, faults));
        let at = value.get("at").and_then(Value::as_duration).unwrap_or(before);
        if at < before {
            place.report(faults, || {
                "`at` is before that of the packet before; allowed: the same or later".to_owned()
            });
        }
        let verdict = self.verdict(place, value, faults);
        (faults.len() == told).then_some(())?;
        Some(Shown {
            line: place.position().line,
            bytes,
            ingress: ingress?,
            mark: number("mark")?,
            at,
            times: number("times")? as usize,
            verdict: verdict?,
            becomes,
            becomes_length: number("becomes_length").map(|length| length as usize),
            becomes_mark: number("becomes_mark"),
        })
    }

    pub(crate) fn interface(
        &self,
        place: &Location<'_>,
        key: &str,
        name: &str,
        faults: &mut Vec<Fault>,
    ) -> Option<u16> {
        let found = self.manifest.interface(name);
        if found.is_none() {
            let names = self.manifest.interfaces.iter().map(String::as_str);
            place.key(key, place.position()).report(faults, || {
                format!("no interface `{}`{}", spelling::shown(name), spelling::choices(name, names))
            });
        }
        found
    }

    fn verdict(&self, place: &Location<'_>, value: &Value, faults: &mut Vec<Fault>) -> Option<Verdict> {
        const KEYS: [&str; 5] = ["to", "drop", "service", "hold", "consume"];
        let there = KEYS.iter().filter(|key| value.get(key).is_some()).count();
        if there != 1 {
            place.report(faults, || {
                let found = if there == 0 { "none" } else { "several" };
                format!(
                    "{found} of {} is there; allowed: exactly one, what has to become of the packet",
                    KEYS.join(", ")
                )
            });
            return None;
        }
        let number =
            |key| value.get(key).and_then(Value::as_integer).and_then(|number| u16::try_from(number).ok());
        if let Some(name) = value.get("to").and_then(Value::as_text) {
            return self.interface(place, "to", name, faults).map(Verdict::Interface);
        }
        if let Some(name) = value.get("drop").and_then(Value::as_text) {
            let reason = self.manifest.drop_reasons.iter().position(|reason| reason == name);
            if reason.is_none() {
                let names = self.manifest.drop_reasons.iter().map(String::as_str);
                place.key("drop", place.position()).report(faults, || {
                    format!("no drop reason `{}`{}", spelling::shown(name), spelling::choices(name, names))
                });
            }
            return reason.and_then(|reason| u16::try_from(reason).ok()).map(Verdict::Drop);
        }
        if value.get("consume").and_then(Value::as_bool) == Some(false) {
            place.key("consume", place.position()).report(faults, || {
                "found `false`; allowed: true, or another key that says what has to become of the packet"
                    .to_owned()
            });
            return None;
        }
        number("service")
            .map(Verdict::Service)
            .or(number("hold").map(Verdict::Hold))
            .or(Some(Verdict::Consume))
    }
}

/// Bytes written as digits.
fn hex(place: &Location<'_>, key: &str, text: &str, faults: &mut Vec<Fault>) -> Option<Vec<u8>> {
    let place = place.key(key, place.position());
    let mut digits = Vec::new();
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        let Some(digit) = c.to_digit(16) else {
            place.report(faults, || {
                format!("found `{}`; allowed: hexadecimal digits", spelling::shown(&c.to_string()))
            });
            return None;
        };
        digits.push(digit as u8);
    }
    if digits.len() % 2 != 0 {
        place.report(faults, || format!("found {} digits; allowed: two for each byte", digits.len()));
        return None;
    }
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
