/* shm/handshake - handshake through sockets: connects, replies, detects hang-ups. The other half of
 * peers.h. Layer: io. One thread's.
 */
#include "io/shm/peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/shared_arena.h"
#include "sys/clock.h"
#include "sys/last_error.h"

#define DEFER_NS UINT64_C(50000000) /* until accept() is retried */

void lend_shm_free_connection(struct lend_shm *s, struct lend_shm_peer *p)
{
	(void)s;
	if (p->pair != NULL)
		(void)munmap(p->pair, LEND_SHM_LINK_LEN);
	if (p->bell != NULL)
		(void)munmap(p->bell, LEND_BELL_LEN);
	if (p->memory != NULL)
		(void)munmap((void *)(uintptr_t)p->memory, LEND_ARENA_LEN);
	free(p->lent);
}

/* Sends HELLO or WELCOME with n files (fds has room for one more), and with our shared memory. */
static int send_message(const struct lend_shm *s, const struct lend_shm_peer *p, int *fds,
			unsigned n)
{
	struct lend_rendezvous_msg msg;

	lend_rendezvous_fill(&msg, 0, lend_shm_index(s, p), LEND_SHM_LINK_LEN);
	msg.shares = s->shares;
	if (s->shares)
		fds[n++] = lend_arena_fd();
	return lend_rendezvous_send(p->sock, &msg, fds, n);
}

/* Maps the other side's shared memory, to read its long datagrams in place. If that fails, the
 * other side copies them. */
static void read_from(const struct lend_shm *s, struct lend_shm_peer *p, int fd)
{
	const void *at = NULL;

	if (!s->shares || lend_rendezvous_map_to_read(fd, LEND_ARENA_LEN, &at) != 0)
		return;
	p->memory = at;
	atomic_store_explicit(&p->rx.ring->reads, 1, memory_order_release);
}

static void close_all(const int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		(void)close(fds[i]);
}

static bool watch_socket(struct lend_shm *s, struct lend_shm_peer *p)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = lend_shm_index(s, p)};

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, p->sock, &ev) == 0;
}

int lend_shm_make_rings(struct lend_shm *s)
{
	void *base = NULL;
	int err;

	s->makes = false;
	if (s->made != NULL)
		return 0;
	err = lend_rendezvous_memory(LEND_SHM_LINK_LEN, &s->made_fd, &base);
	if (err != 0)
		return err;
	s->made = base;
	atomic_store_explicit(&s->made->pair.to_server.polled, 0, memory_order_relaxed);
	atomic_store_explicit(&s->made->pair.to_client.polled, 0, memory_order_relaxed);
	return 0;
}

void lend_shm_free_rings(struct lend_shm *s)
{
	if (s->made == NULL)
		return;
	(void)munmap(s->made, LEND_SHM_LINK_LEN);
	(void)close(s->made_fd);
}

/* Server: handles the HELLO of a new client. Maps its bell, and sends both the rings and our bell
 * to it. */
static int welcome_client(struct lend_shm *s, struct lend_shm_peer *p,
			  const struct lend_rendezvous_msg *hello, const int *its)
{
	struct lend_shm_link *link;
	void *base = NULL;
	int fds[LEND_RENDEZVOUS_FDS] = {-1, s->bell_fd};
	int err = lend_rendezvous_map(its[0], LEND_BELL_LEN, &base);

	if (err != 0)
		return err;
	p->bell = base;
	p->bit = hello->bit;
	err = lend_shm_make_rings(s);
	if (err != 0)
		return err;
	link = s->made;
	fds[0] = s->made_fd;
	s->made = NULL;
	s->makes = true;
	lend_shm_pair(p, &link->pair, &link->fast, true);
	if (hello->shares)
		read_from(s, p, its[1]);
	err = send_message(s, p, fds, 2);
	(void)close(fds[0]);
	return err;
}

