//! The lock behind a lease: one holder at a time, and those who wait are served in their order.
//!
//! A plain mutex held for the length of a lease would do, if it could say who holds it, refuse the
//! thread that holds it already, time out, and be fair. A thread that leases in a loop would win a
//! mutex again and again while the others starve, so here a free gate belongs to the first in the
//! queue, and newcomers line up behind it.
//!
//! One word says who is inside and whether anybody waits. A thread that was the last one inside and
//! finds nobody there comes in and leaves by one atomic operation each; all else goes by a mutex.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use crate::sync::{
    self, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, Thread, UnsafeCell,
};

/// The word of a gate that nobody is inside of and nobody waits for.
const FREE: u64 = 0;
/// Set in the word while somebody is in the queue, and changed under the mutex alone. The rest of it
/// is the number of the thread inside, which is even and not 0, or 0.
const WAITING: u64 = 1;

/// Whoever is inside, or would be.
#[derive(Clone)]
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
#[derive(Clone, Copy)]
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

/// Those who wait, and who was inside last.
struct Crowd {
    /// The handle of the thread whose number is the gate's `last`.
    last: Option<Thread>,
    queue: VecDeque<Waiter>,
    next_ticket: u64,
    /// How many callers had to wait.
    waits: u64,
    /// How long they waited, in sum.
    waited: Duration,
}

pub(crate) struct Gate<T> {
    word: AtomicU64,
    /// Written under the mutex by whoever comes in, so that a thread that comes back need not be asked
    /// for its handle.
    last: AtomicU64,
    /// The index of the program of whoever is inside, plus 1.
    program: AtomicUsize,
    crowd: Mutex<Crowd>,
    /// Signalled when the gate may have become free for the first in the queue.
    freed: Condvar,
    inside: UnsafeCell<T>,
}

// SAFETY: a shared gate gives a reference to what is inside to one thread at a time (see `Pass`), which
// is what `Send` is needed for and enough for.
unsafe impl<T: Send> Sync for Gate<T> {}

/// The right of whoever is inside to what is there; leaves when it is dropped.
pub(crate) struct Pass<'g, T> {
    gate: &'g Gate<T>,
    /// As a mutex's guard, it stays on its thread.
    not_send: PhantomData<*mut ()>,
}

impl<T> Gate<T> {
    pub(crate) fn new(inside: T) -> Self {
        Self {
            word: AtomicU64::new(FREE),
            last: AtomicU64::new(FREE),
            program: AtomicUsize::new(0),
            crowd: Mutex::new(Crowd {
                last: None,
                queue: VecDeque::new(),
                next_ticket: 0,
                waits: 0,
                waited: Duration::ZERO,
            }),
            freed: Condvar::new(),
            inside: UnsafeCell::new(inside),
        }
    }

