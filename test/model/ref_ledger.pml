/* ref_ledger - who keeps a snapshot, in every order of messages, crashes and expiries.
 *
 * A puts bytes with TRANSFER terms (no hold, one grant) and tells B; B adopts, reads, releases. Either may
 * stop waiting for a reply and then says FORGET. The network is a set of sent messages: each may be
 * delivered any number of times, in any order, or never. Processes crash at any step; a lease may end
 * for the dead and for the merely slow; the grant's ttl may end at any time; a freed page is given to
 * somebody else (generation 2).
 *
 * scope: -, everything
 *
 * Negative controls, each of which must fail:
 * control: -DCOUNTER, shares are counted instead of kept as a set
 * control: -DNOGEN, the generation is not checked
 * control: -DNORECORD, a FORGET that came first is not remembered
 * control: -DHELD, the creator keeps a hold that nobody releases while its lease lives
 */
bool sPut, sAdopt, sRead, sRelease, sForgetPut, sForgetAdopt;  /* sent */
bool rPut, rAdopt, rForgetPut, rForgetAdopt;                   /* replies that were sent */
bool aAlive = true, bAlive = true, aLease = true, bLease = true;
bool told;                                  /* B has the reference */
bool live, recycled; byte gen = 1;          /* the page */
bool hA, hB, grant; short n;                /* the ledger */
bool put, adopted, released, noPut, noAdopt; /* records by operation id */
bool bGot, bGave, bDone; byte readGen;      /* what B knows */

#ifdef COUNTER
#define KEPT (n > 0 || grant)
#else
#define KEPT (hA || hB || grant)
#endif
#ifdef NOGEN
#define READS true
#define CURRENT true
#else
#define READS (gen == 1 && KEPT)
#define CURRENT (gen == 1)
#endif
inline settle() { if :: live && gen == 1 && !KEPT -> live = false :: else fi }

active proctype A()
{
	sPut = true;
	if
	:: rPut && aAlive -> told = true
	:: aAlive -> sForgetPut = true		/* gave up waiting: a late reply is not looked at */
	:: !aAlive
	fi
}

active proctype B()
{
end_told: told;
	if :: bAlive -> sAdopt = true :: !bAlive -> goto out fi;
	if
	:: rAdopt && bAlive && bLease -> bGot = true; sRead = true
	:: bAlive -> sForgetAdopt = true; bGave = true; goto out
	:: !bAlive -> goto out
	fi;
	if :: bAlive -> atomic { bDone = true; sRelease = true } :: !bAlive fi;
out:	skip
}

active proctype Node()
{
end:	do
	:: atomic { sPut && aLease && !put && !noPut ->
		put = true; live = true; grant = true; rPut = true;
#ifdef HELD
		hA = true; n = n + 1
#endif
	   }
	:: atomic { sPut && aLease && put && !noPut -> rPut = true }
	:: atomic { sForgetPut && aLease && !put ->
		rForgetPut = true;
#ifndef NORECORD
		noPut = true
#endif
	   }
	:: atomic { sForgetPut && aLease && put && !noPut -> noPut = true; rForgetPut = true; grant = false; settle() }
#ifdef COUNTER
	:: atomic { sAdopt && bLease && live && CURRENT && n < 3 -> n++; hB = true; adopted = true; grant = false; rAdopt = true }
#else
	:: atomic { sAdopt && bLease && live && CURRENT && grant && !adopted && !noAdopt ->
		adopted = true; hB = true; grant = false; rAdopt = true }
	:: atomic { sAdopt && bLease && adopted && !noAdopt -> rAdopt = true }
#endif
	:: atomic { sForgetAdopt && bLease && !adopted ->
		rForgetAdopt = true;
#ifndef NORECORD
		noAdopt = true
#endif
	   }
	:: atomic { sForgetAdopt && bLease && adopted && !noAdopt ->
		noAdopt = true; rForgetAdopt = true;
		if :: hB -> hB = false; n = n - 1; grant = true :: else fi }
	:: atomic { sRelease && bLease && !released && hB -> released = true; hB = false; n = n - 1; settle() }
	:: atomic { sRead && bLease && live && READS -> readGen = gen }
	od
}

active proctype World()
{
end:	do
	:: atomic { aAlive -> aAlive = false }
	:: atomic { bAlive -> bAlive = false }
	:: atomic { aLease -> aLease = false; if :: hA -> hA = false; n = n - 1 :: else fi; settle() }
	:: atomic { bLease -> bLease = false; if :: hB -> hB = false; n = n - 1 :: else fi; settle() }
	:: atomic { grant -> grant = false; settle() }
	:: atomic { put && !live && !recycled -> recycled = true; gen = 2; live = true }
	od
}

#define early_free (bGot && bLease && !bDone && !(live && gen == 1))
#define wrong_read (readGen == 2)
#define leak (live && gen == 1 && !hA && !hB && !grant)
/* An operation that was given up has nothing left of it, once the node has said so. */
#define undead ((rForgetAdopt && hB) || (rForgetPut && put && live && gen == 1 && grant && !adopted))
/* The bytes live on although nobody but the grant's ttl should keep them: everybody let go. */
#define kept_by_creator (released && hA)

active proctype Watch()
{
end:	do
	:: atomic { (early_free || wrong_read || leak || undead || kept_by_creator) ->
		assert(!early_free); assert(!wrong_read); assert(!leak); assert(!undead); assert(!kept_by_creator) }
	od
}
