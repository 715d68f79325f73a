//! When a load thread's clients go on by themselves: intended starts, sleeps, and the end.

use std::cmp::Reverse;
use std::io;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::client::Phase;
use super::recorded::A_MOMENT;
use super::worker::{ATTENTION, TIMER, Worker};

impl Worker<'_> {
    /// Lets the client go on at `at`.
    pub(super) fn wake_later(&mut self, i: usize, at: u64, phase: Phase) {
        self.clients[i].phase = phase;
        self.clients[i].wake_at = at;
        self.timers.push(Reverse((at, i as u32)));
    }

    pub(super) fn wake(&mut self, i: usize) {
        self.clients[i].phase = match self.clients[i].phase {
            Phase::Scheduled => Phase::Begin,
            Phase::Resting => Phase::Next,
            Phase::Sleeping => {
                self.command_done(i);
                Phase::Command
            }
            Phase::Pausing => {
                self.paused(i);
                Phase::Command
            }
            other => other,
        };
        self.drive(i);
        self.send(i);
    }

    pub(super) fn fire_timers(&mut self) {
        if self.timers.is_empty() {
            if self.tally.closed {
                return;
            }
            // Without an event the edges of the window still have to be seen.
            self.now();
            return;
        }
        self.now = None;
        let now = self.now();
        let over = self.is_over();
        // Those added while these are driven wait for the next round, so that a client that never
        // waits for its server starves nobody.
        let mut due = Vec::new();
        while let Some(Reverse((at, i))) = self.timers.peek().copied() {
            let client = &self.clients[i as usize];
            let scheduled = client.phase == Phase::Scheduled && client.wake_at == at;
            // What was scheduled for after the end does not begin.
            if at > now && !(over && scheduled) {
                break;
            }
            self.timers.pop();
            let waits = matches!(
                client.phase,
                Phase::Scheduled | Phase::Sleeping | Phase::Pausing | Phase::Resting | Phase::Next
            );
            if waits && client.wake_at == at {
                due.push(i as usize);
            }
        }
        for i in due {
            self.now = None;
            self.wake(i);
        }
    }

    /// How long nothing is due by itself, and when the first thing is.
    fn idle(&self) -> Option<(u64, u64)> {
        // In a closed loop the end is seen with the next answer.
        let Reverse((first, _)) = self.timers.peek()?;
        let now = self.shared.now();
        // The end comes a moment after it was planned for.
        let end = match self.control.planned_end {
            end if end > now => end,
            _ => now + A_MOMENT,
        };
        let first = match self.tally.closed {
            true => *first,
            false => end.min(*first),
        };
        Some((first.saturating_sub(now), first))
    }

    /// How long this thread may wait for its sockets.
    pub(super) fn longest_wait(&self) -> Duration {
        let idle = self.idle().map(|(left, _)| Duration::from_nanos(left));
        idle.unwrap_or(ATTENTION).min(ATTENTION)
    }

    /// Sets the timer to the first waiting client; returns how long epoll may wait.
    pub(super) fn arm_timer(&mut self) -> io::Result<Timespec> {
        let short = Timespec {
            tv_sec: 0,
            tv_nsec: ATTENTION.as_nanos() as i64,
        };
        let Some((left, first)) = self.idle() else {
            return Ok(short);
        };
        if left == 0 {
            return Ok(Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            });
        }
        // epoll_wait counts in milliseconds: a nearer time needs a timer.
        let timer = match &self.timer {
            Some(timer) => timer,
            None => {
                let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
                if let Some(epoll) = &self.epoll {
                    let data = epoll::EventData::new_u64(TIMER);
                    epoll::add(
                        epoll,
                        &timer,
                        data,
                        epoll::EventFlags::IN | epoll::EventFlags::ET,
                    )?;
                }
                self.timer.insert(timer)
            }
        };
        if self.timer_at != first {
            self.timer_at = first;
            let value = Timespec {
                tv_sec: (left / 1_000_000_000) as i64,
                tv_nsec: (left % 1_000_000_000) as i64,
            };
            let zero = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let setting = Itimerspec {
                it_interval: zero,
                it_value: value,
            };
            self.calls.wait += 1;
            timerfd_settime(timer, TimerfdTimerFlags::empty(), &setting)?;
        }
        Ok(short)
    }
}
