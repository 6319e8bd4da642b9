//! Paths in what is sent: the user means them from the present folder or the file's, the daemon stands in
//! another.

use super::connection::Connection;
use deployment::{Catalog, Named};
use schema::{Kind, Schema};
use serde_json::Value;
use std::path::Path;

/// Makes paths whole.
pub(crate) struct Paths<'a> {
    folder: &'a Path,
    connection: &'a Connection,
    catalog: Catalog,
}

impl<'a> Paths<'a> {
    /// Paths that are meant from this folder.
    pub(crate) fn new(folder: &'a Path, connection: &'a Connection) -> Paths<'a> {
        Paths { folder, connection, catalog: Catalog::new(folder) }
    }

    /// Those in a whole document.
    pub(crate) fn in_document(&self, document: &mut Value) {
        if let Some(Value::Object(functions)) = document.get_mut("functions") {
            functions.values_mut().for_each(|spec| self.in_function(spec));
        }
        if let Some(Value::Object(ports)) = document.get_mut("ports") {
            ports.values_mut().for_each(|spec| self.in_port(spec));
        }
    }

    /// Those in a function's spec: its image if it is a file, where its events go, and files in its
    /// configuration.
    pub(crate) fn in_function(&self, spec: &mut Value) {
        if let Some(image) = spec.get("image").and_then(Value::as_str)
            && let Ok(loaded) = self.catalog.load(image)
            && let Some(config) = spec.get_mut("config")
        {
            self.in_map(&loaded.manifest().schema, config);
        }
        if api::guest_of(spec).is_launched() {
            let image = spec.get("image").and_then(Value::as_str);
            // A program has none.
            if !matches!(image.map(Named::of_container), None | Some(Ok(Named::Artifact(_)) | Err(_))) {
                self.whole(spec.get_mut("image"));
            }
            if let Some(Value::Object(mounts)) = spec.get_mut("mounts") {
                mounts.values_mut().for_each(|path| self.whole(Some(path)));
            }
            return;
        }
        self.whole(spec.get_mut("events"));
        self.image(spec.get_mut("image"));
    }

    /// An image's path. A name that is no file here may be one for the daemon.
    pub(crate) fn image(&self, image: Option<&mut Value>) {
        let Some(value) = image else { return };
        let Some(text) = value.as_str() else { return };
        let is_file = text.contains(['/', '.']) && self.folder.join(text).is_file();
        if is_file || text.starts_with("./") || text.starts_with("../") {
            self.whole(Some(value));
        }
    }

    fn in_port(&self, spec: &mut Value) {
        if spec.get("type").and_then(Value::as_str) == Some("pcap") {
            self.whole(spec.get_mut("read"));
            self.whole(spec.get_mut("write"));
        }
    }

    fn in_map(&self, schema: &Schema, value: &mut Value) {
        let Value::Object(entries) = value else { return };
        for (name, value) in entries {
            if let Some(key) = schema.key(name) {
                self.in_value(&key.kind, value);
            }
        }
    }

    fn in_value(&self, kind: &Kind, value: &mut Value) {
        match (kind, value) {
            (Kind::File { .. }, value) => self.whole(Some(value)),
            (Kind::Map(schema), value) => self.in_map(schema, value),
            (Kind::List { items, .. }, Value::Array(values)) => {
                values.iter_mut().for_each(|value| self.in_value(items, value));
            }
            _ => {}
        }
    }

    fn whole(&self, path: Option<&mut Value>) {
        let Some(value) = path else { return };
        let text = match &*value {
            Value::String(text) => text.clone(),
            // A file may have a number as its name.
            Value::Number(number) => number.to_string(),
            _ => return,
        };
        if let Some(whole) = self.connection.whole(self.folder, &text) {
            *value = whole.into();
        }
    }
}
