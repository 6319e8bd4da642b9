//! Reading how much memory functions and tenants may have, and telling what is promised and is not there.

use crate::format::memory_schema;
use crate::read::Reader;
use manifest::Manifest;
use schema::Value;
use wiring::{Claimant, Size, TenantMemory};
use yaml_document::{Location, Node};

impl Reader<'_> {
    /// Reads the key `memory` of a tenant, which may be left out.
    pub(crate) fn tenant_memory(
        &mut self,
        place: &Location<'_>,
        node: &Node,
        name: &str,
    ) -> Option<TenantMemory> {
        let whose = Claimant::Tenant(name.to_owned());
        self.memories.insert(whose.clone(), place.position());
        let Some((_, node)) = node.entry("memory") else { return Some(TenantMemory::default()) };
        let place = place.key("memory", node.position);
        let values = memory_schema().check_at(&place, Some(node), &[], &mut self.faults)?;
        let size = |key| values.get(key).and_then(Value::as_size);
        let position = node.get("limit").map_or(node.position, |node| node.position);
        self.memories.insert(whose, position);
        Some(TenantMemory { limit: size("limit"), reserve: size("reserve").unwrap_or(0) })
    }

    /// Reads the key `memory` of a function, which may be left out.
    pub(crate) fn memory(
        &mut self,
        place: &Location<'_>,
        node: &Node,
        values: &Value,
        name: &str,
        manifest: &Manifest,
    ) -> Option<u64> {
        let most = manifest.memory_limit;
        let whose = Claimant::Instance(name.to_owned());
        self.memories.insert(whose.clone(), place.position());
        let Some(node) = node.get("memory") else { return Some(most) };
        let bytes = values.get("memory").and_then(Value::as_size)?;
        self.memories.insert(whose, node.position);
        if bytes > most {
            place.key("memory", node.position).report(&mut self.faults, || {
                format!("{}; allowed: at most {}, which its image allows", node.found(), Size(most))
            });
            return None;
        }
        Some(bytes)
    }

    /// Reads the key `resident` of a function that may have `memory` bytes: what is said there, or in its
    /// image's manifest. What its image asks for and it may not have is left out; what the file asks for is a
    /// fault.
    pub(crate) fn resident(
        &mut self,
        place: &Location<'_>,
        node: &Node,
        values: &Value,
        memory: Option<u64>,
        manifest: &Manifest,
    ) -> Option<u64> {
        let Some(bytes) = values.get("resident").and_then(Value::as_size) else {
            return manifest.resident.map(|bytes| memory.map_or(bytes, |most| bytes.min(most)));
        };
        if let (Some(most), Some(node)) = (memory, node.get("resident"))
            && bytes > most
        {
            place.key("resident", node.position).report(&mut self.faults, || {
                format!("{}; allowed: at most {}, its `memory`", node.found(), Size(most))
            });
        }
        Some(bytes)
    }

    /// Memory that is asked for and not there.
    pub(crate) fn overdrafts(&mut self, root: &Location<'_>) {
        let catalog = self.catalog;
        for overdraft in self.wiring.overdrafts(
            catalog.memory(),
            |tenant| catalog.beside(tenant),
            |whose| catalog.is_there(whose),
        ) {
            let said = self.memories.get(&overdraft.whose).copied();
            let position = said.unwrap_or(root.position());
            let (section, name, key) = match &overdraft.whose {
                Claimant::Tenant(name) => ("tenants", name, Some("limit")),
                Claimant::Instance(name) => ("functions", name, None),
            };
            let section = root.key(section, position);
            let owner = section.key(name, position);
            let memory = owner.key("memory", position);
            // Of a host that has no more, it is not the limit that is wrong.
            let key = key.filter(|_| overdraft.of != wiring::Purse::Host);
            let place = match key {
                Some(key) => &memory.key(key, position),
                None => &memory,
            };
            place.report(&mut self.faults, || overdraft.to_string());
        }
    }
}
