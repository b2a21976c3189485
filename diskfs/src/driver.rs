//! The driver: what stands between an engine that does no I/O and a device.
//!
//! It fetches what an attempt needs and calls again, runs the plans that a policy asks for before a
//! result is handed out, and frees inodes whose last name and handle are gone. [`Blocking`] is all
//! that a kernel with a block driver and no scheduler needs; a server implements [`Host`] over its
//! lock and its store client.

use crate::fs::{Done, Fs, ReadPlan, Source};
use crate::plan::{PlanId, PlanReq, Step, Verdict};
use crate::{
    Attempt, Ctx, Extent, Fault, Format, FsError, Handle, Refused, Site, Slice, Ticket, Wait,
};
use alloc::vec::Vec;
pub use batch::{Batch, StepLimits};
use seawall_blockdev::{BlockDev, DevError, PageBuf, ReadRun, Tag};

mod batch;

/// Attempts at reclaiming space for one operation.
const RECLAIM_TRIES: u32 = 4;
/// Attempts at making room for one operation: others may fill it each time.
const ROOM_TRIES: u32 = 64;

/// What a driver runs on.
pub trait Host {
    /// The format.
    type Format: Format;
    /// The device.
    type Dev: BlockDev;

    /// Runs something on the filesystem, under the host's lock if it has one.
    fn with<R>(&mut self, f: impl FnOnce(&mut Fs<Self::Format>) -> R) -> R;

    /// The device. Never called inside `with`.
    fn dev(&mut self) -> &mut Self::Dev;

    /// Waits until `Fs::generation` is no longer `seen`. A host with one thread cannot: nothing
    /// else would change it.
    ///
    /// # Errors
    /// `Bug` on a host with one thread.
    fn wait(&mut self, seen: u64) -> Result<(), FsError>;

    /// A step completed: wakes those who wait.
    fn wake(&mut self);

    /// Takes over a batch that nobody waits for, writes it and completes its steps, as
    /// [`Batch::run`] does; may block until there is room for it. A host that cannot gives it back,
    /// and it is written in line.
    fn submit(&mut self, batch: Batch) -> Option<Batch> {
        Some(batch)
    }

    /// A walker that races another took what one look-up gives. A host with a clock lets as much
    /// time pass as Linux needs for the pages of one, or its walkers would be too quick to meet.
    fn looked_up(&mut self) {}

    /// A writer waits for room in the data cache. True: others made some, or are at it, and
    /// `Fs::generation` is no longer `seen`. False: the caller writes back itself.
    fn throttle(&mut self, _seen: u64) -> bool {
        false
    }

    /// Why the device can do nothing any more, as far as that is known without asking it.
    fn trouble(&mut self) -> Option<DevError> {
        None
    }

    /// Called before every attempt; a test host starts each one cold here.
    fn before_attempt(&mut self) {}
}

/// A filesystem and its device, on one thread.
#[derive(Debug)]
pub struct Blocking<F, D> {
    /// The filesystem.
    pub fs: Fs<F>,
    /// The device.
    pub dev: D,
}

impl<F: Format, D: BlockDev> Host for Blocking<F, D> {
    type Format = F;
    type Dev = D;

    fn with<R>(&mut self, f: impl FnOnce(&mut Fs<F>) -> R) -> R {
        f(&mut self.fs)
    }

    fn dev(&mut self) -> &mut D {
        &mut self.dev
    }

    fn wait(&mut self, _seen: u64) -> Result<(), FsError> {
        Err(FsError::Bug("a single thread waits for itself"))
    }

    fn wake(&mut self) {}
}

/// An operation: called until it neither faults nor has more steps.
type Op<'a, H, T> = dyn FnMut(&mut Fs<<H as Host>::Format>, &mut Ticket) -> Attempt<Done<T>> + 'a;

/// Runs an operation to its end, including what the policy wants after it. Returns its value and
/// how often it was started again.
///
/// # Errors
/// The operation's, or that of the plan which follows it: then the change has happened in memory
/// but the policy's promise was not kept.
pub fn run_counted<H: Host, T>(
    host: &mut H,
    ctx: &Ctx,
    mut op: impl FnMut(&mut Fs<H::Format>, &mut Ticket) -> Attempt<Done<T>>,
) -> Result<(T, u32), FsError> {
    let out = run_inner(host, ctx, &mut op);
    if let Err(what @ FsError::Corrupt(_)) = &out {
        // The caller hears of the damage; a mark that cannot be written changes nothing in that.
        let _unmarked = run_inner(host, ctx, &mut |fs, t| fs.note_damage(ctx, what, t));
    }
    reap(host, ctx);
    out
}

