//! Commands of the program, as its user types them.

use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_superfluid");

/// Commands that are typed in a folder. Words are parted by single spaces, and have none within.
#[derive(Clone)]
pub struct Commands {
    folder: PathBuf,
    environment: Vec<(&'static str, OsString)>,
}

impl Commands {
    /// That find no daemon.
    pub fn new(folder: &Path) -> Commands {
        Commands { folder: folder.to_owned(), environment: Vec::new() }
    }

    /// That ask the daemon at a socket in the folder.
    pub fn asking(self, socket: &str) -> Commands {
        let socket = self.path(socket);
        self.variable("SUPERFLUID_SOCKET", socket)
    }

    /// With a variable in their environment.
    pub fn variable(mut self, name: &'static str, value: impl Into<OsString>) -> Commands {
        self.environment.push((name, value.into()));
        self
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file in the folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    /// One that is to be started.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments.split(' ')).current_dir(&self.folder).stdin(Stdio::null());
        // What happens to be set where the tests run is not what is tested.
        command.env_remove("SUPERFLUID_TOKEN_FILE").env_remove("REGISTRY_AUTH_FILE");
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    /// One that has ended.
    pub fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("the program starts")
    }

    /// What one that ends well prints.
    #[track_caller]
    pub fn done(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        let printed = text(&output.stdout);
        assert!(output.status.success(), "{arguments}: {printed}{}{}", text(&output.stderr), self.log());
        printed
    }

    /// The same as JSON.
    #[track_caller]
    pub fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.done(&format!("{arguments} -o json"))).expect("JSON")
    }

    /// Exit status of one that does not end well, and what it says.
    #[track_caller]
    pub fn refused(&self, arguments: &str) -> (i32, String) {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{arguments}: {}", text(&output.stdout));
        (output.status.code().expect("a status"), text(&output.stderr).trim_end().to_owned())
    }

    /// What a daemon in the folder has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

/// What was printed.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Where shells look for programs, this one first.
pub fn search_path() -> String {
    let folder = Path::new(PROGRAM).parent().expect("a folder");
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default())
}
