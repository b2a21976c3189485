//! `ls`, `stat`, `df`.

use super::target::{Target, each, join};
use crate::cli::print;
use crate::client::Client;
use anyhow::Result;
use seawall_diskfs::{Attr, Kind, Timestamp};
use seawall_ipc::Status;
use seawall_store::name::format_size;
use serde_json::{Value, json};
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

fn kind_char(kind: Kind) -> char {
    match kind {
        Kind::File => '-',
        Kind::Dir => 'd',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::CharDev => 'c',
        Kind::BlockDev => 'b',
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Dir => "folder",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDev => "character device",
        Kind::BlockDev => "block device",
    }
}

fn mode_text(attr: &Attr) -> String {
    let mut out = String::from(kind_char(attr.kind));
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = attr.mode >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (attr.mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    out
}

/// UTC, civil calendar.
fn time_text(t: Timestamp) -> String {
    let days = t.secs.div_euclid(86_400);
    let (h, rest) = (t.secs.rem_euclid(86_400) / 3600, t.secs.rem_euclid(3600));
    // Days since 0000-03-01, in eras of 400 years (the civil-from-days algorithm).
    let z = days.saturating_add(719_468);
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (doy - (153 * mp + 2) / 5 + 1, if mp < 10 { mp + 3 } else { mp - 9 });
    let year = yoe + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{:02}:{:02}", rest / 60, rest % 60)
}

fn exact(t: Timestamp) -> String {
    format!("{}.{:09}", time_text(t), t.nanos)
}

pub(super) fn text(bytes: &[u8]) -> String {
    // A name from the server must not move the cursor of a terminal.
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn value(path: &[u8], attr: &Attr, target: Option<&[u8]>) -> Value {
    let time = |t: Timestamp| json!({ "seconds": t.secs, "nanoseconds": t.nanos });
    let mut v = json!({
        "path": String::from_utf8_lossy(path), "kind": kind_name(attr.kind),
        "inode": attr.ino.0, "generation": attr.generation,
        "mode": format!("{:04o}", attr.mode), "links": attr.nlink,
        "uid": attr.uid, "gid": attr.gid, "size": attr.size, "blocks": attr.blocks,
        "atime": time(attr.atime), "mtime": time(attr.mtime), "ctime": time(attr.ctime),
    });
    if let (Some(map), Some(target)) = (v.as_object_mut(), target) {
        map.insert("target".into(), String::from_utf8_lossy(target).into());
    }
    v
}

struct Lister<'a> {
    args: &'a super::Ls,
    out: String,
    values: Vec<Value>,
}

pub(super) fn ls(args: &super::Ls) -> Result<()> {
    let mut l = Lister { args, out: String::new(), values: Vec::new() };
    let done = each(&args.targets, |target| {
        let mut client = target.connect()?;
        let found = client.find(&target.path, !args.long)?;
        if found.attr.kind == Kind::Dir {
            l.folder(&mut client, found.fid, &target.path, args.targets.len() > 1)?;
        } else {
            let link = readlink(&mut client, found.fid, &found.attr)?;
            l.line(&target.path, &target.path, &found.attr, link.as_deref());
        }
        Ok(client.clunk(found.fid)?)
    });
    if args.json {
        print(&serde_json::to_string_pretty(&l.values)?)?;
    } else if !l.out.is_empty() {
        print(&l.out)?;
    }
    done
}

fn readlink(client: &mut Client, fid: u32, attr: &Attr) -> Result<Option<Vec<u8>>> {
    if attr.kind != Kind::Symlink {
        return Ok(None);
    }
    Ok(Some(client.readlink(fid)?))
}

impl Lister<'_> {
    fn folder(&mut self, client: &mut Client, fid: u32, path: &[u8], head: bool) -> Result<()> {
        if head || self.args.recursive {
            self.out.push_str(&format!("{}:\n", text(path)));
        }
        let mut entries = client.list(fid)?;
        entries.retain(|(name, _)| self.args.all || !name.starts_with(b"."));
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, attr) in &entries {
            let mut link = None;
            if attr.kind == Kind::Symlink && (self.args.long || self.args.json) {
                let (fid, _) = client.walk(fid, [name.clone()].into(), None)?;
                link = Some(client.readlink(fid)?);
                client.clunk(fid)?;
            }
            self.line(name, &join(path, name), attr, link.as_deref());
        }
        if self.args.recursive {
            for (name, _) in entries.iter().filter(|(_, a)| a.kind == Kind::Dir) {
                let (below, _) = client.walk(fid, [name.clone()].into(), None)?;
                self.out.push('\n');
                self.folder(client, below, &join(path, name), true)?;
                client.clunk(below)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, name: &[u8], path: &[u8], attr: &Attr, link: Option<&[u8]>) {
        if self.args.json {
            self.values.push(value(path, attr, link));
            return;
        }
        if self.args.long {
            let arrow = link.map_or_else(String::new, |l| format!(" -> {}", text(l)));
            let size = match attr.kind {
                Kind::CharDev | Kind::BlockDev => format!("{}, {}", attr.rdev.0, attr.rdev.1),
                _ => attr.size.to_string(),
            };
            self.out.push_str(&format!(
                "{} {:>3} {:>5} {:>5} {size:>10} {} {}{arrow}\n",
                mode_text(attr),
                attr.nlink,
                attr.uid,
                attr.gid,
                time_text(attr.mtime),
                text(name),
            ));
        } else {
            self.out.push_str(&format!("{}\n", text(name)));
        }
    }
}

/// Inode flags and names of attributes, where server and format have them.
fn extra(client: &mut Client, fid: u32) -> Result<(u32, Vec<Vec<u8>>)> {
    let flags = match client.inode_flags(fid, None) {
        Err(e) if e.is(Status::EOPNOTSUPP) => 0,
        other => other?,
    };
    let names = match client.listxattr(fid) {
        Err(e) if e.is(Status::EOPNOTSUPP) => Vec::new(),
        other => other?,
    };
    Ok((flags, names))
}

pub(super) fn stat(targets: &[Target], as_json: bool) -> Result<()> {
    let mut values = Vec::new();
    let mut out = String::new();
    let done = each(targets, |target| {
        let mut client = target.connect()?;
        let found = client.find(&target.path, false)?;
        let a = found.attr;
        let link = readlink(&mut client, found.fid, &a)?;
        let (flags, names) = extra(&mut client, found.fid)?;
        client.clunk(found.fid)?;
        let mut v = value(&target.path, &a, link.as_deref());
        if let Some(map) = v.as_object_mut() {
            map.insert("flags".into(), flags.into());
            let names: Vec<String> = names.iter().map(|n| text(n)).collect();
            map.insert("xattrs".into(), names.into());
        }
        values.push(v);
        let arrow = link.map_or_else(String::new, |l| format!(" -> {}", text(&l)));
        out.push_str(&format!(
            "path   {}{arrow}\nkind   {}\nsize   {} in {} of 512 bytes\n\
             inode  {}, generation {}, {} links\nmode   {:04o} {}\nowner  {}:{}\n\
             atime  {}\nmtime  {}\nctime  {}\n",
            text(&target.path),
            kind_name(a.kind),
            a.size,
            a.blocks,
            a.ino.0,
            a.generation,
            a.nlink,
            a.mode,
            mode_text(&a),
            a.uid,
            a.gid,
            exact(a.atime),
            exact(a.mtime),
            exact(a.ctime),
        ));
        if let Some(b) = a.btime {
            out.push_str(&format!("btime  {}\n", exact(b)));
        }
        if flags != 0 {
            out.push_str(&format!("flags  {flags:#x}\n"));
        }
        for name in names {
            out.push_str(&format!("xattr  {}\n", text(&name)));
        }
        Ok(())
    });
    if as_json {
        print(&serde_json::to_string_pretty(&values)?)?;
    } else if !out.is_empty() {
        print(&out)?;
    }
    done
}

pub(super) fn df(targets: &[Target], as_json: bool) -> Result<()> {
    let mut values = Vec::new();
    let mut out = format!(
        "{:<24} {:>10} {:>10} {:>10} {:>5} {:>10} {:>10}\n",
        "server", "size", "used", "free", "use", "inodes", "free"
    );
    let done = each(targets, |target| {
        let mut client = target.connect()?;
        client.find(&target.path, true)?;
        let s = client.statfs().map_err(|e| e.on(target.to_string()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(u64::from(s.block_size));
        let used = s.blocks.saturating_sub(s.blocks_free);
        let percent = (used.saturating_mul(100)).div_ceil(s.blocks.max(1));
        values.push(json!({
            "server": target.socket.display().to_string(), "block_size": s.block_size,
            "blocks": s.blocks, "blocks_free": s.blocks_free,
            "blocks_available": s.blocks_available, "inodes": s.files, "inodes_free": s.files_free,
        }));
        out.push_str(&format!(
            "{:<24} {:>10} {:>10} {:>10} {percent:>4}% {:>10} {:>10}\n",
            target.socket.display(),
            format_size(bytes(s.blocks)),
            format_size(bytes(used)),
            format_size(bytes(s.blocks_available)),
            s.files,
            s.files_free,
        ));
        Ok(())
    });
    if as_json {
        print(&serde_json::to_string_pretty(&values)?)?;
    } else if !values.is_empty() {
        print(&out)?;
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_civil() {
        for (secs, text) in [
            (0, "1970-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_234_567_890, "2009-02-13 23:31:30"),
            (4_102_444_799, "2099-12-31 23:59:59"),
        ] {
            assert_eq!(time_text(Timestamp { secs, nanos: 0 }), text);
        }
    }
}
