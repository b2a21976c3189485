//! Space ahead of writes, and holes.

use super::{Change, Made, Result, Session};
use crate::protocol::Allocate;
use seawall_diskfs::driver::{self, Host};
use seawall_diskfs::{Ctx, Space};
use seawall_ipc::Request;

impl Session {
    /// The steps of one request are no transaction: what a failed one leaves is a consistent file
    /// whose range is done in part, as after a write that failed.
    pub(super) fn allocate<H: Host>(
        &mut self,
        host: &mut H,
        ctx: &Ctx,
        request: &Request,
        what: Allocate,
    ) -> Result<Made> {
        let handle = self.fids.handle(request.aux)?;
        let ino = self.fids.node(request.aux)?.ino;
        let steps: &[Space] = match what {
            Allocate::Reserve => &[Space::Allocate],
            Allocate::ReserveKeepSize => &[Space::AllocateKeepSize],
            Allocate::Punch => &[Space::Punch],
            Allocate::Zero => &[Space::Punch, Space::Allocate],
        };
        let range = (request.offset, request.length);
        let done = steps.iter().try_for_each(|step| {
            driver::run(host, ctx, |fs, t| fs.space(ctx, handle, range, *step, t))
        });
        self.changed(Change::Data(ino));
        done?;
        Ok(Made::default())
    }
}
