//! The usual class types: name, description as it stands in an alert's `category`, and priority.

use super::text::{nearest, say};
use alloc::string::String;

/// Sorted by name.
static CLASSES: [(&str, &str, u32); 43] = [
    ("attempted-admin", "Attempted Administrator Privilege Gain", 1),
    ("attempted-dos", "Attempted Denial of Service", 2),
    ("attempted-recon", "Attempted Information Leak", 2),
    ("attempted-user", "Attempted User Privilege Gain", 1),
    ("bad-unknown", "Potentially Bad Traffic", 2),
    ("coin-mining", "Crypto Currency Mining Activity Detected", 2),
    ("command-and-control", "Malware Command and Control Activity Detected", 1),
    ("credential-theft", "Successful Credential Theft Detected", 1),
    ("default-login-attempt", "Attempt to login by a default username and password", 2),
    ("denial-of-service", "Detection of a Denial of Service Attack", 2),
    ("domain-c2", "Domain Observed Used for C2 Detected", 1),
    ("exploit-kit", "Exploit Kit Activity Detected", 1),
    ("external-ip-check", "Device Retrieving External IP Address Detected", 2),
    ("icmp-event", "Generic ICMP event", 3),
    ("inappropriate-content", "Inappropriate Content was Detected", 1),
    ("misc-activity", "Misc activity", 3),
    ("misc-attack", "Misc Attack", 2),
    ("network-scan", "Detection of a Network Scan", 3),
    ("non-standard-protocol", "Detection of a non-standard protocol or event", 2),
    ("not-suspicious", "Not Suspicious Traffic", 3),
    ("policy-violation", "Potential Corporate Privacy Violation", 1),
    ("protocol-command-decode", "Generic Protocol Command Decode", 3),
    ("pup-activity", "Possibly Unwanted Program Detected", 2),
    ("rpc-portmap-decode", "Decode of an RPC Query", 2),
    ("shellcode-detect", "Executable code was detected", 1),
    ("social-engineering", "Possible Social Engineering Attempted", 2),
    ("string-detect", "A suspicious string was detected", 3),
    ("successful-admin", "Successful Administrator Privilege Gain", 1),
    ("successful-dos", "Denial of Service", 2),
    ("successful-recon-largescale", "Large Scale Information Leak", 2),
    ("successful-recon-limited", "Information Leak", 2),
    ("successful-user", "Successful User Privilege Gain", 1),
    ("suspicious-filename-detect", "A suspicious filename was detected", 2),
    ("suspicious-login", "An attempted login using a suspicious username was detected", 2),
    ("system-call-detect", "A system call was detected", 2),
    ("targeted-activity", "Targeted Malicious Activity was Detected", 1),
    ("tcp-connection", "A TCP connection was detected", 4),
    ("trojan-activity", "A Network Trojan was detected", 1),
    ("unknown", "Unknown Traffic", 3),
    ("unsuccessful-user", "Unsuccessful User Privilege Gain", 1),
    ("unusual-client-port-connection", "A client was using an unusual port", 2),
    ("web-application-activity", "access to a potentially vulnerable web application", 2),
    ("web-application-attack", "Web Application Attack", 1),
];

/// Longest name.
const MAX_LENGTH: usize = 63;

/// Description and priority of a class type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// What alerts have as their category.
    pub description: &'static str,
    /// 1 is the most severe.
    pub priority: u32,
    /// Its name, if it is none of the usual ones.
    pub unknown: Option<String>,
}

impl Default for Class {
    fn default() -> Class {
        Class { description: "", priority: 3, unknown: None }
    }
}

/// A class type by its name, in either case. One that is not known has no description, and priority 3, as
/// Suricata has it; `None` when it is no name.
pub fn find(name: &[u8]) -> Option<Class> {
    let lower = name.to_ascii_lowercase();
    if let Ok(place) = CLASSES.binary_search_by(|(known, ..)| known.as_bytes().cmp(&lower)) {
        let (_, description, priority) = CLASSES[place];
        return Some(Class { description, priority, unknown: None });
    }
    let is_name = name.first()?.is_ascii_alphabetic()
        && name.len() <= MAX_LENGTH
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let name = core::str::from_utf8(name).ok().filter(|_| is_name)?;
    Some(Class { unknown: Some(String::from(name)), ..Class::default() })
}

/// A name that is not known, with the one that it may be meant for.
pub fn suggest(name: &str) -> String {
    match nearest(name.as_bytes(), CLASSES.iter().map(|(known, ..)| *known)) {
        Some(near) => say(&[name, " (did you mean `", near, "`?)"]),
        None => String::from(name),
    }
}
