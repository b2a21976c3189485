//! One session's thread.

use super::BATCH_BYTES;
use super::engine::{Engine, now};
use crate::protocol::{Control, DIALECT, op};
use crate::session::{Answer, Input, Outcome, Session};
use seawall_blockdev::PageBuf;
use seawall_diskfs::{Format, FsError, Slice};
use seawall_ipc::conn::{Receiver, RecvError, send};
use seawall_ipc::{Event, Gather, Inline, Request};
use std::os::unix::net::UnixStream;
use std::string::ToString;
use std::vec::Vec;

/// Why a session ended.
pub(super) enum End {
    /// The client closed its side.
    Eof,
    /// It asked for the server's end, and has its answer.
    Shutdown(Result<(), FsError>),
    /// It broke the protocol, or its socket failed.
    Receive(RecvError),
    /// It does not take its replies.
    Send(std::io::Error),
    /// A mount's kernel kept changes that a sync was to cover: no answer could be true.
    Front(FsError),
}

/// Receives requests, within the session's limits.
struct Inbox {
    receiver: Receiver<Request>,
    max: usize,
}

impl Inbox {
    /// Blocks for one request, then takes those that are here already. `false` at the end.
    fn receive(
        &mut self,
        socket: &UnixStream,
        items: &mut Vec<(Request, Input)>,
    ) -> Result<bool, RecvError> {
        let mut bytes = 0usize;
        while items.len() < self.max && bytes < BATCH_BYTES {
            let event = if items.is_empty() {
                self.receiver.event(socket)?
            } else {
                self.receiver.buffered_event()?
            };
            let request = match event {
                Some(Event::Header(request)) => request,
                Some(_) => return Err(RecvError::Truncated),
                None => return Ok(!items.is_empty()),
            };
            bytes = bytes.saturating_add(request.inline_len as usize);
            let input = self.input(socket, &request)?;
            items.push((request, input));
        }
        Ok(true)
    }

    fn input(&mut self, socket: &UnixStream, request: &Request) -> Result<Input, RecvError> {
        if request.inline_len == 0 {
            return Ok(Input::None);
        }
        match (DIALECT.request)(request.op) {
            Inline::None | Inline::Skip => Ok(Input::None),
            Inline::Body => match self.receiver.event(socket)? {
                Some(Event::Body(bytes)) => Ok(Input::Body(bytes)),
                _ => Err(RecvError::Truncated),
            },
            Inline::Payload => match self.receiver.event(socket)? {
                Some(Event::Payload { len }) => {
                    let mut data = PageBuf::try_zeroed(len)
                        .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
                    self.receiver.payload(socket, &mut [&mut data])?;
                    Ok(Input::Payload(Slice::new(data)))
                }
                _ => Err(RecvError::Truncated),
            },
        }
    }
}

/// Serves a session until it ends. Its handles are forgotten then.
pub(super) fn serve<F: Format>(
    engine: &Engine<F>,
    socket: &UnixStream,
    session: &mut Session,
    in_flight: u32,
) -> End {
    let end = run(engine, socket, session, in_flight.max(1) as usize);
    // After the unmount there is nothing to forget them in.
    let _unmounted = engine.while_mounted(|host| session.end(host, now()));
    end
}

fn run<F: Format>(
    engine: &Engine<F>,
    socket: &UnixStream,
    session: &mut Session,
    max: usize,
) -> End {
    let mut inbox = Inbox { receiver: Receiver::new(DIALECT), max };
    let mut items = Vec::new();
    loop {
        items.clear();
        match inbox.receive(socket, &mut items) {
            Ok(true) => {}
            Ok(false) => return End::Eof,
            Err(e) => return End::Receive(e),
        }
        if items.iter().any(|(request, input)| needs_everything(request, input))
            && let Err(error) = engine.flush_front()
        {
            tracing::warn!(%error, "the kernel did not hand over all that it holds back");
            return End::Front(error);
        }
        let mut todo = items.drain(..);
        while todo.len() > 0 {
            let (answers, stop) = execute(engine, session, &mut todo);
            engine.announce(&session.take_changes());
            linger(session.take_linger());
            if let Some(request) = stop {
                return shut_down(engine, socket, session, &request, &answers);
            }
            if let Err(e) = reply(socket, &answers) {
                return End::Send(e);
            }
        }
    }
}

/// Requests that are about everything, so also about what a mount's kernel holds back.
fn needs_everything(request: &Request, input: &Input) -> bool {
    match (request.op, input) {
        (op::SYNCFS, _) => true,
        (op::CONTROL, Input::Body(body)) => {
            let asked = seawall_ipc::decode_body::<Control>(body);
            matches!(asked, Ok(Control::Sync | Control::PolicySet(_) | Control::RemountRo))
        }
        _ => false,
    }
}

/// Executes requests until enough bytes wait to be sent, or one that stops the server.
fn execute<F: Format>(
    engine: &Engine<F>,
    session: &mut Session,
    todo: &mut impl Iterator<Item = (Request, Input)>,
) -> (Vec<Answer>, Option<Request>) {
    let ran = engine.while_mounted(|host| {
        let mut answers = Vec::new();
        let mut bytes = 0usize;
        for (request, input) in &mut *todo {
            let answer = match session.handle(host, now(), &request, input) {
                Outcome::Answer(answer) => answer,
                Outcome::Shutdown => return (answers, Some(request)),
            };
            note(engine, session, &answer);
            bytes = bytes.saturating_add(answer.payload.len()).saturating_add(answer.body.len());
            answers.push(answer);
            if bytes >= BATCH_BYTES {
                break;
            }
        }
        (answers, None)
    });
    ran.unwrap_or_else(|| {
        let mut answers = Vec::new();
        for (request, input) in todo {
            match session.handle_unmounted(&request, &input) {
                Outcome::Answer(answer) => answers.push(answer),
                Outcome::Shutdown => return (answers, Some(request)),
            }
        }
        (answers, None)
    })
}

/// Linux's FAT sleeps at the end of a close that flushed.
pub(crate) fn linger(ms: u32) {
    if ms > 0 {
        std::thread::sleep(std::time::Duration::from_millis(ms.into()));
    }
}

/// What only the server's operator can do something about goes to its log.
fn note<F: Format>(engine: &Engine<F>, session: &Session, answer: &Answer) {
    let Some(e) = &answer.failure else { return };
    let op = op::name(answer.reply.op);
    if e.is_the_operators() {
        engine.failed(op, e);
    } else {
        tracing::debug!(op, client = session.client(), error = %e, "refused");
    }
}

fn reply(socket: &UnixStream, answers: &[Answer]) -> std::io::Result<()> {
    let mut gather = Gather::new(DIALECT);
    for a in answers {
        if a.payload.is_empty() {
            gather.message_with_body(&a.reply, &a.body);
        } else {
            gather.message_with_payload(&a.reply, [&*a.payload]);
        }
    }
    send(socket, &gather)
}

fn shut_down<F: Format>(
    engine: &Engine<F>,
    socket: &UnixStream,
    session: &Session,
    request: &Request,
    before: &[Answer],
) -> End {
    tracing::info!(client = session.client(), "shutdown was asked for");
    // Those replies are due whatever happens now; a client that is gone cannot hear of it.
    let _client_may_be_gone = reply(socket, before);
    let result = engine.unmount();
    if let Err(e) = reply(socket, &[session.stopped(request, result.clone())]) {
        tracing::info!(error = e.to_string(), "whoever asked for the shutdown is gone");
    }
    End::Shutdown(result)
}
