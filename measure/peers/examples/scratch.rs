#![allow(missing_docs, clippy::all)]
fn main() {
    let rules = peers::public_rules::rules(2500);
    std::fs::write("/tmp/sx/pub.rules", peers::public_rules::text(&rules)).unwrap();
    for (name, n) in [("short", 300), ("long", 3300)] {
        let w = peers::exchanges::Exchanges::write(
            std::path::Path::new(&format!("/tmp/sx/{name}.pcap")),
            &rules,
            n,
        )
        .unwrap();
        println!("{w:?}");
    }
}