static void on_hello(struct lend_shm *s, struct lend_shm_peer *p)
{
	struct lend_rendezvous_msg msg;
	int fds[LEND_RENDEZVOUS_FDS], err = lend_rendezvous_recv(p->sock, &msg, fds, 1);

	if (err == -EAGAIN)
		return;
	if (err == 0) {
		err = msg.bit < LEND_SHM_PEERS && msg.pair == LEND_SHM_LINK_LEN
			  ? welcome_client(s, p, &msg, fds)
			  : -EPROTO;
		close_all(fds, 1 + msg.shares);
	}
	if (err == 0) {
		lend_shm_set_state(s, p, LEND_SHM_UP);
		lend_shm_make_hot(s, p);
		return;
	}
	/* Send our version, so that the client can report the mismatch itself. */
	if (err != -ECONNRESET) {
		lend_rendezvous_fill(&msg, (uint32_t)-err, 0, LEND_SHM_LINK_LEN);
		(void)lend_rendezvous_send(p->sock, &msg, NULL, 0);
		s->io.stats.peers_refused++;
	}
	lend_shm_release(s, p);
}

/* Client: maps what the server sent. */
static void on_welcome(struct lend_shm *s, struct lend_shm_peer *p)
{
	struct lend_shm_link *link;
	struct lend_rendezvous_msg msg;
	void *pair = NULL, *bell = NULL;
	int fds[LEND_RENDEZVOUS_FDS], err = lend_rendezvous_recv(p->sock, &msg, fds, 2);

	if (err == -EAGAIN)
		return;
	if (err == -ECONNRESET && p->ahead) {
		lend_shm_release(s, p); /* the next resolve() connects again */
		return;
	}
	if (err != 0) {
		p->version = err == -EPROTO ? msg.version : 0;
		p->here = err == -EMFILE;
		lend_shm_fail(s, p,
			      err == -EPROTO && msg.status != 0 && msg.status < 4096
				  ? (int)msg.status
				  : -err);
		return;
	}
	err = msg.bit < LEND_SHM_PEERS ? lend_rendezvous_map(fds[0], LEND_SHM_LINK_LEN, &pair)
				       : -EPROTO;
	if (err == 0)
		err = lend_rendezvous_map(fds[1], LEND_BELL_LEN, &bell);
	if (err != 0) {
		close_all(fds, 2 + msg.shares);
		if (pair != NULL && pair != MAP_FAILED)
			(void)munmap(pair, LEND_SHM_LINK_LEN);
		lend_shm_fail(s, p, -err);
		return;
	}
	p->bell = bell;
	p->bit = msg.bit;
	link = pair;
	lend_shm_pair(p, &link->pair, &link->fast, false);
	if (msg.shares)
		read_from(s, p, fds[2]);
	close_all(fds, 2 + msg.shares);
	lend_shm_set_state(s, p, LEND_SHM_UP);
	lend_shm_make_hot(s, p);
}

static uint32_t count_strangers(const struct lend_shm *s, uint32_t *oldest)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->top; i++) {
		if (s->peer[i].state != LEND_SHM_ACCEPTED)
			continue;
		if (n++ == 0 || s->peer[i].since < s->peer[*oldest].since)
			*oldest = i;
	}
	return n;
}

/* Starts or stops to watch the listening socket. */
static void watch_listener(struct lend_shm *s, bool on)
{
	struct epoll_event ev = {.events = on ? EPOLLIN : 0, .data.u32 = LEND_SHM_PEERS};

	(void)epoll_ctl(s->epoll, EPOLL_CTL_MOD, s->listener.fd, &ev);
	s->io.due = on ? 0 : lend_clock_now() + DEFER_NS;
}

/* Handles a failed accept(). A connection that no descriptor is free for stays in the backlog
 * and keeps the listening socket readable. So that socket is not watched until one of our
 * descriptors is closed, or for a while. */
static void defer_accept(struct lend_shm *s, int err)
{
	if (err != EMFILE && err != ENFILE && err != ENOBUFS && err != ENOMEM)
		return;
	s->io.stats.accepts_deferred++;
	watch_listener(s, false);
}

/* Accepts clients. One that sends no HELLO is dropped after a second, or when there are too many
 * of them. */
