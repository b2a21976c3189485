//! What a session may do beside others, and what HELLO's answer says to that.

use crate::error::StoreError;
use crate::wire::check;
use seawall_ipc::storeproto::{Hello, InUse, feature};
use seawall_ipc::{Reply, Status, decode_body};
use std::format;

/// What a session wants to do, and beside whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Writes nothing; goes on beside any writer. It can still sync and clear a fault.
    ReadOnly,
    /// May write, beside others that may; refused while one holds the store for itself.
    #[default]
    Shared,
    /// The only one that may write, until the session ends; refused while another may. A server
    /// that cannot promise that is refused.
    Exclusive,
}

impl Access {
    pub(super) fn offered(self) -> u64 {
        if self == Self::ReadOnly { feature::READ_ONLY } else { self.required() }
    }

    pub(super) fn required(self) -> u64 {
        if self == Self::Exclusive { feature::EXCLUSIVE } else { 0 }
    }
}

/// Looks at the answer to HELLO.
///
/// # Errors
/// Why the session was not opened.
pub(super) fn opened(
    peer: &str,
    hello: &Hello,
    reply: &Reply,
    body: &[u8],
) -> Result<(), StoreError> {
    match Status(reply.status) {
        Status::EPROTO => {
            let (version, features) = (hello.version, reply.value);
            let required = hello.required;
            Err(StoreError::peer(
                peer,
                format!(
                    "the server does not speak version {version} or lacks a feature \
                     (required {required:#x}, it has {features:#x})"
                ),
            ))
        }
        Status::EBUSY => {
            let in_use: InUse = decode_body(body).map_err(|e| StoreError::peer(peer, e))?;
            Err(StoreError::Held { what: peer.into(), by: holder(&in_use) })
        }
        status => check(status.0).map_err(|e| StoreError::peer(peer, e)),
    }
}

fn holder(in_use: &InUse) -> std::string::String {
    let more = if in_use.more > 0 { format!(" and {} more", in_use.more) } else { "".into() };
    // The name came from another process by way of the server: one line, whatever it holds.
    let name = in_use.client.chars().filter(|c| !c.is_control()).take(64);
    let name: std::string::String = name.collect();
    let name = if name.is_empty() { "a client without a name" } else { &name };
    format!("{name} (session {}){more}", in_use.session_id)
}
