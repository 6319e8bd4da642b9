//! The fixed parts of the format.

use crate::FORMAT_VERSION;
use encapsulation::LayerKind;
use schema::Schema;
use std::sync::LazyLock;
use wiring::{ContainerKind, InterfaceKind};
use yaml_document::{Fault, Location, Node, spelling};

/// The sections of a file.
pub(crate) const SECTIONS: [&str; 12] = [
    "superfluid",
    "workers",
    "tenants",
    "ports",
    "switches",
    "groups",
    "devices",
    "functions",
    "chains",
    "wires",
    "observers",
    "services",
];

// Tests prove that these texts are schemas.
static POOL: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("pool.yaml", include_str!("pool.yaml")).unwrap_or_default());
static FUNCTION: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("function.yaml", include_str!("function.yaml")).unwrap_or_default());
static TENANT: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("tenant.yaml", include_str!("tenant.yaml")).unwrap_or_default());
static LAUNCHED: LazyLock<Vec<(ContainerKind, Schema)>> = LazyLock::new(|| {
    let schema = |kind: ContainerKind| {
        let text = match kind {
            ContainerKind::Container => {
                concat!(include_str!("container.yaml"), include_str!("launched.yaml"))
            }
            ContainerKind::Program => concat!(include_str!("program.yaml"), include_str!("launched.yaml")),
            ContainerKind::Vm => concat!(include_str!("vm.yaml"), include_str!("launched.yaml")),
        };
        Schema::from_text(&format!("{}.yaml", kind.as_str()), text).unwrap_or_default()
    };
    ContainerKind::ALL.map(|kind| (kind, schema(kind))).into()
});
static CONTAINER_INTERFACE: LazyLock<Vec<(InterfaceKind, Schema)>> = LazyLock::new(|| {
    let schema = |kind: InterfaceKind| {
        let text = match kind {
            InterfaceKind::Veth => include_str!("interface_veth.yaml"),
            InterfaceKind::AfXdp => {
                concat!(include_str!("interface_veth.yaml"), include_str!("interface_af_xdp.yaml"))
            }
            InterfaceKind::Tap => {
                concat!(include_str!("interface_veth.yaml"), include_str!("interface_tap.yaml"))
            }
            InterfaceKind::Library => include_str!("interface_library.yaml"),
            InterfaceKind::Memif => include_str!("interface_memif.yaml"),
            InterfaceKind::VhostUser => include_str!("interface_vhost_user.yaml"),
        };
        Schema::from_text(&format!("interface_{}.yaml", kind.as_str()), text).unwrap_or_default()
    };
    InterfaceKind::ALL.map(|kind| (kind, schema(kind))).into()
});
static NONE: LazyLock<Schema> = LazyLock::new(Schema::default);
static OBSERVER: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("observer.yaml", include_str!("observer.yaml")).unwrap_or_default());
static CPU: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("cpu.yaml", include_str!("cpu.yaml")).unwrap_or_default());
static MEMORY: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("memory.yaml", include_str!("memory.yaml")).unwrap_or_default());
static SWITCH: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("switch.yaml", include_str!("switch.yaml")).unwrap_or_default());
static DEVICE: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("device.yaml", include_str!("device.yaml")).unwrap_or_default());
static POLICY: LazyLock<Schema> = LazyLock::new(|| {
    Schema::from_text("port_policy.yaml", include_str!("port_policy.yaml")).unwrap_or_default()
});
static LAYERS: LazyLock<Vec<(LayerKind, Schema)>> = LazyLock::new(|| {
    let schema = |kind: LayerKind| {
        let text = match kind {
            LayerKind::Vlan => include_str!("layers/vlan.yaml"),
            LayerKind::Gre => include_str!("layers/gre.yaml"),
            LayerKind::Nvgre => include_str!("layers/nvgre.yaml"),
            LayerKind::Vxlan => include_str!("layers/vxlan.yaml"),
            LayerKind::Geneve => include_str!("layers/geneve.yaml"),
            LayerKind::Mpls => include_str!("layers/mpls.yaml"),
            LayerKind::IpIp => include_str!("layers/ipip.yaml"),
        };
        Schema::from_text(&format!("layers/{kind}.yaml"), text).unwrap_or_default()
    };
    LayerKind::ALL.map(|kind| (kind, schema(kind))).into()
});
static GROUP_RULE: LazyLock<Schema> = LazyLock::new(|| {
    Schema::from_text("group_rule.yaml", include_str!("group_rule.yaml")).unwrap_or_default()
});
static GRANT: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("grant.yaml", include_str!("grant.yaml")).unwrap_or_default());
static ATTACHMENT: LazyLock<Schema> = LazyLock::new(|| {
    Schema::from_text("attachment.yaml", include_str!("attachment.yaml")).unwrap_or_default()
});
static SERVICE: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("service.yaml", include_str!("service.yaml")).unwrap_or_default());
static WORKERS: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("workers.yaml", include_str!("workers.yaml")).unwrap_or_default());

