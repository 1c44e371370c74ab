/* secret - who this process is to its peers, and whether a peer is who it should be.
 *
 * A secret is told as the 32 bytes that a one-way function makes of it, so that peers can compare
 * and none can read it; whoever reads the network can repeat them, until encryption comes.
 * Endpoints that are given none use that of the process: the first that any of its endpoints was
 * given, else $LEND_SECRET. Layer: rpc. Threads: any. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/ep.h"
#include "sys/why.h"
#include "util/bits.h"
#include "util/siphash.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t process[32];

static void ticket_of(const char *secret, uint8_t ticket[32])
{
	static const uint8_t one[16] = "lend secret 0001", two[16] = "lend secret 0002";

	lend_siphash128(one, secret, strlen(secret), ticket);
	lend_siphash128(two, secret, strlen(secret), ticket + 16);
}

void lend_secret_ticket(const char *secret, uint8_t ticket[32])
{
	static const uint8_t none[32];
	const char *text = secret ? secret : getenv("LEND_SECRET");

	memset(ticket, 0, 32);
	if (text && *text)
		ticket_of(text, ticket);
	pthread_mutex_lock(&lock);
	if (!secret && memcmp(process, none, 32) != 0)
		memcpy(ticket, process, 32);
	else if (memcmp(process, none, 32) == 0)
		memcpy(process, ticket, 32);
	pthread_mutex_unlock(&lock);
}

bool lend_session_knows(struct lend_ep *ep, lend_session session, const char *secret)
{
	struct lend_session_rec *s = lend_sessions_find(ep, session);
	uint8_t theirs[32], ours[32];

	if (!s || s->state != LEND_SESSION_OPEN || !secret || !*secret ||
	    lend_core_session_ticket(ep->core, s->core, theirs) < 0)
		return false;
	ticket_of(secret, ours);
	return lend_equal_ct(theirs, ours, sizeof(ours));
}
