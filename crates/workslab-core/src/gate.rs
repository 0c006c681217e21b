//! The lock behind a lease: one holder at a time, and those who wait are served in their order.
//!
//! A plain mutex held for the length of a lease would do, if it could say who holds it, refuse the
//! thread that holds it already, time out, and be fair. A thread that leases in a loop would win a
//! mutex again and again while the others starve, so here a free gate belongs to the first in the
//! queue, and newcomers line up behind it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::sync::{self, Condvar, Mutex, MutexGuard, Thread, ThreadId};

/// Whoever is inside.
pub(crate) struct Occupant {
    pub(crate) thread: Thread,
    pub(crate) program: Option<usize>,
}

/// How long a caller is willing to wait.
#[derive(Clone, Copy)]
pub(crate) enum Patience {
    None,
    Until {
        deadline: Instant,
        timeout: Duration,
    },
    Endless,
}

/// Why a caller was not let in.
pub(crate) enum Refusal {
    /// Somebody is inside, or ahead in the queue, and the caller would not wait.
    Busy,
    /// The caller's time ran out.
    TimedOut,
    /// The caller is inside already.
    Own,
}

struct Waiter {
    ticket: u64,
    occupant_to_be: Occupant,
}

/// What the gate's mutex protects: its own bookkeeping and whatever the owner keeps with it.
pub(crate) struct GateState<T> {
    /// Whether somebody is inside.
    held: bool,
    /// Who is inside, or else who was last: a thread that comes back finds its handle here.
    occupant: Option<Occupant>,
    queue: VecDeque<Waiter>,
    next_ticket: u64,
    /// How many callers had to wait.
    pub(crate) waits: u64,
    /// How long they waited, in sum.
    pub(crate) waited: Duration,
    pub(crate) inside: T,
}

impl<T> GateState<T> {
    /// Who is inside, or else who will be next.
    pub(crate) fn occupant(&self) -> Option<&Occupant> {
        if self.held {
            self.occupant.as_ref()
        } else {
            self.queue.front().map(|waiter| &waiter.occupant_to_be)
        }
    }

    /// Whether somebody is inside.
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    fn is_held_by(&self, thread: ThreadId) -> bool {
        let occupant = self.occupant.as_ref().filter(|_| self.held);
        occupant.is_some_and(|occupant| occupant.thread.id() == thread)
    }
}

pub(crate) struct Gate<T> {
    state: Mutex<GateState<T>>,
    /// Signalled when the gate may have become free for the first in the queue.
    freed: Condvar,
}

impl<T> Gate<T> {
    pub(crate) fn new(inside: T) -> Self {
        Self {
            state: Mutex::new(GateState {
                held: false,
                occupant: None,
                queue: VecDeque::new(),
                next_ticket: 0,
                waits: 0,
                waited: Duration::ZERO,
                inside,
            }),
            freed: Condvar::new(),
        }
    }

    /// Looks inside without entering.
    #[inline]
    pub(crate) fn peek(&self) -> MutexGuard<'_, GateState<T>> {
        sync::lock(&self.state)
    }

    /// Enters, or says why not together with the state in which that was so. The caller is inside
    /// until [`Gate::leave`], not only while it keeps the guard.
    #[allow(
        clippy::type_complexity,
        reason = "a guard on both paths is the point: the caller reads on"
    )]
    #[inline]
    pub(crate) fn enter(
        &self,
        program: Option<usize>,
        patience: Patience,
    ) -> Result<MutexGuard<'_, GateState<T>>, (Refusal, MutexGuard<'_, GateState<T>>)> {
        let me = sync::current_id();
        let mut state = sync::lock(&self.state);
        if state.held || !state.queue.is_empty() {
            state = self.queue_up(state, me, program, patience)?;
        }
        state.held = true;
        if let Some(last) = &mut state.occupant
            && last.thread.id() == me
        {
            last.program = program;
        } else {
            state.occupant = Some(Occupant {
                thread: sync::current_thread(),
                program,
            });
        }
        Ok(state)
    }

    #[cold]
    #[allow(clippy::type_complexity, reason = "as `enter`")]
    fn queue_up<'g>(
        &'g self,
        mut state: MutexGuard<'g, GateState<T>>,
        me: ThreadId,
        program: Option<usize>,
        patience: Patience,
    ) -> Result<MutexGuard<'g, GateState<T>>, (Refusal, MutexGuard<'g, GateState<T>>)> {
        if state.is_held_by(me) {
            return Err((Refusal::Own, state));
        }
        if matches!(patience, Patience::None) {
            return Err((Refusal::Busy, state));
        }

        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waits += 1;
        state.queue.push_back(Waiter {
            ticket,
            occupant_to_be: Occupant {
                thread: sync::current_thread(),
                program,
            },
        });
        let since = Instant::now();
        loop {
            let first = state
                .queue
                .front()
                .is_some_and(|waiter| waiter.ticket == ticket);
            if first && !state.held {
                state.queue.pop_front();
                state.waited += since.elapsed();
                return Ok(state);
            }
            let left = match patience {
                Patience::Until { deadline, .. } => {
                    match deadline.checked_duration_since(Instant::now()) {
                        Some(left) if !left.is_zero() => Some(left),
                        _ => {
                            state.queue.retain(|waiter| waiter.ticket != ticket);
                            state.waited += since.elapsed();
                            // If the gate was free and mine to take, it is now the next one's.
                            self.freed.notify_all();
                            return Err((Refusal::TimedOut, state));
                        }
                    }
                }
                Patience::None | Patience::Endless => None,
            };
            state = self.sleep(state, left);
        }
    }

    fn sleep<'g>(
        &'g self,
        state: MutexGuard<'g, GateState<T>>,
        left: Option<Duration>,
    ) -> MutexGuard<'g, GateState<T>> {
        match left {
            None => match self.freed.wait(state) {
                Ok(state) => state,
                Err(poisoned) => poisoned.into_inner(),
            },
            Some(left) => match self.freed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            },
        }
    }

    /// Leaves; the first in the queue may enter. Only for whoever is inside.
    #[inline]
    pub(crate) fn leave(&self, mut state: MutexGuard<'_, GateState<T>>) {
        state.held = false;
        if !state.queue.is_empty() {
            self.freed.notify_all();
        }
    }
}
