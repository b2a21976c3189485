//! Wire statuses: 0 or a Linux error number, whatever the host's own numbers are.
//!
//! Each server maps its own errors to this set in one table; a host that is not Linux maps the
//! numbers at its own edge.

use core::fmt;

/// A status as it stands in a reply. Values outside the named set are carried, not rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(pub u32);

macro_rules! statuses {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Status {
            $(#[doc = $text] pub const $name: Status = Status($value);)*

            /// The Linux name, or `None` for a number outside the set.
            pub fn name(self) -> Option<&'static str> {
                match self { $(Self::$name => Some(stringify!($name)),)* _ => None }
            }

            /// A short description, or `None` for a number outside the set.
            pub fn text(self) -> Option<&'static str> {
                match self { $(Self::$name => Some($text),)* _ => None }
            }
        }
    };
}

statuses! {
    OK = 0, "success";
    EPERM = 1, "operation not permitted";
    ENOENT = 2, "no such file or directory";
    EIO = 5, "input/output error";
    ENXIO = 6, "no such device or address";
    EBADF = 9, "bad handle";
    EAGAIN = 11, "try again";
    ENOMEM = 12, "out of memory or slots";
    EACCES = 13, "permission denied";
    EBUSY = 16, "in use";
    EEXIST = 17, "file exists";
    EXDEV = 18, "crosses filesystems";
    ENODEV = 19, "no such device";
    ENOTDIR = 20, "not a directory";
    EISDIR = 21, "is a directory";
    EINVAL = 22, "invalid argument";
    EMFILE = 24, "too many open handles";
    EFBIG = 27, "file too large";
    ENOSPC = 28, "no space left on device";
    EROFS = 30, "read-only";
    EMLINK = 31, "too many links";
    ERANGE = 34, "result too large for the buffer";
    ENAMETOOLONG = 36, "name too long";
    ENOTEMPTY = 39, "directory not empty";
    ELOOP = 40, "too many symbolic links";
    ENODATA = 61, "no such attribute or data";
    EPROTO = 71, "protocol error";
    EOVERFLOW = 75, "value too large";
    EOPNOTSUPP = 95, "operation not supported";
    ENOBUFS = 105, "no buffer space";
    ESHUTDOWN = 108, "the server is gone";
    ETIMEDOUT = 110, "timed out";
    ESTALE = 116, "stale handle or session";
    EUCLEAN = 117, "structure needs cleaning";
    EDQUOT = 122, "quota exceeded";
    ECANCELED = 125, "canceled";
}

impl Status {
    /// True for 0.
    pub fn is_ok(self) -> bool {
        self == Self::OK
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.text()) {
            (Some(name), Some(text)) => write!(f, "{text} ({name})"),
            _ => write!(f, "error {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn numbers_outside_the_set_are_carried() {
        assert_eq!(Status::EIO.to_string(), "input/output error (EIO)");
        assert_eq!(Status(9999).to_string(), "error 9999");
        assert_eq!(Status(95), Status::EOPNOTSUPP);
    }
}
