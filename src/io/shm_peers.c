#include "io/shm_peers.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/why.h"

#define STRANGER_NS UINT64_C(1000000000) /* to say HELLO */
#define CALLING_NS  UINT64_C(5000000000) /* to get a WELCOME, and to ask for a failure's reason */

static uint32_t index_of(const struct lend_shm *s, const struct lend_shm_peer *p)
{
	return (uint32_t)(p - s->peer);
}

static bool is_half(enum lend_shm_state state)
{
	return state == LEND_SHM_STRANGER || state == LEND_SHM_CALLING || state == LEND_SHM_FAILED;
}

/* The only place where a state changes: counts follow. */
static void enter(struct lend_shm *s, struct lend_shm_peer *p, enum lend_shm_state state)
{
	s->half += is_half(state);
	s->half -= is_half(p->state);
	p->state = state;
	if (is_half(state))
		p->since = lend_clock_now();
}

/* Taken out by name first: a child of fork() may hold a copy, and then closing ours alone would
 * leave it watched. */
static void hang(struct lend_shm *s, struct lend_shm_peer *p)
{
	if (p->sock < 0)
		return;
	(void)epoll_ctl(s->epoll, EPOLL_CTL_DEL, p->sock, NULL);
	(void)shutdown(p->sock, SHUT_RDWR);
	(void)close(p->sock);
	p->sock = -1;
}

void lend_shm_release(struct lend_shm *s, struct lend_shm_peer *p)
{
	lend_shm_unlist(s, p);
	if (p->pair != NULL)
		(void)munmap(p->pair, LEND_SHM_PAIR_LEN);
	if (p->bell != NULL)
		(void)munmap(p->bell, LEND_BELL_LEN);
	hang(s, p);
	s->gone -= p->state == LEND_SHM_GONE;
	enter(s, p, LEND_SHM_FREE);
	*p = (struct lend_shm_peer){.sock = -1};
}

void lend_shm_reap(struct lend_shm *s)
{
	for (uint32_t i = 0; i < s->top; i++) {
		if (s->peer[i].state == LEND_SHM_GONE && s->peer[i].pins == 0)
			lend_shm_release(s, &s->peer[i]);
	}
}

static struct lend_shm_peer *take_entry(struct lend_shm *s)
{
	for (uint32_t i = 0; i < LEND_SHM_PEERS; i++) {
		if (i == s->top)
			s->peer[s->top++] = (struct lend_shm_peer){.sock = -1};
		if (s->peer[i].state == LEND_SHM_FREE)
			return &s->peer[i];
	}
	return NULL;
}

static bool watch(struct lend_shm *s, struct lend_shm_peer *p)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = index_of(s, p)};

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, p->sock, &ev) == 0;
}

static void hang_up(struct lend_shm *s, struct lend_shm_peer *p)
{
	hang(s, p);
	enter(s, p, LEND_SHM_HUNG);
	/* What was sent before is in the ring; a peer that goes on writing ends after one round of
	 * it. */
	p->last = p->rx.next + LEND_RING_SLOTS;
	lend_shm_heat(s, p);
}

static void rings_are(struct lend_shm_peer *p, struct lend_shm_pair *pair, bool server)
{
	p->pair = pair;
	p->rx = (struct lend_ring_rx){.ring = server ? &pair->to_server : &pair->to_client};
	p->tx = (struct lend_ring_tx){.ring = server ? &pair->to_client : &pair->to_server};
}

static void fail(struct lend_shm *s, struct lend_shm_peer *p, int err)
{
	hang(s, p);
	p->err = err;
	enter(s, p, LEND_SHM_FAILED);
}

/* Server: a stranger's HELLO. Its bell first, then our memory, then both of ours to it. */
static int welcome(struct lend_shm *s, struct lend_shm_peer *p, int bell_fd, uint32_t bit)
{
	struct lend_meet msg;
	void *base = NULL;
	int fds[2] = {-1, s->bell_fd}, err = lend_meet_map(bell_fd, LEND_BELL_LEN, &base);

	if (err != 0)
		return err;
	p->bell = base;
	p->bit = bit;
	err = lend_meet_memory(LEND_SHM_PAIR_LEN, &fds[0], &base);
	if (err != 0)
		return err;
	rings_are(p, base, true);
	lend_meet_fill(&msg, 0, index_of(s, p), LEND_SHM_PAIR_LEN);
	err = lend_meet_send(p->sock, &msg, fds, 2);
	(void)close(fds[0]);
	return err;
}

static void on_hello(struct lend_shm *s, struct lend_shm_peer *p)
{
	struct lend_meet msg;
	int bell_fd, err = lend_meet_recv(p->sock, &msg, &bell_fd, 1);

	if (err == -EAGAIN)
		return;
	if (err == 0) {
		err = msg.bit < LEND_SHM_PEERS && msg.pair == LEND_SHM_PAIR_LEN
			  ? welcome(s, p, bell_fd, msg.bit)
			  : -EPROTO;
		(void)close(bell_fd);
	}
	if (err == 0) {
		enter(s, p, LEND_SHM_UP);
		lend_shm_heat(s, p);
		return;
	}
	/* Tell it which version we speak; then it can say so itself. */
	if (err != -ECONNRESET) {
		lend_meet_fill(&msg, (uint32_t)-err, 0, LEND_SHM_PAIR_LEN);
		(void)lend_meet_send(p->sock, &msg, NULL, 0);
		s->io.stats.peers_refused++;
	}
	lend_shm_release(s, p);
}

