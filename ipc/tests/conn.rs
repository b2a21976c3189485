//! Framed connections over real sockets.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use seawall_ipc::conn::{Receiver, Sent, send, send_fds, send_now, send_tokio};
use seawall_ipc::storeproto::{DIALECT, op};
use seawall_ipc::{Event, Gather, Request};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

const SIZES: [usize; 8] = [0, 512, 4096, 16_384, 100_000, 300_000, 1 << 20, 7];

fn payload(len: usize, seed: usize) -> Vec<u8> {
    let mut buf = vec![0u8; len];
    buf.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 7 + i / 256 + seed) as u8);
    buf
}

fn messages(rounds: usize) -> Vec<Vec<u8>> {
    (0..rounds).flat_map(|r| SIZES.map(|len| payload(len, r))).collect()
}

fn gather(bufs: &[Vec<u8>]) -> Gather<'_> {
    let mut gather = Gather::new(DIALECT);
    for (i, buf) in bufs.iter().enumerate() {
        let request = Request { op: op::WRITE, cookie: i as u64, ..Request::default() };
        let (a, b) = buf.split_at(buf.len() / 2);
        gather.message_with_payload(&request, [a, b]);
        gather.message(&Request { op: op::SYNC, cookie: i as u64, ..Request::default() });
    }
    gather
}

/// Receives everything, each payload into two slices of its buffer.
fn receive_all(socket: &UnixStream, expected: &[Vec<u8>]) {
    let mut rx = Receiver::<Request>::new(DIALECT);
    for (i, want) in expected.iter().enumerate() {
        let Some(Event::Header(h)) = rx.event(socket).unwrap() else { panic!("no header") };
        assert_eq!((h.op, h.cookie, h.inline_len as usize), (op::WRITE, i as u64, want.len()));
        if !want.is_empty() {
            assert_eq!(rx.event(socket).unwrap(), Some(Event::Payload { len: want.len() }));
            let mut got = vec![0u8; want.len()];
            let (a, b) = got.split_at_mut(want.len() / 3);
            rx.payload(socket, &mut [a, b]).unwrap();
            assert!(got == *want);
        }
        let Some(Event::Header(h)) = rx.event(socket).unwrap() else { panic!("no header") };
        assert_eq!((h.op, h.cookie), (op::SYNC, i as u64));
    }
    assert_eq!(rx.event(socket).unwrap(), None);
}

#[test]
fn many_messages_in_one_gather_arrive_in_order() {
    let (a, b) = UnixStream::pair().unwrap();
    let bufs = messages(20);
    std::thread::scope(|scope| {
        let bufs = &bufs;
        scope.spawn(move || send(a.as_fd(), &gather(bufs)).unwrap());
        receive_all(&b, bufs);
    });
}

#[test]
fn a_send_that_does_not_wait_can_be_continued() {
    let (a, b) = UnixStream::pair().unwrap();
    let bufs = messages(2);
    let gathered = gather(&bufs);
    let Sent::Partly(n) = send_now(&a, &gathered, 0).unwrap() else { panic!("it cannot fit") };
    assert!(n > 0);
    std::thread::scope(|scope| {
        let (bufs, rest) = (&bufs, gathered.to_vec().split_off(n));
        scope.spawn(move || {
            let mut gather = Gather::new(DIALECT);
            gather.raw(&rest);
            send(a.as_fd(), &gather).unwrap();
        });
        receive_all(&b, bufs);
    });
}

#[test]
fn tokio_halves_speak_to_blocking_halves() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (a, b) = UnixStream::pair().unwrap();
    let bufs = messages(3);
    std::thread::scope(|scope| {
        let (bufs, back) = (&bufs, b.try_clone().unwrap());
        scope.spawn(move || receive_all(&b, bufs));
        runtime.block_on(async {
            a.set_nonblocking(true).unwrap();
            let socket = tokio::net::UnixStream::from_std(a).unwrap();
            send_tokio(&socket, &gather(bufs)).await.unwrap();
            let echo = scope.spawn(move || send(back.as_fd(), &gather(&bufs[..8])).unwrap());
            let mut rx = Receiver::<Request>::new(DIALECT);
            for want in &bufs[..8] {
                rx.event_tokio(&socket).await.unwrap().unwrap();
                if !want.is_empty() {
                    rx.event_tokio(&socket).await.unwrap().unwrap();
                    let mut got = vec![0u8; want.len()];
                    rx.payload_tokio(&socket, &mut [&mut got]).await.unwrap();
                    assert!(got == *want);
                }
                rx.event_tokio(&socket).await.unwrap().unwrap();
            }
            echo.join().unwrap();
        });
    });
}