/// As [`run_counted`], without the count.
///
/// # Errors
/// As [`run_counted`].
pub fn run<H: Host, T>(
    host: &mut H,
    ctx: &Ctx,
    op: impl FnMut(&mut Fs<H::Format>, &mut Ticket) -> Attempt<Done<T>>,
) -> Result<T, FsError> {
    run_counted(host, ctx, op).map(|(v, _)| v)
}

fn run_inner<H: Host, T>(
    host: &mut H,
    ctx: &Ctx,
    op: &mut Op<'_, H, T>,
) -> Result<(T, u32), FsError> {
    let mut restarts = 0u32;
    let mut after = None;
    loop {
        let mut ticket = Ticket::new();
        let done = attempts(host, ctx, op, &mut ticket);
        restarts = restarts.saturating_add(ticket.restarts());
        host.with(|fs| fs.release(&mut ticket));
        let done = done?;
        after = done.after.or(after);
        if done.more {
            continue;
        }
        if let Some(a) = after {
            run_plan(host, PlanReq::After(a))?;
        }
        return Ok((done.value, restarts));
    }
}

fn attempts<H: Host, T>(
    host: &mut H,
    ctx: &Ctx,
    op: &mut Op<'_, H, T>,
    ticket: &mut Ticket,
) -> Result<Done<T>, FsError> {
    let mut tries = 0u32;
    loop {
        host.before_attempt();
        let (result, seen) = host.with(|fs| (op(fs, ticket), fs.generation()));
        let wait = match result {
            Ok(done) => return Ok(done),
            Err(Fault::Err(e)) => return Err(e),
            Err(Fault::Need(need)) => {
                host.with(|fs| fs.admit(ticket, &need))?;
                fetch(host, ticket, &need);
                continue;
            }
            Err(Fault::Wait(w)) => w,
        };
        tries = tries.saturating_add(1);
        match wait {
            Wait::Busy => host.wait(seen)?,
            Wait::DirtyMark => {
                run_inner(host, ctx, &mut |fs, t| fs.mark_dirty(ctx, t)).map(|_| ())?;
            }
            Wait::Throttle => {
                if !host.throttle(seen) {
                    run_plan(host, PlanReq::Room)?;
                }
            }
            Wait::Extend(ino, size) if tries <= ROOM_TRIES => {
                run_inner(host, ctx, &mut |fs, t| fs.extend(ctx, ino, size, t)).map(|_| ())?;
            }
            // Somebody else cut the file each time.
            Wait::Extend(..) => return Err(Refused::Busy.into()),
            Wait::Room if tries <= ROOM_TRIES => run_plan(host, PlanReq::Room)?,
            Wait::Barrier if tries <= RECLAIM_TRIES => run_plan(host, PlanReq::Reclaim)?,
            Wait::Room => return Err(FsError::Io(DevError::NoMemory)),
            Wait::Barrier => return Err(Refused::NoSpace.into()),
        }
    }
}

/// Reads what is needed into the ticket. A failed read is handed over as its error: only the
/// operation that needs the block fails.
fn fetch<H: Host>(host: &mut H, ticket: &mut Ticket, need: &[Extent]) {
    let bs = host.with(|fs| fs.geometry().block_size as usize);
    for e in need {
        let blocks = usize::try_from(e.len).unwrap_or(1);
        let mut bufs: Vec<PageBuf> = (0..blocks).map(|_| PageBuf::zeroed(bs)).collect();
        let start = |i: usize| e.start.saturating_add(i as u64).saturating_mul(bs as u64);
        let mut runs: Vec<ReadRun<'_>> =
            bufs.iter_mut().enumerate().map(|(i, b)| ReadRun { start: start(i), buf: b }).collect();
        let result = host.dev().read(&mut runs, Tag(0));
        drop(runs);
        for (i, buf) in bufs.into_iter().enumerate() {
            let block = e.start.saturating_add(i as u64);
            match result {
                Ok(()) => ticket.supply(block, Ok(buf)),
                Err(_) => ticket.supply(block, retry_one(host, start(i), buf)),
            }
        }
    }
}

