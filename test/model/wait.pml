/* wait - an endpoint that sleeps over shared memory loses no wake-up, in all interleavings.
 *
 * Goal: no wake-up of a receiver is lost. Method: one receiver polls and sleeps as src/rpc/sleep.c
 * and src/io/shm/poll.c do. Two peers send through rings of their own and share the receiver's bell
 * (src/io/shm/send.c: lend_shm_op_tx, announce). Peer 0 may die between any two steps, so that its socket
 * hangs up, or stop. Another thread leaves a reply (src/rpc/server.c: answer_from_afar), one more
 * calls lend_stop(). When everything has arrived the receiver closes.
 * Covers: src/rpc/sleep.c, src/io/shm/poll.c, src/io/shm/send.c
 *
 * Memory is weak: a store that is not a read-modify-write waits in its writer's buffer, one per
 * variable, and may become visible in any order with others, at any later time, or by a fence.
 * This is partial store order: weaker than x86, and it has the reorderings of ARM that matter here.
 * Release stores of one writer to different variables do not occur without a fence between them.
 *
 * No timer: the core's deadlines would hide a lost wake-up for a while. A receiver that sleeps with
 * work left is a deadlock, which SPIN reports as an invalid end state.
 *
 * scope: -, two peers, one of which may die
 * scope: -DSTOPPED, two peers, one of which may stop for ever and not hang up
 * scope: -DMAIL, one peer, a reply, lend_stop() and lend_close()
 *
 * Negative controls, each of which must fail:
 * control: -DNOLOOK, lend_shm_arm() does not check the bell after setting asleep
 * control: -DLOOKFIRST, it checks before it sets asleep
 * control: -DNOFENCE_ARM, no fence between setting asleep and the check
 * control: -DNOCOOL, lend_shm_make_cold() does not check the ring after it stops polling it
 * control: -DNOFENCE_TX, no fence in lend_shm_op_tx() between publishing and reading polled
 * control: -DPEEK, announce() reads polled before the datagram is published
 * control: -DASLEEPFIRST, announce() reads asleep before it rings the bell
 * control: -DTORNBELL, answer_bell() clears a word with a store instead of an exchange
 * control: -DSTOPPED -DCLEARFIRST, announce() clears asleep before it wakes
 * control: -DNONUMBER, sleeps have no numbers: a late peer clears the next one
 * control: -DMAIL -DNOMAIL, arm() in sleep.c does not check for mail after setting asleep
 * control: -DMAIL -DNOFENCE_EP, lend_ep_wake() has no fence between the mail and reading asleep
 * control: -DMAIL -DNOTOUCH, lend_close() does not wait for threads inside lend_stop() or lend_reply()
 */
#define PEERS 2
#ifdef MAIL
#define DATAGRAMS(p) (1 - (p))	/* datagrams that peer p sends */
#elif defined(STOPPED)
#define DATAGRAMS(p) 1
#else
#define DATAGRAMS(p) (2 - (p))
#endif

/* Visible to all processes. */
byte mark[PEERS];		/* datagrams published in the ring: its slots' marks */
bool polled[PEERS];		/* lend_ring.polled */
bool word[PEERS];		/* lend_bell.word, bit by bit */
bool bell_asleep;		/* lend_bell.asleep, a number that is not 0 */
bool same[PEERS];		/* and it is still the number that this peer read */
bool ep_asleep, answers, stop;	/* fields of struct lend_ep */
byte touching;
/* The kernel's. */
bool wake_byte[PEERS], hup[PEERS], eventfd;
bool closed;			/* the endpoint is gone */

/* The receiver's store buffer: pending, and the value. */
bool pPolled[PEERS], vPolled[PEERS], pBell, vBell, pEp, vEp;
bool pMark[PEERS];		/* a sender's: one more mark */
bool pAnswers, pStop;		/* pending stores of the two threads */

/* The receiver's own. */
bool hot[PEERS], hung[PEERS], armed, quiet, gotAnswer, gotStop;
byte taken[PEERS];