#[test]
fn an_end_inside_a_message_is_an_error() {
    let (mut a, b) = UnixStream::pair().unwrap();
    let bufs = [payload(4096, 1)];
    a.write_all(&gather(&bufs).to_vec()[..1000]).unwrap();
    drop(a);
    let mut rx = Receiver::<Request>::new(DIALECT);
    assert!(matches!(rx.event(&b), Ok(Some(Event::Header(_)))));
    assert!(matches!(rx.event(&b), Ok(Some(Event::Payload { .. }))));
    let mut got = vec![0u8; 4096];
    assert!(rx.payload(&b, &mut [&mut got]).is_err());
}

/// A pipe's end to pass, and the other one to see whether it arrived.
fn passable() -> (std::io::PipeReader, std::io::PipeWriter) {
    std::io::pipe().unwrap()
}

fn announcing(count: u16, cookie: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    Request { op: op::INFO, cookie, flags: count << 12, ..Request::default() }
        .put(DIALECT.magic, &mut bytes);
    bytes
}

fn raw(bytes: &[u8]) -> Gather<'_> {
    let mut gather = Gather::new(DIALECT);
    gather.raw(bytes);
    gather
}

#[test]
fn descriptors_come_with_the_record_that_announces_them() {
    let (a, b) = UnixStream::pair().unwrap();
    let pipes: Vec<_> = (0..3).map(|_| passable()).collect();
    // One with, one without, two with: received together, each must get its own.
    send_fds(&a, &raw(&announcing(1, 1)), &[pipes[0].1.as_fd()]).unwrap();
    send(&a, &raw(&announcing(0, 2))).unwrap();
    send_fds(&a, &raw(&announcing(1, 3)), &[pipes[1].1.as_fd()]).unwrap();
    send_fds(&a, &raw(&announcing(1, 4)), &[pipes[2].1.as_fd()]).unwrap();
    let mut rx = Receiver::<Request>::new(DIALECT);
    for (cookie, pipe) in [(1, Some(0)), (2, None), (3, Some(1)), (4, Some(2))] {
        let Some(Event::Header(h)) = rx.event(&b).unwrap() else { panic!("no header") };
        assert_eq!(h.cookie, cookie);
        let mut fds = rx.take_fds();
        assert_eq!(fds.len(), usize::from(pipe.is_some()));
        if let Some(pipe) = pipe {
            let mut writer = std::fs::File::from(fds.remove(0));
            writer.write_all(&[cookie as u8]).unwrap();
            let mut byte = [0];
            (&pipes[pipe].0).read_exact(&mut byte).unwrap();
            assert_eq!(byte, [cookie as u8]);
        }
    }
}

#[test]
fn surplus_missing_and_dropped_descriptors_end_the_connection() {
    let (_reader, writer) = passable();
    let fd = writer.as_fd();
    let ends = |bytes: &[u8], fds: &[std::os::fd::BorrowedFd<'_>]| {
        let (a, b) = UnixStream::pair().unwrap();
        if fds.len() <= 4 {
            send_fds(&a, &raw(bytes), fds).unwrap();
        } else {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(9))];
            let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
            assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(fds)));
            let iov = [std::io::IoSlice::new(bytes)];
            let flags = rustix::net::SendFlags::empty();
            rustix::net::sendmsg(&a, &iov, &mut control, flags).unwrap();
        }
        let mut rx = Receiver::<Request>::new(DIALECT);
        rx.event(&b).unwrap_err().to_string()
    };
    let stray = "descriptors arrived that were not announced";
    assert!(ends(&announcing(0, 1), &[fd]).contains(stray));
    assert!(ends(&announcing(1, 1), &[fd, fd]).contains(stray));
    assert!(ends(&announcing(1, 1), &[fd; 9]).contains(stray));
    assert!(ends(&announcing(1, 1), &[]).contains("1 descriptors announced, 0 came"));
    assert!(ends(&announcing(2, 1), &[fd, fd]).contains("at most 1 allowed"));
    // A stream of them that never ends in a whole record is bounded as well.
    let (a, b) = UnixStream::pair().unwrap();
    for byte in announcing(1, 1).iter().take(10) {
        send_fds(&a, &raw(&[*byte]), &[fd; 4]).unwrap();
    }
    drop(a);
    let mut rx = Receiver::<Request>::new(DIALECT);
    assert!(rx.event(&b).unwrap_err().to_string().contains(stray));
}
