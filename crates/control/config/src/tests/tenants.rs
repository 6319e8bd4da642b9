//! Whose things are that name no tenant.

use super::*;

const UNNAMED: &str = "\
superfluid: 1
tenants: {red: , blue: }
ports:
  a: {type: 'null'}
  b: {type: 'null', tenant: red}
functions:
  fw: {image: firewall}
chains: {c: [a, fw, b]}
";

#[test]
fn what_names_no_tenant_is_of_the_default_one_whatever_tenants_there_are() {
    for tenants in ["", "tenants: {}\n", "tenants: {red: }\n", "tenants: {red: , blue: }\n"] {
        let ports = "ports: {a: {type: 'null'}, b: {type: 'null'}}\nwires: [[a, b]]\n";
        let Configuration { wiring, .. } = good(&format!("superfluid: 1\n{tenants}{ports}"));
        assert_eq!(wiring.ports["a"].tenant, "default", "{tenants}");
        assert_eq!(wiring.tenants["default"].pool, PoolConfig::default(), "{tenants}");
    }
}

#[test]
fn a_file_with_other_tenants_is_warned_of_what_names_none() {
    let Configuration { wiring, warnings } = good(UNNAMED);
    assert_eq!(wiring.instances["fw"].tenant, "default");
    assert_eq!(
        lines(&warnings),
        "f.yaml:2:10: tenants: without a `tenant` these are the tenant `default`'s and of none that is named here (red, blue): a, fw; \
         write `tenant: default` if that is meant\n"
    );
    let said = UNNAMED.replace("{type: 'null'}", "{type: 'null', tenant: default}");
    let said = said.replace("firewall}", "firewall, tenant: default}");
    let Configuration { wiring: same, warnings } = good(&said);
    assert_eq!((same, warnings), (wiring, vec![]));
    // Where it is named as one of them, it is meant.
    assert_eq!(good(&UNNAMED.replace("blue: }", "default: }")).warnings, []);
}

#[test]
fn a_file_that_needs_no_default_tenant_gets_none() {
    let text = "superfluid: 1\ntenants: {red: }\nports: {a: {type: 'null', tenant: red}, b: {type: 'null', tenant: red}}\n\
                wires: [[a, b]]\n";
    assert_eq!(good(text).wiring.tenants.keys().collect::<Vec<_>>(), ["red"]);
}
