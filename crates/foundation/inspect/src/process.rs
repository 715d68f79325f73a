//! What a running process told of a file that is mapped into it. Read by the program; kept here
//! because it travels with the account of the file.

use serde::{Deserialize, Serialize};

/// What was read off a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessFacts {
    /// Process id.
    pub pid: u32,
    /// HWCAP of its auxiliary vector, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hwcap: Option<String>,
    /// HWCAP says LSE (aarch64).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hwcap_lse: Option<bool>,
    /// Each flag byte with its address in the process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flag_bytes: Vec<FlagByte>,
    /// Why something is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<String>,
}

/// The byte on which the outline helpers branch (`__aarch64_have_lse_atomics`), as read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlagByte {
    /// Address in the process.
    pub address: u64,
    /// 0: exclusive loops; else LSE.
    pub value: u8,
}

impl ProcessFacts {
    /// Which path the process takes, where it showed it: all its flag bytes agree in a normal link.
    pub fn flag(&self) -> Option<u8> {
        self.flag_bytes.first().map(|f| f.value)
    }
}
