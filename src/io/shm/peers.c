#include "io/shm/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/last_error.h"

#define STRANGER_NS UINT64_C(1000000000) /* limit for the HELLO of an accepted peer */
#define SOON_NS     UINT64_C(200000)     /* duration of a handshake where processes share CPUs */
#define CALLING_NS  UINT64_C(5000000000) /* limit for a WELCOME; and for reading a failure */

static bool is_half(enum lend_shm_state state)
{
	return state == LEND_SHM_ACCEPTED || state == LEND_SHM_CONNECTING ||
	       state == LEND_SHM_FAILED;
}

void lend_shm_set_state(struct lend_shm *s, struct lend_shm_peer *p, enum lend_shm_state state)
{
	s->half += is_half(state);
	s->half -= is_half(p->state);
	s->gone += state == LEND_SHM_GONE;
	s->gone -= p->state == LEND_SHM_GONE;
	p->state = state;
	if (!is_half(state) && state != LEND_SHM_UP)
		return;
	p->since = lend_clock_now();
	s->soon = p->since + SOON_NS;
}

/* Closes the socket. Removes it from epoll explicitly: a child of fork() may hold a copy, and
 * closing ours alone would leave it watched. */
static void close_socket(struct lend_shm *s, struct lend_shm_peer *p)
{
	if (p->sock < 0)
		return;
	(void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, p->sock, NULL);
	(void)shutdown(p->sock, SHUT_RDWR);
	(void)close(p->sock);
	p->sock = -1;
	if (s->io.due)
		s->io.due = 1; /* a descriptor is free: accept now */
}

void lend_shm_release(struct lend_shm *s, struct lend_shm_peer *p)
{
	lend_shm_unlist(s, p);
	s->free_connection(s, p);
	close_socket(s, p);
	lend_shm_set_state(s, p, LEND_SHM_FREE);
	*p = (struct lend_shm_peer){.sock = -1};
}

void lend_shm_release_gone(struct lend_shm *s)
{
	for (uint32_t i = 0; i < s->top; i++) {
		if (s->peer[i].state == LEND_SHM_GONE && s->peer[i].pins == 0)
			lend_shm_release(s, &s->peer[i]);
	}
}

struct lend_shm_peer *lend_shm_take_entry(struct lend_shm *s)
{
	for (uint32_t i = 0; i < LEND_SHM_PEERS; i++) {
		if (i == s->top)
			s->peer[s->top++] = (struct lend_shm_peer){.sock = -1};
		if (s->peer[i].state == LEND_SHM_FREE)
			return &s->peer[i];
	}
	return NULL;
}

void lend_shm_hang_up(struct lend_shm *s, struct lend_shm_peer *p)
{
	close_socket(s, p);
	lend_shm_set_state(s, p, LEND_SHM_HUNG_UP);
	/* Datagrams sent before the hang-up are in the rings. The limit of one round of both
	 * rings stops a peer that continues to write. */
	p->left = 2 * LEND_RING_SLOTS;
	lend_shm_make_hot(s, p);
}

void lend_shm_pair(struct lend_shm_peer *p, struct lend_shm_pair *pair, struct lend_shm_pair *fast,
		   bool server)
{
	p->pair = pair;
	p->rx = (struct lend_ring_rx){.ring = server ? &pair->to_server : &pair->to_client};
	p->tx = (struct lend_ring_tx){.ring = server ? &pair->to_client : &pair->to_server};
	if (!fast)
		return;
	p->fast_rx = (struct lend_ring_rx){.ring = server ? &fast->to_server : &fast->to_client};
	p->fast_tx = (struct lend_ring_tx){.ring = server ? &fast->to_client : &fast->to_server};
}

bool lend_shm_maps_memory(struct lend_shm *s, struct lend_shm_peer *p)
{
	if (p->lent != NULL || !s->shares ||
	    atomic_load_explicit(&p->tx.ring->reads, memory_order_relaxed) == 0)
		return p->lent != NULL;
	p->lent = calloc((size_t)2 * LEND_RING_SLOTS, sizeof(*p->lent));
	if (p->lent == NULL)
		return false; /* false: all datagrams of this peer are copied */
	for (uint32_t i = 0; i < 2 * LEND_RING_SLOTS; i++)
		p->lent[i].number = UINT32_MAX;
	p->tx.lent = p->lent;
	p->fast_tx.lent = p->lent + LEND_RING_SLOTS;
	return true;
}

void lend_shm_fail(struct lend_shm *s, struct lend_shm_peer *p, int err)
{
	close_socket(s, p);
	p->err = err;
	lend_shm_set_state(s, p, LEND_SHM_FAILED);
}

void lend_shm_expire(struct lend_shm *s)
{
	lend_ns now = lend_clock_now();

	for (uint32_t i = 0; i < s->top; i++) {
		struct lend_shm_peer *p = &s->peer[i];

		if (p->state == LEND_SHM_ACCEPTED && now - p->since > STRANGER_NS)
			lend_shm_release(s, p);
		else if (p->state == LEND_SHM_FAILED && now - p->since > CALLING_NS)
			lend_shm_release(s, p);
		else if (p->state == LEND_SHM_CONNECTING && now - p->since > CALLING_NS)
			lend_shm_fail(s, p, ETIMEDOUT);
	}
}

struct lend_shm_peer *lend_shm_find(struct lend_shm *s, const char *name)
{
	for (uint32_t i = 0; i < s->top; i++) {
		struct lend_shm_peer *p = &s->peer[i];

		if (strcmp(p->name, name) == 0 &&
		    (p->state == LEND_SHM_CONNECTING || p->state == LEND_SHM_UP ||
		     p->state == LEND_SHM_FAILED))
			return p;
	}
	return NULL;
}

int lend_shm_take_error(struct lend_shm *s, struct lend_shm_peer *p)
{
	struct lend_shm_peer was = *p;

	lend_shm_release(s, p);
	if (was.err == EPROTO && was.version != 0 && was.version != LEND_RENDEZVOUS_VERSION)
		return lend_fail(
		    EPROTO,
		    "shm:%s: speaks version %u, this is %d; install the same release on both",
		    was.name, was.version, LEND_RENDEZVOUS_VERSION);
	if (was.err == ETIMEDOUT)
		return lend_fail(ETIMEDOUT,
				 "shm:%s: does not answer; check whether its process is stopped",
				 was.name);
	if (was.err == ECONNRESET)
		return lend_fail(ECONNREFUSED, "shm:%s: closed the connection; check its process",
				 was.name);
	if (was.err == EMFILE || was.err == ENFILE)
		return lend_fail(was.err,
				 "shm:%s: no file descriptor is free there; raise ulimit -n of %s",
				 was.name, was.here ? "this process" : "its process");
	if (was.err == EFBIG)
		return lend_fail(
		    EFBIG,
		    "shm:%s: its server cannot make %zu bytes of rings, beyond its ulimit "
		    "-f; raise it there",
		    was.name, LEND_SHM_LINK_LEN);
	return lend_fail(was.err,
			 "shm:%s: refused the connection: %s; install the same release on both",
			 was.name, strerror(was.err));
}
