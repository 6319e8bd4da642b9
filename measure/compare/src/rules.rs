//! Which rules both sides get.

use crate::Error;
use peers::public_rules;
use std::fs;
use std::path::Path;

/// Rules of the generated set.
pub const GENERATED: u32 = 2_500;

/// Actions that a rule begins with.
const ACTIONS: [&str; 7] = ["alert", "drop", "pass", "reject", "rejectsrc", "rejectdst", "rejectboth"];

/// Rules as text, both sides' file.
#[derive(Clone, Debug)]
pub struct Rules {
    /// One a line.
    pub text: String,
    /// Where they come from.
    pub source: String,
    generated: Vec<public_rules::Rule>,
}

impl Rules {
    /// So many of the generated set, always the same.
    pub fn generate(count: u32) -> Rules {
        let generated = public_rules::rules(count);
        Rules { text: public_rules::text(&generated), source: format!("{count} generated rules"), generated }
    }

    /// All files of a folder whose names end with `.rules`, in the order of their names.
    ///
    /// # Errors
    /// [`Error::File`], or [`Error::Unexpected`] when there is no rule.
    pub fn of_folder(folder: &Path) -> Result<Rules, Error> {
        let failed = |source| Error::file(folder, source);
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == "rules") {
                files.push(path);
            }
        }
        files.sort();
        let mut text = String::new();
        for path in &files {
            let bytes = fs::read(path).map_err(|source| Error::file(path, source))?;
            text.push_str(&String::from_utf8_lossy(&bytes));
            text.push('\n');
        }
        let rules = Rules {
            text,
            source: format!("{} ({} files)", folder.display(), files.len()),
            generated: Vec::new(),
        };
        if rules.count() == 0 {
            let found = format!("{}: no rule in {} files `*.rules`", folder.display(), files.len());
            return Err(Error::Unexpected { program: "rules", found });
        }
        Ok(rules)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        let mut count = 0;
        let mut goes_on = false;
        for line in self.text.lines() {
            let first = line.split_whitespace().next().unwrap_or_default();
            count += u64::from(!goes_on && ACTIONS.contains(&first));
            goes_on = line.trim_end().ends_with('\\');
        }
        count
    }

    /// The generated ones, for which traffic can be made.
    pub fn generated(&self) -> &[public_rules::Rule] {
        &self.generated
    }
}

/// Names that public rules use, and what both sides take them for.
pub const VARIABLES: [(&str, &str); 20] = [
    ("HOME_NET", "[10.0.0.0/8,172.16.0.0/12,192.168.0.0/16]"),
    ("EXTERNAL_NET", "!$HOME_NET"),
    ("HTTP_SERVERS", "$HOME_NET"),
    ("SMTP_SERVERS", "$HOME_NET"),
    ("SQL_SERVERS", "$HOME_NET"),
    ("DNS_SERVERS", "$HOME_NET"),
    ("TELNET_SERVERS", "$HOME_NET"),
    ("AIM_SERVERS", "$EXTERNAL_NET"),
    ("DC_SERVERS", "$HOME_NET"),
    ("MODBUS_CLIENT", "$HOME_NET"),
    ("MODBUS_SERVER", "$HOME_NET"),
    ("HTTP_PORTS", "[80,8000:8080]"),
    ("SHELLCODE_PORTS", "!80"),
    ("ORACLE_PORTS", "1521"),
    ("SSH_PORTS", "22"),
    ("FTP_PORTS", "21"),
    ("FILE_DATA_PORTS", "[$HTTP_PORTS,110,143]"),
    ("DNP3_PORTS", "20000"),
    ("MODBUS_PORTS", "502"),
    ("GENEVE_PORTS", "6081"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use peers::Folder;

    #[test]
    fn rules_of_a_folder_are_all_of_its_files_and_counted_by_rule() {
        let folder = Folder::new().expect("a folder");
        assert!(Rules::of_folder(folder.path()).unwrap_err().to_string().contains("no rule"));
        folder
            .write("b.rules", "# alert tcp\nalert tcp any any -> any any (sid:1; \\\n  alert;)\n")
            .expect("rules");
        folder
            .write("a.rules", "drop udp any any -> any any (sid:2;)\n\npass ip any any -> any any (sid:3;)")
            .expect("rules");
        folder.write("c.txt", "alert tcp any any -> any any (sid:4;)\n").expect("no rules");
        let rules = Rules::of_folder(folder.path()).expect("rules");
        assert_eq!(rules.count(), 3);
        assert!(rules.text.starts_with("drop udp") && !rules.text.contains("sid:4"), "{}", rules.text);
        assert_eq!(Rules::generate(40).count(), 40);
    }
}
