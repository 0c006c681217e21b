//! Queues of work that the host does in order.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use workslab_core::{DeviceId, Error, Stream, StreamId};

use crate::NAME;
use crate::event::HostEvent;

type Job = Box<dyn FnOnce() + Send>;

/// A queue of work on the host. Either a thread of its own works on it, or, for the default stream,
/// the calling thread does at once.
#[derive(Clone)]
pub struct HostStream {
    id: StreamId,
    device: DeviceId,
    owned: bool,
    worker: Option<Arc<Worker>>,
}

/// Closes the queue when the last handle to the stream is gone; the thread then finishes what is
/// queued and ends.
struct Worker {
    queue: Arc<Queue>,
}

struct Queue {
    state: Mutex<State>,
    /// Signalled when there is a job, or when the queue is closed.
    arrived: Condvar,
    /// Signalled when a job has ended.
    ended: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    enqueued: u64,
    done: u64,
    closed: bool,
    /// What the first job that panicked had to say, until somebody synchronises.
    panic: Option<String>,
}

impl HostStream {
    /// The stream whose work the calling thread does at once.
    pub(crate) fn immediate(device: DeviceId) -> Self {
        Self {
            id: StreamId(u64::from(device.ordinal())),
            device,
            owned: true,
            worker: None,
        }
    }

    /// A stream with a thread of its own.
    pub(crate) fn queued(device: DeviceId) -> Result<Self, Error> {
        // Below are the ids of the devices' immediate streams.
        static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
        let id = StreamId(NEXT.fetch_add(1, Ordering::Relaxed));
        let queue = Arc::new(Queue {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                enqueued: 0,
                done: 0,
                closed: false,
                panic: None,
            }),
            arrived: Condvar::new(),
            ended: Condvar::new(),
        });
        let its_queue = Arc::clone(&queue);
        std::thread::Builder::new()
            .name(format!("workslab stream {}", id.0 & 0xFFFF_FFFF))
            .spawn(move || its_queue.work())
            .map_err(|error| Error::Driver {
                platform: NAME,
                device,
                call: "spawn",
                code: i64::from(error.raw_os_error().unwrap_or(0)),
                name: error.kind().to_string(),
                detail: Some("the thread of a stream could not be started".into()),
            })?;
        Ok(Self {
            id,
            device,
            owned: true,
            worker: Some(Arc::new(Worker { queue })),
        })
    }

    /// The same stream as another library would lend it: a lease does not count on it to live
    /// longer than itself.
    #[must_use]
    pub fn lent(&self) -> Self {
        Self {
            owned: false,
            ..self.clone()
        }
    }

    /// Enqueues work of one's own. On the default stream it is done before the call returns.
    pub fn launch(&self, work: impl FnOnce() + Send + 'static) {
        match &self.worker {
            Some(worker) => worker.queue.enqueue(Box::new(work)),
            None => work(),
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&self, job: Job) {
        let mut state = self.lock();
        state.enqueued += 1;
        state.jobs.push_back(job);
        self.arrived.notify_one();
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            let Some(job) = state.jobs.pop_front() else {
                if state.closed {
                    return;
                }
                state = self
                    .arrived
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            // A job that panics must not take those after it along: others wait for them.
            let outcome = catch_unwind(AssertUnwindSafe(job));
            state = self.lock();
            if let Err(payload) = outcome {
                state.panic.get_or_insert_with(|| {
                    payload
                        .downcast_ref::<&str>()
                        .map(|text| (*text).to_owned())
                        .or_else(|| payload.downcast_ref::<String>().cloned())
                        .unwrap_or_else(|| "a panic without a message".into())
                });
            }
            state.done += 1;
            self.ended.notify_all();
        }
    }

    fn synchronize(&self) -> Option<String> {
        let mut state = self.lock();
        let goal = state.enqueued;
        while state.done < goal {
            state = self
                .ended
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.panic.take()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.arrived.notify_one();
    }
}

// SAFETY: a queue's jobs run one after the other in the order in which they were enqueued, with the
// queue's mutex locked and unlocked between them, so each happens before the next; an immediate
// stream's work is done when the call returns. `record` enqueues the reaching of a point behind all
// earlier work, and `wait` enqueues a job that blocks until that point is reached. `synchronize`
// returns when as many jobs are done as were enqueued. Ids come from a counter, those of immediate
// streams from their device, for which there is only one.
unsafe impl Stream for HostStream {
    type Event = HostEvent;

    fn id(&self) -> StreamId {
        self.id
    }

    fn device(&self) -> DeviceId {
        self.device
    }

    fn is_owned(&self) -> bool {
        self.owned
    }

    fn record(&self, event: &HostEvent) -> Result<(), Error> {
        let point = Arc::clone(event.point());
        let ticket = point.record();
        self.launch(move || point.reach(ticket));
        Ok(())
    }

    fn wait(&self, event: &HostEvent) -> Result<(), Error> {
        let point = Arc::clone(event.point());
        let ticket = point.last_recorded();
        self.launch(move || point.await_reached(ticket));
        Ok(())
    }

    fn synchronize(&self) -> Result<(), Error> {
        let Some(worker) = &self.worker else {
            return Ok(());
        };
        match worker.queue.synchronize() {
            None => Ok(()),
            Some(message) => Err(Error::Driver {
                platform: NAME,
                device: self.device,
                call: "launch",
                code: 0,
                name: "panic".into(),
                detail: Some(format!("work on the stream panicked: {message}")),
            }),
        }
    }
}

impl fmt::Debug for HostStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostStream")
            .field("id", &self.id.0)
            .field("device", &self.device)
            .field("immediate", &self.worker.is_none())
            .finish_non_exhaustive()
    }
}
