/* rx_intr - endpoints that share a device's queue sleep on its receive interrupt, in all
 * interleavings.
 *
 * Goal: no wake-up of an endpoint is lost. Method: a device puts frames for two endpoints into one
 * queue, and signals the queue's eventfd for a frame that arrives while the interrupt is armed, once
 * per arming. Each endpoint polls, and passes the other one's frames to its ring, as
 * src/io/dpdk/port_burst.c does; or it sleeps, as dpdk_wake_arm(), dpdk_rx_look(),
 * dpdk_wake_owners() and dpdk_wake_end() do. Endpoint 1 may stop for ever after a poll that found
 * the queue empty, as a program does that computes. Memory is weak as in wait.pml: the stores of
 * asleep and of the ring wait in their writer's buffer, unordered. The timers that bound a sleep are
 * left out. A sleeper whose frame stays in the queue or in its ring for ever is a deadlock, which
 * SPIN reports as an invalid end state.
 * Covers: src/io/dpdk/rx_wake.c
 *
 * scope: -, two endpoints
 * scope: -DALONE, one endpoint, which disables the interrupt when it wakes
 *
 * Negative controls, each of which must fail:
 * control: -DALONE -DLOOKFIRST, the endpoint polls the queue before it arms the interrupt
 * control: -DALONE -DNOLOOK, it does not poll after arming
 * control: -DALONE -DDRAINLATE, it drains the eventfd after it polled
 * control: -DOTHERS, a poll that took only frames of the other endpoint counts as an empty queue
 * control: -DDISABLES, an endpoint that wakes disables the interrupt of the other one
 * control: -DKEEPS, it leaves the interrupt as it is, used up
 * control: -DNOFENCE_ARM, no fence between setting asleep and the look into the ring
 * control: -DNOFENCE_GIVE, no fence between filling a ring and reading asleep
 */
#ifdef ALONE
#define N 1
#define FRAMES(e) 3
#else
#define N 2
#define FRAMES(e) (2 - (e))
#endif

byte kind[2];				/* the device's queue: frames by owner; their order is free */
bool armed, event;			/* the interrupt; its eventfd is not zero */
bool locked;				/* dpdk_shared_port.rx: one endpoint polls or arms the queue */
byte ring[2];				/* frames passed to an endpoint, as its ring shows them */
bool asleep[2], rung[2];		/* dpdk_owner.asleep; its eventfd */
bool pAsleep[2], vAsleep[2];		/* store buffers: of endpoint e */
byte toRing[2];				/* frames that the other endpoint of e put into e's ring */
byte took[2];				/* frames that arrived at e */
bool stopped;				/* endpoint 1 */

inline settle(e) { asleep[e] = vAsleep[e]; pAsleep[e] = false; vAsleep[e] = false }
inline publish(e) { ring[e] = ring[e] + toRing[e]; toRing[e] = 0 }
inline fence(e)
{
	d_step {
		if :: pAsleep[e] -> settle(e) :: else fi;
		if :: toRing[1 - e] -> publish(1 - e) :: else fi
	}
}

active proctype Memory()
{
end:	do
	:: d_step { pAsleep[0] -> settle(0) }
	:: d_step { pAsleep[1] -> settle(1) }
	:: d_step { toRing[0] -> publish(0) }
	:: d_step { toRing[1] -> publish(1) }
	od
}

active proctype Device()
{
	byte sent[2];

	do
	:: d_step { sent[0] < FRAMES(0) -> sent[0]++; kind[0]++; if :: armed -> armed = false; event = true :: else fi }
#ifndef ALONE
	:: d_step { sent[1] < FRAMES(1) -> sent[1]++; kind[1]++; if :: armed -> armed = false; event = true :: else fi }
#endif
	:: sent[0] == FRAMES(0) && sent[N - 1] == FRAMES(N - 1) -> break
	od
}

/* dpdk_device_rx(): the ring, then one frame of the queue, unless another endpoint holds it. */
inline poll(e)
{
	d_step { took[e] = took[e] + ring[e]; found = ring[e] > 0; ring[e] = 0; gave = false; idle = false };
	if
	:: d_step { !locked && kind[e] > 0 -> kind[e]--; took[e]++; found = true }
	:: d_step { !locked && kind[1 - e] > 0 -> locked = true; kind[1 - e]--; toRing[1 - e]++; gave = true };
#ifndef NOFENCE_GIVE
		fence(e);			/* dpdk_wake_owners() */
#endif
		if
		:: d_step { asleep[1 - e] && ring[1 - e] > 0 -> asleep[1 - e] = false; rung[1 - e] = true }
		:: d_step { !asleep[1 - e] || ring[1 - e] == 0 }
		fi;
		locked = false
	:: d_step { !locked && kind[0] + kind[1] == 0 -> idle = true }
	:: locked
	fi
}

inline end_sleep(e)			/* dpdk_wake_end() */
{
	d_step { vAsleep[e] = false; pAsleep[e] = true };
	d_step { rung[e] = false; event = false };
#if defined(ALONE) || defined(DISABLES)
	armed = false
#elif defined(KEEPS)
	skip
#else
	armed = true
#endif
}

inline arm_interrupt()
{
	if
	:: d_step { !locked -> armed = true }
	:: locked -> quiet = false
	fi
}

#define DONE (took[0] == FRAMES(0) && (N == 1 || took[1] == FRAMES(1) || stopped))

proctype Endpoint(byte me)
{
	bool found, gave, quiet, idle;

	do
	:: DONE -> break
	:: me == 1 && idle -> stopped = true; break
	:: !DONE -> poll(me); found = false; gave = false
	:: !DONE ->
		quiet = true;
#ifdef LOOKFIRST
		poll(me);
		quiet = !found && !gave;
#endif
		d_step { vAsleep[me] = true; pAsleep[me] = true };
#ifndef NOFENCE_ARM
		fence(me);
#endif
		arm_interrupt();
#if !defined(LOOKFIRST) && !defined(NOLOOK)
		if
		:: quiet -> poll(me);
#ifdef OTHERS
			quiet = !found
#else
			quiet = !found && !gave
#endif
		:: else
		fi;
#endif
#ifdef DRAINLATE
		event = false;
#endif
		if
		:: quiet -> event || rung[me] || DONE
		:: else
		fi;
		end_sleep(me);
		quiet = false;
		poll(me);
		found = false;
		gave = false
	od
}

init
{
	atomic {
		run Endpoint(0);
#ifndef ALONE
		run Endpoint(1)
#endif
	}
}
