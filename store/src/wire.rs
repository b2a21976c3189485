//! Device errors and capabilities on the wire: the one place where they meet.

use seawall_blockdev::{CacheClass, Caps, DevError};
use seawall_ipc::Status;
use seawall_ipc::storeproto::{CacheWire, Info};

/// Wire status and device error, one to one.
const TABLE: [(Status, DevError); 11] = [
    (Status::EINVAL, DevError::OutOfRange),
    (Status::EIO, DevError::Io),
    (Status::EOPNOTSUPP, DevError::Unsupported),
    (Status::EROFS, DevError::ReadOnly),
    (Status::ENOSPC, DevError::NoSpace),
    (Status::EBUSY, DevError::Busy),
    (Status::EPERM, DevError::Denied),
    (Status::ESTALE, DevError::Stale),
    (Status::ESHUTDOWN, DevError::Gone),
    (Status::EPROTO, DevError::Protocol),
    (Status::ENOMEM, DevError::NoMemory),
];

const CLASSES: [(CacheWire, CacheClass); 4] = [
    (CacheWire::UNKNOWN, CacheClass::Unknown),
    (CacheWire::WRITE_THROUGH, CacheClass::WriteThrough),
    (CacheWire::FLUSHABLE, CacheClass::Flushable),
    (CacheWire::UNFLUSHABLE, CacheClass::Unflushable),
];

/// The status that stands for a device error.
pub fn status_of(error: DevError) -> Status {
    let found = TABLE.iter().find(|(_, e)| *e == error);
    found.map_or(Status::EIO, |(status, _)| *status)
}

/// The status of a result.
pub fn status_of_result<T>(result: &Result<T, DevError>) -> Status {
    result.as_ref().err().map_or(Status::OK, |error| status_of(*error))
}

/// `Ok` for status 0. A number that no device error stands for is [`DevError::Io`]: never success.
///
/// # Errors
/// The device error that stands for the status.
pub fn check(status: u32) -> Result<(), DevError> {
    let status = Status(status);
    if status.is_ok() {
        return Ok(());
    }
    let found = TABLE.iter().find(|(s, _)| *s == status);
    Err(found.map_or(DevError::Io, |(_, error)| *error))
}

/// A cache class on the wire.
pub fn cache_to_wire(class: CacheClass) -> CacheWire {
    CLASSES.iter().find(|(_, c)| *c == class).map_or(CacheWire::UNKNOWN, |(wire, _)| *wire)
}

/// A cache class from the wire; a number this side does not know promises nothing.
pub fn cache_from_wire(wire: CacheWire) -> CacheClass {
    CLASSES.iter().find(|(w, _)| *w == wire).map_or(CacheClass::Unknown, |(_, class)| *class)
}

/// The capabilities in INFO.
pub fn caps_of(info: &Info) -> Caps {
    Caps {
        size: info.size,
        logical: info.logical,
        physical: info.physical,
        atomic_write: info.atomic_write,
        max_io: info.max_io,
        cache: cache_from_wire(info.cache),
        fua: info.fua,
        order: info.order,
        acked_survives_server_death: info.acked_survives_server_death,
        read_only: info.read_only,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_and_class_survives_the_wire() {
        for (status, error) in TABLE {
            assert_eq!(status_of(error), status);
            assert_eq!(check(status.0), Err(error));
        }
        assert_eq!(check(0), Ok(()));
        assert_eq!(check(9999), Err(DevError::Io));
        for (wire, class) in CLASSES {
            assert_eq!((cache_to_wire(class), cache_from_wire(wire)), (wire, class));
        }
        assert_eq!(cache_from_wire(CacheWire(77)), CacheClass::Unknown);
    }
}
