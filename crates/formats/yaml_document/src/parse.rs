//! From text to tree, one event of the parser at a time, within bounds.

use crate::spelling::shown;
use crate::{Document, Fault, Key, Location, MAX_DEPTH, MAX_NODES, MAX_TEXT, Node, NodeValue, Position};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};
use std::collections::HashMap;

/// Takes a file's bytes for text.
///
/// # Errors
/// A fault at the first byte that is not UTF-8.
pub fn text<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, Fault> {
    str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let line = before.lines().count().max(1) + usize::from(before.ends_with('\n'));
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        let byte = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
        Location::new(file, "", position(line, column))
            .fault(format!("found the byte 0x{byte:02x}; allowed: text in UTF-8"))
    })
}

impl Document {
    /// Parses a text; `file` is what faults call it.
    ///
    /// # Errors
    /// The first thing that is not YAML, is not allowed here, or is beyond the crate's limits.
    pub fn parse(file: &str, text: &str) -> Result<Document, Fault> {
        if text.len() > MAX_TEXT {
            let message = format!("found {} bytes; allowed: at most {MAX_TEXT}", text.len());
            return Err(Location::new(file, "", Position::START).fault(message));
        }
        let mut builder = Builder { file, frames: Vec::new(), nodes: 0, root: None };
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| builder.not_yaml(text, &error))?;
            builder.event(event, marker(&span.start))?;
        }
        let root = builder.root.unwrap_or(Node { position: Position::START, value: NodeValue::Null });
        Ok(Document { root })
    }
}

fn position(line: usize, column: usize) -> Position {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Position { line: number(line.max(1)), column: number(column) }
}

fn marker(marker: &Marker) -> Position {
    position(marker.line(), marker.col() + 1)
}

/// A list or map that is not complete yet.
struct Frame {
    position: Position,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, seen: HashMap<String, Position>, key: Option<Key> },
}

struct Builder<'a> {
    file: &'a str,
    frames: Vec<Frame>,
    nodes: usize,
    root: Option<Node>,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, position: Position) -> Result<(), Fault> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(self.fault(position, "a second document begins; allowed: one".to_owned()))
            }
            Event::DocumentStart(_) => Ok(()),
            Event::Alias(_) => Err(self.fault(position, NO_ANCHORS.to_owned())),
            Event::Scalar(text, style, anchor, tag) => {
                self.plain(position, anchor, tag.is_some())?;
                self.scalar(text.into_owned(), style, position)
            }
            Event::SequenceStart(anchor, tag) => {
                self.plain(position, anchor, tag.is_some())?;
                self.open(position, Content::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.plain(position, anchor, tag.is_some())?;
                self.open(position, Content::Map { entries: Vec::new(), seen: HashMap::new(), key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
        }
    }

    /// Refuses what may stand before any node but has no use here.
    fn plain(&self, position: Position, anchor: usize, tagged: bool) -> Result<(), Fault> {
        if anchor != 0 {
            return Err(self.fault(position, NO_ANCHORS.to_owned()));
        }
        if tagged {
            return Err(self.fault(position, "a tag (`!name`) is not allowed here; leave it out".to_owned()));
        }
        Ok(())
    }

    fn scalar(&mut self, text: String, style: ScalarStyle, position: Position) -> Result<(), Fault> {
        if let Some(Frame { content: Content::Map { seen, key: key @ None, .. }, .. }) =
            self.frames.last_mut()
        {
            if let Some(first) = seen.insert(text.clone(), position) {
                let message = format!(
                    "key `{}` is given twice; the first is in line {}, column {}",
                    shown(&text),
                    first.line,
                    first.column
                );
                *key = Some(Key { position, text });
                return Err(self.fault(position, message));
            }
            *key = Some(Key { position, text });
            return Ok(());
        }
        let quoted = style != ScalarStyle::Plain;
        let position = match self.frames.last() {
            // A value that is left out has no place of its own: the parser names what comes next.
            Some(Frame { content: Content::Map { key: Some(key), .. }, .. })
                if text.is_empty() && !quoted =>
            {
                key.position
            }
            _ => position,
        };
        let value = match text.as_str() {
            "" | "~" | "null" | "Null" | "NULL" if !quoted => NodeValue::Null,
            _ => NodeValue::Scalar { text, quoted },
        };
        self.add(Node { position, value })
    }

    fn open(&mut self, position: Position, content: Content) -> Result<(), Fault> {
        if matches!(self.frames.last(), Some(Frame { content: Content::Map { key: None, .. }, .. })) {
            return Err(self.fault(position, "found a list or map as a key; allowed: text".to_owned()));
        }
        if self.frames.len() == MAX_DEPTH {
            return Err(self.fault(position, TOO_DEEP.to_owned()));
        }
        self.frames.push(Frame { position, content });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Fault> {
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        let value = match frame.content {
            Content::List(items) => NodeValue::List(items),
            Content::Map { entries, .. } => NodeValue::Map(entries),
        };
        self.add(Node { position: frame.position, value })
    }

    fn add(&mut self, node: Node) -> Result<(), Fault> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let message = format!("there are too many values; allowed: {MAX_NODES} in one file");
            return Err(self.fault(node.position, message));
        }
        match self.frames.last_mut() {
            None => self.root = Some(node),
            Some(Frame { content: Content::List(items), .. }) => items.push(node),
            Some(Frame { content: Content::Map { entries, key, .. }, .. }) => {
                entries.extend(key.take().map(|key| (key, node)));
            }
        }
        Ok(())
    }

    fn not_yaml(&self, text: &str, error: &ScanError) -> Fault {
        let at = marker(error.marker());
        // The parser's own bound on nesting is above ours, and met first when it looks ahead.
        if error.info() == "recursion limit exceeded" {
            return self.fault(at, TOO_DEEP.to_owned());
        }
        let line = text.lines().nth(at.line as usize - 1).unwrap_or_default();
        let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        match indent.chars().position(|c| c == '\t') {
            Some(column) => {
                let message = "found a tab; allowed: spaces to indent a line".to_owned();
                self.fault(position(at.line as usize, column + 1), message)
            }
            None => self.fault(at, format!("this is not YAML: {}", shown(error.info()))),
        }
    }

    fn fault(&self, position: Position, message: String) -> Fault {
        let root = Location::new(self.file, "", position);
        self.fault_below(&root, 0, message)
    }

    /// Spells the way down through the frames that are open.
    fn fault_below(&self, place: &Location<'_>, depth: usize, message: String) -> Fault {
        let at = place.position();
        match self.frames.get(depth).map(|frame| &frame.content) {
            Some(Content::List(items)) => self.fault_below(&place.item(items.len(), at), depth + 1, message),
            Some(Content::Map { key: Some(key), .. }) => {
                self.fault_below(&place.key(&key.text, at), depth + 1, message)
            }
            Some(Content::Map { key: None, .. }) | None => place.fault(message),
        }
    }
}

const NO_ANCHORS: &str = "anchors (`&name`) and aliases (`*name`) are not allowed; write the value out";

const TOO_DEEP: &str = "lists and maps are nested too deeply; allowed: 64 levels";
const _: () = assert!(MAX_DEPTH == 64);
