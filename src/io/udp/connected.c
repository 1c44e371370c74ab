/* connected - a socket that is connected to the current peer.
 *
 * Sending through it saves the route lookup. A client with one peer connects its only socket. A
 * listener that often receives from the same peer, one datagram at a time, opens a second socket at
 * the same port for it. The kernel prefers the connected socket, so other peers still use the
 * first. Each receive polls one of the two sockets; the quieter one is polled now and then. When
 * its peer is quiet and another one sends often, the second socket is connected to that one. No
 * datagram is lost then: each queued datagram carries its sender's address.
 * Layer: io. One thread's.
 */
#include "io/udp/udp.h"

#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "io/udp/route.h"
#include "util/bits.h"

enum {
	ROW = 256,    /* datagrams of one peer before it gets a connected socket; datagrams received
			 alone before plain mode */
	QUIET = 1024, /* receives that found nothing, before the connected socket counts as quiet */
	SELDOM = 16,  /* one receive in this number polls the quieter socket */
	OFTEN = 2,    /* one receive in this number polls the other socket while both are active */
};

static bool is_second(const struct io_udp *u)
{
	return u->connected.fd >= 0 && u->connected.fd != u->fd;
}

static void set_gro(const struct io_udp *u, int on)
{
	(void)setsockopt(u->connected.fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
}

static bool is_empty(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 0;
}

static void talk_in_full(struct io_udp *u)
{
	if (u->connected.alone >= ROW)
		set_gro(u, 1);
	u->connected.alone = 0;
	u->connected.plain = false;
}

static bool connect_to(struct io_udp *u, int fd, int32_t index, const struct sockaddr_storage *to)
{
	if (connect(fd, (const void *)to, lend_udp_length(to)) != 0)
		return false;
	u->connected.fd = fd;
	u->connected.index = index;
	u->connected.address = lend_udp_peers_at(&u->peers, (uint32_t)index)->key;
	u->connected.near = lend_udp_route_is_local(to);
	u->connected.quiet = 0;
	return true;
}

/* Disconnects a client's own socket. */
static void disconnect_socket(struct io_udp *u)
{
	static const struct sockaddr unspecified = {.sa_family = AF_UNSPEC};

	talk_in_full(u);
	if (connect(u->fd, &unspecified, sizeof(unspecified)) == 0)
		u->connected.fd = -1;
}

void lend_udp_connected_init(struct io_udp *u)
{
	u->connected.fd = -1;
	u->connected.from = LEND_UDP_PEER_NONE;
}

void lend_udp_connected_resolved(struct io_udp *u, int32_t index, const struct sockaddr_storage *to)
{
	const struct lend_udp_key *key = &lend_udp_peers_at(&u->peers, (uint32_t)index)->key;

	lend_udp_single_done(u);
	if (u->connected.fd == u->fd && memcmp(key, &u->connected.address, sizeof(*key)) != 0)
		disconnect_socket(u);
	else if (u->may_connect)
		(void)connect_to(u, u->fd, index, to);
	u->may_connect = false;
}

void lend_udp_connected_stop(struct io_udp *u)
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	struct lend_udp_key key;
	int32_t index;

	if (u->connected.fd == u->fd)
		disconnect_socket(u);
	u->may_connect = false;
	if (!is_second(u) || getsockname(u->connected.fd, (void *)&own, &len) != 0)
		return;
	/* Connects the socket to itself: queued datagrams stay, and no others arrive. */
	talk_in_full(u);
	(void)lend_udp_key_from(&key, &own);
	index = lend_udp_peers_find(&u->peers, &key);
	if (index != LEND_UDP_PEER_NONE)
		(void)connect_to(u, u->connected.fd, index, &own);
	u->connected.quiet = QUIET;
	u->connected.row = 0;
}

void lend_udp_connected_note_long(struct io_udp *u)
{
	talk_in_full(u);
}

int lend_udp_connected_choose(struct io_udp *u)
{
	struct lend_udp_connected *line = &u->connected;
	bool line_first = line->quiet < QUIET;

	if (!is_second(u) || line->drain)
		return u->fd;
	return (++line->turn % (line_first && line->busy ? OFTEN : SELDOM) == 0) == line_first
		   ? u->fd
		   : line->fd;
}

/* Turns UDP_GRO off for this socket. Datagrams that are already queued may be joined, which
 * plain mode would not notice: then it tries again later. */
static void talk_plainly(struct io_udp *u)
{
	set_gro(u, 0);
	u->connected.plain = is_empty(u->connected.fd);
	if (!u->connected.plain)
		talk_in_full(u);
}

/* Records the number of messages of a receive, and starts plain mode after many single ones. */
static void note_pace(struct io_udp *u, uint32_t n)
{
	struct lend_udp_connected *line = &u->connected;

	if (n > 1)
		talk_in_full(u);
	else if (n == 1)
		line->alone++;
	else if (line->alone >= ROW && line->near && !line->plain)
		talk_plainly(u);
}

bool lend_udp_connected_note_receive(struct io_udp *u, uint32_t n)
{
	struct lend_udp_connected *line = &u->connected;
	bool silent = line->quiet >= QUIET;

	if (u->rx.fd == line->fd) {
		line->quiet = n > 0 ? 0 : lend_min_u32(line->quiet + 1, QUIET);
		note_pace(u, n);
		return n > 0 || !silent;
	}
	line->busy = n > 0;
	line->drain &= n > 0;
	if (n > 1)
		line->row = 0;
	return n > 0 || silent || !is_second(u);
}

/* Opens a socket at the listener's port that is connected to a peer. Datagrams that the peer
 * sent to the first socket must be received before those of this one. */
static void connect_peer(struct io_udp *u, int32_t peer)
{
	struct sockaddr_storage to;
	int fd = u->connected.fd;

	(void)lend_udp_key_to(&lend_udp_peers_at(&u->peers, (uint32_t)peer)->key, u->family, &to);
	if (fd < 0) {
		fd = lend_udp_socket_second(u->fd, u->urgent.fd);
		if (fd < 0)
			return;
		lend_udp_epoll_reset(u);
	} else if (is_empty(fd)) {
		talk_in_full(u);
	} else {
		return; /* its present peer is still sending */
	}
	if (!connect_to(u, fd, peer, &to)) {
		(void)close(fd);
		u->connected.fd = -1;
		u->urgent.member = 1;
		return;
	}
	set_gro(u, 1);
	u->connected.drain = true;
}

void lend_udp_connected_note_sender(struct io_udp *u, int32_t peer)
{
	struct lend_udp_connected *line = &u->connected;

	if (peer != line->from)
		line->row = 0;
	line->from = peer;
	if (++line->row >= ROW && u->listens && !u->urgent.sorted &&
	    (line->fd < 0 || line->quiet >= QUIET)) {
		line->row = 0;
		connect_peer(u, peer);
	}
}

int32_t lend_udp_connected_peer(struct io_udp *u)
{
	struct lend_udp_connected *line = &u->connected;
	const struct lend_udp_peer *peer = lend_udp_peers_at(&u->peers, (uint32_t)line->index);

	if (peer == NULL || peer->pins == 0 ||
	    memcmp(&peer->key, &line->address, sizeof(line->address)) != 0)
		line->index = lend_udp_peers_find(&u->peers, &line->address);
	return line->index;
}

bool lend_udp_connected_has(const struct io_udp *u, const struct lend_udp_key *key)
{
	return u->connected.fd >= 0 && memcmp(key, &u->connected.address, sizeof(*key)) == 0;
}

void lend_udp_connected_close(struct io_udp *u)
{
	if (is_second(u))
		(void)close(u->connected.fd);
}
