//! Where the host's memory goes.

use engine::Account;
use serde_json::{Map, Value, json};

/// What the kernel says of the process, what functions have for themselves, and what is in the pools.
pub(crate) fn of(account: &Account) -> Value {
    let functions: Map<String, Value> = account
        .instances
        .iter()
        .map(|instance| (instance.name.clone(), json!({"private_bytes": instance.memory})))
        .collect();
    let private: u64 = account.instances.iter().map(|instance| instance.memory).sum();
    let pools: Map<String, Value> = account
        .pools
        .iter()
        .map(|(name, free, buffers)| (name.clone(), json!({"buffers": buffers, "free": free})))
        .collect();
    json!({
        "process": process(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()),
        "functions_private_bytes": private,
        "functions": functions,
        "pools": pools,
    })
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
