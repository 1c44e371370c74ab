/* ref_ledger - the holders of a snapshot, in every order of messages, losses, expiries and restarts.
 *
 * Goal: the node keeps a snapshot exactly as long as a client may use it. Method: A makes a
 * snapshot and passes it to B and C; they adopt, read, release. C only has a slice. A client that
 * stops waiting for a reply sends FORGET (cn/forget.c) and, where permitted, retries under a new
 * id. The network is a set of sent messages: each may be delivered at any time, any number of
 * times, or never. A process that died takes no further step. Leases, and grants by their TTL, end
 * at any time; the node may restart; a freed slot is given to another object.
 * Covers: mn/store/ref_exec.c, mn/store/hold.c, mn/store/lease.c, mn/store/exec.c, cn/forget.c
 *
 * The node's steps are those of mn/store: lend_op_put(), lend_op_adopt(), lend_op_grant(),
 * lend_op_release(), undo_make(), undo_adopt(), undo_grant(); run_recorded() and lend_op_forget()
 * for recorded replies, lend_client_close() for the end of a lease, lend_grant_expire(),
 * lend_snapshot_end_unused(). Any usable grant is taken, not only the next to expire.
 *
 * scope: -DKIND=TRANSFER -DAGAIN, A keeps nothing; B adopts, and again while it holds, after giving up, after a release
 * scope: -DKIND=SHARED -DSHARES=2 -DSLICE, A holds; B and C adopt, C through a slice
 * scope: -DKIND=SHARED -DSHARES=2 -DAGAIN, A holds; B likewise
 * scope: -DKIND=OWNED -DGRANTS, A holds, then gives its hold to B with GRANT; or forgets that
 *
 * Negative controls, each of which must fail:
 * control: -DKIND=SHARED -DSHARES=2 -DAGAIN -DCOUNTER, adopts are counted instead of kept as a set of holders
 * control: -DKIND=TRANSFER -DAGAIN -DNORECORD, a FORGET that arrives first is not remembered
 * control: -DKIND=TRANSFER -DAGAIN -DTWICE, a retransmission runs again
 * control: -DKIND=TRANSFER -DAGAIN -DNOGEN, a reference's generation is not checked
 * control: -DKIND=TRANSFER -DNOEPOCH, its epoch is not checked
 * control: -DKIND=TRANSFER -DLATELIFE, operations of a life that ended are run
 * control: -DKIND=TRANSFER -DHELD, the creator of a transferred object keeps a hold
 * control: -DKIND=TRANSFER -DAGAIN -DNOREVIVE, a forgotten adopt does not give the share back
 * control: -DKIND=TRANSFER -DAGAIN -DEAGER, B adopts again before its FORGET was answered
 * control: -DKIND=TRANSFER -DAGAIN -DEAGERDROP, B adopts again before its release was answered
 * control: -DKIND=SHARED -DSHARES=2 -DSLICE -DTHIN, an adopt through a slice makes no hold
 * control: -DKIND=SHARED -DSHARES=2 -DSLICE -DEXPIRED, a grant whose time has ended can be adopted
 * control: -DKIND=SHARED -DSHARES=2 -DAGAIN -DUNDO2, a repeated FORGET undoes again
 * control: -DKIND=OWNED -DGRANTS -DLOSEHOLD, a forgotten GRANT does not give the hold back
 * control: -DKIND=OWNED -DGRANTS -DDEAF, A ignores the node's answer that its GRANT took effect
 */
#define OWNED 0
#define TRANSFER 1
#define SHARED 2
#ifndef SHARES
#define SHARES 1
#endif

/* Clients, and operations by id: each belongs to a known client. */
#define A 0
#define B 1
#define C 2
#define PUT 0
#define GRANT 1
#define DROP_A 2	/* A's release */
#define ADOPT_B 3
#define AGAIN_B 4	/* B's second adopt */
#define DROP_B 5
#define LAST_B 6	/* its release at the end */
#define ADOPT_C 7
#define DROP_C 8
#define OPS 9
#define OWNER(o) (o >= ADOPT_C -> C : (o >= ADOPT_B -> B : A))

