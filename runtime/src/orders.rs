//! What a session is told while it runs, by another thread.
//!
//! In: orders at the [`Giver`]. Out: the same at the session's [`Orders`], which wake it when it sleeps.
//! Guarantee: an order that was given is obeyed or the session is over; either way who waits for [`Order::done`] goes on.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use profiler_compiler::view::View;

use crate::maps::carry::Estate;
use crate::repl::status::Status;

/// What is to be done.
#[derive(Debug)]
pub enum Task {
    /// Print a map.
    Print {
        /// With sigil.
        map: String,
        /// As a table, its own place among the maps left to the session; else as when the run ends.
        view: Option<View>,
    },
    /// Empty a map.
    Clear(String),
    /// Say what it did so far.
    Status(Sender<Status>),
    /// End for another that goes on in its place: detach, run no `END`, print nothing more, and hand over what the maps hold.
    HandOver(Sender<Vec<Estate>>),
    /// End: detach, and print nothing more.
    Stop,
}

/// A task, and who waits for it.
#[derive(Debug)]
pub struct Order {
    /// What is to be done.
    pub task: Task,
    /// Dropped once it is done.
    pub done: Sender<()>,
}

/// The giver's end.
#[derive(Debug)]
pub struct Giver {
    orders: Sender<Order>,
    wake: UnixStream,
}

/// The session's end.
#[derive(Debug)]
pub struct Orders {
    orders: Receiver<Order>,
    wake: UnixStream,
}

/// Both ends.
pub fn pair() -> io::Result<(Giver, Orders)> {
    let (giver, wake) = UnixStream::pair()?;
    giver.set_nonblocking(true)?;
    wake.set_nonblocking(true)?;
    let (sender, orders) = channel();
    Ok((Giver { orders: sender, wake: giver }, Orders { orders, wake }))
}

impl Giver {
    /// Gives an order and waits until it was obeyed; whether the session was still there.
    pub fn give(&self, task: Task) -> bool {
        let (done, obeyed) = channel();
        if self.orders.send(Order { task, done }).is_err() {
            return false;
        }
        // A full socket wakes as well as one more byte.
        let _ = (&self.wake).write(&[0]);
        // Nothing is ever sent: the wait ends when the other side lets go.
        let _ = obeyed.recv();
        true
    }
}

impl Orders {
    /// The next order, when there is one. A giver that is gone has ordered an end.
    pub fn take(&self) -> Option<Order> {
        // What wakes is taken before the orders are looked at, so that none waits behind a byte that was read already.
        let _ = (&self.wake).read(&mut [0; 64]);
        match self.orders.try_recv() {
            Ok(order) => Some(order),
            Err(TryRecvError::Disconnected) => Some(Order { task: Task::Stop, done: channel().0 }),
            Err(TryRecvError::Empty) => None,
        }
    }
}

impl AsFd for Orders {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Task, pair};
    use crate::sys::poll;
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    #[test]
    fn an_order_wakes_and_its_giver_waits_until_it_is_done() {
        let (giver, orders) = pair().expect("sockets");
        let waiting = std::thread::spawn(move || giver.give(Task::Print { map: "@x".into(), view: None }));
        assert_eq!(poll::wait(&[orders.as_fd()], Some(Duration::from_secs(10))).expect("a poll"), 1);
        let order = orders.take().expect("an order");
        assert!(matches!(&order.task, Task::Print { map, .. } if map == "@x"));
        assert!(!waiting.is_finished());
        drop(order);
        assert!(waiting.join().expect("it goes on"));
    }

    #[test]
    fn a_giver_that_is_gone_has_ordered_an_end() {
        let (giver, orders) = pair().expect("sockets");
        drop(giver);
        assert_eq!(poll::wait(&[orders.as_fd()], Some(Duration::from_secs(10))).expect("a poll"), 1);
        assert!(matches!(orders.take().expect("an order").task, Task::Stop));
    }

    #[test]
    fn without_a_session_nobody_waits() {
        let (giver, orders) = pair().expect("sockets");
        drop(orders);
        assert!(!giver.give(Task::Stop));
    }
}
