//! A client of a store server: HELLO and INFO, then WRITE, SYNC and READ, with what they return.
//!
//! Without arguments it starts a server of its own over 16 MiB of memory; with one it talks to the
//! server on that socket and writes to the first block of whatever that serves:
//!
//!     store serve file:disk.img --socket /tmp/s &
//!     cargo run -p example-store-client -- /tmp/s
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use seawall_blockdev::{BlockDev, PageBuf, ReadRun, Tag, WriteFlags, WriteRun};
use seawall_store::Client;
use seawall_store::backend::MemBackend;
use seawall_store::server::{ServeOptions, Server};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn main() -> Result<()> {
    if let Some(socket) = std::env::args_os().nth(1) {
        return talk(&PathBuf::from(socket));
    }
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("store");
    let memory = Arc::new(MemBackend::new(16 << 20).context("16 MiB of memory")?);
    let options = ServeOptions { name: "mem:16M".into(), ..ServeOptions::default() };
    let server = Server::start(memory, &socket, options)?;
    let done = talk(&socket);
    server.stop()?;
    done
}

fn talk(socket: &Path) -> Result<()> {
    let client = Client::connect(socket, "example")?;
    let (hello, info) = (client.hello(), client.info());
    println!(
        "HELLO  version {}, session {}, {} requests in flight, payloads of {} KiB",
        hello.version,
        hello.session_id,
        hello.in_flight_max,
        hello.payload_max >> 10
    );
    // A client is shared by threads: the device trait is implemented for a reference to it.
    let mut dev = &client;
    let cache = dev.caps().cache;
    println!("INFO   {}: {} bytes, cache {}", info.name, info.size, cache.name());

    let text = b"sixteen letters!";
    let mut page = PageBuf::zeroed(4096);
    for (i, byte) in page.iter_mut().enumerate() {
        *byte = text.get(i % text.len()).copied().unwrap_or(0);
    }
    let write = WriteRun { start: 0, buf: &page, tag: Tag(7) };
    let acked = dev.write(&[write], WriteFlags::default()).context("WRITE")?;
    println!("WRITE  4096 bytes at 0: acknowledged as sequence {}", acked.0);

    // Acknowledged is not durable: only SYNC says up to where everything is.
    if cache.can_promise() {
        let durable = dev.sync(Tag(7)).context("SYNC")?;
        println!("SYNC   durable up to sequence {}", durable.0);
        ensure!(durable >= acked, "SYNC said Ok and left the write out");
    } else {
        println!("SYNC   not sent: the store cannot flush, so nothing there is durable");
    }

    let mut back = PageBuf::zeroed(4096);
    dev.read(&mut [ReadRun { start: 0, buf: &mut back }], Tag(7)).context("READ")?;
    ensure!(back == page, "READ returned something else than was written");
    println!("READ   4096 bytes at 0: as written");

    let total = client.stats().context("STATS")?.total;
    println!("STATS  {} writes, {} reads, {} syncs", total.writes, total.reads, total.syncs);
    client.close()?;
    Ok(())
}