/* The network. */
bool sent[OPS], forget[OPS], okay[OPS], failed[OPS], forgot[OPS];
/* The node: lend_record of each operation. */
#define NONE 0
#define OK 1
#define FAIL 2
#define FORGOTTEN 3
byte rec[OPS], used[OPS];	/* used: number of the grant it made or used, 0: none */
bool held[OPS], stands[OPS];	/* stands: FORGET answered RAN */
bool known[3];			/* its life: what lend_client_find() finds */
byte hold[3];			/* 0 or 1: lend_hold */
#define GRANTS_MAX 5
byte left[GRANTS_MAX], made;	/* lend_grant by number from 1; made: how many */
bool live[GRANTS_MAX], passes[GRANTS_MAX];	/* passes: TRANSFER, gone when used */
bool object, other, restarted;	/* the slot: this object; another one; the epoch is a later one */
bool expired, unmade;		/* a grant's time ended; the PUT was forgotten */
byte given;			/* shares that A gave away, except those whose time ended unused */
/* The clients' knowledge. */
bool told, has[3], wrong_read;

#define HELD_BY_ANY (hold[A] || hold[B] || hold[C])
#define GRANTED (live[1] || live[2] || live[3] || live[4])
#define LEFT ((live[1] -> left[1] : 0) + (live[2] -> left[2] : 0) + (live[3] -> left[3] : 0) + (live[4] -> left[4] : 0))

#ifdef NOGEN
#define NAMED (object || other)
#else
#ifdef NOEPOCH
#define NAMED (object || (other && restarted))	/* a new epoch's serials start again */
#else
#define NAMED object				/* lend_snapshot_find() */
#endif
#endif
#ifdef LATELIFE
#define SPEAKS(c) true
#else
#define SPEAKS(c) known[c]
#endif
#ifdef TWICE
#define RUNS(o) (rec[o] != FORGOTTEN)
#else
#define RUNS(o) (rec[o] == NONE)
#endif

inline settle() { if :: object && !HELD_BY_ANY && !GRANTED -> object = false :: else fi }

inline add_grant(pass, n)	/* lend_grant_add() */
{
	made++;
	assert(made < GRANTS_MAX);
	live[made] = true; left[made] = n; passes[made] = pass
}

inline drop_grant(g) { live[g] = false; left[g] = 0; passes[g] = false }
inline end_grant(g) { given = given - left[g]; drop_grant(g) }	/* its remaining shares are lost */

#ifdef EXPIRED
#define USABLE(g) (g <= made && (left[g] > 0 || (!live[g] && SHARES == 2)))
#else
#define USABLE(g) (live[g] && left[g] > 0)
#endif
inline use_grant(g)		/* lend_grant_use() */
{
	if :: left[g] > 0 -> left[g]-- :: else fi;
	if :: passes[g] -> drop_grant(g) :: else fi
}

inline pick()			/* lend_grant_next(), but any grant: into g */
{
	if
	:: USABLE(1) -> g = 1
	:: USABLE(2) -> g = 2
	:: USABLE(3) -> g = 3
	:: USABLE(4) -> g = 4
	:: !USABLE(1) && !USABLE(2) && !USABLE(3) && !USABLE(4) -> g = 0
	fi
}

inline make()			/* lend_op_put() and lend_terms_apply() */
{
	object = true;
#ifdef HELD
	hold[A] = 1; held[PUT] = true;
#else
	if :: KIND != TRANSFER -> hold[A] = 1; held[PUT] = true :: else fi;
#endif
	if :: KIND != OWNED -> add_grant(KIND == TRANSFER, SHARES); used[PUT] = made; given = SHARES :: else fi;
	rec[PUT] = OK
}

inline adopt(o, c)		/* lend_op_adopt() */
{
	if
	:: !NAMED -> rec[o] = FAIL
#ifndef COUNTER
	:: NAMED && hold[c] -> rec[o] = OK
#endif
	:: else -> pick();
		if
		:: g == 0 -> rec[o] = FAIL
		:: else -> rec[o] = OK; held[o] = true; used[o] = g;
#ifdef THIN
			if :: c == C :: else -> hold[c]++ fi;
#else
			hold[c]++;
#endif
			use_grant(g)
		fi;
		g = 0
	fi;
	if :: rec[o] == OK -> okay[o] = true :: else -> failed[o] = true fi
}