/// What a tenant's `pool` takes.
pub fn pool_schema() -> &'static Schema {
    &POOL
}

/// What `cpu` of a function or tenant takes.
pub fn cpu_schema() -> &'static Schema {
    &CPU
}

/// What a tenant's `memory` takes.
pub fn memory_schema() -> &'static Schema {
    &MEMORY
}

/// What a switch takes.
pub fn switch_schema() -> &'static Schema {
    &SWITCH
}

/// What a device takes, beside `over` and `open_to`.
pub fn device_schema() -> &'static Schema {
    &DEVICE
}

/// What a device says of a port that it is over.
pub fn policy_schema() -> &'static Schema {
    &POLICY
}

/// What each layer takes that `encapsulate` names.
pub fn layer_schemas() -> &'static [(LayerKind, Schema)] {
    &LAYERS
}

/// What a rule of a security group takes, beside `from` and `to`.
pub fn group_rule_schema() -> &'static Schema {
    &GROUP_RULE
}

/// What an item of a device's `open_to` takes.
pub fn grant_schema() -> &'static Schema {
    &GRANT
}

/// What an interface under `attach` takes, if it is a map.
pub fn attachment_schema() -> &'static Schema {
    &ATTACHMENT
}

/// What `workers` takes, beside `processors`.
pub fn workers_schema() -> &'static Schema {
    &WORKERS
}

/// What a function takes, beside `pool`, `cpu` and `config`.
pub fn function_schema() -> &'static Schema {
    &FUNCTION
}

/// What a function takes that the launcher starts as this, beside `interfaces` and `mounts`.
pub fn container_schema(kind: ContainerKind) -> &'static Schema {
    LAUNCHED.iter().find(|(it, _)| *it == kind).map_or(&NONE, |(_, schema)| schema)
}

/// What a tenant takes, beside `pool`, `cpu` and `memory`.
pub fn tenant_schema() -> &'static Schema {
    &TENANT
}

/// What an interface of a container takes that is this, beside `as`.
pub fn container_interface_schema(kind: InterfaceKind) -> &'static Schema {
    CONTAINER_INTERFACE.iter().find(|(it, _)| *it == kind).map_or(&NONE, |(_, schema)| schema)
}

/// What an observer takes.
pub fn observer_schema() -> &'static Schema {
    &OBSERVER
}

/// What a service takes that is granted to other tenants.
pub fn service_schema() -> &'static Schema {
    &SERVICE
}

/// Is the file of this version of the format? If it is not, its other keys may mean anything.
pub(crate) fn same_version(place: &Location<'_>, root: &Node) -> Result<(), Fault> {
    if root.as_map().is_none() && !root.is_null() {
        let message =
            format!("{}; allowed: a map of these keys: {}", root.found(), spelling::listed(SECTIONS));
        return Err(place.fault(message));
    }
    match root.entry("superfluid") {
        Some((_, node)) if node.as_text() == Some(FORMAT_VERSION.to_string().as_str()) => Ok(()),
        Some((_, node)) => Err(place
            .key("superfluid", node.position)
            .fault(format!("{} as the version of this format; allowed: {FORMAT_VERSION}", node.found()))),
        None => {
            // The misspelt key is the fault that helps.
            let keys = root.as_map().unwrap_or_default();
            let near = keys.iter().find(|(key, _)| spelling::nearest(&key.text, ["superfluid"]).is_some());
            Err(match near {
                Some((key, _)) => place.key(&key.text, key.position).unknown_key(format!(
                    "unknown key `{}`{}",
                    spelling::shown(&key.text),
                    spelling::choices(&key.text, SECTIONS)
                )),
                None => place.key("superfluid", place.position()).fault(format!(
                    "the required key `superfluid` is missing; write `superfluid: {FORMAT_VERSION}`, the version of \
                     this format"
                )),
            })
        }
    }
}
