/* bell - two ends of a memif link that sleep wake each other, in all interleavings.
 *
 * Goal: no wake-up is lost, of an end that waits for frames or for room. Method: one queue of a link,
 * scaled down. The sender fills it, and sleeps when it is full; the receiver takes all frames, and
 * sleeps when there are none, as dpdk_bell_arm(), dpdk_rx_look(), dpdk_bell_sent(),
 * dpdk_bell_polled() and dpdk_bell_ring() do. Memory is weak as in wait.pml: stores wait in their
 * writer's buffer, one per variable, unordered. An end that sleeps for ever is a deadlock, which
 * SPIN reports as an invalid end state.
 * Covers: src/io/dpdk/bell.c
 *
 * scope: -DSIZE=1, a queue of one frame
 * scope: -DSIZE=2, a queue of two
 *
 * Negative controls, each of which must fail:
 * control: -DSIZE=2 -DNOFENCE_ARM, no fence between setting asleep and the look at the queue
 * control: -DSIZE=2 -DLOOKFIRST, the receiver looks at the queue before it sets asleep
 * control: -DSIZE=2 -DNOFENCE_SENT, no fence between sending and reading asleep
 * control: -DSIZE=2 -DNONUMBER, sleeps have no numbers: a late sender clears the next one
 * control: -DSIZE=2 -DNOOTHER, a sender without room does not check whether the receiver sleeps
 * control: -DSIZE=1 -DDRAINED, a receiver forgets that it took frames although the sender was awake
 * control: -DSIZE=2 -DNOROOM, a receiver does not look for a sender that waits before it sleeps
 */
#define ALL 4
#define ROOM 1				/* DPDK_BELL_ROOM */
#ifdef NONUMBER
#define NEXT(number) 2
#else
#define NEXT(number) number + 2
#endif

byte head, tail;			/* frames sent, and taken, as the queue shows them */
byte asleep[2];				/* dpdk_bell_end.asleep: the sender's, the receiver's */
bool rung[2];				/* a byte waits in the end's socket */
bool pQueue[2], pAsleep[2];		/* store buffers by writer: pending, and the value */
byte vQueue[2], vAsleep[2];

inline publish(e) { if :: e == 0 -> head = vQueue[0] :: else -> tail = vQueue[1] fi; pQueue[e] = false; vQueue[e] = 0 }
inline settle(e) { asleep[e] = vAsleep[e]; pAsleep[e] = false; vAsleep[e] = 0 }
inline store_queue(e, n) { d_step { vQueue[e] = n; pQueue[e] = true } }
inline store_asleep(e, n) { d_step { vAsleep[e] = n; pAsleep[e] = true } }
inline fence(e)
{
	d_step {
		if :: pQueue[e] -> publish(e) :: else fi;
		if :: pAsleep[e] -> settle(e) :: else fi
	}
}

active proctype Memory()
{
end:	do
	:: d_step { pQueue[0] -> publish(0) }
	:: d_step { pQueue[1] -> publish(1) }
	:: d_step { pAsleep[0] -> settle(0) }
	:: d_step { pAsleep[1] -> settle(1) }
	od
}

inline ring_bell(me, other)		/* dpdk_bell_ring(); the pipe's lock publishes earlier stores */
{
	seen = asleep[other];
	if
	:: seen ->
		fence(me);
		rung[other] = true;
		d_step { if :: asleep[other] == seen -> asleep[other] = 0 :: else fi };
		seen = 0;
		rang = true
	:: else -> rang = false
	fi
}

inline end_sleep(e)			/* dpdk_bell_end_sleep() */
{
	store_asleep(e, 0);
	rung[e] = false
}

active proctype Sender()
{
	byte sent, number, seen;
	bool idle, rang;

	do
	:: sent == ALL -> break
	:: sent < ALL && sent - tail < SIZE ->
		sent++;
		store_queue(0, sent);
#ifndef NOFENCE_SENT
		fence(0);
#endif
		ring_bell(0, 1)		/* dpdk_bell_sent() */
	:: sent < ALL && sent - tail >= SIZE ->	/* refused */
		number = NEXT(number);
		store_asleep(0, number + ROOM);
#ifndef NOFENCE_ARM
		fence(0);
#endif
#ifndef NOOTHER
		idle = asleep[1] > 0;	/* waits_for_others() */
#endif
		if
		:: idle -> end_sleep(0); !asleep[1] || sent - tail < SIZE	/* sends again until then */
		:: else -> rung[0]; end_sleep(0)
		fi;
		idle = false
	od
}

inline look_for_waiting()		/* dpdk_bell_polled() */
{
	if
	:: drained && (asleep[0] & ROOM) ->
		ring_bell(1, 0);
#ifdef DRAINED
		rang = true;
#endif
		drained = !rang
	:: else
	fi
}

active proctype Receiver()
{
	byte took, number, seen;
	bool drained, found, rang;

	do
	:: took == ALL -> break
	:: took < ALL && head > took ->
		took = head;
		store_queue(1, took);
		drained = true;
		look_for_waiting()
	:: took < ALL && head == took ->
#ifdef LOOKFIRST
		found = head > took;
#endif
		number = NEXT(number);
		store_asleep(1, number);
#ifndef NOFENCE_ARM
		fence(1);
#endif
#ifndef NOROOM
		look_for_waiting();
#endif
#ifndef LOOKFIRST
		found = head > took;	/* dpdk_rx_look() */
#endif
		if
		:: found
		:: else -> rung[1]
		fi;
		end_sleep(1);
		found = false
	od
}
