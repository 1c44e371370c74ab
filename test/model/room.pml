/* room - a sender that sleeps on a full ring is woken when there is room, in all interleavings.
 *
 * Goal: no wake-up of a sender is lost. Method: one ring of src/io/shm/ring.h, scaled down:
 * lend_ring_room() and lend_ring_commit() of a sender that has more to send than fits,
 * lend_ring_next() and lend_ring_done() of a receiver that publishes its position only every LAZY
 * datagrams, lend_ring_await_room() before the sender's sleep (poll.c: has_room_again(), lend_shm_arm()),
 * and the byte on the pair's socket (lend_shm_rx_done()). wait.pml models the receiver's wake-up.
 * Memory is weak as in wait.pml: stores wait in their writer's buffer, one per variable, unordered.
 * A sender that sleeps for ever is a deadlock, which SPIN reports as an invalid end state.
 * Covers: src/io/shm/ring.h, src/io/shm/poll.c
 *
 * scope: -DSLOTS=4 -DLAZY=2 -DALL=9, the receiver takes any number at a time
 * scope: -DSLOTS=3 -DLAZY=3 -DALL=8, it publishes only after all of a full ring was taken
 *
 * Negative controls, each of which must fail:
 * control: -DSLOTS=4 -DLAZY=2 -DALL=9 -DNOLOOK, lend_ring_await_room() does not check for room after setting wanted
 * control: -DSLOTS=4 -DLAZY=2 -DALL=9 -DLOOKFIRST, it checks before it sets wanted
 * control: -DSLOTS=4 -DLAZY=2 -DALL=9 -DNOFENCE_WANT, it has no fence in between
 * control: -DSLOTS=4 -DLAZY=2 -DALL=9 -DNOFENCE_DONE, lend_ring_done() has no fence between its store and its check
 * control: -DSLOTS=4 -DLAZY=2 -DALL=9 -DTELLLATE, lend_ring_done() reads wanted before it publishes its position
 * control: -DSLOTS=3 -DLAZY=4 -DALL=8, the receiver may hold back more than the ring has
 * control: -DSLOTS=4 -DLAZY=2 -DALL=9 -DEAGER, lend_ring_done() gives back datagrams that are still lent
 */
byte mark, taken;		/* in the ring: published; given back */
bool wanted, wake_byte;
byte pMark, pTaken, vTaken, pWanted;	/* store buffers: pending, and the value */
byte next, lent;		/* the receiver's: lend_ring_rx.next; lent and not yet done */

active proctype Memory()
{
end:	do
	:: d_step { pMark -> mark = mark + pMark; pMark = 0 }
	:: d_step { pTaken -> taken = vTaken; pTaken = 0; vTaken = 0 }
	:: d_step { pWanted -> wanted = true; pWanted = 0 }
	od
}

inline fence_tx()
{
	d_step {
		if :: pMark -> mark = mark + pMark; pMark = 0 :: else fi;
		if :: pWanted -> wanted = true; pWanted = 0 :: else fi
	}
}

active proctype Sender()
{
	byte sent, seen;	/* lend_ring_tx.next, .taken */
	bool room;

	do
	:: sent == ALL -> break
	:: else ->
		if				/* lend_ring_room() in send_one() */
		:: sent - seen < SLOTS
		:: else -> seen = taken
		fi;
		if
		:: sent - seen < SLOTS ->
			/* The slot is written again: its datagram must have been given back. */
			d_step { assert(sent - (next - lent) < SLOTS); sent++; pMark++ };	/* lend_ring_commit() */
			fence_tx()		/* lend_shm_op_tx() */
		:: else ->			/* full: sleeps, through lend_ring_await_room() */
#ifdef LOOKFIRST
			seen = taken;
#endif
			pWanted = 1;
#ifndef NOFENCE_WANT
			fence_tx();
#endif
#if !defined(NOLOOK) && !defined(LOOKFIRST)
			seen = taken;
#endif
			room = sent - seen < SLOTS;
			if
			:: room
			:: else -> atomic { wake_byte -> wake_byte = false }	/* epoll_wait(), lend_rendezvous_drain() */
			fi;
			room = false
		fi
	od
}

active proctype Receiver()
{
	byte told;
	bool sleeps;

	do
	:: next == ALL && !lent -> break
	:: atomic { mark > next && !sleeps -> next++; lent++ }	/* lend_ring_next() */
	:: lent ->						/* lend_ring_done() */
#ifndef EAGER
		lent = 0;
#endif
		if
		:: next - told >= LAZY ->
			told = next;
#ifdef TELLLATE
			sleeps = wanted;
			d_step { vTaken = told; pTaken = 1 };
#else
			d_step { vTaken = told; pTaken = 1 };
#ifndef NOFENCE_DONE
			d_step { if :: pTaken -> taken = vTaken; pTaken = 0; vTaken = 0 :: else fi };
#endif
			sleeps = wanted;
#endif
			if
			:: sleeps -> d_step { sleeps = wanted; wanted = false };	/* the exchange */
				if :: sleeps -> wake_byte = true :: else fi		/* lend_rendezvous_wake() */
			:: else
			fi;
			sleeps = false
		:: else
		fi;
		lent = 0
	od
}