    /// Enters, or says why not.
    #[inline]
    pub(crate) fn enter(
        &self,
        program: Option<usize>,
        patience: Patience,
    ) -> Result<Pass<'_, T>, Refusal> {
        let me = sync::thread_number();
        // Acquire: what the last one did inside is seen.
        let entered = self
            .word
            .compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed);
        if entered.is_err() {
            self.queue_up(me, program, patience)?;
        } else if self.last.load(Ordering::Relaxed) != me {
            self.introduce(&mut sync::lock(&self.crowd), me);
        }
        let program = program.map_or(0, |index| index + 1);
        self.program.store(program, Ordering::Relaxed);
        Ok(Pass {
            gate: self,
            not_send: PhantomData,
        })
    }

    /// What is inside, whoever may have been forgotten there.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        // SAFETY: the gate is borrowed mutably, so no pass of it lives, and nobody else looks.
        self.inside.with_mut(|inside| unsafe { &mut *inside })
    }

    /// Writes down who is inside. Only for whoever is.
    #[cold]
    fn introduce(&self, crowd: &mut Crowd, me: u64) {
        if self.last.load(Ordering::Relaxed) != me {
            crowd.last = Some(sync::current_thread());
            self.last.store(me, Ordering::Relaxed);
        }
    }

    #[cold]
    fn queue_up(&self, me: u64, program: Option<usize>, patience: Patience) -> Result<(), Refusal> {
        if self.holder() == me {
            return Err(Refusal::Own);
        }
        if matches!(patience, Patience::None) {
            return Err(Refusal::Busy);
        }
        let mut crowd = sync::lock(&self.crowd);
        // From here on nobody passes by, and whoever leaves comes to see who waits.
        self.word.fetch_or(WAITING, Ordering::Relaxed);
        if crowd.queue.is_empty() && self.holder() == FREE {
            // It became free meanwhile.
            self.take(&mut crowd, me);
            return Ok(());
        }
        let ticket = crowd.next_ticket;
        crowd.next_ticket += 1;
        crowd.waits += 1;
        crowd.queue.push_back(Waiter {
            ticket,
            occupant_to_be: Occupant {
                thread: sync::current_thread(),
                program,
            },
        });
        let since = Instant::now();
        loop {
            let first = crowd.queue.front();
            if first.is_some_and(|waiter| waiter.ticket == ticket) && self.holder() == FREE {
                crowd.queue.pop_front();
                crowd.waited += since.elapsed();
                self.take(&mut crowd, me);
                return Ok(());
            }
            let left = match patience {
                Patience::Until { deadline, .. } => {
                    match deadline.checked_duration_since(Instant::now()) {
                        Some(left) if !left.is_zero() => Some(left),
                        _ => {
                            crowd.queue.retain(|waiter| waiter.ticket != ticket);
                            crowd.waited += since.elapsed();
                            if crowd.queue.is_empty() {
                                self.word.fetch_and(!WAITING, Ordering::Relaxed);
                            }
                            // If the gate was free and mine to take, it is now the next one's.
                            self.freed.notify_all();
                            return Err(Refusal::TimedOut);
                        }
                    }
                }
                Patience::None | Patience::Endless => None,
            };
            crowd = self.sleep(crowd, left);
        }
    }

    /// Goes inside, for one who has marked the gate as waited for and found it free. The mark keeps all
    /// out who do not have the mutex, so nobody else writes the word.
    fn take(&self, crowd: &mut Crowd, me: u64) {
        let waiting = if crowd.queue.is_empty() { 0 } else { WAITING };
        self.word.store(me | waiting, Ordering::Relaxed);
        self.introduce(crowd, me);
    }

    fn sleep<'g>(
        &'g self,
        crowd: MutexGuard<'g, Crowd>,
        left: Option<Duration>,
    ) -> MutexGuard<'g, Crowd> {
        match left {
            None => match self.freed.wait(crowd) {
                Ok(crowd) => crowd,
                Err(poisoned) => poisoned.into_inner(),
            },
            Some(left) => match self.freed.wait_timeout(crowd, left) {
                Ok((crowd, _)) => crowd,
                Err(poisoned) => poisoned.into_inner().0,
            },
        }
    }

    /// The number of the thread inside, or [`FREE`], and then what the last one did there is seen.
    fn holder(&self) -> u64 {
        self.word.load(Ordering::Acquire) & !WAITING
    }

    #[inline]
    fn leave(&self) {
        self.program.store(0, Ordering::Relaxed);
        // The number stays while somebody is inside. It is not asked for again: a lease may have been
        // passed on to another thread by a language that has no word for that.
        let holder = self.word.load(Ordering::Relaxed) & !WAITING;
        // Release: whoever comes next sees what was done inside.
        if self.word.fetch_sub(holder, Ordering::Release) & WAITING != 0 {
            self.call();
        }
    }

    /// Tells those who wait. With the mutex, so that none of them has looked and does not sleep yet.
    #[cold]
    fn call(&self) {
        drop(sync::lock(&self.crowd));
        self.freed.notify_all();
    }

    /// Whether somebody is inside.
    pub(crate) fn is_held(&self) -> bool {
        self.holder() != FREE
    }

    /// Who is inside, or else who will be next, at a glance: it may have changed when this returns, and
    /// there is nobody while one is just coming in.
    pub(crate) fn occupant(&self) -> Option<Occupant> {
        let crowd = sync::lock(&self.crowd);
        let holder = self.holder();
        if holder == FREE {
            let first = crowd.queue.front();
            return first.map(|waiter| waiter.occupant_to_be.clone());
        }
        let thread = crowd.last.as_ref();
        thread
            .filter(|_| self.last.load(Ordering::Relaxed) == holder)
            .map(|thread| Occupant {
                thread: thread.clone(),
                program: self.program.load(Ordering::Relaxed).checked_sub(1),
            })
    }

    /// How many callers had to wait, and how long in sum.
    pub(crate) fn waits(&self) -> (u64, Duration) {
        let crowd = sync::lock(&self.crowd);
        (crowd.waits, crowd.waited)
    }
}

