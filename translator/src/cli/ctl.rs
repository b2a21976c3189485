//! `ctl SOCKET VERB`.

use super::{Ctl, What, print, show};
use crate::client::{Client, ClientError};
use crate::fuse::find_socket;
use crate::protocol::{Control, ControlReply};
use anyhow::{Result, bail};
use std::format;
use std::string::ToString;

pub(super) fn run(args: &Ctl) -> Result<()> {
    let (what, json) = match &args.what {
        What::Sync => (Control::Sync, false),
        What::Policy { name: None, json } => (Control::PolicyGet, *json),
        What::Policy { name: Some(name), json } => (Control::PolicySet(name.clone()), *json),
        What::Stats { json } => (Control::Stats, *json),
        What::RemountRo => (Control::RemountRo, false),
        What::Shutdown => (Control::Shutdown, false),
        What::Freeze => (Control::Freeze, false),
        What::NextCluster { cluster } => (Control::NextFree(*cluster), false),
        What::Thaw => (Control::Thaw, false),
    };
    let socket = find_socket(&args.socket).map_err(|e| anyhow::anyhow!(e))?;
    let name = format!("ctl[{}]", std::process::id());
    let typed = |e: ClientError| e.instead_of_socket(args.socket.display().to_string());
    let asked = Client::connect_control(&socket, &name).and_then(|mut c| c.control(&what));
    let text = match asked.map_err(typed)? {
        ControlReply::Done => return Ok(()),
        ControlReply::Policy(p) if json => serde_json::to_string_pretty(&p)?,
        ControlReply::Policy(p) => show::policy(&p),
        ControlReply::Stats(s) if json => serde_json::to_string_pretty(&s)?,
        ControlReply::Stats(s) => show::stats(&s),
        ControlReply::Failed(why) => bail!("{}: {why}", args.socket.display()),
    };
    print(&text)
}
