//! The part of a path behind `?`: parameters, each known and given once.

use api::Fault;
use yaml_document::spelling;

/// Parameters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(Vec<(&'static str, String)>);

impl Query {
    /// Reads `a=b&c=d` for a call that takes the parameters `known`.
    ///
    /// # Errors
    /// All that is wrong with it, and what is allowed.
    pub fn read(text: &str, known: &'static [&'static str]) -> Result<Query, Vec<Fault>> {
        const FAULTS_MAX: usize = 20;
        let mut parameters: Vec<(&'static str, String)> = Vec::new();
        let mut faults = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            if faults.len() == FAULTS_MAX {
                faults.push(Fault::new("", "there is more that is wrong"));
                break;
            }
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let Some(name) = api::paths::unescaped(name) else {
                faults.push(Fault::new("", "a parameter's name is not UTF-8 with `%2F` and the like in it"));
                continue;
            };
            let Some(known) = known.iter().find(|known| **known == name) else {
                let choices = match known {
                    [] => "; allowed: no parameters".to_owned(),
                    _ => spelling::choices(&name, known.iter().copied()),
                };
                let name = spelling::shown(&name).to_string();
                faults.push(Fault::new(name.clone(), format!("unknown parameter `{name}`{choices}")));
                continue;
            };
            match api::paths::unescaped(value) {
                _ if parameters.iter().any(|(earlier, _)| earlier == known) => {
                    faults.push(Fault::new(*known, "found twice; allowed: once"));
                }
                Some(value) => parameters.push((known, value)),
                None => {
                    faults.push(Fault::new(*known, "its value is not UTF-8 with `%2F` and the like in it"))
                }
            }
        }
        if faults.is_empty() { Ok(Query(parameters)) } else { Err(faults) }
    }

    /// A parameter as it was given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that is true or false, and false when it is not given.
    ///
    /// # Errors
    /// What was found, and what is allowed.
    pub fn flag(&self, name: &str) -> Result<bool, Fault> {
        Ok(self.choice(name)?.unwrap_or(false))
    }

    /// A parameter that is true or false.
    ///
    /// # Errors
    /// What was found, and what is allowed.
    pub fn choice(&self, name: &str) -> Result<Option<bool>, Fault> {
        match self.text(name) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(found) => {
                let found = spelling::shown(found);
                Err(Fault::new(name, format!("found `{found}`; allowed: `true`, `false`")))
            }
        }
    }

    /// A parameter that is a whole number.
    ///
    /// # Errors
    /// What was found, and what is allowed.
    pub fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Fault> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        match number {
            Some(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(number)),
            _ => {
                let found = spelling::shown(text);
                Err(Fault::new(
                    name,
                    format!("found `{found}`; allowed: a whole number from {least} to {most}"),
                ))
            }
        }
    }
}