impl<T> Deref for Pass<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: one pass exists at a time: `enter` makes one after it has changed the word from
        // nobody's to its thread's, and only the drop of the pass changes it back. The pass is borrowed
        // for as long as the reference lives.
        self.gate.inside.with(|inside| unsafe { &*inside })
    }
}

impl<T> DerefMut for Pass<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the pass is borrowed mutably.
        self.gate.inside.with_mut(|inside| unsafe { &mut *inside })
    }
}

impl<T> Drop for Pass<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.gate.leave();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use super::*;

    fn briefly(microseconds: u64) -> Patience {
        let timeout = Duration::from_micros(microseconds);
        Patience::Until {
            deadline: Instant::now() + timeout,
            timeout,
        }
    }

    #[test]
    fn one_at_a_time_is_inside_however_they_come() {
        const ROUNDS: u64 = 2000;
        let mut gate = Gate::new(0_u64);
        let entered: u64 = thread::scope(|scope| {
            let comers: Vec<_> = (0..6_u64)
                .map(|comer| {
                    let gate = &gate;
                    scope.spawn(move || {
                        (0..ROUNDS)
                            .filter(|round| {
                                let patience = match (comer + round) % 3 {
                                    0 => Patience::None,
                                    1 => briefly(round % 50),
                                    _ => Patience::Endless,
                                };
                                let Ok(mut pass) = gate.enter(None, patience) else {
                                    return false;
                                };
                                // Whoever else were inside meanwhile would be lost from the count.
                                let before = *pass;
                                if round % 16 == 0 {
                                    thread::yield_now();
                                }
                                *pass = before + 1;
                                true
                            })
                            .count() as u64
                    })
                })
                .collect();
            comers
                .into_iter()
                .map(|comer| comer.join().expect("no comer panics"))
                .sum()
        });
        assert!(entered >= 6 * (ROUNDS / 3));
        assert_eq!(*gate.get_mut(), entered);
        assert_eq!(gate.word.load(Ordering::Relaxed), FREE);
        assert!(sync::lock(&gate.crowd).queue.is_empty());
    }

    #[test]
    fn a_gate_is_passed_by_one_operation_again_when_the_last_waiter_has_given_up() {
        let gate = Gate::new(());
        let pass = gate
            .enter(Some(3), Patience::None)
            .ok()
            .expect("it is free");
        thread::scope(|scope| {
            let waiter = scope.spawn(|| gate.enter(None, briefly(100)).err());
            assert!(matches!(
                waiter.join().expect("the waiter does not panic"),
                Some(Refusal::TimedOut)
            ));
        });
        assert_eq!(gate.word.load(Ordering::Relaxed) & WAITING, 0);
        let occupant = gate.occupant().expect("somebody is inside");
        assert_eq!(occupant.thread.id(), thread::current().id());
        assert_eq!(occupant.program, Some(3));
        assert!(matches!(
            gate.enter(None, Patience::Endless).err(),
            Some(Refusal::Own)
        ));
        drop(pass);
        assert!(!gate.is_held());
        assert_eq!(gate.waits().0, 1);
    }
}