inline grant()			/* lend_op_grant(), terms TRANSFER */
{
	if
	:: object && hold[A] -> add_grant(true, 1); used[GRANT] = made; given++;
		hold[A] = 0; held[GRANT] = true; rec[GRANT] = OK; okay[GRANT] = true
	:: else -> rec[GRANT] = FAIL; failed[GRANT] = true
	fi
}

inline release(o, c)		/* lend_op_release(), release_one() */
{
	if
	:: object && hold[c] -> hold[c]--; rec[o] = OK; settle()
	:: object && !hold[c] -> pick();
		if :: g -> use_grant(g); rec[o] = OK :: else -> rec[o] = FAIL fi;
		g = 0; settle()
	:: !object -> rec[o] = FAIL
	fi;
	okay[o] = true		/* whatever the answer, it is no longer held: cn_step_after() */
}

inline undo_make()
{
	if :: object && held[PUT] && hold[A] -> hold[A] = 0 :: else fi;
	if :: used[PUT] && live[used[PUT]] -> end_grant(used[PUT]) :: else fi;
	unmade = true;
	settle()
}

inline undo_adopt(o, c)
{
	if
	:: object && held[o] && hold[c] ->
#ifndef NOREVIVE
		if
		:: live[used[o]] -> left[used[o]]++
		:: else -> add_grant(true, 1)
		fi;
#endif
		hold[c]--; settle()
	:: else -> stands[o] = true
	fi
}

inline undo_grant()
{
	if
	:: live[used[GRANT]] ->
#ifndef LOSEHOLD
		if :: held[GRANT] && !hold[A] -> hold[A] = 1 :: else fi;
#endif
		end_grant(used[GRANT]); settle()
	:: else -> stands[GRANT] = true
	fi
}

/* lend_op_forget(): an operation that ran is undone, one that did not run never will; once. */
#ifdef NORECORD
#define REMEMBER(o) if :: rec[o] == NONE :: else -> rec[o] = FORGOTTEN fi
#else
#define REMEMBER(o) rec[o] = FORGOTTEN
#endif
#ifdef UNDO2
#define UNDOES(o) (rec[o] == OK || (rec[o] == FORGOTTEN && used[o]))
#else
#define UNDOES(o) (rec[o] == OK)
#endif
#define MAY(o) (sent[o] && SPEAKS(OWNER(o)) && !restarted)
#define MAYFORGET(o) (forget[o] && SPEAKS(OWNER(o)) && !restarted)

