/* single - one datagram in and one out through the connected socket, without control data.
 *
 * When the kernel releases a received datagram, it touches memory and counters that the sender's
 * core uses too. That does not have to happen before the reply. So this file only reads the
 * datagram (MSG_PEEK), and removes it from the socket at the end of the turn. That costs one more
 * system call, but off the critical path, and the reply is sent earlier. No other code reads that
 * socket meanwhile. Layer: io. One thread's.
 */
#include "io/udp/udp.h"

#include <string.h>

#include "io/builtin.h"
#include "util/traffic_class.h"

enum { TRIES = 8 };

bool lend_udp_single_may_rx(const struct io_udp *u, uint32_t cap)
{
	return u->connected.plain && u->rx.fd == u->connected.fd && u->rx.n == 0 &&
	       u->rx.ask == 1 && cap > 0;
}

uint32_t lend_udp_single_rx(struct io_udp *u, struct lend_in *in)
{
	struct lend_udp_connected *line = &u->connected;
	const struct iovec *iov = &u->rx.iov[0];
	ssize_t len =
	    recv(line->fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT | MSG_TRUNC | MSG_PEEK);
	int32_t peer;

	if (len < 0) {
		lend_udp_rx_note(u, 1, 0, 0);
		return 0;
	}
	line->left = true;
	line->left_len = (uint32_t)len;
	peer = lend_udp_connected_peer(u);
	if (line->left_len > u->io.path.mtu || peer == LEND_UDP_PEER_NONE) {
		u->io.stats.rx_truncated += line->left_len > u->io.path.mtu;
		u->io.stats.peers_refused += peer == LEND_UDP_PEER_NONE;
		lend_udp_single_done(u);
		return 0;
	}
	u->rx.at = u->rx.n = 1;
	u->rx.key[0] = line->address;
	*in = (struct lend_in){.data = iov->iov_base,
			       .len = line->left_len,
			       .peer = (uint32_t)peer,
			       .addr = &u->rx.key[0],
			       .addr_len = sizeof(u->rx.key[0])};
	return 1;
}

/* Retries, because an earlier error on the socket is returned once and does not concern this
 * datagram. */
void lend_udp_single_done(struct io_udp *u)
{
	ssize_t len = -1;

	if (!u->connected.left)
		return;
	u->connected.left = false;
	for (int tries = 0; len < 0 && tries < TRIES; tries++)
		len = recv(u->connected.fd, NULL, 0, MSG_DONTWAIT);
	lend_udp_rx_note(u, 1, 1, u->connected.left_len);
	lend_udp_urgent_note(u, 0, u->connected.left_len);
}

static char *put_bytes(char *end, const void *bytes, size_t len)
{
	if (len > 0)
		memcpy(end, bytes, len);
	return end + len;
}

/* Copies the datagram's bytes into one piece. Returns how many. */
static size_t flatten_datagram(char *flat, const struct lend_bufs *bufs, const struct lend_out *out)
{
	char *end = put_bytes(flat, out->head, out->head_len);

	for (uint32_t i = 0; i < out->n; i++)
		end = put_bytes(end, lend_piece_data(bufs, &out->piece[i]), out->piece[i].len);
	return (size_t)(put_bytes(end, out->tail, out->tail_len) - flat);
}

bool lend_udp_single_tx(struct io_udp *u, const struct lend_bufs *bufs, struct lend_out *out)
{
	const struct lend_udp_peer *peer = lend_udp_peers_at(&u->peers, out->peer);
	size_t len;

	if (peer == NULL || lend_out_len(out) > LEND_UDP_FLAT || lend_class_tos(out->class) != 0 ||
	    !lend_udp_connected_has(u, &peer->key))
		return false;
	len = flatten_datagram(u->tx.flat, bufs, out);
	if (send(u->connected.fd, u->tx.flat, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return false;
	out->sent = LEND_SENT;
	return true;
}