/// One bad block in a run of read-ahead must not fail its neighbours.
fn retry_one<H: Host>(host: &mut H, start: u64, mut buf: PageBuf) -> Result<PageBuf, DevError> {
    host.dev().read(&mut [ReadRun { start, buf: &mut buf }], Tag(0))?;
    Ok(buf)
}

/// Runs a plan to its verdict.
///
/// # Errors
/// The plan's.
pub fn run_plan<H: Host>(host: &mut H, req: PlanReq) -> Result<(), FsError> {
    verdict(host, req).map(|_| ())
}

/// As [`run_plan`], for hosts that keep the caller waiting as the policy says.
///
/// # Errors
/// The plan's.
pub fn verdict<H: Host>(host: &mut H, req: PlanReq) -> Result<Verdict, FsError> {
    let id = host.with(|fs| fs.begin(req));
    let walked = walk(host, id);
    let verdict = host.with(|fs| fs.finish(id));
    host.wake();
    discard(host);
    walked.and(verdict)
}

/// Tells the device what is free. A device that cannot be told is no failure of the plan.
fn discard<H: Host>(host: &mut H) {
    for run in host.with(|fs| fs.take_discards()) {
        let result = host.dev().discard(run, Tag(0)).map(|_| ());
        host.with(|fs| fs.discarded(run, result));
    }
}

fn walk<H: Host>(host: &mut H, id: PlanId) -> Result<(), FsError> {
    let mut open = Batch::default();
    loop {
        let (limits, step, seen) = host.with(|fs| {
            let limits = fs.step_limits(id);
            (limits, fs.next(id, limits.step), fs.generation())
        });
        match step {
            Step::Write { id: step, runs, flags, waited } => {
                let next = Batch { steps: alloc::vec![step], runs, flags, waited };
                if limits.request > 0 {
                    host.looked_up();
                }
                if let Some(sent) = open.take_in(next, limits) {
                    send_from(host, id, sent);
                }
                if open.is_full(limits) {
                    send_from(host, id, core::mem::take(&mut open));
                }
            }
            Step::Busy | Step::Pending => {
                send(host, core::mem::take(&mut open));
                host.wait(seen)?;
            }
            Step::Sync { id, tag } => {
                send(host, core::mem::take(&mut open));
                let result = host.dev().sync(tag);
                host.with(|fs| fs.complete(id, result));
                host.wake();
            }
            Step::Done => {
                send(host, core::mem::take(&mut open));
                return Ok(());
            }
        }
    }
}

/// While the device takes a walker's request, a rival waits at the pages that the walker has just
/// taken: in Linux they are locked.
fn send_from<H: Host>(host: &mut H, id: PlanId, batch: Batch) {
    let stopped = host.with(|fs| fs.stop_rivals(id));
    send(host, batch);
    if stopped {
        host.with(|fs| fs.let_rivals_go(id));
        host.wake();
    }
}

fn send<H: Host>(host: &mut H, batch: Batch) {
    if batch.is_empty() {
        return;
    }
    let batch = if batch.waited { Some(batch) } else { host.submit(batch) };
    if let Some(batch) = batch {
        batch.run(host);
    }
}

/// Frees inodes that nobody can reach any more. What cannot be freed now is tried again later; the
/// caller's operation has succeeded either way.
fn reap<H: Host>(host: &mut H, ctx: &Ctx) {
    while let Some(ino) = host.with(|fs| fs.next_orphan()) {
        if run_inner(host, ctx, &mut |fs, t| fs.reap(ctx, ino, t)).is_err() {
            host.with(|fs| fs.keep_orphan(ino));
            return;
        }
    }
}

/// Checks at mount what every operation relies on. Run it before the volume is offered to anybody.
///
/// # Errors
/// `Corrupt` with the place; `Io`.
pub fn check_mount<H: Host>(host: &mut H, ctx: &Ctx) -> Result<(), FsError> {
    run(host, ctx, |fs, t| fs.check_mount(ctx, t))
}

/// Frees what the volume's last user left without a name. Run it right after mounting for writing.
/// Returns how many inodes there were; see [`Fs::recover`].
///
/// # Errors
/// `Io` when the list cannot be read. An inode that cannot be freed now is tried again after later
/// operations.
pub fn recover<H: Host>(host: &mut H, ctx: &Ctx) -> Result<usize, FsError> {
    run(host, ctx, |fs, t| fs.recover(ctx, t))
}