active proctype Node()
{
	byte g;

end:	do
	:: atomic { MAY(PUT) && rec[PUT] == NONE -> make(); okay[PUT] = true }
	:: atomic { MAY(ADOPT_B) && RUNS(ADOPT_B) -> adopt(ADOPT_B, B) }
	:: atomic { MAY(DROP_B) && RUNS(DROP_B) -> release(DROP_B, B) }
	:: atomic { MAYFORGET(PUT) && rec[PUT] != FORGOTTEN ->
		if :: rec[PUT] == OK -> undo_make() :: else fi; rec[PUT] = FORGOTTEN; forgot[PUT] = true }
	:: atomic { MAYFORGET(ADOPT_B) && (rec[ADOPT_B] != FORGOTTEN || UNDOES(ADOPT_B)) ->
		if :: UNDOES(ADOPT_B) -> undo_adopt(ADOPT_B, B) :: else fi; REMEMBER(ADOPT_B); forgot[ADOPT_B] = true }
#if KIND != TRANSFER
	:: atomic { MAY(DROP_A) && RUNS(DROP_A) -> release(DROP_A, A) }
#endif
#ifdef AGAIN
	:: atomic { MAY(LAST_B) && RUNS(LAST_B) -> release(LAST_B, B) }
	:: atomic { MAY(AGAIN_B) && RUNS(AGAIN_B) -> adopt(AGAIN_B, B) }
	:: atomic { MAYFORGET(AGAIN_B) && (rec[AGAIN_B] != FORGOTTEN || UNDOES(AGAIN_B)) ->
		if :: UNDOES(AGAIN_B) -> undo_adopt(AGAIN_B, B) :: else fi; REMEMBER(AGAIN_B); forgot[AGAIN_B] = true }
#endif
#ifdef SLICE
	:: atomic { MAY(ADOPT_C) && RUNS(ADOPT_C) -> adopt(ADOPT_C, C) }
	:: atomic { MAY(DROP_C) && RUNS(DROP_C) -> release(DROP_C, C) }
	:: atomic { MAYFORGET(ADOPT_C) && (rec[ADOPT_C] != FORGOTTEN || UNDOES(ADOPT_C)) ->
		if :: UNDOES(ADOPT_C) -> undo_adopt(ADOPT_C, C) :: else fi; REMEMBER(ADOPT_C); forgot[ADOPT_C] = true }
#endif
#ifdef GRANTS
	:: atomic { MAY(GRANT) && RUNS(GRANT) -> grant() }
	:: atomic { MAYFORGET(GRANT) && rec[GRANT] != FORGOTTEN ->
		if :: rec[GRANT] == OK -> undo_grant() :: else fi; rec[GRANT] = FORGOTTEN; forgot[GRANT] = true }
#endif
	:: atomic { told && !wrong_read && !object && NAMED -> wrong_read = true }	/* lend_op_get() */
	od
}

active proctype Maker()		/* A */
{
	atomic { known[A] = true; sent[PUT] = true };
end0:	if
	:: atomic { okay[PUT] -> has[A] = KIND != TRANSFER; told = true }
	:: forget[PUT] = true; goto out		/* and never reads a late reply */
	fi;
#ifdef GRANTS
	atomic { sent[GRANT] = true; has[A] = false };	/* the hold is uncertain until an answer */
end1:	if
	:: okay[GRANT] -> goto out
	:: failed[GRANT] -> assert(false)
	:: forget[GRANT] = true;
end2:		forgot[GRANT];
#ifdef DEAF
		has[A] = true
#else
		if :: stands[GRANT] -> goto out :: else -> has[A] = true fi
#endif
	fi;
#endif
#if KIND != TRANSFER
	if
	:: atomic { has[A] = false; sent[DROP_A] = true }
	:: skip
	fi;
#endif
out:	skip
}

/* One adopt: has[c] when it worked. */
#define TRY(o, c, l1, l2) \
	sent[o] = true; \
l1:	if \
	:: atomic { okay[o] -> has[c] = true } \
	:: failed[o] \
	:: forget[o] = true; AWAIT(o, l2) \
	fi
#ifdef EAGER
#define AWAIT(o, l2) skip
#else
#define AWAIT(o, l2) l2: forgot[o]
#endif

active proctype Taker()		/* B */
{
end0:	told;
	known[B] = true;
	TRY(ADOPT_B, B, end1, end2);
#ifdef AGAIN
	if
	:: atomic { has[B] -> has[B] = false; sent[DROP_B] = true };
#ifndef EAGERDROP
end3:		okay[DROP_B]
#endif
	:: skip
	fi;
	TRY(AGAIN_B, B, end4, end5);
	if
	:: atomic { has[B] -> has[B] = false; sent[LAST_B] = true }
	:: skip
	fi
#else
	if
	:: atomic { has[B] -> has[B] = false; sent[DROP_B] = true }
	:: skip
	fi
#endif
}

#ifdef SLICE
active proctype Slicer()	/* C */
{
end0:	told;
	known[C] = true;
	TRY(ADOPT_C, C, end1, end2);
	if
	:: atomic { has[C] -> has[C] = false; sent[DROP_C] = true }
	:: skip
	fi
}
#endif

inline lease_ends(c)		/* lend_client_close() */
{
	known[c] = false; has[c] = false; hold[c] = 0; settle()
}

