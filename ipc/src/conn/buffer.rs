//! Socket buffers.

use rustix::net::sockopt::{
    set_socket_send_buffer_size, set_socket_send_buffer_size_force, socket_send_buffer_size,
};
use std::io;
use std::os::fd::AsFd;

/// Send buffer for messages of 1 MiB: one is under way while the next is filled in.
const SEND_BYTES: usize = 2 * 1024 * 1024;

/// Makes the send buffer of a Unix socket large enough for a message of 1 MiB and returns its size
/// as the kernel counts it. On a Unix socket only the sender's buffer bounds what is under way.
/// Without CAP_NET_ADMIN the kernel cuts the size down to `net.core.wmem_max`.
///
/// # Errors
/// The socket's; it works with the buffer it has.
pub fn widen<Fd: AsFd>(socket: Fd) -> io::Result<usize> {
    if set_socket_send_buffer_size_force(&socket, SEND_BYTES).is_err() {
        set_socket_send_buffer_size(&socket, SEND_BYTES)?;
    }
    Ok(socket_send_buffer_size(&socket)?)
}