/// Reads bytes of a file. The result may be shorter at the end of the file.
///
/// # Errors
/// As `Fs::read`; `Io` when the device fails.
pub fn read<H: Host>(
    host: &mut H,
    ctx: &Ctx,
    handle: Handle,
    offset: u64,
    len: usize,
) -> Result<Slice, FsError> {
    let plan = run(host, ctx, |fs, t| fs.read(ctx, handle, offset, len, t))?;
    let out = read_window(host, &plan);
    host.with(|fs| fs.read_done(&plan));
    Ok(out?.part(plan.skip, plan.len))
}

fn read_window<H: Host>(host: &mut H, plan: &ReadPlan) -> Result<Slice, FsError> {
    if let [seg] = plan.segments.as_slice()
        && let Source::Memory(s) = &seg.source
    {
        return Ok(s.clone());
    }
    let mut buf = PageBuf::try_zeroed(plan.window).ok_or(FsError::Io(DevError::NoMemory))?;
    fill(host, plan, &mut buf)?;
    Ok(Slice::new(buf))
}

/// As [`read`], into memory of the caller; returns how much of it. What begins with a block, into a
/// buffer that has room for whole ones, arrives without a copy between. The rest of `buf`, and
/// after an error all of it, holds anything.
///
/// # Errors
/// As [`read`].
pub fn read_into<H: Host>(
    host: &mut H,
    ctx: &Ctx,
    handle: Handle,
    offset: u64,
    buf: &mut [u8],
) -> Result<usize, FsError> {
    let plan = run(host, ctx, |fs, t| fs.read(ctx, handle, offset, buf.len(), t))?;
    let done = match buf.get_mut(..plan.window) {
        Some(buf) if plan.skip == 0 => fill(host, &plan, buf),
        _ => read_window(host, &plan).map(|window| {
            let part = window.part(plan.skip, plan.len);
            if let Some(buf) = buf.get_mut(..part.len()) {
                buf.copy_from_slice(&part);
            }
        }),
    };
    host.with(|fs| fs.read_done(&plan));
    done.map(|()| plan.len)
}

fn fill<H: Host>(host: &mut H, plan: &ReadPlan, buf: &mut [u8]) -> Result<(), FsError> {
    let mut runs: Vec<ReadRun<'_>> = Vec::new();
    let mut rest = buf;
    for seg in &plan.segments {
        let (part, tail) = rest.split_at_mut_checked(seg.len).unwrap_or_default();
        rest = tail;
        match &seg.source {
            Source::Hole => part.fill(0),
            Source::Memory(s) => {
                if let Some(src) = s.get(..part.len()) {
                    part.copy_from_slice(src);
                }
            }
            Source::Disk(start) => runs.push(ReadRun { start: *start, buf: part }),
        }
    }
    if !runs.is_empty() {
        host.dev().read(&mut runs, Site::Data.tag())?;
    }
    Ok(())
}

/// Writes everything back, sets the clean mark and runs the policy's unmount site. The `Fs` may be
/// dropped afterwards.
///
/// # Errors
/// What failed; the volume is then left marked as in use.
pub fn unmount<H: Host>(host: &mut H, ctx: &Ctx) -> Result<(), FsError> {
    settle(host, ctx, Site::Unmount)
}

/// Switches to read-only: everything written back, the clean mark set.
///
/// # Errors
/// `Busy` while a handle is open for writing; else what failed.
pub fn remount_ro<H: Host>(host: &mut H, ctx: &Ctx) -> Result<(), FsError> {
    if host.with(|fs| fs.nodes.any_writer()) {
        return Err(Refused::Busy.into());
    }
    settle(host, ctx, Site::RemountRo)?;
    host.with(|fs| fs.set_read_only(false))
}

fn settle<H: Host>(host: &mut H, ctx: &Ctx, site: Site) -> Result<(), FsError> {
    if host.with(|fs| fs.is_read_only() && !fs.is_dirty()) {
        return Ok(());
    }
    reap(host, ctx);
    run_plan(host, PlanReq::Whole(site))?;
    // A policy that only warns ends the pass with Ok although writes failed.
    host.with(|fs| match fs.write_error.filter(|_| fs.is_dirty()) {
        Some(e) => Err(FsError::Io(e)),
        None => Ok(()),
    })?;
    run_inner(host, ctx, &mut |fs, t| fs.mark_clean(ctx, t))?;
    run_plan(host, PlanReq::Whole(site))
}