#define put_polled(p, x) vPolled[p] = x; pPolled[p] = true
#define put_bell(x) vBell = x; pBell = true
#define put_ep(x) vEp = x; pEp = true
inline drain()
{
	d_step {
		if :: pPolled[0] -> polled[0] = vPolled[0]; pPolled[0] = false :: else fi;
		if :: pPolled[1] -> polled[1] = vPolled[1]; pPolled[1] = false :: else fi;
		if :: pBell -> bell_asleep = vBell; pBell = false; same[0] = false; same[1] = false :: else fi;
		if :: pEp -> ep_asleep = vEp; pEp = false :: else fi;
		vPolled[0] = false; vPolled[1] = false; vBell = false; vEp = false
	}
}

/* Stores leave the buffers at any time. */
active proctype Memory()
{
end:	do
	:: d_step { pPolled[0] -> polled[0] = vPolled[0]; pPolled[0] = false; vPolled[0] = false }
	:: d_step { pPolled[1] -> polled[1] = vPolled[1]; pPolled[1] = false; vPolled[1] = false }
	:: d_step { pBell -> bell_asleep = vBell; pBell = false; vBell = false; same[0] = false; same[1] = false }
	:: d_step { pEp -> ep_asleep = vEp; pEp = false; vEp = false }
	:: d_step { pMark[0] -> mark[0]++; pMark[0] = false }
	:: d_step { pMark[1] -> mark[1]++; pMark[1] = false }
	:: d_step { pAnswers -> answers = true; pAnswers = false }
	:: d_step { pStop -> stop = true; pStop = false }
	od
}

#ifdef NONUMBER
#define SAME_SLEEP(p) bell_asleep
#else
#define SAME_SLEEP(p) same[p]
#endif
bool killed;
#ifdef STOPPED
#define HANGS_UP false
#else
#define HANGS_UP true
#endif

inline fence_tx(p) { d_step { if :: pMark[p] -> mark[p]++; pMark[p] = false :: else fi } }

/* A peer process: lend_shm_op_tx() with a burst of one, DATAGRAMS times. */
proctype Peer(byte p)
{
	byte sent;
	bool sleeps, polls;

	{
		do
		:: sent < DATAGRAMS(p) ->
#ifdef PEEK
			polls = polled[p];
#endif
			atomic { !pMark[p] -> pMark[p] = true; sent++ };	/* lend_ring_commit() */
#ifndef NOFENCE_TX
			fence_tx(p);
#endif
#ifndef PEEK
			polls = polled[p];				/* announce() */
#endif
			if
			:: polls
			:: else ->
#ifdef ASLEEPFIRST
				d_step { sleeps = bell_asleep; same[p] = sleeps };
#endif
				d_step { fence_tx(p); word[p] = true };
#ifndef ASLEEPFIRST
				d_step { sleeps = bell_asleep; same[p] = sleeps };
#endif
				if
				:: sleeps ->
#ifdef CLEARFIRST
					d_step { sleeps = bell_asleep; bell_asleep = false };
					if :: sleeps -> wake_byte[p] = true :: else fi
#else
					wake_byte[p] = true;	/* lend_rendezvous_wake() */
					d_step { if :: SAME_SLEEP(p) -> bell_asleep = false :: else fi }
#endif
				:: else
				fi
			fi;
			d_step { sleeps = false; polls = false; same[p] = false }
		:: else -> break
		od
	} unless { atomic { p == 0 && killed -> hup[0] = HANGS_UP } }
}

/* Another thread: mail, then lend_ep_wake(). */
proctype Thread(bool stops)
{
	bool sleeps;

	touching++;
	assert(!closed);
	if :: stops -> pStop = true :: else -> pAnswers = true fi;
#ifndef NOFENCE_EP
	d_step {
		if :: stops && pStop -> stop = true; pStop = false :: else fi;
		if :: !stops && pAnswers -> answers = true; pAnswers = false :: else fi
	};
#endif
	atomic { assert(!closed); sleeps = ep_asleep };
	if :: sleeps -> atomic { assert(!closed); eventfd = true } :: else fi;
	touching--
}

inline heat(p)		/* lend_shm_make_hot() */
{
	if :: !hot[p] -> hot[p] = true; put_polled(p, true) :: else fi
}

inline attend(p)	/* lend_shm_poll_sockets(): on_event() */
{
	d_step {
		wake_byte[p] = false;			/* lend_rendezvous_drain() */
		if :: hup[p] && !hung[p] -> hung[p] = true; heat(p) :: else fi
	}
}