static void accept_clients(struct lend_shm *s)
{
	for (int i = 0; i < 16; i++) {
		struct lend_shm_peer *p;
		uint32_t oldest = 0;
		int sock = lend_rendezvous_accept(&s->listener);

		if (sock < 0) {
			defer_accept(s, errno);
			return;
		}
		if (s->half > 0 && count_strangers(s, &oldest) >= LEND_SHM_HALF_OPEN_MAX)
			lend_shm_release(s, &s->peer[oldest]);
		p = lend_shm_take_entry(s);
		if (p == NULL) {
			(void)close(sock);
			s->io.stats.peers_refused++;
			continue;
		}
		p->sock = sock;
		lend_shm_set_state(s, p, LEND_SHM_ACCEPTED);
		if (!watch_socket(s, p))
			lend_shm_release(s, p);
		else
			on_hello(s, p);
	}
}

static void on_event(struct lend_shm *s, struct lend_shm_peer *p)
{
	switch (p->state) {
	case LEND_SHM_ACCEPTED:
		on_hello(s, p);
		break;
	case LEND_SHM_CONNECTING:
		on_welcome(s, p);
		break;
	case LEND_SHM_UP:
		if (!lend_rendezvous_drain(p->sock))
			lend_shm_hang_up(s, p);
		break;
	case LEND_SHM_FREE: /* an event of the entry's previous owner */
	case LEND_SHM_FAILED:
	case LEND_SHM_HUNG_UP:
	case LEND_SHM_GONE:
		break;
	}
}

void lend_shm_poll_sockets(struct lend_shm *s)
{
	struct epoll_event ev[64];
	int n = epoll_wait(s->epoll, ev, 64, 0);

	for (int i = 0; i < n; i++) {
		if (ev[i].data.u32 == LEND_SHM_PEERS)
			accept_clients(s);
		else
			on_event(s, &s->peer[ev[i].data.u32]);
	}
	if (s->half > 0)
		lend_shm_expire(s);
	if (s->io.due && s->io.due <= lend_clock_now()) {
		watch_listener(s, true);
		accept_clients(s);
	}
}

void lend_shm_connect_ahead(struct lend_shm *s, const char *address)
{
	struct lend_addr addr;

	s->ahead = -1;
	if (address == NULL || lend_addr_parse(address, &addr) != 0 ||
	    addr.scheme != LEND_SCHEME_SHM || addr.host[0] == '\0')
		return;
	if (lend_rendezvous_connect(addr.host, &s->ahead) != 0)
		s->ahead = -1;
	memcpy(s->ahead_name, addr.host, LEND_ADDR_NAME_MAX + 1);
	s->ahead_name[LEND_ADDR_NAME_MAX] = '\0';
}

static int call_on(struct lend_shm *s, const char *name, int *sock, bool *ahead)
{
	*ahead = s->ahead >= 0 && strcmp(s->ahead_name, name) == 0;
	if (!*ahead)
		return lend_rendezvous_connect(name, sock);
	*sock = s->ahead;
	s->ahead = -1;
	return 0;
}

int lend_shm_dial(struct lend_shm *s, const char *name)
{
	struct lend_shm_peer *p;
	int fds[LEND_RENDEZVOUS_FDS] = {s->bell_fd};
	bool ahead;
	int sock, err = call_on(s, name, &sock, &ahead);

	if (err != 0)
		return err == -EAGAIN ? -EINPROGRESS : err;
	p = lend_shm_take_entry(s);
	if (p == NULL) {
		(void)close(sock);
		return lend_fail(ENOSPC, "shm:%s: %d peers already; open another endpoint", name,
				 LEND_SHM_PEERS);
	}
	p->sock = sock;
	p->ahead = ahead;
	memcpy(p->name, name, strlen(name) + 1);
	lend_shm_set_state(s, p, LEND_SHM_CONNECTING);
	err = send_message(s, p, fds, 1);
	if (err == 0 && watch_socket(s, p))
		return -EINPROGRESS;
	err = err != 0 ? -err : errno;
	lend_shm_release(s, p);
	if (ahead) /* perhaps the server dropped it, because the HELLO came too late */
		return -EINPROGRESS;
	return lend_fail(err, "shm:%s: %s; try again", name, strerror(err));
}
