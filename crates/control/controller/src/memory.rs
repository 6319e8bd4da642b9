//! Where the host's memory goes.

use deployment::{FunctionMemory, Host, HostMemory};
use engine::Account;
use serde_json::{Map, Value, json};
use snapshot_folder::Folder;
use std::collections::HashMap;
use std::path::Path;

/// What is known of functions and pools without looking at them.
pub(super) struct Known {
    pub(super) memory: HostMemory,
    pub(super) functions: HashMap<String, FunctionMemory>,
    pub(super) containers: Vec<ContainerMemory>,
    pub(super) limit: Option<u64>,
}

/// What a container or program has, with those that stand by it.
pub(super) struct ContainerMemory {
    pub(super) name: String,
    pub(super) tenant: String,
    pub(super) bytes: u64,
    pub(super) limit: u64,
}

impl Known {
    pub(super) fn of(
        host: &Host,
        account: &Account,
        containers: Vec<ContainerMemory>,
        limit: Option<u64>,
    ) -> Known {
        let known = account.instances.iter().filter_map(|counted| {
            let memory = host.function_memory(&counted.name, counted.memory, counted.frozen)?;
            Some((counted.name.clone(), memory))
        });
        Known { memory: host.memory(), functions: known.collect(), containers, limit }
    }
}

/// Adds to a number of an entry.
fn add(entry: &mut Map<String, Value>, key: &str, bytes: u64) {
    let sum = entry.get(key).and_then(Value::as_u64).unwrap_or(0) + bytes;
    entry.insert(key.to_owned(), json!(sum));
}

/// Everything: the process as the kernel sees it, what is promised, and what tenants, functions, pools, code
/// and the disk take.
pub(super) fn of(account: &Account, known: &Known, folder: &Folder, state: &Path) -> Value {
    let mut tenants: Map<String, Value> = Map::new();
    for tenant in &known.memory.tenants {
        let all = tenant.promised + tenant.containers;
        let left = tenant.memory.limit.map(|limit| limit.saturating_sub(all));
        let entry = json!({
            "functions": tenant.functions,
            "promised_bytes": tenant.promised,
            "containers_bytes": tenant.containers,
            "containers_used_bytes": 0,
            "limit_bytes": tenant.memory.limit,
            "left_bytes": left,
            "reserved_bytes": tenant.memory.reserve,
            "shared_bytes": tenant.shared,
            "pool_bytes": 0,
            "private_bytes": 0,
            "resident_bytes": 0,
            "page_tables_bytes": 0,
            "runtime_bytes": 0,
            "disk_bytes": 0,
        });
        tenants.insert(tenant.name.clone(), entry);
    }
    let mut to_tenant = |tenant: &str, key: &str, bytes: u64| {
        if let Some(Value::Object(entry)) = tenants.get_mut(tenant) {
            add(entry, key, bytes);
        }
    };
    let mut functions = Map::new();
    let mut private = 0;
    for counted in &account.instances {
        let Some(function) = known.functions.get(&counted.name) else { continue };
        // What is frozen lies packed in the host's own memory.
        let resident = match counted.frozen {
            true => counted.memory,
            false => guest_wasm::resident(counted.memory_place, counted.memory as usize),
        };
        let disk = folder.bytes_of(&counted.name);
        private += counted.memory;
        for (key, bytes) in [
            ("private_bytes", counted.memory),
            ("resident_bytes", resident),
            ("page_tables_bytes", function.page_tables),
            ("runtime_bytes", function.runtime),
            ("disk_bytes", disk),
        ] {
            to_tenant(&function.tenant, key, bytes);
        }
        let entry = json!({
            "tenant": function.tenant,
            "private_bytes": counted.memory,
            "resident_bytes": resident,
            "page_tables_bytes": function.page_tables,
            "runtime_bytes": function.runtime,
            "limit_bytes": function.limit,
            "promised_bytes": function.promised,
            "disk_bytes": disk,
        });
        functions.insert(counted.name.clone(), entry);
    }
    let mut containers = Map::new();
    for ContainerMemory { name, tenant, bytes, limit } in &known.containers {
        to_tenant(tenant, "containers_used_bytes", *bytes);
        let left = limit.saturating_sub(*bytes);
        let entry = json!({"tenant": tenant, "bytes": bytes, "limit_bytes": limit, "left_bytes": left});
        containers.insert(name.clone(), entry);
    }
    let mut pools = Map::new();
    for pool in &known.memory.pools {
        to_tenant(&pool.tenant, "pool_bytes", pool.bytes);
        let buffers = account.pools.iter().find(|(name, ..)| *name == pool.name);
        let (free, buffers) = buffers.map_or((0, 0), |(_, free, buffers)| (*free, *buffers));
        let entry = json!({
            "tenant": pool.tenant, "bytes": pool.bytes, "buffers": buffers, "free": free, "huge_pages": pool.huge,
        });
        pools.insert(pool.name.clone(), entry);
    }
    let promised = known.memory.promised();
    json!({
        "process": process(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()),
        "promised": {
            "bytes": promised,
            "limit_bytes": known.limit,
            "left_bytes": known.limit.map(|limit| limit.saturating_sub(promised)),
        },
        "runtime": {
            "images_compiled": known.memory.programs,
            "code_bytes": known.memory.code,
            "spare_shells": known.memory.spare_shells,
        },
        "disk": {
            "store_bytes": size_of(&state.join("store")),
            "snapshots_bytes": size_of(&state.join("snapshots")),
            "all_bytes": size_of(state),
        },
        "functions_private_bytes": private,
        "tenants": tenants,
        "functions": functions,
        "containers": containers,
        "pools": pools,
    })
}

/// Bytes of all files in a folder.
fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => size_of(&entry.path()),
        Ok(data) => data.len(),
        // It has just gone.
        Err(_) => 0,
    });
    sizes.sum()
}

/// Rows of `/proc/PID/status` that tell of memory, in bytes.
fn process(status: &str) -> Value {
    let rows = [
        ("VmRSS", "resident_bytes"),
        ("RssAnon", "resident_private_bytes"),
        ("RssShmem", "resident_shared_bytes"),
        ("RssFile", "resident_file_bytes"),
        ("VmPTE", "page_table_bytes"),
        ("VmSwap", "swapped_bytes"),
    ];
    let mut told = Map::new();
    for line in status.lines() {
        let Some((row, rest)) = line.split_once(':') else { continue };
        let Some((_, name)) = rows.iter().find(|(known, _)| *known == row) else { continue };
        let kib = rest.trim().strip_suffix(" kB").and_then(|kib| kib.trim().parse::<u64>().ok());
        if let Some(kib) = kib {
            told.insert((*name).to_owned(), json!(kib * 1024));
        }
    }
    Value::Object(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_rows_are_read() {
        let told = process("Name:\tx\nVmRSS:\t   12 kB\nVmPTE:\t 4 kB\nVmSwap: odd\n");
        assert_eq!(told, json!({"resident_bytes": 12288, "page_table_bytes": 4096}));
    }
}