inline answer_bell()
{
	if
	:: word[0] || word[1] ->
#ifdef TORNBELL
		bit0 = word[0]; bit1 = word[1];
		d_step { word[0] = false; word[1] = false };
#else
		d_step { drain(); bit0 = word[0]; bit1 = word[1]; word[0] = false; word[1] = false };
#endif
		d_step {
			if :: bit0 -> heat(0) :: else fi;
			if :: bit1 -> heat(1) :: else fi;
			bit0 = false; bit1 = false
		}
	:: else
	fi
}

inline poll_hot(p)	/* take(), lend_shm_drop_gone() */
{
	d_step {
		if
		:: hot[p] -> taken[p] = mark[p];
			if :: hung[p] -> hot[p] = false :: else fi
		:: else
		fi
	}
}

inline turn()		/* lend_ep_turn() */
{
	if			/* look_around() */
	:: armed -> d_step { put_bell(false); armed = false };
		if
		:: word[0] || word[1]		/* the sockets are polled later */
		:: !word[0] && !word[1] -> attend(0); attend(1)
		fi
	:: !armed -> attend(0); attend(1)	/* 100 us have passed */
	:: !armed
	fi;
	answer_bell();
	poll_hot(0);
	poll_hot(1);
	if :: answers -> d_step { answers = false; gotAnswer = true } :: else fi;	/* lend_serve_answers() */
	if :: stop -> d_step { stop = false; gotStop = true } :: else fi		/* lend_run() */
}

inline cool(p)		/* lend_shm_make_cold() */
{
	if
	:: quiet && hot[p] ->
		d_step { put_polled(p, false) };
		d_step { drain() };
#ifdef NOCOOL
		hot[p] = false
#else
		d_step {
			if
			:: hung[p] || mark[p] > taken[p] -> put_polled(p, true); quiet = false
			:: else -> hot[p] = false
			fi
		}
#endif
	:: else
	fi
}

inline look_at_bell()
{
	d_step { if :: word[0] || word[1] -> quiet = false :: else fi }
}

inline arm_shm()	/* lend_shm_arm() */
{
	cool(1);
	cool(0);
	if
	:: quiet ->
#ifdef LOOKFIRST
		look_at_bell();
#endif
		d_step { armed = true; put_bell(true) };
#ifndef NOFENCE_ARM
		d_step { drain() };
#endif
#if !defined(NOLOOK) && !defined(LOOKFIRST)
		look_at_bell();
#endif
		if :: !quiet -> d_step { put_bell(false); armed = false } :: else fi
	:: else
	fi
}

inline arm()		/* arm() of wait.c */
{
	quiet = true;
	d_step { put_ep(true) };
	d_step { drain() };
#ifndef NOMAIL
	d_step { if :: answers || stop -> quiet = false :: else fi };
#endif
	arm_shm();
	if
	:: quiet				/* a deadline that has passed keeps it awake */
	:: d_step { quiet = false; put_ep(false) }
	fi
}

#ifdef STOPPED
#define DONE_0 (taken[0] == DATAGRAMS(0) || killed)
#else
#define DONE_0 (taken[0] == DATAGRAMS(0) || hung[0])
#endif
#define COME (gotAnswer && gotStop && DONE_0 && taken[1] == DATAGRAMS(1))
#define READY (wake_byte[0] || wake_byte[1] || (hup[0] && !hung[0]) || eventfd)


proctype Receiver()
{
	bool bit0, bit1;

	do
	:: turn();
		if
		:: COME -> break
		:: else -> arm();
			if
			:: quiet ->
				if
				:: READY		/* epoll_wait() */
				:: COME -> break	/* it may sleep for ever */
				fi;
				d_step { put_ep(false); eventfd = false }	/* awake() */
			:: else
			fi
		fi
	od;
#ifndef NOTOUCH
	touching == 0;				/* lend_close() */
#endif
	closed = true
}

init
{
	atomic {
		hot[0] = true; hot[1] = true; polled[0] = true; polled[1] = true;
		run Peer(0); run Receiver();
#ifdef MAIL
		run Thread(true); run Thread(false)
#else
		gotStop = true; gotAnswer = true;
		run Peer(1)
#endif
	};
#ifndef MAIL
	if :: killed = true :: skip fi
#endif
}
