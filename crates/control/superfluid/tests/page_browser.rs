//! The page in Debian's Chromium, with this program's daemon and generated packets (`page/tests/real`). Needs
//! no privileges.

use std::path::Path;
use std::process::Command;

#[test]
fn the_page_is_walked_with_a_real_daemon() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("the repository");
    for (made, by) in [("page/dist/index.html", "scripts/page"), ("page/node_modules", "scripts/page check")]
    {
        assert!(
            root.join(made).exists(),
            "{made} is missing; {by} makes it, and `scripts/setup test` installs what that needs"
        );
    }
    let run = Command::new("node")
        .args(["page/tests/run.mjs", "real"])
        .current_dir(root)
        .env("SUPERFLUID", env!("CARGO_BIN_EXE_superfluid"))
        .output();
    let run = run.expect("node, which `scripts/setup test` installs");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("# pass 9") && said.contains("# fail 0"), "{said}");
}