/* Client: what the server made. */
static void on_welcome(struct lend_shm *s, struct lend_shm_peer *p)
{
	struct lend_meet msg;
	void *pair = NULL, *bell = NULL;
	int fds[2], err = lend_meet_recv(p->sock, &msg, fds, 2);

	if (err == -EAGAIN)
		return;
	if (err != 0) {
		p->version = err == -EPROTO ? msg.version : 0;
		fail(s, p,
		     err == -EPROTO && msg.status != 0 && msg.status < 4096 ? (int)msg.status
									    : -err);
		return;
	}
	err = msg.bit < LEND_SHM_PEERS ? lend_meet_map(fds[0], LEND_SHM_PAIR_LEN, &pair) : -EPROTO;
	if (err == 0)
		err = lend_meet_map(fds[1], LEND_BELL_LEN, &bell);
	(void)close(fds[0]);
	(void)close(fds[1]);
	if (err != 0) {
		if (pair != NULL && pair != MAP_FAILED)
			(void)munmap(pair, LEND_SHM_PAIR_LEN);
		fail(s, p, -err);
		return;
	}
	p->bell = bell;
	p->bit = msg.bit;
	rings_are(p, pair, false);
	enter(s, p, LEND_SHM_UP);
	lend_shm_heat(s, p);
}

static uint32_t count_strangers(const struct lend_shm *s, uint32_t *oldest)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->top; i++) {
		if (s->peer[i].state != LEND_SHM_STRANGER)
			continue;
		if (n++ == 0 || s->peer[i].since < s->peer[*oldest].since)
			*oldest = i;
	}
	return n;
}

/* Takes callers in. One who says nothing is dropped after a second, or when too many do. */
static void answer_door(struct lend_shm *s)
{
	for (int i = 0; i < 16; i++) {
		struct lend_shm_peer *p;
		uint32_t oldest = 0;
		int sock = lend_meet_accept(&s->door);

		if (sock < 0)
			return;
		if (s->half > 0 && count_strangers(s, &oldest) >= LEND_SHM_HALF_OPEN_MAX)
			lend_shm_release(s, &s->peer[oldest]);
		p = take_entry(s);
		if (p == NULL) {
			(void)close(sock);
			s->io.stats.peers_refused++;
			continue;
		}
		p->sock = sock;
		enter(s, p, LEND_SHM_STRANGER);
		if (!watch(s, p))
			lend_shm_release(s, p);
		else
			on_hello(s, p);
	}
}

static void on_event(struct lend_shm *s, struct lend_shm_peer *p)
{
	switch (p->state) {
	case LEND_SHM_STRANGER:
		on_hello(s, p);
		break;
	case LEND_SHM_CALLING:
		on_welcome(s, p);
		break;
	case LEND_SHM_UP:
		if (!lend_meet_drain(p->sock))
			hang_up(s, p);
		break;
	case LEND_SHM_FREE: /* an event of the entry's last owner */
	case LEND_SHM_FAILED:
	case LEND_SHM_HUNG:
	case LEND_SHM_GONE:
		break;
	}
}

static void expire(struct lend_shm *s)
{
	lend_ns now = lend_clock_now();

	for (uint32_t i = 0; i < s->top; i++) {
		struct lend_shm_peer *p = &s->peer[i];

		if (p->state == LEND_SHM_STRANGER && now - p->since > STRANGER_NS)
			lend_shm_release(s, p);
		else if (p->state == LEND_SHM_FAILED && now - p->since > CALLING_NS)
			lend_shm_release(s, p);
		else if (p->state == LEND_SHM_CALLING && now - p->since > CALLING_NS)
			fail(s, p, ETIMEDOUT);
	}
}

void lend_shm_attend(struct lend_shm *s)
{
	struct epoll_event ev[64];
	int n = epoll_wait(s->epoll, ev, 64, 0);

	for (int i = 0; i < n; i++) {
		if (ev[i].data.u32 == LEND_SHM_PEERS)
			answer_door(s);
		else
			on_event(s, &s->peer[ev[i].data.u32]);
	}
	if (s->half > 0)
		expire(s);
}

int lend_shm_dial(struct lend_shm *s, const char *name)
{
	struct lend_shm_peer *p;
	struct lend_meet msg;
	int sock, err = lend_meet_dial(name, &sock);

	if (err != 0)
		return err == -EAGAIN ? -EINPROGRESS : err;
	p = take_entry(s);
	if (p == NULL) {
		(void)close(sock);
		return lend_fail(ENOSPC, "shm:%s: %d peers already; open another endpoint", name,
				 LEND_SHM_PEERS);
	}
	p->sock = sock;
	memcpy(p->name, name, strlen(name) + 1);
	enter(s, p, LEND_SHM_CALLING);
	lend_meet_fill(&msg, 0, index_of(s, p), LEND_SHM_PAIR_LEN);
	err = lend_meet_send(sock, &msg, &s->bell_fd, 1);
	if (err == 0 && watch(s, p))
		return -EINPROGRESS;
	err = err != 0 ? -err : errno;
	lend_shm_release(s, p);
	return lend_fail(err, "shm:%s: %s; try again", name, strerror(err));
}