#define GONE(c) (sent[PUT] && known[c])
active proctype World()
{
	bool gone[3];
	byte g;

end:	do
	:: atomic { GONE(A) && !gone[A] -> gone[A] = true; lease_ends(A) }
	:: atomic { GONE(B) && !gone[B] -> gone[B] = true; lease_ends(B) }
#ifdef SLICE
	:: atomic { GONE(C) && !gone[C] -> gone[C] = true; lease_ends(C) }
#endif
	:: atomic { live[1] -> g = 1; end_grant(g); g = 0; expired = true; settle() }	/* lend_grant_expire() */
	:: atomic { live[2] -> g = 2; end_grant(g); g = 0; expired = true; settle() }
	:: atomic { live[3] -> g = 3; end_grant(g); g = 0; expired = true; settle() }
	:: atomic { live[4] -> g = 4; end_grant(g); g = 0; expired = true; settle() }
	:: atomic { rec[PUT] != NONE && !restarted ->
		restarted = true; object = false; other = false; expired = true;
		hold[A] = 0; hold[B] = 0; hold[C] = 0; has[A] = false; has[B] = false; has[C] = false;
		known[A] = false; known[B] = false; known[C] = false;
		drop_grant(1); drop_grant(2); drop_grant(3); drop_grant(4) }
	:: atomic { rec[PUT] != NONE && !object && !other -> other = true }
	od
}

/* A client that got a hold by OK, and has not released, finds the bytes. */
#define lost(c) (has[c] && known[c] && !(object && hold[c]))
/* An object without holder lives; or it is kept for a client whose lease has ended. */
#define leak (object && !HELD_BY_ANY && !GRANTED)
#define ghost(c) (hold[c] && !known[c])
/* A forgotten operation has left nothing, once the node has confirmed it. */
#define undead(c, o, next) (forgot[o] && !stands[o] && !next && hold[c])
/* The number of shares is constant: an adopt that A gave one for, in time, works. */
#define more ((hold[B] + hold[C] + LEFT) > given)
#define refused(o, c) (KIND != OWNED && failed[o] && known[c] && !expired && !unmade)
/* A release was answered and there was no later adopt, and yet it holds. */
#define stuck(c, o, next) (okay[o] && rec[o] == OK && known[c] && !next && hold[c])

active proctype Watch()
{
#ifdef AGAIN
#define LATER sent[AGAIN_B]
#else
#define LATER false
#endif
end:	do
	:: atomic { lost(A) -> assert(!lost(A)) }
	:: atomic { lost(B) -> assert(!lost(B)) }
	:: atomic { lost(C) -> assert(!lost(C)) }
	:: atomic { wrong_read -> assert(!wrong_read) }
	:: atomic { leak -> assert(!leak) }
	:: atomic { ghost(A) || ghost(B) || ghost(C) -> assert(!ghost(A)); assert(!ghost(B)); assert(!ghost(C)) }
	:: atomic { undead(B, ADOPT_B, LATER) -> assert(!undead(B, ADOPT_B, LATER)) }
	:: atomic { undead(B, AGAIN_B, okay[ADOPT_B]) -> assert(!undead(B, AGAIN_B, okay[ADOPT_B])) }
	:: atomic { undead(C, ADOPT_C, false) -> assert(!undead(C, ADOPT_C, false)) }
	:: atomic { more -> assert(!more) }
	:: atomic { refused(ADOPT_B, B) -> assert(!refused(ADOPT_B, B)) }
	:: atomic { forgot[ADOPT_B] && !stands[ADOPT_B] && refused(AGAIN_B, B) -> assert(!refused(AGAIN_B, B)) }
	:: atomic { refused(ADOPT_C, C) -> assert(!refused(ADOPT_C, C)) }
	:: atomic { KIND == TRANSFER && hold[A] -> assert(KIND != TRANSFER || !hold[A]) }
	:: atomic { stuck(B, DROP_B, LATER) -> assert(!stuck(B, DROP_B, LATER)) }
	:: atomic { stuck(B, LAST_B, false) -> assert(!stuck(B, LAST_B, false)) }
	:: atomic { stuck(C, DROP_C, false) -> assert(!stuck(C, DROP_C, false)) }
	od
}
